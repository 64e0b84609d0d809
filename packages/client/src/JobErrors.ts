/**
 * The promise client's errors for jobs that ended without an output. The Effect client has its own errors (`JobFailure.ts`).
 */
import { StintError } from "./CallError.ts"
import { type EndedJob, type Exception, exceptionOf, failureText } from "./JobOutcome.ts"

/** The job FAILED. */
export class JobFailedError extends StintError {
  override readonly name = "JobFailedError"
  readonly endpoint: string
  /** The job as the platform returned it. */
  readonly job: EndedJob
  /** The job's `error`, as the worker wrote it. */
  readonly error: string
  /** The exception of the handler. Undefined if the handler failed in another way, or if the platform failed the job. */
  readonly exception: Exception | undefined
  /** The failure that the handler declares, decoded by the endpoint's codec. Undefined without a codec and for any other failure. */
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

/** The job was CANCELLED. */
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

/** The job TIMED_OUT: an attempt exceeded its `executionTimeout`, or the job exceeded its `ttl`. */
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
