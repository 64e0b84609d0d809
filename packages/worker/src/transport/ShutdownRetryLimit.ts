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

/** Milliseconds. */
const LIMIT = 30_000

/**
 * Whether the shutdown leaves no time for another attempt after a delay of `wait` milliseconds. `started`: the time of the first attempt, in
 * milliseconds since 1970.
 */
export type HasEnded = (started: number, wait: number) => Effect.Effect<boolean>

/** Observes the worker's shutdown. */
export const make: Effect.Effect<HasEnded, never, Shutdown | Scope.Scope> = Effect.gen(function*() {
  const shutdown = yield* Shutdown
  let stoppingSince: number | undefined
  yield* shutdown.requested.pipe(
    Effect.andThen(Clock.currentTimeMillis),
    Effect.map((now) => {
      stoppingSince = now
    }),
    Effect.forkScoped
  )
  return (started, wait) =>
    Effect.map(
      Clock.currentTimeMillis,
      (now) => stoppingSince !== undefined && now + wait > Math.max(stoppingSince, started) + LIMIT
    )
})
