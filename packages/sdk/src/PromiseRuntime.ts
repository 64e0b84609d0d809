/**
 * Runs the effects that implement the facade's functions.
 */
import * as Logger from "@stint/worker/Logger"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Effect from "effect/Effect"

/**
 * Runs an effect in the job that the calling code belongs to. Outside a job, the effect has access only to the log. Rejects with the
 * effect's error.
 */
export const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> =>
  RunningJob.runPromise(RunningJob.current() === undefined ? Effect.provide(effect, Logger.layerPlain) : effect)

/** Returns a function that calls `make` once and caches its value. A failure is not cached, so the next call tries again. */
export const lazy = <A>(make: () => Promise<A>): () => Promise<A> => {
  let made: Promise<A> | undefined
  return () => {
    if (made === undefined) {
      const making = make()
      made = making
      making.catch(() => {
        if (made === making) made = undefined
      })
    }
    return made
  }
}
