/**
 * The gauges of `/v2/{endpoint}/health` (docs/spec/jobs-api.md#health).
 */
import * as Schema from "effect/Schema"

const Count = Schema.Natural

/** Jobs of one endpoint by state. `completed`, `failed` and `retried` count what retention still keeps. */
export const JobCounts = Schema.Struct({
  completed: Count,
  failed: Count,
  inProgress: Count,
  inQueue: Count,
  retried: Count
})
export type JobCounts = typeof JobCounts.Type

/** Workers of one endpoint by state. `idle` and `ready` overlap: a worker without a job is both. */
export const WorkerCounts = Schema.Struct({
  idle: Count,
  initializing: Count,
  ready: Count,
  running: Count,
  throttled: Count,
  unhealthy: Count
})
export type WorkerCounts = typeof WorkerCounts.Type

export const Health = Schema.Struct({ jobs: JobCounts, workers: WorkerCounts })
export type Health = typeof Health.Type
