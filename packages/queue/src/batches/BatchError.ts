/**
 * What can go wrong with a batch, besides the store, as one error with a reason.
 */
import { BatchStatus } from "@stint/contract/Batch"
import * as Schema from "effect/Schema"

/** No such batch on this endpoint, or its retention is over. */
export class BatchMissing extends Schema.TaggedError<BatchMissing>()("BatchMissing", { id: Schema.String }) {}

/** No such request in the batch. */
export class RequestMissing extends Schema.TaggedError<RequestMissing>()("RequestMissing", {
  id: Schema.String,
  request: Schema.String
}) {}

/** The batch is in no status for this. */
export class WrongStatus extends Schema.TaggedError<WrongStatus>()("WrongStatus", {
  id: Schema.String,
  status: BatchStatus,
  rejection: Schema.Literals(["NotDraft", "Cancelled", "Ended"])
}) {}

/** The batch would have more requests than it may have. Nothing was added. */
export class BatchTooLarge extends Schema.TaggedError<BatchTooLarge>()("BatchTooLarge", {
  id: Schema.String,
  /** How many it has. */
  total: Schema.Int,
  limit: Schema.Int
}) {}

/** The endpoint has so many batches that have not ended. */
export class TooManyBatches extends Schema.TaggedError<TooManyBatches>()("TooManyBatches", {
  open: Schema.Int,
  limit: Schema.Int
}) {}

/** With this batch more would wait on the endpoint than may. It stays a draft. */
export class QueueFull extends Schema.TaggedError<QueueFull>()("QueueFull", {
  id: Schema.String,
  queued: Schema.Int,
  limit: Schema.Int
}) {}

export class BatchError extends Schema.TaggedError<BatchError>()("BatchError", {
  reason: Schema.Union([BatchMissing, RequestMissing, WrongStatus, BatchTooLarge, TooManyBatches, QueueFull])
}) {}
