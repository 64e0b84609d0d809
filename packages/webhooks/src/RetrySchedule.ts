/**
 * When a webhook that failed is sent again.
 */
import * as Duration from "effect/Duration"

/**
 * The pauses between attempts. Ten attempts over about a day: the first ones are for a restart of the receiver, the last ones for an outage
 * that somebody has to get up for. More of them would tell an old story to a receiver that has long forgotten it.
 */
export const PAUSES: ReadonlyArray<Duration.Input> = [
  "5 seconds",
  "30 seconds",
  "2 minutes",
  "10 minutes",
  "30 minutes",
  "1 hour",
  "3 hours",
  "6 hours",
  "12 hours"
]

/** Each pause is made up to a fifth shorter or longer, so that what failed together does not come back together. */
const JITTER = 0.2

/** What the plan is made from. */
export interface RetrySchedule {
  /** Milliseconds. */
  readonly pauses: ReadonlyArray<number>
  /** A receiver may ask for a longer pause (`Retry-After`), up to this. Milliseconds. */
  readonly longestRetryAfter: number
}

/**
 * How long to wait after the attempt `tries` (from 1) failed, in milliseconds; undefined when it was the last. A receiver's `Retry-After`
 * makes a pause longer, never shorter: it must not use up the attempts of a day in a minute. `random` is from 0 to 1.
 */
export const retryDelay = (
  plan: RetrySchedule,
  tries: number,
  retryAfter: number | undefined,
  random: number
): number | undefined => {
  const pause = plan.pauses[tries - 1]
  if (pause === undefined) return undefined
  const jittered = pause * (1 - JITTER + 2 * JITTER * random)
  return Math.round(Math.max(jittered, Math.min(retryAfter ?? 0, plan.longestRetryAfter)))
}

/** A plan from the settings of {@link PAUSES}' shape. */
export const make = (pauses: ReadonlyArray<Duration.Input>, longestRetryAfter: Duration.Input): RetrySchedule => ({
  pauses: pauses.map((pause) => Duration.toMillis(pause)),
  longestRetryAfter: Duration.toMillis(longestRetryAfter)
})
