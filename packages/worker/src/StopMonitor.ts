/**
 * Listens for jobs that are to stop (specification 3, wire-facts 5.8).
 *
 * ```
 *   job-stop (long poll) --ids--> interrupt each --> job-stop ...
 *        |--none, fast--> 1 s        |--not held--> once more in 1 s
 *        |--429---------> 5 s
 *        |--no answer---> at most 2 s: whoever cancels wants the handler to stop now
 *        +--error, 404--> growing waits up to 10 s
 * ```
 *
 * A stop may overtake the job that it is for, because the two come on different connections; that is why one for an unknown job
 * is tried again. Errors are logged as DEBUG only: a platform without this route is all right, and one that is down is reported
 * by the duty that takes jobs.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Backoff from "./Backoff.ts"
import { JobSource } from "./JobSource.ts"
import { REQUEST_ID } from "./Logger.ts"
import { RunJobs } from "./RunJobs.ts"
import { TOO_MANY_WAIT } from "./TakeLoop.ts"

/**
 * The wait after an answer that came too soon for a long poll, and before a stop for an unknown job is tried again. Milliseconds.
 */
const FAST_WAIT = 1_000

/** The waits while the route does not exist or fails. */
const WAITS: Backoff.Limits = { first: 1_000, most: 10_000 }

/**
 * The waits while nobody answers. A connection that is lost every few seconds, by a proxy that does not like long polls, must not make a
 * cancel wait for more than 3 s (quality.md, R8).
 */
const LOST_WAITS: Backoff.Limits = { first: 500, most: 2_000 }

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const jobs = yield* RunJobs
  let failures = 0

  const stop = (id: string, again: boolean): Effect.Effect<void> =>
    Effect.flatMap(jobs.stop(id), (held) => {
      if (held) return Effect.logInfo("Stopped.")
      return again
        ? Effect.andThen(Effect.sleep(FAST_WAIT), stop(id, false))
        : Effect.logDebug("Told to stop a job that is not here.")
    }).pipe(Effect.annotateLogs(REQUEST_ID, id))

  const once = Effect.gen(function*() {
    const asked = yield* Clock.currentTimeMillis
    const ids = yield* source.stops
    failures = 0
    // Each by itself: a handler that is slow to end must not hold up the next stop.
    for (const id of ids) yield* Effect.forkScoped(stop(id, true))
    if (ids.length === 0 && (yield* Clock.currentTimeMillis) - asked < FAST_WAIT) yield* Effect.sleep(FAST_WAIT)
  }).pipe(
    Effect.catch(Effect.fnUntraced(function*(error) {
      failures++
      if (error.reason._tag === "Refused" && error.reason.status === 429) return yield* Effect.sleep(TOO_MANY_WAIT)
      if (failures === 1) yield* Effect.logDebug(`Cannot listen for stops: ${error.message}.`)
      const waits = error.reason._tag === "Unreachable" ? LOST_WAITS : WAITS
      yield* Effect.sleep(yield* Backoff.afterFailures(failures, waits))
    }))
  )

  yield* Effect.forkScoped(Effect.forever(once))
})

/** The duty as a layer: it listens while the layer's scope is open. */
export const layer: Layer.Layer<never, never, JobSource | RunJobs> = Layer.effectDiscard(make)
