/**
 * Batches: many requests of one endpoint under one id (docs/spec/batches.md#batch-object), with an end of their own.
 */
import * as Schema from "effect/Schema"
import { Job, Policy, RunRequest, WebhookUrl } from "../jobs/Job.ts"

/**
 * Every status of a batch.
 *
 * ```
 *    create
 *      |    +--+ add and drop requests
 *      v    |  v
 *   [ DRAFT ] ------ finalize -----> [ FINALIZED ] --- the last request ended ---> [ COMPLETED ]  one request or more completed
 *      |                                |    ^   `-------------------------------> [ FAILED ]     not one did
 *      | cancel,                 cancel |    |                                        |
 *      | a week untouched               |    +---- a failed request is retried -------+
 *      v                                v
 *   [ CANCELLED ] <---------------------+    what waits is cancelled, what runs may finish
 * ```
 *
 * `requestCompleted + requestFailed == requestTotal` says in every case that all requests have ended, as clients of the described platform
 * ask it, which has neither COMPLETED nor this FAILED. A batch without requests is COMPLETED as soon as it is finalized.
 */
export const BatchStatus = Schema.Literals(["DRAFT", "FINALIZED", "COMPLETED", "FAILED", "CANCELLED"])
export type BatchStatus = typeof BatchStatus.Type

/** The id of a batch: `batch_` and a UUID. */
export const BatchId = Schema.String.check(Schema.isPattern(/^batch_[A-Za-z0-9-]{1,64}$/)).pipe(Schema.brand("BatchId"))
export type BatchId = typeof BatchId.Type

/** What a webhook of a batch is told, once: how it ended. Goes out as the header `webhook-event`. */
export const BatchWebhookEvent = Schema.Literals(["batch.completed", "batch.failed", "batch.cancelled"])
export type BatchWebhookEvent = typeof BatchWebhookEvent.Type

/** A name for people: up to 256 characters. Need not be unique. */
export const BatchName = Schema.String.check(Schema.isBetweenLength(1, 256))

/** A batch as callers see it, and the body of its webhook. Times are milliseconds since 1970. Keys that do not apply are absent. */
export const Batch = Schema.Struct({
  id: Schema.String,
  endpointId: Schema.String,
  status: BatchStatus,
  requestTotal: Schema.Int,
  /** How many a worker is at just now. */
  requestInProgress: Schema.Int,
  requestCompleted: Schema.Int,
  /** All that ended otherwise: FAILED, TIMED_OUT and CANCELLED. */
  requestFailed: Schema.Int,
  /** Of the failed ones, those that were cancelled. Ours. */
  requestCancelled: Schema.Int,
  createdAt: Schema.Int,
  /** Ours, as are all below. */
  finalizedAt: Schema.optionalKey(Schema.Int),
  /** When the last request ended. A cancelled batch has it once its running requests are through. */
  completedAt: Schema.optionalKey(Schema.Int),
  name: Schema.optionalKey(Schema.String),
  webhook: Schema.optionalKey(Schema.String)
})
export type Batch = typeof Batch.Type

/** The answer of `POST /batch` (docs/spec/batches.md#creating-a-batch). */
export const BatchReceipt = Schema.Struct({ id: Schema.String, status: BatchStatus })
export type BatchReceipt = typeof BatchReceipt.Type

const { idempotencyKey: _, ...requestFields } = RunRequest.fields

/**
 * One request of a batch: what `/run` takes, but for an idempotency key, which is refused: each request is a job of its own, and a key that
 * does nothing would be worse than none. `input` is required; unknown keys are ignored.
 */
export const BatchRequest = Schema.Struct(requestFields)

/** The body of `POST /batch` in its long form. An array alone is the requests. */
export const BatchDraft = Schema.Struct({
  name: Schema.optionalKey(BatchName),
  requests: Schema.optionalKey(Schema.Array(BatchRequest)),
  /** Told once, when the batch has ended; see {@link BatchWebhookEvent}. */
  webhook: Schema.optionalKey(WebhookUrl),
  /** For the requests that do not say otherwise. */
  policy: Schema.optionalKey(Policy)
})

/** The body of `POST /batch/{id}/requests`. An array alone is the requests. */
export const BatchRequests = Schema.Struct({ requests: Schema.Array(BatchRequest) })

/** The body of `PUT /batch/{id}`: what is left out stays; null takes it away. */
export const BatchChanges = Schema.Struct({
  name: Schema.optionalKey(Schema.NullOr(BatchName)),
  webhook: Schema.optionalKey(Schema.NullOr(WebhookUrl))
})

/** A request of a batch, with its result where it has ended: the job object, and when it ran. IN_QUEUE too while the batch is a draft. */
export const BatchResult = Schema.Struct({
  ...Job.fields,
  /** When the last attempt was handed out. Milliseconds since 1970. */
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
