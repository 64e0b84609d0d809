/**
 * Information about the run for a step.
 */

/** The third argument of a step function. */
export interface StepContext {
  /** The id of the run, which is the id of its job. */
  readonly run: string
  /** The step's path in the pipeline: `page`, `extras.cover`, `thumbnail[3]`. */
  readonly path: string
  /** The number of this attempt, from 1. An attempt whose worker was lost counts only after it was recorded as failed. */
  readonly attempt: number
  /**
   * The same for every attempt of this step in this run. After a crash, a step whose result was not recorded runs again, so pass this key to services
   * that must not do the same thing twice.
   */
  readonly idempotencyKey: string
  /** Aborted when the run is cancelled, when the attempt times out, and when the worker shuts down. */
  readonly signal: AbortSignal
}
