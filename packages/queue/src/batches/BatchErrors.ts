/**
 * The errors of rejected `BatchQueue` operations. The type of each operation lists the errors it can fail with, besides `StoreError`.
 */
import { BatchStatus } from "@stint/contract/Batch"
import * as Schema from "effect/Schema"

/** The endpoint has no batch with this id, or the batch's retention has ended. */
export class BatchMissing extends Schema.TaggedError<BatchMissing>()("BatchMissing", { id: Schema.String }) {}

/** The batch has no request with this id. */
export class RequestMissing extends Schema.TaggedError<RequestMissing>()("RequestMissing", {
  id: Schema.String,
  request: Schema.String
}) {}

/** The batch's status does not allow the change. */
export class WrongStatus extends Schema.TaggedError<WrongStatus>()("WrongStatus", {
  id: Schema.String,
  status: BatchStatus,
  rejection: Schema.Literals(["NotDraft", "Cancelled", "Ended"])
}) {}

/** The batch would exceed the limit of requests per batch. Nothing was added. */
export class BatchTooLarge extends Schema.TaggedError<BatchTooLarge>()("BatchTooLarge", {
  id: Schema.String,
  /** The number of requests currently in the batch. */
  total: Schema.Int,
  limit: Schema.Int
}) {}

/** The endpoint has reached its limit of batches that have not ended. */
export class TooManyBatches extends Schema.TaggedError<TooManyBatches>()("TooManyBatches", {
  open: Schema.Int,
  limit: Schema.Int
}) {}

/** The batch would exceed the endpoint's limit of waiting jobs. The batch stays a draft. */
export class QueueFull extends Schema.TaggedError<QueueFull>()("QueueFull", {
  id: Schema.String,
  queued: Schema.Int,
  limit: Schema.Int
}) {}

/** Why a change to a batch is rejected. */
export type ChangeError = BatchMissing | WrongStatus | BatchTooLarge
