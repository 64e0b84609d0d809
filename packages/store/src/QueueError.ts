/**
 * What can go wrong in the queue, as one error with a reason.
 */
import { JobStatus } from "@stint/contract/Job"
import * as Schema from "effect/Schema"

/** The store cannot be read or written: disk full, file gone, database away. Nothing of the operation was kept. */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  operation: Schema.String,
  cause: Schema.Defect()
}) {}

/**
 * The object store, where large payloads are, cannot be read or written. Nothing of the operation was kept, or the payload of what was asked for cannot
 * be had now.
 */
export class PayloadUnavailable extends Schema.TaggedError<PayloadUnavailable>()("PayloadUnavailable", {
  operation: Schema.Literals(["put", "get"]),
  problem: Schema.String
}) {}

/** A large payload of so many bytes does not fit into memory now: others are on their way. */
export class PayloadMemoryFull extends Schema.TaggedError<PayloadMemoryFull>()("PayloadMemoryFull", {
  bytes: Schema.Int
}) {}

/** No such job on this endpoint, or its retention is over. */
export class JobMissing extends Schema.TaggedError<JobMissing>()("JobMissing", {
  id: Schema.String
}) {}

/**
 * The write came from a worker that does not hold the job: its lease ran out, or the job runs elsewhere by now. `holder` is the
 * worker that holds it, if any.
 */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  id: Schema.String,
  worker: Schema.String,
  holder: Schema.NullOr(Schema.String)
}) {}

/** Only FAILED and TIMED_OUT jobs can be retried. */
export class NotRetryable extends Schema.TaggedError<NotRetryable>()("NotRetryable", {
  id: Schema.String,
  status: JobStatus
}) {}

/** The idempotency key stands for another request: job `id` was made from it. */
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()("IdempotencyConflict", {
  key: Schema.String,
  id: Schema.String
}) {}

/** The endpoint was deleted while the job was on its way. Nothing was kept. */
export class EndpointGone extends Schema.TaggedError<EndpointGone>()("EndpointGone", {
  endpoint: Schema.String
}) {}

/** A chunk before this one is missing; `expected` is the number of the one that comes next. Nothing was kept. */
export class ChunkGap extends Schema.TaggedError<ChunkGap>()("ChunkGap", {
  id: Schema.String,
  chunk: Schema.Int,
  expected: Schema.Int
}) {}

/** A cursor or a position that this queue did not give out. `what` says which of them. */
export class InvalidCursor extends Schema.TaggedError<InvalidCursor>()("InvalidCursor", {
  what: Schema.Literals(["cursor", "position"]),
  value: Schema.String
}) {}

export class QueueError extends Schema.TaggedError<QueueError>()("QueueError", {
  reason: Schema.Union([
    StoreUnavailable,
    PayloadUnavailable,
    PayloadMemoryFull,
    JobMissing,
    LeaseLost,
    NotRetryable,
    IdempotencyConflict,
    EndpointGone,
    ChunkGap,
    InvalidCursor
  ])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "StoreUnavailable":
        return `the job store failed in ${reason.operation}: ${
          reason.cause instanceof Error ? reason.cause.message : String(reason.cause)
        }`
      case "PayloadUnavailable":
        return `the object store failed in ${reason.operation}: ${reason.problem}`
      case "PayloadMemoryFull":
        return `there is no room in memory for a payload of ${reason.bytes} bytes`
      case "JobMissing":
        return `no job ${reason.id}`
      case "LeaseLost":
        return `worker ${reason.worker} does not hold job ${reason.id}`
      case "NotRetryable":
        return `job ${reason.id} is ${reason.status}`
      case "IdempotencyConflict":
        return `the idempotency key ${reason.key} stands for another request, job ${reason.id}`
      case "EndpointGone":
        return `endpoint ${reason.endpoint} was deleted`
      case "ChunkGap":
        return `chunk ${reason.chunk} of job ${reason.id} came before chunk ${reason.expected}`
      case "InvalidCursor":
        return `${reason.value.slice(0, 100)} is no ${reason.what} of this queue`
    }
  }
}
