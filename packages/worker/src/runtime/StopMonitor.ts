/**
 * Listens for jobs that are to stop (docs/spec/worker-lifecycle.md#cancelled-jobs, docs/spec/worker-protocol.md#stopping-jobs).
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
import * as Backoff from "../transport/Backoff.ts"
import { JobSource } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { REQUEST_ID } from "./Logger.ts"
import { RATE_LIMIT_DELAY } from "./TakeLoop.ts"

/**
 * The wait after an answer that came too soon for a long poll, and before a stop for an unknown job is tried again. Milliseconds.
 */
const MIN_POLL_DELAY = 1_000

/** The waits while the route does not exist or fails. */
const ERROR_BACKOFF: Backoff.Limits = { initial: 1_000, max: 10_000 }

/**
 * The waits while nobody answers. A connection that is lost every few seconds, by a proxy that does not like long polls, must not make a
 * cancel wait for more than 3 s (R8, docs/spec/figures.md#reliability).
 */
const UNREACHABLE_BACKOFF: Backoff.Limits = { initial: 500, max: 2_000 }

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const jobs = yield* JobRunner
  const errorBackoff = Backoff.make(ERROR_BACKOFF)
  const unreachableBackoff = Backoff.make(UNREACHABLE_BACKOFF)
  let failing = false

  const stop = (id: string, again: boolean): Effect.Effect<void> =>
    Effect.flatMap(jobs.stop(id), (held) => {
      if (held) return Effect.logInfo("Stopped.")
      return again
        ? Effect.andThen(Effect.sleep(MIN_POLL_DELAY), stop(id, false))
        : Effect.logDebug("Told to stop a job that is not here.")
    }).pipe(Effect.annotateLogs(REQUEST_ID, id))

  const once = Effect.gen(function*() {
    const asked = yield* Clock.currentTimeMillis
    const ids = yield* source.stops
    failing = false
    errorBackoff.reset()
    unreachableBackoff.reset()
    // Each by itself: a handler that is slow to end must not hold up the next stop.
    for (const id of ids) yield* Effect.forkScoped(stop(id, true))
    if (ids.length === 0 && (yield* Clock.currentTimeMillis) - asked < MIN_POLL_DELAY) yield* Effect.sleep(MIN_POLL_DELAY)
  }).pipe(
    Effect.catch(Effect.fnUntraced(function*(error) {
      if (error.reason._tag === "Refused" && error.reason.status === 429) return yield* Effect.sleep(RATE_LIMIT_DELAY)
      if (!failing) yield* Effect.logDebug(`Cannot listen for stops: ${error.message}.`)
      failing = true
      yield* (error.reason._tag === "Unreachable" ? unreachableBackoff : errorBackoff).sleep
    }))
  )

  yield* Effect.forkScoped(Effect.forever(once))
})

/** The duty as a layer: it listens while the layer's scope is open. */
export const layer: Layer.Layer<never, never, JobSource | JobRunner> = Layer.effectDiscard(make)
