/**
 * The samples of one endpoint in the last hour: a ring of numbers. Pure.
 *
 * ```
 *   sequence   0   1   2  ...  719 | 720 ...        a new sample replaces the one an hour before
 *   row        0   1   2  ...  719 |   0 ...        every endpoint's ring has the same rows, so they share the times
 * ```
 */
import type { WorkerState } from "@stint/queue/WorkerRegistry"
import { LIFETIME_SECONDS } from "./MetricLabels.ts"

/** Between two samples, in milliseconds. */
export const STEP_MILLIS = 5_000

/** The number of kept samples: an hour. */
export const KEPT = 3_600_000 / STEP_MILLIS

/** Numbers of each sample. Gauges, then counts of the time since the previous sample; the parts of starts are sums in milliseconds. */
const COLUMNS = [
  "waiting",
  "delayed",
  "running",
  "oldest",
  "submitted",
  "completed",
  "failed",
  "cancelled",
  "starts",
  "pull",
  "create",
  "start",
  "setup",
  "prepare"
] as const

/** A name of {@link COLUMNS}. */
export type Column = (typeof COLUMNS)[number]

/** The states of workers, in the order of their numbers. */
export const STATES = ["running", "idle", "initializing", "draining", "throttled", "unhealthy"] as const satisfies ReadonlyArray<
  WorkerState
>

const WIDTH = COLUMNS.length + STATES.length
/** The buckets of a histogram, with the one above the last boundary. */
const BUCKETS = LIFETIME_SECONDS.length + 1

/** A count that does not fit is the largest one, which distorts only a percentile of more than 13,000 jobs per second. */
const LARGEST = 2 ** 16 - 1

/** What was measured since the previous sample. */
export interface Sample {
  readonly columns: Readonly<Record<Column, number>>
  readonly workers: Readonly<Record<WorkerState, number>>
  /** The number of values in each bucket of `LIFETIME_SECONDS`. */
  readonly waits: ReadonlyArray<number>
  readonly executions: ReadonlyArray<number>
}

/**
 * An estimate of a percentile in milliseconds: linear within its bucket, as in Prometheus. Null without values. Values above the last boundary count as
 * that boundary.
 */
export const percentile = (buckets: ReadonlyArray<number>, share: number): number | null => {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const rank = share * total
  let below = 0
  for (const [index, count] of buckets.entries()) {
    if (below + count >= rank && count > 0) {
      const low = LIFETIME_SECONDS[index - 1] ?? 0
      const high = LIFETIME_SECONDS[index] ?? low
      return Math.round((low + (high - low) * ((rank - below) / count)) * 10_000) / 10
    }
    below += count
  }
  return null
}

/** The samples of an endpoint. Rows without a sample are 0: the endpoint was idle. */
export class EndpointSamples {
  readonly #numbers = new Float32Array(KEPT * WIDTH)
  readonly #waits = new Uint16Array(KEPT * BUCKETS)
  readonly #executions = new Uint16Array(KEPT * BUCKETS)

  /** Replaces the row of a sequence number; undefined: nothing happened. */
  set(sequence: number, sample: Sample | undefined): void {
    const row = sequence % KEPT
    this.#numbers.fill(0, row * WIDTH, (row + 1) * WIDTH)
    this.#waits.fill(0, row * BUCKETS, (row + 1) * BUCKETS)
    this.#executions.fill(0, row * BUCKETS, (row + 1) * BUCKETS)
    if (sample === undefined) return
    this.#numbers.set([
      ...COLUMNS.map((column) => sample.columns[column]),
      ...STATES.map((state) => sample.workers[state])
    ], row * WIDTH)
    this.#waits.set(sample.waits.map((count) => Math.min(count, LARGEST)), row * BUCKETS)
    this.#executions.set(sample.executions.map((count) => Math.min(count, LARGEST)), row * BUCKETS)
  }

  #number(sequence: number, index: number): number {
    return this.#numbers[sequence % KEPT * WIDTH + index] ?? 0
  }

  /** A column's number in a sample. */
  get(sequence: number, column: Column): number {
    return this.#number(sequence, COLUMNS.indexOf(column))
  }

  /** The workers in a state at a sample. */
  workers(sequence: number, state: (typeof STATES)[number]): number {
    return this.#number(sequence, COLUMNS.length + STATES.indexOf(state))
  }

  /** The sum of a column over samples. */
  sum(sequences: ReadonlyArray<number>, column: Column): number {
    return sequences.reduce((sum, sequence) => sum + this.get(sequence, column), 0)
  }

  /** The largest number of a column over samples. */
  max(sequences: ReadonlyArray<number>, column: Column): number {
    return sequences.reduce((most, sequence) => Math.max(most, this.get(sequence, column)), 0)
  }

  /** The buckets of several samples together. */
  buckets(sequences: ReadonlyArray<number>, of: "waits" | "executions"): ReadonlyArray<number> {
    const all = of === "waits" ? this.#waits : this.#executions
    return Array.from(
      { length: BUCKETS },
      (_, bucket) => sequences.reduce((sum, sequence) => sum + (all[sequence % KEPT * BUCKETS + bucket] ?? 0), 0)
    )
  }
}
