/**
 * The errors of rejected queue operations. The type of each operation lists the errors it can fail with, besides `StoreError`.
 */
import { JobStatus } from "@stint/contract/Job"
import * as Schema from "effect/Schema"

/** The endpoint has no job with this id, or the job's retention has ended. */
export class JobMissing extends Schema.TaggedError<JobMissing>()("JobMissing", {
  id: Schema.String
}) {
  override get message(): string {
    return `no job ${this.id}`
  }
}

/**
 * The worker does not hold the job's lease: the lease expired, or another worker holds it. `holder` is the worker that holds the lease;
 * null when no worker holds it. The write stored nothing.
 */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  id: Schema.String,
  worker: Schema.String,
  holder: Schema.NullOr(Schema.String)
}) {
  override get message(): string {
    return `worker ${this.worker} does not hold job ${this.id}`
  }
}

/** Only FAILED and TIMED_OUT jobs can be retried. */
export class NotRetryable extends Schema.TaggedError<NotRetryable>()("NotRetryable", {
  id: Schema.String,
  status: JobStatus
}) {
  override get message(): string {
    return `job ${this.id} is ${this.status}`
  }
}

/** The idempotency key belongs to a different request, which created job `id`. */
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()("IdempotencyConflict", {
  key: Schema.String,
  id: Schema.String
}) {
  override get message(): string {
    return `the idempotency key ${this.key} belongs to a different request, which created job ${this.id}`
  }
}

/** The endpoint was deleted after the caller looked it up. Nothing was stored. */
export class EndpointGone extends Schema.TaggedError<EndpointGone>()("EndpointGone", {
  endpoint: Schema.String
}) {
  override get message(): string {
    return `endpoint ${this.endpoint} was deleted`
  }
}

/** A quota of the endpoint or of the submitting key does not admit the job. Nothing was stored. */
export class QuotaExceeded extends Schema.TaggedError<QuotaExceeded>()("QuotaExceeded", {
  endpoint: Schema.String,
  /** The id of the submitting key. */
  key: Schema.String,
  scope: Schema.Literals(["endpoint", "key"]),
  resource: Schema.Literals(["waitingJobs", "storedBytes"]),
  limit: Schema.Int,
  /** The waiting jobs, or the stored bytes, not counting this job. */
  used: Schema.Int,
  /** The size of this job, in bytes. */
  size: Schema.Int
}) {
  override get message(): string {
    const used = this.resource === "waitingJobs" ? `${this.used} waiting jobs` : `${this.used} stored bytes`
    return `the ${this.scope} ${this.scope === "key" ? this.key : this.endpoint} has ${used}; its quota is ${this.limit}`
  }
}

/** The endpoint or the submitting key has used its budget. Nothing was stored. */
export class BudgetReached extends Schema.TaggedError<BudgetReached>()("BudgetReached", {
  scope: Schema.Literals(["endpoint", "key"]),
  /** The id of the endpoint or of the key. */
  id: Schema.String,
  period: Schema.Literals(["daily", "monthly"]),
  limit: Schema.Finite,
  currency: Schema.String,
  /** When the next period begins. Milliseconds since 1970. */
  renewsAt: Schema.Int
}) {
  override get message(): string {
    return `the ${this.period} budget of ${this.scope} ${this.id} is reached, until ${new Date(this.renewsAt).toISOString()}`
  }
}

/** An earlier chunk is missing: the next chunk must have the number `expected`. Nothing was stored. */
export class ChunkGap extends Schema.TaggedError<ChunkGap>()("ChunkGap", {
  id: Schema.String,
  chunk: Schema.Int,
  expected: Schema.Int
}) {
  override get message(): string {
    return `chunk ${this.chunk} of job ${this.id} arrived before chunk ${this.expected}`
  }
}

/** The cursor of a job list was not issued by the queue. */
export class InvalidCursor extends Schema.TaggedError<InvalidCursor>()("InvalidCursor", {
  value: Schema.String
}) {
  override get message(): string {
    return `this queue issued no cursor ${this.value.slice(0, 100)}`
  }
}
