/**
 * The queue's timers for leases, ttl, execution timeouts and retention.
 *
 * ```
 *   every interval: clock set, or process suspended? --yes--> renew the leases and move the timers of running jobs
 *                                                    --no---> fire what is due
 *   one interval after that                                    backoffs once more: a failure that read the old time may have been stored after it
 * ```
 *
 * Every `interval`, this layer queries the store for due work, which costs at most one index read when nothing is due. With a shorter interval, a
 * silent worker's job is recovered sooner, by at most the difference. The default of 250 ms is far below the shortest lease (1 s).
 *
 * Stored times are wall-clock times, because they must survive a restart. When the wall clock is set, or the machine or this process was
 * suspended, the timers of running jobs are moved before any of them fires (docs/decisions/0019-clock-jumps.md).
 *
 * When the store fails, this layer logs the failure once, retries every interval, and logs the recovery.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ClockWatch from "../ClockWatch.ts"
import * as Sweeper from "../Sweeper.ts"
import { JobQueue } from "./JobQueue.ts"

/** How often to sweep. */
export interface Options {
  /** Default: 250 ms. */
  readonly interval?: Duration.Input
}

const secondsOf = (millis: number): string => `${Math.round(Math.abs(millis) / 100) / 10} s`

const describe = ({ _tag, by }: ClockWatch.ClockJump): string =>
  _tag === "Suspended"
    ? `The platform did not run for ${secondsOf(by)}: the machine or the process was suspended, or it was overloaded.`
    : `The system clock moved ${by > 0 ? "forward" : "back"} by ${secondsOf(by)}: it was set, or the machine was suspended.`

/** Runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobQueue> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { recover, recoverBackoffs, tick } = yield* JobQueue
    const clock = yield* Clock.Clock
    const watch = ClockWatch.make(clock)
    const interval = options.interval ?? "250 millis"
    const planned = Duration.toMillis(interval)
    /** When to recover backoffs once more, in monotonic milliseconds. */
    let repeatAt = Number.POSITIVE_INFINITY
    yield* Sweeper.start({
      sweep: Effect.suspend(() => {
        const jump = watch.check(planned)
        if (jump === undefined) {
          if (ClockWatch.monotonicMillis(clock) < repeatAt) return tick
          return recoverBackoffs.pipe(
            Effect.tap(() => Effect.sync(() => repeatAt = Number.POSITIVE_INFINITY)),
            Effect.andThen(tick)
          )
        }
        return recover(jump.by).pipe(
          Effect.tap(() =>
            Effect.sync(() => {
              watch.accept()
              repeatAt = ClockWatch.monotonicMillis(clock) + planned
            })
          ),
          Effect.flatMap((jobs) =>
            Effect.logWarning(
              `${describe(jump)} ${jobs} running ${jobs === 1 ? "job keeps its worker" : "jobs keep their workers"} and ` +
                "get a full lease; the time does not count towards their execution timeouts."
            )
          ),
          Effect.andThen(tick)
        )
      }),
      interval,
      failureMessage: (message) => `The job timers cannot fire: ${message}. Trying again every interval.`,
      recoveryMessage: "The job timers work again."
    })
  }))
