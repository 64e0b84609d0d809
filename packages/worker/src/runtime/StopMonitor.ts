/**
 * Polls for stop requests and interrupts their jobs (docs/spec/worker-lifecycle.md#cancelled-jobs, docs/spec/worker-protocol.md#stopping-jobs).
 *
 * ```
 *   job-stop (long poll) --ids--> interrupt each --> job-stop ...
 *        |--none, fast--> 1 s        |--not held--> retry once after 1 s
 *        |--429---------> 5 s
 *        |--no response-> backoff up to 1 s: a caller that cancels expects the handler to stop now
 *        +--error, 404--> backoff up to 10 s
 * ```
 *
 * A stop request may arrive before its job, because the two use different connections. The monitor therefore retries a request for an
 * unknown job. Errors are logged at DEBUG only: a platform may not have this route, and the take loop already reports a platform that is
 * down.
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
 * The delay after an empty response that arrived too soon for a long poll, and before the retry for an unknown job. Milliseconds.
 */
const MIN_POLL_DELAY = 1_000

/** The backoff while the route does not exist or fails. */
const ERROR_BACKOFF: Backoff.Limits = { initial: 1_000, max: 10_000 }

/**
 * The backoff while the platform does not respond. A proxy that closes long polls must not delay a cancellation by more than 3 s, even if it
 * also closes the poll that would have received the stop request (R8, docs/spec/figures.md#reliability).
 */
const UNREACHABLE_BACKOFF: Backoff.Limits = { initial: 500, max: 1_000 }

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
        : Effect.logDebug("Ignored a stop request for a job that this worker does not hold.")
    }).pipe(Effect.annotateLogs(REQUEST_ID, id))

  const once = Effect.gen(function*() {
    const asked = yield* Clock.currentTimeMillis
    const ids = yield* source.stopRequests
    failing = false
    errorBackoff.reset()
    unreachableBackoff.reset()
    // Jobs are stopped concurrently, because a handler that is slow to end must not delay the next stop request.
    for (const id of ids) yield* Effect.forkScoped(stop(id, true))
    if (ids.length === 0 && (yield* Clock.currentTimeMillis) - asked < MIN_POLL_DELAY) yield* Effect.sleep(MIN_POLL_DELAY)
  }).pipe(
    Effect.catch(Effect.fnUntraced(function*(error) {
      if (error.reason._tag === "Refused" && error.reason.status === 429) return yield* Effect.sleep(RATE_LIMIT_DELAY)
      if (!failing) yield* Effect.logDebug(`Cannot poll for stop requests: ${error.message}.`)
      failing = true
      yield* (error.reason._tag === "Unreachable" ? unreachableBackoff : errorBackoff).sleep
    }))
  )

  yield* Effect.forkScoped(Effect.forever(once))
})

/** Polls while the layer's scope is open. */
export const layer: Layer.Layer<never, never, JobSource | JobRunner> = Layer.effectDiscard(make)
