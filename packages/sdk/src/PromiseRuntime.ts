/**
 * Runs the effects that stand behind the facade's functions.
 */
import * as Logger from "@stint/worker/Logger"
import * as RunningJob from "@stint/worker/RunningJob"
import * as Effect from "effect/Effect"

/** As a part of the job that the caller runs for; outside of jobs with nothing but the log. What it fails with rejects. */
export const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> =>
  RunningJob.runPromise(RunningJob.current() === undefined ? Effect.provide(effect, Logger.layerPlain) : effect)

/** Makes something when it is first asked for. What fails is tried again the next time. */
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
