/**
 * How long a call that must reach the platform is repeated.
 *
 * ```
 *   the worker runs                  without a limit: the platform may be restarting, and the caller's work must not be lost
 *   the worker shuts down            for 30 s, counted from the request to shut down or from the first attempt, whichever is later
 * ```
 *
 * Without the limit, a worker whose platform is gone for good would never exit, and would keep its memory and its GPU.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Shutdown } from "../runtime/Shutdown.ts"
import type { Backoff } from "./Backoff.ts"

/** Milliseconds. */
const LIMIT = 30_000

/**
 * Waits before the next attempt, for the delay of `backoff`. Returns false at once if the shutdown leaves no time for that attempt.
 * `started`: the time of the first attempt, in milliseconds since 1970.
 */
export type WaitForRetry = (started: number, backoff: Backoff) => Effect.Effect<boolean>

/** Observes the worker's shutdown. */
export const make: Effect.Effect<WaitForRetry, never, Shutdown | Scope.Scope> = Effect.gen(function*() {
  const shutdown = yield* Shutdown
  let stoppingSince: number | undefined
  yield* shutdown.requested.pipe(
    Effect.andThen(Clock.currentTimeMillis),
    Effect.map((now) => {
      stoppingSince = now
    }),
    Effect.forkScoped
  )
  return Effect.fnUntraced(function*(started, backoff) {
    const delay = yield* backoff.next
    const now = yield* Clock.currentTimeMillis
    if (stoppingSince !== undefined && now + delay > Math.max(stoppingSince, started) + LIMIT) return false
    yield* Effect.sleep(delay)
    return true
  })
})
