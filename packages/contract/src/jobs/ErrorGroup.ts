/**
 * Error groups: an endpoint's failures, grouped by error fingerprint (docs/operations/errors.md).
 *
 * ```
 *   first failure ---> open ---resolve---> resolved ---failure of a later release---> open
 * ```
 */
import * as Schema from "effect/Schema"
import { ListedJob } from "./JobList.ts"

/** Whether an operator has marked the fault as fixed. */
export const ErrorGroupState = Schema.Literals(["open", "resolved"])
export type ErrorGroupState = typeof ErrorGroupState.Type

/** The number of a release: 1 for the first release of an endpoint. */
const ReleaseNumber = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** A group. Times are in milliseconds since 1970. */
export const ErrorGroup = Schema.Struct({
  endpoint: Schema.String,
  /** 16 hexadecimal digits. In a text query: `error-group:FINGERPRINT`. */
  fingerprint: Schema.String,
  state: ErrorGroupState,
  /** The class of the error. Absent for an error that is not an exception. */
  type: Schema.optionalKey(Schema.String),
  /** The message without its values, which differ from job to job: `no user <value> in <path>`. */
  message: Schema.String,
  /** The innermost frames of the handler's own code. Empty if the endpoint does not show tracebacks. */
  frames: Schema.Array(Schema.String),
  /** The number of failures. A job that is retried and fails again counts again. */
  count: Schema.Natural,
  firstSeen: Schema.Int,
  lastSeen: Schema.Int,
  /** The first release in which it was seen, if one is known. */
  firstRelease: Schema.optionalKey(Schema.Int),
  /** Last seen first, at most 20. `release` is absent for workers that the platform did not start, and for jobs that never ran. */
  releases: Schema.Array(Schema.Struct({
    release: Schema.optionalKey(Schema.Int),
    count: Schema.Natural,
    firstSeen: Schema.Int,
    lastSeen: Schema.Int
  })),
  /** The ids of the last failed jobs, newest first, at most 5. They may have been removed since. */
  jobs: Schema.Array(Schema.String),
  /** Who resolved it, when, and up to which release failures do not reopen it. Only while it is resolved. */
  resolved: Schema.optionalKey(Schema.Struct({
    at: Schema.Int,
    by: Schema.String,
    release: Schema.optionalKey(Schema.Int)
  })),
  /** When a failure reopened it after it was resolved. */
  reopenedAt: Schema.optionalKey(Schema.Int)
})
export type ErrorGroup = typeof ErrorGroup.Type

/** A group with its last failed jobs that still exist, in their current state. */
export const ErrorGroupDetail = Schema.Struct({ ...ErrorGroup.fields, samples: Schema.Array(ListedJob) })
export type ErrorGroupDetail = typeof ErrorGroupDetail.Type

/** Groups, last seen first. */
export const ErrorGroupList = Schema.Struct({
  groups: Schema.Array(ErrorGroup),
  /** More groups match than `limit` permits. */
  more: Schema.Boolean,
  /** The number of groups that are missing because an endpoint keeps only the 200 seen last. Endpoints without such groups are absent. */
  removed: Schema.Array(Schema.Struct({ endpoint: Schema.String, groups: Schema.Natural }))
})
export type ErrorGroupList = typeof ErrorGroupList.Type

/** The body of `POST .../resolve`, which may be empty. */
export const ErrorResolution = Schema.Struct({
  /** The last release with the fault. Default: the endpoint's release. */
  release: Schema.optionalKey(ReleaseNumber)
})
export type ErrorResolution = typeof ErrorResolution.Type
