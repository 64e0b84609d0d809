/**
 * Explains a job's status: `GET /v2/{endpoint}/status/{id}?explain` (docs/spec/jobs-api.md#explaining-a-job).
 */
import * as Schema from "effect/Schema"

/**
 * What a job waits for.
 *
 * | | |
 * |---|---|
 * | `ended` | nothing: the job has ended |
 * | `running` | its worker |
 * | `backoff` | the time of its next attempt |
 * | `paused` | an operator to raise `workers.max` above 0 |
 * | `external` | an external worker: the platform starts no workers for this endpoint |
 * | `failing` | workers that fail to start, or crash |
 * | `throttled` | capacity for another worker |
 * | `low-priority` | a worker that another job starts: this job starts none |
 * | `behind` | the jobs before it: every worker is busy, and `workers.max` is reached |
 * | `starting` | a worker that is starting |
 * | `next` | nothing: an idle worker will take it, or the platform will start one |
 */
export const WaitReason = Schema.Literals([
  "ended",
  "running",
  "backoff",
  "paused",
  "external",
  "failing",
  "throttled",
  "low-priority",
  "behind",
  "starting",
  "next"
])
export type WaitReason = typeof WaitReason.Type

/** Why a job has its status. Times are milliseconds since 1970. */
export const Explanation = Schema.Struct({
  reason: WaitReason,
  /** The reason in one or two sentences, with numbers and what to do. */
  words: Schema.String,
  /** Its place among the jobs that are ready to run, from 1. Absent if the job is not ready. */
  position: Schema.optionalKey(Schema.Struct({
    place: Schema.Int,
    of: Schema.Int,
    /** The count was cut off: more jobs are before it. */
    more: Schema.Boolean
  })),
  /** The endpoint's workers by state, and their maximum number (`null` if the platform starts none). */
  workers: Schema.Struct({
    max: Schema.NullOr(Schema.Int),
    idle: Schema.Int,
    initializing: Schema.Int,
    running: Schema.Int,
    draining: Schema.Int,
    throttled: Schema.Int,
    unhealthy: Schema.Int
  }),
  /** The worker that runs the job, and when its lease expires unless it sends a heartbeat. IN_PROGRESS jobs only. */
  lease: Schema.optionalKey(Schema.Struct({ worker: Schema.String, expiresAt: Schema.Int, attempt: Schema.Int })),
  attempts: Schema.Struct({ made: Schema.Int, most: Schema.Int }),
  /** When the next attempt may start: after a backoff of the job, or of failed worker starts. */
  nextRetryAt: Schema.optionalKey(Schema.Int),
  /** Why the last attempt failed, or the last worker did not start. */
  cause: Schema.optionalKey(Schema.String),
  /** When the job becomes TIMED_OUT. Absent once the job has ended. */
  expiresAt: Schema.optionalKey(Schema.Int)
})
export type Explanation = typeof Explanation.Type
