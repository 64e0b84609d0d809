/**
 * Sleeps that end at the same time, for loops that poll.
 *
 * ```
 *   250 ms   |    |    |    |    |    |    |    |    |      each loop sleeps until the monotonic time is a multiple of its interval,
 *   1 s      |                   |                   |      so a loop with a longer interval wakes when another one wakes anyway
 * ```
 *
 * On an idle platform, the wake-ups cost more than the work in them, because each starts with cold processor caches. If each loop slept for its
 * interval after each round, every loop would wake the process separately (docs/decisions/0061-an-idle-platform.md).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

/** A timer may fire early by this much, in milliseconds. The next sleep must then not end at that multiple again. */
const EARLY_MILLIS = 2

/**
 * The shortest sleep, as a share of the interval. Work that takes longer than the rest of the interval, such as on a slow store, then skips
 * a multiple instead of repeating without a pause.
 */
const SHORTEST_SHARE = 1 / 4

/** How long to sleep from a monotonic time, in milliseconds: until the next multiple of the interval that is not too near. */
export const alignedMillis = (now: number, interval: number): number => {
  const left = interval - now % interval
  return left < Math.max(interval * SHORTEST_SHARE, Math.min(EARLY_MILLIS, interval / 2)) ? left + interval : left
}

/** Repeats like `Schedule.spaced`, after an aligned sleep. */
export const schedule = (interval: Duration.Input): Schedule.Schedule<number> => {
  const millis = Duration.toMillis(interval)
  return Schedule.modifyDelay(
    Schedule.spaced(interval),
    () => Effect.map(Clock.monotonicTimeNanos, (now) => Duration.millis(alignedMillis(Number(now) / 1_000_000, millis)))
  )
}

/** Sleeps for 1/4 to 5/4 of the interval, until the monotonic time is a multiple of the interval, but at most for the limit in milliseconds. */
export const sleep = (interval: Duration.Input, limit = Infinity): Effect.Effect<void> => {
  const millis = Duration.toMillis(interval)
  return Effect.flatMap(
    Clock.monotonicTimeNanos,
    (now) => Effect.sleep(Math.min(alignedMillis(Number(now) / 1_000_000, millis), limit))
  )
}
