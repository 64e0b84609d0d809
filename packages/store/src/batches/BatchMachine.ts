/**
 * The state machine of a batch: pure functions from a batch and an event to the next batch, or a rejection. Stores persist the result.
 *
 * ```
 *   created
 *     |   added, dropped
 *     v  +-+
 *   [ DRAFT ] --finalized--> [ FINALIZED ] --the last request ends (jobChanged)--> [ COMPLETED ] one completed, or there were none
 *     |                        |       ^  `-------------------------------------> [ FAILED ]    none completed
 *     |                        |       |                                            |
 *     | cancelled              |       +--- a request is retried (jobChanged) ------+
 *     v                        v cancelled
 *   [ CANCELLED ] <------------+
 *
 *   requests of a finalized batch:   not enqueued --enqueued--> a job: waiting, running, then completed | failed | cancelled
 *                                      `--cancelled--> cancelled
 *   end of a batch (`endedAt`):      no request waits or runs; a draft is cancelled after a week without changes
 *   removal:                         after the retention, together with its jobs, in steps; its jobs cannot be retried from then on
 * ```
 *
 * Invariants for every sequence of events, checked by property tests:
 *
 * - The counts match the requests. Each change updates them; they are never recomputed from the requests.
 * - A finalized batch ends in the same step as its last request, so both are in one commit.
 * - No job of a cancelled batch starts: a job that returns to the queue is cancelled in the same step ({@link mustCancel}). Running jobs may
 *   finish (docs/spec/batches.md#cancelling-a-batch).
 */
import { BatchId, BatchStatus, type BatchWebhookEvent } from "@stint/contract/Batch"
import { EndpointId } from "@stint/contract/Ids"
import { Policy } from "@stint/contract/Job"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { JobHead } from "../jobs/JobRecord.ts"

/** The record of a batch. Times are in milliseconds since 1970. */
export const BatchRecord = Schema.Struct({
  id: BatchId,
  endpoint: EndpointId,
  /** The id of the access key that created it; `NO_OWNER` for batches of earlier versions. */
  owner: Schema.String,
  status: BatchStatus,
  name: Schema.NullOr(Schema.String),
  /** URL that receives the webhook when the batch ends. */
  webhook: Schema.NullOr(Schema.String),
  /** The default policy for requests that do not override it. */
  policy: Schema.NullOr(Policy),
  createdAt: Schema.Int,
  /** When a caller last changed it. */
  touchedAt: Schema.Int,
  finalizedAt: Schema.NullOr(Schema.Int),
  /** Set only while the batch is not a draft and no request waits or runs. */
  endedAt: Schema.NullOr(Schema.Int),
  /** The endpoint's retention setting when the batch was created. */
  retentionMs: Schema.Int,
  total: Schema.Int,
  /** Number of requests of a finalized batch that are not jobs yet. */
  notEnqueued: Schema.Int,
  running: Schema.Int,
  completed: Schema.Int,
  /** FAILED and TIMED_OUT. */
  failed: Schema.Int,
  cancelled: Schema.Int
})
export type BatchRecord = typeof BatchRecord.Type

/** Why a change was rejected. */
export type Rejection =
  /** Only drafts allow this change. */
  | { readonly _tag: "NotDraft" }
  /** The batch would exceed the limit of requests. */
  | { readonly _tag: "TooLarge"; readonly limit: number }
  /** The batch is cancelled. */
  | { readonly _tag: "Cancelled" }
  /** The batch has ended and its webhook was sent. */
  | { readonly _tag: "Ended" }

const ok = (batch: BatchRecord): Result.Result<BatchRecord, Rejection> => Result.succeed(batch)
const reject = (rejection: Rejection): Result.Result<BatchRecord, Rejection> => Result.fail(rejection)

/** A draft without changes is cancelled after this time: seven days. */
export const DRAFT_MILLIS = 7 * 86_400_000

/** A new draft without requests. */
export const created = (
  batch: Pick<BatchRecord, "id" | "endpoint" | "owner" | "name" | "webhook" | "policy" | "createdAt" | "retentionMs">
): BatchRecord => ({
  ...batch,
  status: "DRAFT",
  touchedAt: batch.createdAt,
  finalizedAt: null,
  endedAt: null,
  total: 0,
  notEnqueued: 0,
  running: 0,
  completed: 0,
  failed: 0,
  cancelled: 0
})

/** Number of ended requests. */
export const ended = ({ cancelled, completed, failed }: BatchRecord): number => cancelled + completed + failed

/** Whether requests remain to be enqueued. */
export const hasPending = ({ status, notEnqueued }: BatchRecord): boolean => status === "FINALIZED" && notEnqueued > 0

/** Whether waiting jobs of the batch remain to be cancelled. */
export const isCancelling = ({ endedAt, status }: BatchRecord): boolean => status === "CANCELLED" && endedAt === null

/** Derives status and `endedAt` from the counts. */
const settle = (batch: BatchRecord, now: number): BatchRecord => {
  if (batch.status === "DRAFT") return batch
  if (ended(batch) < batch.total) {
    if (batch.endedAt === null) return batch
    return { ...batch, endedAt: null, status: batch.status === "CANCELLED" ? "CANCELLED" : "FINALIZED" }
  }
  if (batch.endedAt !== null) return batch
  const status = batch.completed > 0 || batch.total === 0 ? "COMPLETED" : "FAILED"
  return { ...batch, endedAt: now, status: batch.status === "CANCELLED" ? "CANCELLED" : status }
}

/** Adds requests. `limit`: the maximum number of requests in a batch. */
export const added = (batch: BatchRecord, count: number, now: number, limit: number): Result.Result<BatchRecord, Rejection> => {
  if (batch.status !== "DRAFT") return reject({ _tag: "NotDraft" })
  const total = batch.total + count
  return total > limit ? reject({ _tag: "TooLarge", limit }) : ok({ ...batch, total, touchedAt: now })
}

/** Removes a request. */
export const dropped = (batch: BatchRecord, now: number): Result.Result<BatchRecord, Rejection> =>
  batch.status === "DRAFT" ? ok({ ...batch, total: batch.total - 1, touchedAt: now }) : reject({ _tag: "NotDraft" })

/** Changes the name or the webhook. */
export const edited = (
  batch: BatchRecord,
  changes: Partial<Pick<BatchRecord, "name" | "webhook">>,
  now: number
): Result.Result<BatchRecord, Rejection> =>
  batch.endedAt !== null && changes.webhook !== undefined
    ? reject({ _tag: "Ended" })
    : ok({ ...batch, ...changes, touchedAt: now })

/** Starts the batch. Idempotent. */
export const finalized = (batch: BatchRecord, now: number): Result.Result<BatchRecord, Rejection> => {
  if (batch.status === "CANCELLED") return reject({ _tag: "Cancelled" })
  if (batch.status !== "DRAFT") return ok(batch)
  return ok(settle({ ...batch, status: "FINALIZED", finalizedAt: now, touchedAt: now, notEnqueued: batch.total }, now))
}

/** Updates the counts after `count` requests have become jobs. */
export const enqueued = (batch: BatchRecord, count: number): BatchRecord => ({ ...batch, notEnqueued: batch.notEnqueued - count })

/** Cancels the batch and its requests that are not jobs yet. The store cancels the waiting jobs one by one. */
export const cancelled = (batch: BatchRecord, now: number): BatchRecord => {
  if (batch.status !== "DRAFT" && batch.status !== "FINALIZED") return batch
  const unstarted = batch.status === "DRAFT" ? batch.total : batch.notEnqueued
  return settle({ ...batch, status: "CANCELLED", notEnqueued: 0, cancelled: batch.cancelled + unstarted, touchedAt: now }, now)
}

const counts = {
  IN_QUEUE: undefined,
  IN_PROGRESS: "running",
  COMPLETED: "completed",
  FAILED: "failed",
  TIMED_OUT: "failed",
  CANCELLED: "cancelled"
} as const

/** Updates the batch after the status of one of its jobs has changed. */
export const jobChanged = (
  batch: BatchRecord,
  before: JobHead["status"],
  after: JobHead["status"],
  now: number
): BatchRecord => {
  const [from, to] = [counts[before], counts[after]]
  if (from === to) return batch
  return settle(
    {
      ...batch,
      ...(from === undefined ? {} : { [from]: batch[from] - 1 }),
      ...(to === undefined ? {} : { [to]: batch[to] + 1 })
    },
    now
  )
}

/** Whether a job that entered this status must be cancelled in the same step. */
export const mustCancel = (batch: BatchRecord, status: JobHead["status"]): boolean =>
  batch.status === "CANCELLED" && status === "IN_QUEUE"

/** When the batch's next timer fires; null: never. */
export const dueAt = (batch: BatchRecord): number | null => {
  if (batch.endedAt !== null) return batch.endedAt + batch.retentionMs
  return batch.status === "DRAFT" ? batch.touchedAt + DRAFT_MILLIS : null
}

/** Whether its retention has ended. Its jobs are removed in steps, so a retry must not reopen it (docs/spec/batches.md#end-of-a-batch). */
export const isExpired = ({ endedAt, retentionMs }: BatchRecord, now: number): boolean =>
  endedAt !== null && now >= endedAt + retentionMs

/** The webhook event of a change; undefined: none. */
export const webhookEventOf = (before: BatchRecord, after: BatchRecord): BatchWebhookEvent | undefined => {
  if (after.webhook === null || before.endedAt !== null || after.endedAt === null) return undefined
  return after.status === "COMPLETED" ? "batch.completed" : after.status === "FAILED" ? "batch.failed" : "batch.cancelled"
}
