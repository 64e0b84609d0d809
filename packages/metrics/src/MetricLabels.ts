/**
 * Histogram boundaries, and endpoint labels.
 */
import type { EndpointId } from "@stint/contract/Ids"

/** For waits and execution times, in seconds: from milliseconds to an hour. */
export const LIFETIME_SECONDS: ReadonlyArray<number> = [
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
  300,
  900,
  3_600
]

/** For store operations, in seconds. */
export const STORE_SECONDS: ReadonlyArray<number> = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5]

/** For the writes of a transaction: at most 256 share one. */
export const COMMIT_WRITES: ReadonlyArray<number> = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/** The maximum number of endpoints with their own labels. */
export const MAX_ENDPOINTS = 500

/** The label for all other endpoints. An endpoint id cannot begin with an underscore. */
export const OTHER_ENDPOINTS = "_other"

/** Gives the first endpoints their own labels, until the platform restarts. */
export class EndpointLabels {
  readonly #known = new Set<string>()

  of(endpoint: EndpointId): string {
    if (this.#known.has(endpoint)) return endpoint
    if (this.#known.size >= MAX_ENDPOINTS) return OTHER_ENDPOINTS
    this.#known.add(endpoint)
    return endpoint
  }
}
