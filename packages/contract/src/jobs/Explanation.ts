/**
 * Explains a job's status: `GET /v2/{endpoint}/status/{id}?explain` (docs/spec/jobs-api.md#explaining-a-job).
 */
import * as Schema from "effect/Schema"
import { RunStep } from "../runs/RunSteps.ts"

/**
 * What a job waits for.
 *
 * | reason | the job waits for |
 * |---|---|
 * | `ended` | nothing, because the job has ended |
 * | `running` | its worker |
 * | `scheduled` | its start time |
 * | `backoff` | the time of its next attempt |
 * | `concurrency` | the end of a job with the same concurrency key |
 * | `paused` | an operator to set `workers.max` above 0 |
 * | `external` | an external worker, because the platform does not start workers for this endpoint |
 * | `failing` | a worker, but workers fail to start or crash |
 * | `throttled` | capacity for another worker |
 * | `model` | the endpoint's model, which is being downloaded |
 * | `low-priority` | a worker that is started for another job, because no worker is started for this job |
 * | `behind` | the jobs ahead of it: every worker is busy, and `workers.max` is reached |
 * | `starting` | a worker that is starting |
 * | `next` | nothing else: an idle worker will take it, or the platform will start a worker |
 * | `parked` | runs of pipelines: an event, jobs of other endpoints, or a time |
 * | `held` | runs of pipelines: a worker whose definition fits what the run has recorded |
 */
export const WaitReason = Schema.Literals([
  "ended",
  "running",
  "scheduled",
  "backoff",
  "concurrency",
  "paused",
  "external",
  "failing",
  "throttled",
  "model",
  "low-priority",
  "behind",
  "starting",
  "next",
  "parked",
  "held"
])
export type WaitReason = typeof WaitReason.Type

/** A part of a wait, without the parts that took less than a millisecond. */
export const WaitPart = Schema.Struct({
  /**
   * | phase | the part of the wait |
   * |---|---|
   * | `queue` | from when the job was ready until the platform requested the start of its worker |
   * | `pull` | until the image of its container was on the machine, for a container whose image had to be pulled |
   * | `create` | until the worker's process existed, or until a standby process had become the worker |
   * | `start` | until its first call: Node, imports, and the fitness checks of workers that call first when they ask for a job, as Stint's SDK does |
   * | `setup` | until its setup had ended and it asked for a job, for workers that report the start of a setup, as Stint's SDK does |
   * | `prepare` | until it asked for a job, for workers that send heartbeats before that |
   * | `take` | until it took the job. The only part when the worker was already running |
   */
  phase: Schema.Literals(["queue", "pull", "create", "start", "setup", "prepare", "take"]),
  millis: Schema.Int
})
export type WaitPart = typeof WaitPart.Type

/** The parts of the last attempt's wait. */
export const WaitBreakdown = Schema.Struct({
  /** The job's `delayTime`. */
  millis: Schema.Int,
  /** The parts in one sentence, such as `3 ms until its worker was requested, 640 ms for the worker to start, 19 ms to be taken`. */
  words: Schema.String,
  /** In order; their sum is `millis`. Empty if the worker's start is unknown. */
  parts: Schema.Array(WaitPart),
  /** True when the worker started in a standby process (`STINT_SPARE_WORKERS`). */
  standby: Schema.optionalKey(Schema.Boolean),
  /**
   * Why the parts are unknown. `restarted`: the platform has been restarted since. `unknown-worker`: the platform did not start the worker, or has
   * started 1,000 others since.
   */
  unknown: Schema.optionalKey(Schema.Literals(["restarted", "unknown-worker"]))
})
export type WaitBreakdown = typeof WaitBreakdown.Type

/** The last deployment of the endpoint, while it affects a waiting job. */
export const RollState = Schema.Struct({
  /** `rolling`: the first worker of the release is starting. `canary`: a part of the jobs runs on it. `failed`: it did not start, or failed jobs. */
  state: Schema.Literals(["rolling", "canary", "failed"]),
  release: Schema.Int,
  /** The release that serves in the meantime. */
  serving: Schema.Int,
  /** Why the release failed. */
  reason: Schema.optionalKey(Schema.String)
})
export type RollState = typeof RollState.Type

/** Why a job has its current status. Times are in milliseconds since 1970. */
export const Explanation = Schema.Struct({
  reason: WaitReason,
  /** The reason in one or two sentences, with numbers and what to do. */
  words: Schema.String,
  /** The job's position among the jobs that are ready to run, starting at 1. Absent if the job is not ready. */
  position: Schema.optionalKey(Schema.Struct({
    place: Schema.Int,
    of: Schema.Int,
    /** True if counting stopped at the limit: more jobs are ahead of this job. */
    more: Schema.Boolean
  })),
  /** The jobs with the same concurrency key, if the job waits for one of them to end. */
  concurrency: Schema.optionalKey(Schema.Struct({
    key: Schema.String,
    limit: Schema.Int,
    running: Schema.Int,
    /** Jobs of the key that a worker will take next. Together with the running jobs, they use all slots of the key. */
    ready: Schema.Int,
    /** Jobs of the key that are also held and come before this one, counted up to 10,000. */
    ahead: Schema.Int
  })),
  /** The endpoint's workers by state, and the maximum number of workers (`null` if the platform does not start workers). */
  workers: Schema.Struct({
    max: Schema.NullOr(Schema.Int),
    idle: Schema.Int,
    initializing: Schema.Int,
    running: Schema.Int,
    draining: Schema.Int,
    throttled: Schema.Int,
    unhealthy: Schema.Int
  }),
  /** Parked runs only: the open steps, in the order in which they began, up to 20. `GET /v2/{endpoint}/steps/{id}` lists all. */
  waitsFor: Schema.optionalKey(Schema.Array(RunStep)),
  /** The worker that runs the job, and when its lease expires unless it sends a heartbeat. IN_PROGRESS jobs only. */
  lease: Schema.optionalKey(Schema.Struct({ worker: Schema.String, expiresAt: Schema.Int, attempt: Schema.Int })),
  /** The release that ran the last attempt, if the platform started its worker. */
  release: Schema.optionalKey(Schema.Int),
  /** Waiting jobs only: the endpoint's rollout in progress, or its last rollout if that failed. */
  roll: Schema.optionalKey(RollState),
  /** Absent while the job waits, and if no worker has taken it. */
  wait: Schema.optionalKey(WaitBreakdown),
  /** `most` is null for a run of a pipeline: each time that a worker continues it counts, and their number has no maximum. */
  attempts: Schema.Struct({ made: Schema.Int, most: Schema.NullOr(Schema.Int) }),
  /** When the job was submitted. */
  createdAt: Schema.Int,
  /** When the job last became ready to run, or will become ready. */
  queuedAt: Schema.Int,
  /** When the last attempt started. */
  startedAt: Schema.optionalKey(Schema.Int),
  /** When the job ended. */
  finishedAt: Schema.optionalKey(Schema.Int),
  /** When the job may start, if it was submitted with a start time that has not passed. */
  startAt: Schema.optionalKey(Schema.Int),
  /** When the next attempt may start, after the job's own backoff or after the backoff for failed worker starts. */
  nextRetryAt: Schema.optionalKey(Schema.Int),
  /** Why the last attempt failed, or why the last worker did not start. */
  cause: Schema.optionalKey(Schema.String),
  /** When the job becomes TIMED_OUT. Absent once the job has ended. */
  expiresAt: Schema.optionalKey(Schema.Int),
  /** The job's trace and its address, if traces are recorded and the operator has set the address of the viewer. */
  trace: Schema.optionalKey(Schema.Struct({ id: Schema.String, url: Schema.String }))
})
export type Explanation = typeof Explanation.Type
