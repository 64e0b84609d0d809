/**
 * The response of `/v2/{endpoint}/health` (docs/spec/jobs-api.md#health).
 */
import * as Schema from "effect/Schema"

const Count = Schema.Natural

/** The endpoint's jobs by state. `completed`, `failed` and `retried` count only jobs whose retention has not ended. */
const JobCounts = Schema.Struct({
  completed: Count,
  failed: Count,
  inProgress: Count,
  inQueue: Count,
  retried: Count
})

/** The endpoint's workers by state. A worker without a job counts as `idle` and as `ready`. */
const WorkerCounts = Schema.Struct({
  idle: Count,
  initializing: Count,
  ready: Count,
  running: Count,
  throttled: Count,
  unhealthy: Count
})

/** The endpoint's jobs and workers by state, and its limit of waiting jobs if it has one. */
export const Health = Schema.Struct({
  jobs: JobCounts,
  workers: WorkerCounts,
  /** Absent when the number of waiting jobs (`inQueue`) is not limited. */
  limits: Schema.optionalKey(Schema.Struct({ waitingJobs: Count }))
})
export type Health = typeof Health.Type
