/**
 * The record of a job, in three parts: the head (state and settings), the outcome and the input.
 *
 * They are separate because payloads can be several megabytes in size and are rarely needed. Heartbeats, claims, timers and status requests
 * read the head only.
 *
 * The endpoint's limits are copied into the job at submission. Later changes to the endpoint affect only later jobs.
 */
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { Backoff, JobStatus, WebhookEvent } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Schema from "effect/Schema"

/** How a failed attempt is retried, within `maxAttempts`. */
export const RetryRule = Schema.Struct({
  /** If true, retry after a handler error as well; if false, only after a lost worker. */
  onError: Schema.Boolean,
  /** Null: retry at once. */
  backoff: Schema.NullOr(Backoff)
})
export type RetryRule = typeof RetryRule.Type

/** Which of the job's events are delivered, and to which URL. */
export const JobWebhook = Schema.Struct({
  url: Schema.String,
  events: Schema.Array(WebhookEvent),
  /** The endpoint's setting at submission: `none` removes the traceback from errors. */
  errorTraceback: Schema.Literals(["full", "none"])
})
export type JobWebhook = typeof JobWebhook.Type

/** The concurrency key of a job (ConcurrencyRule.ts). */
export const JobConcurrency = Schema.Struct({
  key: Schema.String,
  /** The endpoint's limit when the job was submitted. */
  limit: Schema.Int,
  /** Whether the job is IN_QUEUE but not ready, because all slots of its key are used by ready or running jobs. */
  held: Schema.Boolean
})
export type JobConcurrency = typeof JobConcurrency.Type

/** The input of the state machine. Contains no payloads. */
export const JobHead = Schema.Struct({
  id: JobId,
  endpoint: EndpointId,
  status: JobStatus,
  /** Ignored by the autoscaler when it decides to start workers. */
  lowPriority: Schema.Boolean,
  /** Jobs with a higher priority are claimed first; jobs with equal priority in order of submission. */
  priority: Schema.Int,
  /** When the job was submitted. All times here are in milliseconds since 1970. */
  createdAt: Schema.Int,
  /**
   * When the job last became ready: at submission, when the worker lost or returned its lease, at `notBefore`, or when its concurrency key had
   * a free slot.
   */
  queuedAt: Schema.Int,
  /** The submission's start time, or the end of the backoff. The job cannot be claimed before then. Null when there is none or it has passed. */
  notBefore: Schema.NullOr(Schema.Int),
  /** Time to live, including the wait. */
  ttlMs: Schema.Int,
  /** End of the time to live. */
  expiresAt: Schema.Int,
  executionTimeoutMs: Schema.Int,
  leaseMs: Schema.Int,
  maxAttempts: Schema.Int,
  /** Null: retried at once after a lost worker, never after an error. */
  retry: Schema.NullOr(RetryRule),
  retentionMs: Schema.Int,
  /** Number of claims. Never decreases: the fencing token of the lease. */
  attempt: Schema.Int,
  /** Number of failed attempts: lost workers, and retried errors. */
  retries: Schema.Int,
  /** Whether the job must run on a worker that runs no other job, because its last worker was lost (docs/decisions/0017-uncaught-errors.md). */
  isolated: Schema.Boolean,
  /** Null for a job whose endpoint does not limit concurrency. */
  concurrency: Schema.NullOr(JobConcurrency),
  /** The worker of the last attempt. */
  worker: Schema.NullOr(Schema.String),
  /** The release of the endpoint that this worker runs; null when the platform did not start the worker, or the endpoint has no releases. */
  release: Schema.NullOr(Schema.Int),
  /** When the last attempt was claimed. */
  startedAt: Schema.NullOr(Schema.Int),
  /** The worker must send a heartbeat before this time. Set only while the job is IN_PROGRESS. */
  leaseExpiresAt: Schema.NullOr(Schema.Int),
  /** Set only while the status is terminal. */
  finishedAt: Schema.NullOr(Schema.Int),
  /** Number of chunks that the last attempt has streamed. */
  chunks: Schema.Int,
  /** Number of chunks that `/stream` has returned. */
  drained: Schema.Int,
  webhook: Schema.NullOr(JobWebhook),
  /** Labels for filtering lists. No duplicates. */
  tags: Schema.Array(Schema.String),
  /** The batch that contains the job. The job is not removed before its batch. */
  batchId: Schema.NullOr(BatchId),
  /** The id of the access key that submitted the job; `NO_OWNER` for jobs of earlier versions (Owner.ts). */
  owner: Schema.String
})
export type JobHead = typeof JobHead.Type

/** The outcome of the job so far. */
export const JobOutcome = Schema.Struct({
  /** The latest progress of the running attempt. */
  progress: Schema.NullOr(JsonText),
  /** The result of the accepted attempt. */
  output: Schema.NullOr(JsonText),
  error: Schema.NullOr(Schema.String),
  /** Why the previous attempt failed, while the job waits or runs again. At most 2,000 characters. */
  lastError: Schema.NullOr(Schema.String)
})
export type JobOutcome = typeof JobOutcome.Type

/** A job without its input. */
export const JobReport = Schema.Struct({ ...JobHead.fields, ...JobOutcome.fields })
export type JobReport = typeof JobReport.Type

/** A job in a list: no payloads, and the first 500 characters of the error. */
export const JobSummary = Schema.Struct({
  ...JobHead.fields,
  error: Schema.NullOr(Schema.String),
  /** The error fingerprint of a FAILED or TIMED_OUT job (ErrorFingerprint.ts). Null for other jobs, and for jobs of earlier versions. */
  errorGroup: Schema.NullOr(Schema.String)
})
export type JobSummary = typeof JobSummary.Type

/** The input. Never changes. */
export const JobInput = Schema.Struct({
  input: JsonText,
  /** The caller's `s3Config`, passed to the worker unchanged. */
  s3Config: Schema.NullOr(JsonText),
  /** The caller's span, if any, passed to the worker unchanged. */
  traceparent: Schema.NullOr(Schema.String),
  tracestate: Schema.NullOr(Schema.String)
})
export type JobInput = typeof JobInput.Type

/** The complete job, as a worker receives it. */
export const JobRecord = Schema.Struct({ ...JobReport.fields, ...JobInput.fields })
export type JobRecord = typeof JobRecord.Type
