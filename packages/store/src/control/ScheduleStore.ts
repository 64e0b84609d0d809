/**
 * The store of schedules, in the same database as the jobs that they submit.
 *
 * ```
 *   put                                       version n --> version n + 1
 *   JobStore.insert with a change --same commit--> job, version n --> version n + 1
 * ```
 *
 * A change is written only if the stored schedule has the preceding version. When two servers, or one server before and after a crash, decide on the
 * same firing, only one decision is written. The job of the other one is not stored.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { ScheduleFiring, ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** A stored schedule. Times are milliseconds since 1970. */
export const ScheduleRecord = Schema.Struct({
  endpoint: EndpointId,
  name: ScheduleName,
  /** A schedule that is removed and created again gets a new id. */
  id: Schema.String,
  /** Starts at 1. Every change increments it. */
  version: Schema.Int,
  spec: ScheduleSpec,
  paused: Schema.Boolean,
  createdAt: Schema.Int,
  updatedAt: Schema.Int,
  updatedBy: Schema.String,
  /** The next time of the schedule, without jitter; null: none. */
  nextAt: Schema.NullOr(Schema.Int),
  /** When `nextAt` was computed. */
  checkedAt: Schema.Int,
  /** Times that were due and for which no decision has been made yet, oldest first. */
  waiting: Schema.Array(Schema.Int),
  /** When the next decision is due; null: never. */
  dueAt: Schema.NullOr(Schema.Int),
  last: Schema.NullOr(ScheduleFiring),
  /** The latest job that the schedule has submitted. */
  job: Schema.NullOr(JobId),
  /** Jobs that had not ended when a caller fired `job` manually, oldest first. The overlap rule also applies to them. Default: none. */
  earlierJobs: Schema.optionalKey(Schema.Array(JobId))
})
export type ScheduleRecord = typeof ScheduleRecord.Type

/** The name of a schedule. */
export type ScheduleKey = Pick<ScheduleRecord, "endpoint" | "name">

/**
 * If `nextAt` was computed this long after the present time, the clock has been set back since. As with cron(8), smaller corrections do not make a
 * schedule fire again. Milliseconds.
 */
export const SET_BACK_MILLIS = 3 * 60 * 60 * 1000

/** Whether a change may replace the stored schedule. */
export const follows = (
  after: Pick<ScheduleRecord, "id" | "version">,
  stored: Pick<ScheduleRecord, "id" | "version"> | undefined
): boolean => stored === undefined ? after.version === 1 : stored.id === after.id && stored.version + 1 === after.version

/** Whether there is something to decide. */
export const isDue = ({ checkedAt, dueAt }: Pick<ScheduleRecord, "checkedAt" | "dueAt">, now: number): boolean =>
  dueAt !== null && (dueAt <= now || checkedAt > now + SET_BACK_MILLIS)

export class ScheduleStore extends Context.Service<ScheduleStore, {
  /** Undefined for an unknown schedule. */
  readonly get: (endpoint: EndpointId, name: ScheduleName) => Effect.Effect<ScheduleRecord | undefined, StoreError>

  /** All schedules, or those of one endpoint, by endpoint and name. */
  readonly list: (endpoint?: EndpointId) => Effect.Effect<ReadonlyArray<ScheduleRecord>, StoreError>

  /** Stores a change. Returns false, and changes nothing, unless it {@link follows} the stored schedule. */
  readonly put: (after: ScheduleRecord) => Effect.Effect<boolean, StoreError>

  /** Returns false when there is no such schedule. */
  readonly remove: (endpoint: EndpointId, name: ScheduleName) => Effect.Effect<boolean, StoreError>

  /** The schedules for which {@link isDue} is true, the longest overdue first. The cost must not grow with the number of other schedules. */
  readonly due: (now: number) => Effect.Effect<ReadonlyArray<ScheduleKey>, StoreError>
}>()("@stint/store/ScheduleStore") {}
