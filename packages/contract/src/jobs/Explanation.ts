/**
 * Why a job is where it is: `GET /v2/{endpoint}/status/{id}?explain`.
 */
import * as Schema from "effect/Schema"

/**
 * What a job waits for.
 *
 * | | |
 * |---|---|
 * | `ended` | nothing: it is over |
 * | `running` | its worker |
 * | `backoff` | the time of its next attempt |
 * | `paused` | somebody to raise `workers.max` above 0 |
 * | `external` | a worker to join: the platform starts none for this endpoint |
 * | `failing` | workers that do not start, or end by themselves |
 * | `throttled` | room for a worker |
 * | `low-priority` | a worker that somebody else needs: it starts none itself |
 * | `behind` | those before it in line: every worker is busy, and no more are allowed |
 * | `starting` | a worker that is on its way |
 * | `next` | nothing that is known: a worker takes it in a moment, or is started for it |
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

/** Times are milliseconds since 1970. */
export const Explanation = Schema.Struct({
  reason: WaitReason,
  /** The same in one or two sentences, with the figures and what to do. */
  words: Schema.String,
  /** Its place among the jobs that are ready for a worker, from 1. Absent where it is none of them. */
  position: Schema.optionalKey(Schema.Struct({
    place: Schema.Int,
    of: Schema.Int,
    /** There are more before it than were counted. */
    more: Schema.Boolean
  })),
  /** The endpoint's workers by state, and the most that it may have (`null` where the platform starts none). */
  workers: Schema.Struct({
    max: Schema.NullOr(Schema.Int),
    idle: Schema.Int,
    initializing: Schema.Int,
    running: Schema.Int,
    draining: Schema.Int,
    throttled: Schema.Int,
    unhealthy: Schema.Int
  }),
  /** Who has the job, and until when it may stay silent. While it runs. */
  lease: Schema.optionalKey(Schema.Struct({ worker: Schema.String, expiresAt: Schema.Int, attempt: Schema.Int })),
  attempts: Schema.Struct({ made: Schema.Int, most: Schema.Int }),
  /** When the next attempt may begin: after a backoff of the job, or of its workers' starts. */
  nextRetryAt: Schema.optionalKey(Schema.Int),
  /** Why the last attempt came to nothing, or the last worker did not start. */
  cause: Schema.optionalKey(Schema.String),
  /** When the job is given up as TIMED_OUT. Until it has ended. */
  expiresAt: Schema.optionalKey(Schema.Int)
})
export type Explanation = typeof Explanation.Type
