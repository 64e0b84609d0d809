/**
 * What a step knows about its run.
 */

/** The third argument of a step function. */
export interface StepContext {
  /** The id of the run, which is the id of its job. */
  readonly run: string
  /** The step's path in the pipeline: `page`, `extras.cover`, `thumbnail[3]`. */
  readonly path: string
  /** The number of this attempt, from 1. An attempt that lost its worker counts once it has been recorded as failed. */
  readonly attempt: number
  /**
   * The same for every attempt of this step of this run. Pass it to services that must not do the same thing twice: after a crash, a step
   * whose result was not recorded runs again.
   */
  readonly idempotencyKey: string
  /** Aborted when the run is cancelled, when the attempt times out, and when the worker shuts down. */
  readonly signal: AbortSignal
}
