/**
 * Chooses the `wait` of the next long poll (docs/spec/jobs-api.md#the-wait-parameter).
 */
import type { Pause } from "./DriverProtocol.ts"
import { backoff } from "./RetryPolicy.ts"

/** The shortest wait that the platform accepts. Milliseconds. */
export const SHORTEST_WAIT = 1_000

/**
 * Adapts the wait to proxies that close idle connections early: after a lost connection the next wait is shorter than the time until the
 * loss; after each response the wait grows again, slowly.
 */
export class LongPollWait {
  millis: number
  readonly #longest: number
  /** The number of consecutive responses that came immediately, without a change. */
  #quickResponses = 0

  constructor(longest: number) {
    this.#longest = longest
    this.millis = longest
  }

  /** The connection was lost after `took` milliseconds. */
  onConnectionLost(took: number): void {
    if (took > SHORTEST_WAIT) this.millis = Math.max(SHORTEST_WAIT, Math.min(this.millis, took) * 0.8)
  }

  /** The pause before the next request, if any. Without it, a platform that does not hold requests would be polled in a tight loop. */
  pauseBeforeNext(took: number, hasNews: boolean): Pause | undefined {
    this.millis = Math.min(this.#longest, this.millis * 1.25)
    this.#quickResponses = hasNews || took >= Math.min(SHORTEST_WAIT, this.#longest) / 2 ? 0 : this.#quickResponses + 1
    return this.#quickResponses === 0 ? undefined : backoff(this.#quickResponses, 2_000)
  }
}
