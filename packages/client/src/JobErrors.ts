/**
 * Jobs that ended without an output, as errors of the Promise side. The Effect side has its own (`JobFailure.ts`).
 */
import { StintError } from "./CallError.ts"
import { type EndedJob, type Exception, exceptionOf, failureText } from "./JobOutcome.ts"

/** A job FAILED. */
export class JobFailedError extends StintError {
  override readonly name = "JobFailedError"
  readonly endpoint: string
  /** The job as the platform reported it. */
  readonly job: EndedJob
  /** The job's `error`, as the worker wrote it. */
  readonly error: string
  /** What the handler threw; undefined where it reported its failure in another way, or where the job was given up. */
  readonly exception: Exception | undefined
  /** The failure that the handler's `error` Schema declares, decoded; undefined without a handler, or for any other failure. */
  readonly declared: unknown

  constructor(endpoint: string, job: EndedJob, declared: unknown) {
    const error = job.error ?? ""
    super(
      `Job ${job.id} of "${endpoint}" FAILED: ${failureText(error)}`,
      declared instanceof Error ? { cause: declared } : undefined
    )
    this.endpoint = endpoint
    this.job = job
    this.error = error
    this.exception = exceptionOf(error)
    this.declared = declared
  }
}

/** A job was CANCELLED. */
export class JobCancelledError extends StintError {
  override readonly name = "JobCancelledError"
  readonly endpoint: string
  readonly job: EndedJob

  constructor(endpoint: string, job: EndedJob) {
    super(`Job ${job.id} of "${endpoint}" was CANCELLED.`)
    this.endpoint = endpoint
    this.job = job
  }
}

/** A job TIMED_OUT: an attempt ran longer than its executionTimeout, or the job lived longer than its ttl. */
export class JobTimedOutError extends StintError {
  override readonly name = "JobTimedOutError"
  readonly endpoint: string
  readonly job: EndedJob

  constructor(endpoint: string, job: EndedJob) {
    super(`Job ${job.id} of "${endpoint}" TIMED_OUT${job.error === undefined ? "." : `: ${failureText(job.error)}`}`)
    this.endpoint = endpoint
    this.job = job
  }
}
