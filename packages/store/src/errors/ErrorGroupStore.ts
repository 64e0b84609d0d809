/**
 * The store of error groups: an endpoint's failures, grouped by error fingerprint (ErrorFingerprint.ts), in the same database as the jobs.
 *
 * ```
 *   job ---ends as FAILED or TIMED_OUT---> job with `errorGroup`, group with count + 1        one commit
 *   job ---ends otherwise----------------> nothing here
 * ```
 *
 * A group outlives its jobs. It contains no values of their errors.
 */
import { JobId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

const Millis = Schema.Int

/** The failures of a group in one release. */
export const ReleaseFailures = Schema.Struct({
  /** Null for jobs that never ran, and for workers whose release is unknown. */
  release: Schema.NullOr(Schema.Int),
  count: Schema.Int,
  firstSeen: Millis,
  lastSeen: Millis
})
export type ReleaseFailures = typeof ReleaseFailures.Type

/** An operator's statement that the fault has been fixed. */
export const Resolution = Schema.Struct({
  at: Millis,
  /** Failures of this release and earlier ones do not reopen the group. Null: every failure does. */
  release: Schema.NullOr(Schema.Int),
  /** The name of the key. */
  by: Schema.String
})
export type Resolution = typeof Resolution.Type

/** A stored group. Times are milliseconds since 1970. */
export const ErrorGroupRecord = Schema.Struct({
  fingerprint: Schema.String,
  type: Schema.NullOr(Schema.String),
  message: Schema.String,
  frames: Schema.Array(Schema.String),
  /** The number of failures. A job that is retried and fails again counts again. */
  count: Schema.Int,
  firstSeen: Millis,
  lastSeen: Millis,
  /** The first release in which it was seen; null: none is known. */
  firstRelease: Schema.NullOr(Schema.Int),
  /** Last seen first, at most {@link RELEASES_KEPT}. */
  releases: Schema.Array(ReleaseFailures),
  /** The last failed jobs, newest first, at most {@link SAMPLE_JOBS}. They may have been removed since. */
  jobs: Schema.Array(JobId),
  /** Null: open. */
  resolved: Schema.NullOr(Resolution),
  /** When a failure reopened it after it was resolved. */
  reopenedAt: Schema.NullOr(Millis)
})
export type ErrorGroupRecord = typeof ErrorGroupRecord.Type

/** The number of groups that are kept for an endpoint. A new group replaces the least recently seen one. */
export const GROUPS_KEPT = 200

/** A group that has not been seen for 90 days is not listed, and is removed when the endpoint gets a new group. */
export const GROUP_RETENTION_MILLIS = 90 * 86_400_000

/** The maximum number of releases in a group. Those seen last are kept. */
export const RELEASES_KEPT = 20

/** The maximum number of jobs in a group. Those that failed last are kept. */
export const SAMPLE_JOBS = 5

/** The groups of an endpoint. */
export interface EndpointErrors {
  /** Last seen first. */
  readonly groups: ReadonlyArray<ErrorGroupRecord>
  /** The number of groups that were removed because the endpoint had more than {@link GROUPS_KEPT}. */
  readonly removed: number
}

export class ErrorGroupStore extends Context.Service<ErrorGroupStore, {
  /** The groups that were seen at or after a time. */
  readonly list: (endpoint: string, since: number) => Effect.Effect<EndpointErrors, StoreError>

  /** Undefined for an unknown group. */
  readonly get: (endpoint: string, fingerprint: string) => Effect.Effect<ErrorGroupRecord | undefined, StoreError>

  /** Resolves or reopens a group. Returns the group afterwards; undefined for an unknown group. */
  readonly resolve: (
    endpoint: string,
    fingerprint: string,
    resolution: Resolution | null
  ) => Effect.Effect<ErrorGroupRecord | undefined, StoreError>
}>()("@stint/store/ErrorGroupStore") {}
