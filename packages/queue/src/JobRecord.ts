/**
 * A job as the queue keeps it, in three layers: what the state machine decides by, what came out, what was put in.
 *
 * The layers are apart because payloads are large (megabytes) and seldom needed: a heartbeat, a claim of another job, a sweep of what is
 * due or a look at the status must not drag the input along.
 *
 * The endpoint's limits are copied into the job when it is submitted, so that a job's fate depends on nothing but its own record and
 * the time, and a changed endpoint changes only later jobs.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JobStatus } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Schema from "effect/Schema"

/** What the state machine decides by. Small, whatever the payloads are. */
export const JobHead = Schema.Struct({
  id: JobId,
  endpoint: EndpointId,
  status: JobStatus,
  /** Does not count when the autoscaler decides to start workers. */
  lowPriority: Schema.Boolean,
  /** Milliseconds since 1970, as are all times here. */
  createdAt: Schema.Int,
  /** When the job last entered the queue: at submission, or when a lost worker gave it back. */
  queuedAt: Schema.Int,
  /** End of the job's life (`ttl`). */
  expiresAt: Schema.Int,
  executionTimeoutMs: Schema.Int,
  leaseMs: Schema.Int,
  maxAttempts: Schema.Int,
  retentionMs: Schema.Int,
  /** How often the job was handed to a worker. Grows with every claim and never shrinks: the fencing token of its lease. */
  attempt: Schema.Int,
  /** How often a worker was lost while it held the job. */
  retries: Schema.Int,
  /** The worker of the last attempt. */
  worker: Schema.NullOr(Schema.String),
  /** When the last attempt was handed out. */
  startedAt: Schema.NullOr(Schema.Int),
  /** Until when the worker may stay silent. Set exactly while IN_PROGRESS. */
  leaseExpiresAt: Schema.NullOr(Schema.Int),
  /** Set exactly while the status is terminal. */
  finishedAt: Schema.NullOr(Schema.Int),
  /** How many chunks the last attempt has streamed. */
  chunks: Schema.Int,
  /** How many of them `/stream` has handed out. */
  drained: Schema.Int
})
export type JobHead = typeof JobHead.Type

/** What came out of the job so far. */
export const JobOutcome = Schema.Struct({
  /** The latest progress of the running attempt. */
  progress: Schema.NullOr(JsonText),
  /** The accepted attempt's result. */
  output: Schema.NullOr(JsonText),
  error: Schema.NullOr(Schema.String)
})
export type JobOutcome = typeof JobOutcome.Type

/** A job as those who follow it see it: everything but what was put in. */
export const JobReport = Schema.Struct({ ...JobHead.fields, ...JobOutcome.fields })
export type JobReport = typeof JobReport.Type

/** What was put in. Never changes. */
export const JobInput = Schema.Struct({
  input: JsonText,
  /** The caller's `s3Config`, handed to the worker as it came. */
  s3Config: Schema.NullOr(JsonText),
  /** The caller's span, where its request came with one; handed to the worker as it came. */
  traceparent: Schema.NullOr(Schema.String),
  tracestate: Schema.NullOr(Schema.String)
})
export type JobInput = typeof JobInput.Type

/** The whole job: what a worker is handed. */
export const JobRecord = Schema.Struct({ ...JobReport.fields, ...JobInput.fields })
export type JobRecord = typeof JobRecord.Type
