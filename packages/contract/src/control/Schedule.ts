/**
 * Schedules: they submit jobs to an endpoint at the times of a cron expression, or once at a given time (docs/learning/schedules.md).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EndpointId, JobId } from "../Ids.ts"
import { PointInTime, Policy, Priority, Tag, WebhookRequest } from "../jobs/Job.ts"
import { CronExpression, TimeZone } from "./Cron.ts"

/** The name of a schedule, unique among the schedules of its endpoint. */
export const ScheduleName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$/, {
    message: "a schedule's name is 1 to 50 letters, digits, - _ or ., and starts with a letter or a digit"
  })
).pipe(Schema.brand("ScheduleName"))
export type ScheduleName = typeof ScheduleName.Type

/** The tag of the jobs that a schedule submits. */
export const scheduleTag = (name: ScheduleName): string => `schedule:${name}`

/** The maximum number of missed firings that the catch-up policy `all` fires. */
const MAX_CATCH_UP = 100

/** The maximum jitter, in milliseconds. */
const MAX_JITTER_MILLIS = 3_600_000

const withDefault = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]) =>
  Schema.withDecodingDefaultKey<S>(Effect.succeed(value))(schema)

/**
 * What a firing does while the previous firing's job has not ended.
 *
 * - `skip`: no job.
 * - `queue`: the job is submitted when the previous one has ended.
 * - `replace`: the job is submitted, then the previous one is cancelled.
 * - `allow`: the job is submitted.
 */
const Overlap = Schema.Literals(["skip", "queue", "replace", "allow"])

/**
 * Which missed firings still fire after the platform was down, or could not store jobs, when they were due.
 *
 * - `none`: none.
 * - `last`: the latest one.
 * - `all`: the latest `catchUpLimit` ones, oldest first.
 */
const CatchUp = Schema.Literals(["none", "last", "all"])

/** The body of `PUT /api/v1/endpoints/{endpoint}/schedules/{schedule}`: when to submit which job. */
export const ScheduleSpec = Schema.Struct({
  /** The cron expression of a recurring schedule. Either `cron` or `at` is required. */
  cron: Schema.optionalKey(CronExpression),
  /** The time zone of `cron`. Default: UTC. */
  timeZone: withDefault(TimeZone, "UTC"),
  /** When to fire once: milliseconds since 1970, or ISO 8601 with a time zone. */
  at: Schema.optionalKey(PointInTime),
  /** The input of each job. Default: `{}`. */
  input: withDefault(Schema.Json, {}),
  policy: Schema.optionalKey(Policy),
  priority: Schema.optionalKey(Priority),
  /** The tags of each job, at most 15. The platform adds `schedule:NAME`. */
  tags: Schema.optionalKey(Schema.Array(Tag).check(Schema.isMaxLength(15))),
  webhook: Schema.optionalKey(WebhookRequest),
  /** Default: `skip`. */
  overlap: withDefault(Overlap, "skip"),
  /** Default: `last`. */
  catchUp: withDefault(CatchUp, "last"),
  /** How many missed firings the catch-up policy `all` fires: 1 to 100. Default: 10. */
  catchUpLimit: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_CATCH_UP })), 10),
  /**
   * Delays each firing by a different amount, less than this many milliseconds: 0 to 1 hour. Default: 0. Each delay ends before the next time.
   */
  jitterMs: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_JITTER_MILLIS })), 0)
}).check(
  Schema.makeFilter(({ at, cron }) =>
    (at === undefined) !== (cron === undefined) || (cron === undefined
      ? { path: ["cron"], issue: "is missing: pass cron for a recurring schedule, or at for a single firing" }
      : { path: ["at"], issue: "cannot be combined with cron" })
  )
)
export type ScheduleSpec = typeof ScheduleSpec.Type

/** The outcome of one firing. */
export const ScheduleFiring = Schema.Struct({
  /** The scheduled time of the firing, without jitter. Milliseconds since 1970. */
  scheduledFor: Schema.Int,
  /** When it was decided. Milliseconds since 1970. */
  at: Schema.Int,
  /** `manual`: a caller requested it. */
  trigger: Schema.Literals(["time", "manual"]),
  /**
   * `submitted`: `job` was submitted. `skipped`: the previous job had not ended. `missed`: the platform was down, and the catch-up policy drops the
   * firing. `failed`: the job could not be submitted.
   */
  outcome: Schema.Literals(["submitted", "skipped", "missed", "failed"]),
  job: Schema.optionalKey(JobId),
  /** Why no job was submitted. */
  reason: Schema.optionalKey(Schema.String)
})
export type ScheduleFiring = typeof ScheduleFiring.Type

/** A schedule. */
export const Schedule = Schema.Struct({
  endpoint: EndpointId,
  name: ScheduleName,
  spec: ScheduleSpec,
  /** A paused schedule does not fire. Firings that were due in the meantime are dropped. */
  paused: Schema.Boolean,
  /** Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** When the schedule was last set, paused or resumed. Milliseconds since 1970. */
  updatedAt: Schema.Int,
  /** Who last set it, for messages. */
  updatedBy: Schema.String,
  /** The next firings, at most five, without jitter. Milliseconds since 1970. Empty for a paused schedule, or if none follows. */
  next: Schema.Array(Schema.Int),
  /** Firings that were due and whose jobs wait for the previous job to end (overlap `queue`). */
  waiting: Schema.Array(Schema.Int),
  /** The latest firing. */
  last: Schema.NullOr(ScheduleFiring)
})
export type Schedule = typeof Schedule.Type
