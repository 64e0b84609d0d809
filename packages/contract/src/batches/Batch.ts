/**
 * Batches group many requests to one endpoint under one id (docs/spec/batches.md#batch-object).
 */
import * as Schema from "effect/Schema"
import { Job, NewWebhookUrl, Policy, RunRequest } from "../jobs/Job.ts"
import { PrintableText } from "../PrintableText.ts"

/**
 * The status of a batch (docs/spec/batches.md#statuses).
 *
 * ```
 *    create
 *      |    +--+ add and remove requests
 *      v    |  v
 *   [ DRAFT ] ------ finalize -----> [ FINALIZED ] --- the last request ended ---> [ COMPLETED ]  at least one request completed
 *      |                                |    ^   `-------------------------------> [ FAILED ]     no request completed
 *      | cancel,                 cancel |    |                                        |
 *      | a week untouched               |    +---- a failed request is retried -------+
 *      v                                v
 *   [ CANCELLED ] <---------------------+    waiting requests are cancelled, running ones finish
 * ```
 *
 * In every status, all requests have ended when `requestCompleted + requestFailed == requestTotal`. RunPod's clients check this condition,
 * because batches on RunPod have neither the status COMPLETED nor FAILED. A batch without requests is COMPLETED as soon as it is finalized.
 */
export const BatchStatus = Schema.Literals(["DRAFT", "FINALIZED", "COMPLETED", "FAILED", "CANCELLED"])
export type BatchStatus = typeof BatchStatus.Type

/** The id of a batch: `batch_` followed by a UUID. */
export const BatchId = Schema.String.check(Schema.isPattern(/^batch_[A-Za-z0-9-]{1,64}$/)).pipe(Schema.brand("BatchId"))
export type BatchId = typeof BatchId.Type

/** The event of a batch's webhook. It is sent once, when the batch ends, in the header `webhook-event`. */
export const BatchWebhookEvent = Schema.Literals(["batch.completed", "batch.failed", "batch.cancelled"])
export type BatchWebhookEvent = typeof BatchWebhookEvent.Type

/** A display name: 1 to 256 characters. Not unique. */
const BatchName = PrintableText.check(Schema.isBetweenLength(1, 256))

/** A batch, and the body of its webhook. Times are in milliseconds since 1970. Keys that do not apply are absent. */
export const Batch = Schema.Struct({
  id: Schema.String,
  endpointId: Schema.String,
  status: BatchStatus,
  requestTotal: Schema.Int,
  /** The number of running requests. */
  requestInProgress: Schema.Int,
  requestCompleted: Schema.Int,
  /** The number of FAILED, TIMED_OUT and CANCELLED requests. */
  requestFailed: Schema.Int,
  /** The number of CANCELLED requests, which `requestFailed` also counts. A Stint extension. */
  requestCancelled: Schema.Int,
  /** The number of requests of a started batch that are not in the queue yet, because a quota is full. Absent if there are none. */
  requestHeld: Schema.optionalKey(Schema.Int),
  createdAt: Schema.Int,
  /** This key and all keys below are Stint extensions. */
  finalizedAt: Schema.optionalKey(Schema.Int),
  /** When the last request ended. For a cancelled batch, this is when the last running request ended. */
  completedAt: Schema.optionalKey(Schema.Int),
  name: Schema.optionalKey(Schema.String),
  webhook: Schema.optionalKey(Schema.String)
})
export type Batch = typeof Batch.Type

/** The response of `POST /batch` (docs/spec/batches.md#creating-a-batch). */
export const BatchReceipt = Schema.Struct({ id: Schema.String, status: BatchStatus })
export type BatchReceipt = typeof BatchReceipt.Type

const { idempotencyKey: _, ...requestFields } = RunRequest.fields

/**
 * A request of a batch: the body of `/run` without `idempotencyKey`. The server rejects this key, because it would have no effect: each
 * request is a separate job. `input` is required; unknown keys are ignored.
 */
export const BatchRequest = Schema.Struct(requestFields)

/** The body of `POST /batch`. The short form is an array of requests. */
export const BatchDraft = Schema.Struct({
  name: Schema.optionalKey(BatchName),
  requests: Schema.optionalKey(Schema.Array(BatchRequest)),
  /** Receives one {@link BatchWebhookEvent} when the batch has ended. */
  webhook: Schema.optionalKey(NewWebhookUrl),
  /** The default policy of the requests. */
  policy: Schema.optionalKey(Policy)
})

/** The body of `POST /batch/{id}/requests`. The short form is an array of requests. */
export const BatchRequests = Schema.Struct({ requests: Schema.Array(BatchRequest) })

/** The body of `PUT /batch/{id}`. Missing keys stay unchanged; null removes a value. */
export const BatchChanges = Schema.Struct({
  name: Schema.optionalKey(Schema.NullOr(BatchName)),
  webhook: Schema.optionalKey(Schema.NullOr(NewWebhookUrl))
})

/** A request in a batch: its job, and when the job ran. The status is IN_QUEUE while the batch is a draft. */
export const BatchResult = Schema.Struct({
  ...Job.fields,
  /** When the last attempt started. Milliseconds since 1970. */
  startedAt: Schema.optionalKey(Schema.Int),
  completedAt: Schema.optionalKey(Schema.Int)
})
export type BatchResult = typeof BatchResult.Type

/** One page of a batch's requests, in the order in which they were added. */
export const BatchResults = Schema.Struct({
  requests: Schema.Array(BatchResult),
  total: Schema.Int,
  offset: Schema.Int,
  limit: Schema.Int,
  hasMore: Schema.Boolean
})
export type BatchResults = typeof BatchResults.Type
