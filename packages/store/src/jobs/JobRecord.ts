/**
 * A job as the queue keeps it, in three layers: what the state machine decides by, what came out, what was put in.
 *
 * The layers are apart because payloads are large (megabytes) and seldom needed: a heartbeat, a claim of another job, a sweep of what is
 * due or a look at the status must not drag the input along.
 *
 * The endpoint's limits are copied into the job when it is submitted, so that a job's fate depends on nothing but its own record and
 * the time, and a changed endpoint changes only later jobs.
 */
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { Backoff, JobStatus, WebhookEvent } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Schema from "effect/Schema"

/** How an attempt that came to nothing is tried again, beyond `maxAttempts`. */
export const RetryRule = Schema.Struct({
  /** A handler's error is retried as a lost worker is. */
  onError: Schema.Boolean,
  /** Null: at once. */
  backoff: Schema.NullOr(Backoff)
})
export type RetryRule = typeof RetryRule.Type

/** Who is told of the job, and of what. */
export const JobWebhook = Schema.Struct({
  url: Schema.String,
  events: Schema.Array(WebhookEvent),
  /** The endpoint's setting when the job was submitted: what is sent may go where the endpoint's owner does not look. */
  errorTraceback: Schema.Literals(["full", "none"])
})
export type JobWebhook = typeof JobWebhook.Type

/** What the state machine decides by. Small, whatever the payloads are. */
export const JobHead = Schema.Struct({
  id: JobId,
  endpoint: EndpointId,
  status: JobStatus,
  /** Does not count when the autoscaler decides to start workers. */
  lowPriority: Schema.Boolean,
  /** Higher ones are claimed first; equal ones in order of submission. */
  priority: Schema.Int,
  /** When the job was submitted. Milliseconds since 1970, as are all times here. */
  createdAt: Schema.Int,
  /** When the job last became ready for a worker: at submission, when a lost worker gave it back, or at the end of a backoff. */
  queuedAt: Schema.Int,
  /** While waiting: the job is for nobody before this time. Set only by a retry with backoff, and gone when the time has come. */
  notBefore: Schema.NullOr(Schema.Int),
  /** How long the job may live, waiting included. */
  ttlMs: Schema.Int,
  /** End of the job's life. */
  expiresAt: Schema.Int,
  executionTimeoutMs: Schema.Int,
  leaseMs: Schema.Int,
  maxAttempts: Schema.Int,
  /** Null: a lost worker's job is tried again at once, an error never. */
  retry: Schema.NullOr(RetryRule),
  retentionMs: Schema.Int,
  /** How often the job was handed to a worker. Grows with every claim and never shrinks: the fencing token of its lease. */
  attempt: Schema.Int,
  /** How many attempts came to nothing: lost workers, and errors where these are retried. */
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
  drained: Schema.Int,
  webhook: Schema.NullOr(JobWebhook),
  /** Words to find the job by, each once. */
  tags: Schema.Array(Schema.String),
  /** The batch that the job is a request of. It is kept as long as that batch is, which then lets it go. */
  batchId: Schema.NullOr(BatchId)
})
export type JobHead = typeof JobHead.Type

/** What came out of the job so far. */
export const JobOutcome = Schema.Struct({
  /** The latest progress of the running attempt. */
  progress: Schema.NullOr(JsonText),
  /** The accepted attempt's result. */
  output: Schema.NullOr(JsonText),
  error: Schema.NullOr(Schema.String),
  /** Why the attempt before came to nothing, while the job waits or runs again. At most 2,000 characters. */
  lastError: Schema.NullOr(Schema.String)
})
export type JobOutcome = typeof JobOutcome.Type

/** A job as those who follow it see it: everything but what was put in. */
export const JobReport = Schema.Struct({ ...JobHead.fields, ...JobOutcome.fields })
export type JobReport = typeof JobReport.Type

/** A job as a list shows it: no payloads, and of the error the first 500 characters. */
export const JobSummary = Schema.Struct({ ...JobHead.fields, error: Schema.NullOr(Schema.String) })
export type JobSummary = typeof JobSummary.Type

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
