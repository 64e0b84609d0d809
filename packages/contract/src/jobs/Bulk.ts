/**
 * Bulk operations: retry, cancel or rerun all jobs that match a query (docs/operations/bulk.md).
 *
 * ```
 *   created ---> held ---holdMs---> running ---last job---> done
 *                  \--- cancel ---> cancelled <--- cancel ---/
 * ```
 *
 * An operation changes only jobs that were submitted before it. The platform carries it out, so it continues after the caller disconnects and after a
 * restart.
 */
import * as Schema from "effect/Schema"
import { MAX_SEARCH_LENGTH } from "./JobSearch.ts"

/**
 * The action on each job. `retry`: FAILED and TIMED_OUT jobs return to the queue under their ids. `cancel`: waiting and running jobs end. `rerun`:
 * for each ended job, a new job with the same input is submitted.
 */
export const BulkAction = Schema.Literals(["retry", "cancel", "rerun"])
export type BulkAction = typeof BulkAction.Type

/** How long an operation is held by default, so that it can be cancelled before it changes a job: 10 s. */
export const DEFAULT_HOLD_MILLIS = 10_000

/** The maximum hold: 10 minutes. */
const MAX_HOLD_MILLIS = 600_000

/** Matching jobs are counted up to this number. */
export const COUNT_LIMIT = 10_000

/** The body of `POST /api/v1/bulk`. The server rejects unknown members. */
export const BulkSpec = Schema.Struct({
  action: BulkAction,
  /** The text query (JobSearch.ts), with at least one term. */
  query: Schema.String.check(Schema.isMaxLength(MAX_SEARCH_LENGTH)),
  /** How long to wait before the first change. Default: {@link DEFAULT_HOLD_MILLIS}. */
  holdMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_HOLD_MILLIS })))
})
export type BulkSpec = typeof BulkSpec.Type

/**
 * Why a job was not changed. `changed`: its status no longer permits the action. `missing`: it has been removed, or its batch or retention ended.
 * `endpoint`: its endpoint was deleted.
 */
export const SkipReason = Schema.Literals(["changed", "missing", "endpoint"])
export type SkipReason = typeof SkipReason.Type

/** The state of a bulk operation. */
export const BulkState = Schema.Literals(["held", "running", "done", "cancelled"])
export type BulkState = typeof BulkState.Type

/** A bulk operation and its progress. Times are in milliseconds since 1970. */
export const BulkOperation = Schema.Struct({
  id: Schema.String,
  action: BulkAction,
  /** The query, in its canonical form. */
  query: Schema.String,
  state: BulkState,
  /** Only jobs submitted before this time are changed. Durations in the query are measured from it. */
  createdAt: Schema.Int,
  /** The name of the key. */
  createdBy: Schema.String,
  /** When the hold ends. */
  startsAt: Schema.Int,
  endedAt: Schema.optionalKey(Schema.Int),
  /** The number of matching jobs when the operation was created. `more`: counting stopped there. */
  matched: Schema.Struct({ count: Schema.Natural, more: Schema.Boolean }),
  /** The number of jobs that were retried, cancelled or submitted again. */
  done: Schema.Natural,
  /** The number of jobs that were not changed, by reason. */
  skipped: Schema.Struct({ changed: Schema.Natural, missing: Schema.Natural, endpoint: Schema.Natural }),
  /** The number of jobs that could not be changed, such as reruns beyond a quota. */
  failed: Schema.Natural,
  /** The first of these jobs. */
  problems: Schema.Array(Schema.Struct({ endpoint: Schema.String, job: Schema.String, reason: Schema.String }))
})
export type BulkOperation = typeof BulkOperation.Type
