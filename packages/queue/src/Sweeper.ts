/**
 * A duty that looks again and again for what is due.
 *
 * ```
 *   sweep --true: there may be more--> at once
 *     |---false----------------------> after the interval
 *     `---failed---------------------> after the interval; said once, as is the end of the trouble
 * ```
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** What a sweep does, how often, and what its log says. */
export interface Options<E, R> {
  /** True when there may be more that is due. */
  readonly sweep: Effect.Effect<boolean, E, R>
  readonly interval: Duration.Input
  /** Said when it begins to fail. */
  readonly failureMessage: (message: string) => string
  /** Said when it works again. */
  readonly recoveryMessage: string
}

/** Sweeps until the scope closes. Defects too are only said: one broken row must not end the sweeps of all the others. */
export const start = <E, R>(
  { failureMessage, interval, sweep, recoveryMessage }: Options<E, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.gen(function*() {
    let fails = false
    const once = sweep.pipe(
      Effect.tap(() => {
        if (!fails) return Effect.void
        fails = false
        return Effect.logInfo(recoveryMessage)
      }),
      Effect.catchCause((cause) => {
        const first = !fails
        fails = true
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
