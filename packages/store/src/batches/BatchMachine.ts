/**
 * The state machine of a batch. Pure: a batch and what happened to it make another batch, or a rejection. Stores persist what it says and
 * decide nothing.
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
 *   the requests of a finalized batch:   unfed --fed--> jobs of their own: waiting, running, then completed | failed | cancelled
 *                                          `--cancelled--> cancelled
 *   the end of a batch (`endedAt`):      no request left that waits or runs; a week for a draft that nobody touches
 *   removal:                             its retention later; its jobs stay as long as it does
 * ```
 *
 * Rules that hold for every sequence of events (and that the property tests check):
 *
 * - The counts are what counting the requests would give, and counting is never done.
 * - A batch that is finalized ends in the step in which its last request ends, so whoever commits that request commits the end.
 * - Nothing of a cancelled batch is started any more: a job of it that comes back to the queue is cancelled in the same step
 *   ({@link mustCancel}). A running one may finish (wire-facts 1.6).
 */
import { BatchId, BatchStatus, type BatchWebhookEvent } from "@stint/contract/Batch"
import { EndpointId } from "@stint/contract/Ids"
import { Policy } from "@stint/contract/Job"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { JobHead } from "../jobs/JobRecord.ts"

/** A batch as the queue keeps it. Times are milliseconds since 1970. */
export const BatchRecord = Schema.Struct({
  id: BatchId,
  endpoint: EndpointId,
  status: BatchStatus,
  name: Schema.NullOr(Schema.String),
  /** Who is told of its end. */
  webhook: Schema.NullOr(Schema.String),
  /** For the requests that do not say otherwise. */
  policy: Schema.NullOr(Policy),
  createdAt: Schema.Int,
  /** When a caller last changed it. */
  touchedAt: Schema.Int,
  finalizedAt: Schema.NullOr(Schema.Int),
  /** Set exactly while no request waits or runs, and the batch is no draft. */
  endedAt: Schema.NullOr(Schema.Int),
  /** The endpoint's when the batch was made. */
  retentionMs: Schema.Int,
  total: Schema.Int,
  /** Of the requests of a finalized batch, those that are no jobs yet. */
  notEnqueued: Schema.Int,
  running: Schema.Int,
  completed: Schema.Int,
  /** FAILED and TIMED_OUT. */
  failed: Schema.Int,
  cancelled: Schema.Int
})
export type BatchRecord = typeof BatchRecord.Type

/** Why something cannot be done to a batch. */
export type Rejection =
  /** Only a draft can be changed so. */
  | { readonly _tag: "NotDraft" }
  /** It would have more requests than a batch may have. */
  | { readonly _tag: "TooLarge"; readonly limit: number }
  /** It was cancelled and is never started. */
  | { readonly _tag: "Cancelled" }
  /** Its end has been told. */
  | { readonly _tag: "Ended" }

const ok = (batch: BatchRecord): Result.Result<BatchRecord, Rejection> => Result.succeed(batch)
const reject = (rejection: Rejection): Result.Result<BatchRecord, Rejection> => Result.fail(rejection)

/** How long a draft that nobody touches is kept before it is cancelled: seven days. */
export const DRAFT_MILLIS = 7 * 86_400_000

/** A new draft without requests. */
export const created = (
  batch: Pick<BatchRecord, "id" | "endpoint" | "name" | "webhook" | "policy" | "createdAt" | "retentionMs">
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

/** How many requests have ended. */
export const ended = ({ cancelled, completed, failed }: BatchRecord): number => cancelled + completed + failed

/** Whether some request waits to be put into the queue. */
export const hasPending = ({ status, notEnqueued }: BatchRecord): boolean => status === "FINALIZED" && notEnqueued > 0

/** Whether the batch is to be swept until no job of it waits any more. */
export const isCancelling = ({ endedAt, status }: BatchRecord): boolean => status === "CANCELLED" && endedAt === null

/** The status and the end that the counts make. */
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

/** Requests were added. `limit`: the most that a batch may have. */
export const added = (batch: BatchRecord, count: number, now: number, limit: number): Result.Result<BatchRecord, Rejection> => {
  if (batch.status !== "DRAFT") return reject({ _tag: "NotDraft" })
  const total = batch.total + count
  return total > limit ? reject({ _tag: "TooLarge", limit }) : ok({ ...batch, total, touchedAt: now })
}

/** A request was taken out. */
export const dropped = (batch: BatchRecord, now: number): Result.Result<BatchRecord, Rejection> =>
  batch.status === "DRAFT" ? ok({ ...batch, total: batch.total - 1, touchedAt: now }) : reject({ _tag: "NotDraft" })

/** The caller wants another name or webhook. */
export const edited = (
  batch: BatchRecord,
  changes: Partial<Pick<BatchRecord, "name" | "webhook">>,
  now: number
): Result.Result<BatchRecord, Rejection> =>
  batch.endedAt !== null && changes.webhook !== undefined
    ? reject({ _tag: "Ended" })
    : ok({ ...batch, ...changes, touchedAt: now })

/** The caller wants it to start. Doing so again changes nothing. */
export const finalized = (batch: BatchRecord, now: number): Result.Result<BatchRecord, Rejection> => {
  if (batch.status === "CANCELLED") return reject({ _tag: "Cancelled" })
  if (batch.status !== "DRAFT") return ok(batch)
  return ok(settle({ ...batch, status: "FINALIZED", finalizedAt: now, touchedAt: now, notEnqueued: batch.total }, now))
}

/** So many requests became jobs that wait. */
export const enqueued = (batch: BatchRecord, count: number): BatchRecord => ({ ...batch, notEnqueued: batch.notEnqueued - count })

/** It is not wanted any more. What is no job yet ends with it; its waiting jobs have to be cancelled one by one. */
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

/** A job of the batch went from one status to another. */
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

/** Whether a job that came to this status has to be cancelled in the same step. */
export const mustCancel = (batch: BatchRecord, status: JobHead["status"]): boolean =>
  batch.status === "CANCELLED" && status === "IN_QUEUE"

/** When something becomes of the batch although nothing happens to it; null: never. */
export const dueAt = (batch: BatchRecord): number | null => {
  if (batch.endedAt !== null) return batch.endedAt + batch.retentionMs
  return batch.status === "DRAFT" ? batch.touchedAt + DRAFT_MILLIS : null
}

/** What the batch's webhook is to be told of a change; undefined: nothing. */
export const webhookEventOf = (before: BatchRecord, after: BatchRecord): BatchWebhookEvent | undefined => {
  if (after.webhook === null || before.endedAt !== null || after.endedAt === null) return undefined
  return after.status === "COMPLETED" ? "batch.completed" : after.status === "FAILED" ? "batch.failed" : "batch.cancelled"
}
