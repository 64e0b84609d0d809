/**
 * A job as callers see it (specification 2.1, wire-facts 1.2 and 1.3).
 */
import * as Schema from "effect/Schema"

/**
 * Every status a job can have (rulings, "Statuses").
 *
 * ```
 *  IN_QUEUE --claim--> IN_PROGRESS --finish--> COMPLETED | FAILED
 *     ^  |                |  |  |
 *     |  |                |  |  +--executionTimeout--> TIMED_OUT
 *     |  |                |  +--cancel---------------> CANCELLED
 *     +--|--lease lost----+  (after the last attempt: FAILED)
 *        +--cancel--> CANCELLED     +--ttl--> TIMED_OUT
 * ```
 */
export const JobStatus = Schema.Literals([
  "IN_QUEUE",
  "IN_PROGRESS",
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "TIMED_OUT"
])
export type JobStatus = typeof JobStatus.Type

/** Statuses that a job never leaves by itself; only `retry` leads out of FAILED and TIMED_OUT. */
export const isTerminal = (status: JobStatus): boolean => status !== "IN_QUEUE" && status !== "IN_PROGRESS"

/**
 * The job object of `/status`, `/runsync` and webhooks.
 *
 * Times are whole milliseconds. Keys that do not apply are absent.
 */
export const Job = Schema.Struct({
  id: Schema.String,
  status: JobStatus,
  /** From submission (or from the return to the queue) to the last time a worker took the job. */
  delayTime: Schema.optionalKey(Schema.Int),
  /** How long the worker held the last attempt. Terminal jobs only. */
  executionTime: Schema.optionalKey(Schema.Int),
  /** The handler's value; while IN_PROGRESS, the latest progress. Absent where the handler returned `{}` (specification 2.3). */
  output: Schema.optionalKey(Schema.Json),
  /** Why the job failed. For an exception, JSON text of the six fields of specification 2.4. */
  error: Schema.optionalKey(Schema.String),
  /** How often the job went back to the queue because its worker was lost. Absent while 0. */
  retries: Schema.optionalKey(Schema.Int),
  /** The worker of the last attempt. */
  workerId: Schema.optionalKey(Schema.String)
})
export type Job = typeof Job.Type

const millis = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** 7 days, the longest that a job may live or run (wire-facts 1.2). */
export const MAX_JOB_MILLIS = 7 * 24 * 60 * 60 * 1000

/** What a caller may ask for one job, over the endpoint's own settings (wire-facts 1.2). Milliseconds. */
export const Policy = Schema.Struct({
  /** How long one attempt may run. 5 s to 7 days. */
  executionTimeout: Schema.optionalKey(millis(5_000, MAX_JOB_MILLIS)),
  /** How long the job may live in all, waiting included. 10 s to 7 days. */
  ttl: Schema.optionalKey(millis(10_000, MAX_JOB_MILLIS)),
  /** The job does not make the autoscaler start a worker. */
  lowPriority: Schema.optionalKey(Schema.Boolean)
})
export type Policy = typeof Policy.Type

/** Where the worker uploads this job's results. Handed to the worker as it came (wire-facts 1.2). */
export const S3Config = Schema.Struct({
  accessId: Schema.String,
  accessSecret: Schema.String,
  bucketName: Schema.String,
  endpointUrl: Schema.String,
  objectPath: Schema.optionalKey(Schema.String)
})
export type S3Config = typeof S3Config.Type

/**
 * The body of `/run` and `/runsync`.
 *
 * `input` is required and may be any JSON value, `{}` included (rulings, "Empty input object"). Unknown keys are ignored, as
 * existing clients expect.
 */
export const RunRequest = Schema.Struct({
  input: Schema.Json,
  policy: Schema.optionalKey(Policy),
  s3Config: Schema.optionalKey(S3Config)
})
export type RunRequest = typeof RunRequest.Type

/** The answer of `/run`, `/cancel` and `/retry`. */
export const JobReceipt = Schema.Struct({ id: Schema.String, status: JobStatus })
export type JobReceipt = typeof JobReceipt.Type

/** The answer of `/stream`: the chunks that nobody has read yet. `stream` is always there, empty included. */
export const StreamPage = Schema.Struct({
  ...Job.fields,
  stream: Schema.Array(Schema.Struct({ output: Schema.Json }))
})
export type StreamPage = typeof StreamPage.Type

/** The answer of `/purge-queue`. */
export const Purged = Schema.Struct({ removed: Schema.Int, status: Schema.Literal("completed") })
export type Purged = typeof Purged.Type
