/**
 * Determines when a failed webhook is retried.
 */
import * as Duration from "effect/Duration"

/**
 * The delays between attempts: ten attempts over about a day. The first delays cover a restart of the receiver, and the last ones cover an
 * outage that a person has to fix. Further attempts would deliver an outdated event.
 */
export const RETRY_DELAYS: ReadonlyArray<Duration.Input> = [
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

/** Each delay varies randomly by up to a fifth, so that webhooks that failed together are not retried together. */
const JITTER = 0.2

/** The delays and the limit for `Retry-After`. */
export interface RetrySchedule {
  /** Milliseconds. */
  readonly pauses: ReadonlyArray<number>
  /** The maximum `Retry-After` that is honoured. Milliseconds. */
  readonly longestRetryAfter: number
}

/**
 * The delay after attempt `tries` (counted from 1), in milliseconds. Undefined after the last attempt. A receiver's `Retry-After` can make
 * the delay longer but never shorter, so that a receiver cannot use up a day's attempts in a minute. `random` is between 0 and 1.
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

/** Makes a schedule from the sender's options. */
export const make = (pauses: ReadonlyArray<Duration.Input>, longestRetryAfter: Duration.Input): RetrySchedule => ({
  pauses: pauses.map((pause) => Duration.toMillis(pause)),
  longestRetryAfter: Duration.toMillis(longestRetryAfter)
})
