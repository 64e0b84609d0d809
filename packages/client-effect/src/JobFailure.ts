/**
 * Jobs that ended without an output, as errors of the Effect side.
 */
import { type Exception, exceptionOf, failureText } from "@stint/client/JobOutcome"
import { Job } from "@stint/contract/Job"
import * as Schema from "effect/Schema"

const members = {
  endpoint: Schema.String,
  /** The job as the platform reported it. */
  job: Job
}

/** A job FAILED, and not with a failure that its handler declares: those are errors of their own. */
export class JobFailed extends Schema.TaggedError<JobFailed>()("JobFailed", members) {
  override get message(): string {
    return `Job ${this.job.id} of "${this.endpoint}" FAILED: ${failureText(this.error)}`
  }

  /** The job's `error`, as the worker wrote it. */
  get error(): string {
    return this.job.error ?? ""
  }

  /** What the handler threw; undefined where it reported its failure in another way, or where the job was given up. */
  get exception(): Exception | undefined {
    return exceptionOf(this.error)
  }
}

/** A job was CANCELLED. */
export class JobCancelled extends Schema.TaggedError<JobCancelled>()("JobCancelled", members) {
  override get message(): string {
    return `Job ${this.job.id} of "${this.endpoint}" was CANCELLED.`
  }
}

/** A job TIMED_OUT: an attempt ran longer than its executionTimeout, or the job lived longer than its ttl. */
export class JobTimedOut extends Schema.TaggedError<JobTimedOut>()("JobTimedOut", members) {
  override get message(): string {
    const { endpoint, job } = this
    return `Job ${job.id} of "${endpoint}" TIMED_OUT${job.error === undefined ? "." : `: ${failureText(job.error)}`}`
  }
}

/** The ends of a job that bring no output. */
export type JobFailure = JobFailed | JobCancelled | JobTimedOut
