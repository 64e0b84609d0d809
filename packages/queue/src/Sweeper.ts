/**
 * Repeats a sweep for due work.
 *
 * ```
 *   sweep --true: more may be due--> again at once
 *     |---false-------------------> again after the interval
 *     `---failed------------------> again after the interval; logs the first failure and the recovery
 * ```
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** The sweep, its interval and its log messages. */
export interface Options<E, R> {
  /** Returns true when more work may be due. */
  readonly sweep: Effect.Effect<boolean, E, R>
  readonly interval: Duration.Input
  /** Logged when a sweep fails after one that succeeded. */
  readonly failureMessage: (message: string) => string
  /** Logged when a sweep succeeds after one that failed. */
  readonly recoveryMessage: string
}

/** Sweeps until the scope closes. Defects are logged as well, so that a damaged row does not stop the sweeps. */
export const start = <E, R>(
  { failureMessage, interval, sweep, recoveryMessage }: Options<E, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.gen(function*() {
    let failing = false
    const once = sweep.pipe(
      Effect.tap(() => {
        if (!failing) return Effect.void
        failing = false
        return Effect.logInfo(recoveryMessage)
      }),
      Effect.catchCause((cause) => {
        const first = !failing
        failing = true
        const error = Cause.squash(cause)
        const message = error instanceof Error ? error.message : String(error)
        return Effect.as(first ? Effect.logError(failureMessage(message)) : Effect.void, false)
      })
    )
    yield* once.pipe(
      Effect.flatMap((more) => more ? Effect.yieldNow : Effect.sleep(interval)),
      Effect.forever,
      Effect.forkScoped
    )
  })
