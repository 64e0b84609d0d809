/**
 * The decisions of a bulk operation, as pure functions of its record and the time.
 *
 * ```
 *                         one commit for each job, with the job
 *                               +--stepped--+
 *                               v           |
 *   created ---> [ held ] --claimed--> [ running ] --turned, no next page--> [ done ]
 *                   |   after the hold  |      ^
 *                   |                   |      +--turned: next page
 *                   +----cancelled------+--------------> [ cancelled ]
 * ```
 *
 * Invariants, checked by property tests:
 *
 * - A job is changed at most once: the change and the record that has passed the job are one commit, which is rejected if the record has changed since.
 * - The record only moves towards older jobs, and never past a job that was neither changed nor counted.
 * - An ended operation never changes again.
 */
import type { BulkOperation, SkipReason } from "@stint/contract/Bulk"
import { type BulkRecord, isBulkEnded } from "@stint/store/BulkStore"
import type { ListCursor } from "@stint/store/ListCursor"

/** The lease of the server that works on an operation: other servers do not claim the operation for this long. Each step renews it. */
const LEASE_MILLIS = 15_000

/** The number of failed jobs that a record names. */
const MAX_PROBLEMS = 10

/** The maximum length of a reason. */
const MAX_REASON = 300

/** The first version of an operation. */
export const created = (
  { holdMs, now, ...given }:
    & Pick<BulkRecord, "id" | "action" | "query" | "by" | "matched">
    & { readonly holdMs: number; readonly now: number }
): BulkRecord => ({
  ...given,
  version: 1,
  state: "held",
  createdAt: now,
  startsAt: now + holdMs,
  endedAt: null,
  done: 0,
  skipped: { changed: 0, missing: 0, endpoint: 0 },
  failed: 0,
  problems: [],
  cursor: null,
  lease: null
})

const next = (record: BulkRecord, change: Partial<BulkRecord>): BulkRecord => ({
  ...record,
  ...change,
  version: record.version + 1
})

const leaseOf = (node: string, now: number) => ({ node, until: now + LEASE_MILLIS })

/** Whether a server may work on an operation now. `isAlone`: no other server is alive, so a lease is from before a restart. */
export const mayWork = (record: BulkRecord, node: string, isAlone: boolean, now: number): boolean => {
  const { lease, startsAt } = record
  if (isBulkEnded(record) || startsAt > now) return false
  // A lease from before the clock was set back does not count.
  return lease === null || lease.node === node || isAlone || lease.until <= now || lease.until > now + LEASE_MILLIS
}

/** A server begins a batch of jobs. */
export const claimed = (record: BulkRecord, node: string, now: number): BulkRecord =>
  next(record, { state: "running", lease: leaseOf(node, now) })

const placeOf = ({ createdAt, id }: ListCursor): ListCursor => ({ createdAt, id })

/** A job was changed. Stored together with the change. */
export const stepped = (record: BulkRecord, job: ListCursor, now: number): BulkRecord =>
  next(record, {
    cursor: placeOf(job),
    done: record.done + 1,
    lease: record.lease === null ? null : leaseOf(record.lease.node, now)
  })

/** A job stays as it is. Stored with the next change; if the server is killed before that, the job is examined again. */
export const passed = (record: BulkRecord, job: ListCursor, reason: SkipReason): BulkRecord => ({
  ...record,
  cursor: placeOf(job),
  skipped: { ...record.skipped, [reason]: record.skipped[reason] + 1 }
})

/** A job could not be changed. Stored as in {@link passed}. */
export const failed = (record: BulkRecord, job: ListCursor & { readonly endpoint: string }, reason: string): BulkRecord => ({
  ...record,
  cursor: placeOf(job),
  failed: record.failed + 1,
  problems: record.problems.length >= MAX_PROBLEMS
    ? record.problems
    : [...record.problems, { endpoint: job.endpoint, job: job.id, reason: reason.slice(0, MAX_REASON) }]
})

/** The end of a page. `cursor`: where the next one begins; null at the end of the list. */
export const turned = (record: BulkRecord, cursor: ListCursor | null, now: number): BulkRecord =>
  cursor === null
    ? next(record, { state: "done", endedAt: now, lease: null })
    : next(record, { cursor: placeOf(cursor) })

/** Cancels or stops an operation. Undefined if it has ended. */
export const cancelled = (record: BulkRecord, now: number): BulkRecord | undefined =>
  isBulkEnded(record) ? undefined : next(record, { state: "cancelled", endedAt: now, lease: null })

/** The operation as callers see it. */
export const toOperation = (record: BulkRecord): BulkOperation => {
  const { action, by, createdAt, done, endedAt, failed, id, matched, problems, query, skipped, startsAt, state } = record
  return {
    id,
    action,
    query,
    state,
    createdAt,
    createdBy: by.name,
    startsAt,
    ...(endedAt === null ? {} : { endedAt }),
    matched,
    done,
    skipped,
    failed,
    problems
  }
}
