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
 *
 * Every node of a shared store may sweep, because a sweep locks what it changes. The oldest node makes a {@link shared} sweep at each interval, the
 * others less often, so that an idle platform of many nodes asks its database as often as one of a single node; when the oldest node fails, another one
 * becomes the oldest.
 */
import * as AlignedSleep from "@stint/store/AlignedSleep"
import { Nodes } from "@stint/store/Nodes"
import * as OutageLog from "@stint/store/OutageLog"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
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

/** An aligned sleep ends up to this much before its time. A sweep is not left out for that. */
const EARLY_SHARE = 1 / 10

/** How often a node sweeps that is not the oldest, in milliseconds. */
const OTHER_NODES = 5_000

/**
 * A sweep that does nothing, and returns false, on a node that is not the oldest and that has swept within the last 5 s. Without {@link Nodes} it is the
 * sweep itself.
 */
export const shared = <E, R>(
  sweep: Effect.Effect<boolean, E, R>
): Effect.Effect<Effect.Effect<boolean, E, R>> =>
  Effect.map(
    Effect.serviceOption(Nodes),
    Option.match({
      onNone: () => sweep,
      onSome: (nodes) => {
        const pause = OTHER_NODES * (1 - EARLY_SHARE)
        let next = -Infinity
        return Effect.flatMap(Clock.monotonicTimeNanos, (nanos) => {
          const now = Number(nanos) / 1_000_000
          if (!nodes.isOldest() && now < next) return Effect.succeed(false)
          // A failed sweep is repeated at the next interval, and so is one that left work behind.
          return Effect.tap(sweep, (more) => Effect.sync(() => next = more ? -Infinity : now + pause))
        })
      }
    })
  )

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
