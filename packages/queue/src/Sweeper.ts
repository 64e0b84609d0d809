/**
 * Repeats a sweep for due work.
 *
 * ```
 *   sweep --true: more may be due--> again at once
 *     |---false-------------------> again after the interval
 *     `---failed------------------> again after the interval; logs the first failure and the recovery
 * ```
 *
 * The intervals are aligned (`AlignedSleep`), so that all sweeps of an idle platform wake the process at the same time.
 */
import * as AlignedSleep from "@stint/store/AlignedSleep"
import * as OutageLog from "@stint/store/OutageLog"
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
  Effect.suspend(() => {
    const outage = OutageLog.make({
      onFailure: (problem) => Effect.logError(failureMessage(problem)),
      onRecovery: Effect.logInfo(recoveryMessage)
    })
    let more = false
    const once = Effect.tap(sweep, (result) => {
      more = result
      return Effect.void
    })
    return outage.watch(once).pipe(
      Effect.flatMap((succeeded) => succeeded && more ? Effect.yieldNow : AlignedSleep.sleep(interval)),
      Effect.forever,
      Effect.forkScoped,
      Effect.asVoid
    )
  })
