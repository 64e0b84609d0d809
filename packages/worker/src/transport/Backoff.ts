/**
 * The backoff of a worker's calls to the platform: one `Schedule`, exponential with jitter, for loops whose reaction also depends on the
 * error.
 *
 * ```
 *   failure   1           2             3             ...   n
 *   delay     initial/2   initial       2 * initial         max/2
 *             .. initial  .. 2*initial  .. 4*initial        .. max
 * ```
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"

/** The bounds of the delays. */
export interface Limits {
  /** The longest first delay. Milliseconds. */
  readonly initial: number
  /** The longest delay. Milliseconds. */
  readonly max: number
}

/**
 * The limit doubles from `initial` to `max`, and each delay is drawn at random from the upper half of the limit, so that workers that lost
 * the same platform do not all reconnect at the same moment. Never ends.
 */
export const schedule = ({ initial, max }: Limits): Schedule.Schedule<Duration.Duration> =>
  Schedule.modifyDelay(
    Schedule.exponential(initial),
    ({ duration }) =>
      Effect.map(Random.next, (random) => Math.round(Math.min(max, Duration.toMillis(duration)) * (0.5 + random / 2)))
  )

/** The backoff for one loop. It counts consecutive failures. */
export interface Backoff {
  /** The delay after one more failure. Milliseconds. */
  readonly next: Effect.Effect<number>
  /** Sleeps for `next`. */
  readonly sleep: Effect.Effect<void>
  /** Starts again at `initial`. Call it after a success. */
  readonly reset: () => void
}

/** A backoff that has not counted any failure yet. */
export const make = (limits: Limits): Backoff => {
  const start = Schedule.toStep(schedule(limits))
  let step: Effect.Success<typeof start> | undefined
  const next = Effect.gen(function*() {
    step ??= yield* start
    // Dies only if the schedule ends, and it never does.
    const [, delay] = yield* Effect.orDie(step(yield* Clock.currentTimeMillis, undefined))
    return Duration.toMillis(delay)
  })
  return {
    next,
    sleep: Effect.flatMap(next, (millis) => Effect.sleep(millis)),
    reset: () => {
      step = undefined
    }
  }
}
