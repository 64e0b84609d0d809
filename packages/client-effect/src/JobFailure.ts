/**
 * The Effect client's errors for jobs that ended without an output.
 */
import { type Exception, exceptionOf, failureText } from "@stint/client/JobOutcome"
import { Job } from "@stint/contract/Job"
import * as Schema from "effect/Schema"

const members = {
  endpoint: Schema.String,
  /** The job as the platform returned it. */
  job: Job
}

/** The job FAILED with an error that its handler does not declare. A declared failure is returned as an error of its own type. */
export class JobFailed extends Schema.TaggedError<JobFailed>()("JobFailed", members) {
  override get message(): string {
    return `Job ${this.job.id} of "${this.endpoint}" FAILED: ${failureText(this.error)}`
  }

  /** The job's `error`, as the worker wrote it. */
  get error(): string {
    return this.job.error ?? ""
  }

  /** The exception of the handler. Undefined if the handler failed in another way, or if the platform failed the job. */
  get exception(): Exception | undefined {
    return exceptionOf(this.error)
  }
}

/** The job was CANCELLED. */
export class JobCancelled extends Schema.TaggedError<JobCancelled>()("JobCancelled", members) {
  override get message(): string {
    return `Job ${this.job.id} of "${this.endpoint}" was CANCELLED.`
  }
}

/** The job TIMED_OUT: an attempt exceeded its `executionTimeout`, or the job exceeded its `ttl`. */
export class JobTimedOut extends Schema.TaggedError<JobTimedOut>()("JobTimedOut", members) {
  override get message(): string {
    const { endpoint, job } = this
    return `Job ${job.id} of "${endpoint}" TIMED_OUT${job.error === undefined ? "." : `: ${failureText(job.error)}`}`
  }
}

/** Why a job ended without an output. */
export type JobFailure = JobFailed | JobCancelled | JobTimedOut
