/**
 * A job as callers see it (docs/spec/jobs-api.md#job-object, docs/spec/jobs-api.md#request-body).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * Every status a job can have (docs/spec/rulings.md#statuses).
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
  /** The handler's value; while IN_PROGRESS, the latest progress. Absent where the handler returned `{}` (docs/spec/handler.md#returned-values). */
  output: Schema.optionalKey(Schema.Json),
  /** Why the job failed. For an exception, JSON text of six fields (docs/spec/handler.md#exceptions). */
  error: Schema.optionalKey(Schema.String),
  /** How often the job went back to the queue because an attempt came to nothing. Absent while 0. */
  retries: Schema.optionalKey(Schema.Int),
  /** The worker of the last attempt. */
  workerId: Schema.optionalKey(Schema.String)
})
export type Job = typeof Job.Type

const millis = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** 7 days, the longest that a job may live or run (docs/spec/jobs-api.md#request-body). */
export const MAX_JOB_MILLIS = 7 * 24 * 60 * 60 * 1000

/**
 * How long to wait before the next attempt: `initialMs * factor ** (n - 1)` after the n-th attempt that came to nothing, `maxMs` at most.
 * Each wait is shortened at random, to half of it at the most, so that jobs that failed together do not come back together.
 */
export const Backoff = Schema.Struct({
  /** 0 to 1 day. */
  initialMs: millis(0, 86_400_000),
  /** 1 (the same wait each time) to 10. Default: 2. */
  factor: Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: 10 })).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(2))
  ),
  /** The longest wait: 0 to 7 days. Default: an hour. */
  maxMs: millis(0, MAX_JOB_MILLIS).pipe(Schema.withDecodingDefaultKey(Effect.succeed(3_600_000)))
})
export type Backoff = typeof Backoff.Type

/**
 * What becomes of a job whose attempt came to nothing. Every part may be left out: then the endpoint's `retry` says it, and where that is
 * silent too, the endpoint's `maxAttempts`, no retry of errors, and no wait.
 */
export const Retry = Schema.Struct({
  /** How often the job may be given to a worker: 1 to 100. */
  maxAttempts: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 }))),
  /**
   * Whether a handler's error is retried too. Default: false, an error fails the job at once
   * (docs/spec/job-lifecycle.md#retries); a lost worker is always
   * retried.
   */
  onError: Schema.optionalKey(Schema.Boolean),
  /** How long to wait before the next attempt. Default: not at all. */
  backoff: Schema.optionalKey(Backoff)
})
export type Retry = typeof Retry.Type

/** What a caller may ask for one job, over the endpoint's own settings (docs/spec/jobs-api.md#request-body). Milliseconds. */
export const Policy = Schema.Struct({
  /** How long one attempt may run. 5 s to 7 days. */
  executionTimeout: Schema.optionalKey(millis(5_000, MAX_JOB_MILLIS)),
  /** How long the job may live in all, waiting included. 10 s to 7 days. */
  ttl: Schema.optionalKey(millis(10_000, MAX_JOB_MILLIS)),
  /** The job does not make the autoscaler start a worker. */
  lowPriority: Schema.optionalKey(Schema.Boolean),
  /** How often and when the job is tried again. Ours. */
  retry: Schema.optionalKey(Retry)
})
export type Policy = typeof Policy.Type

/** Where the worker uploads this job's results. Handed to the worker as it came (docs/spec/jobs-api.md#request-body). */
export const S3Config = Schema.Struct({
  accessId: Schema.String,
  accessSecret: Schema.String,
  bucketName: Schema.String,
  endpointUrl: Schema.String,
  objectPath: Schema.optionalKey(Schema.String)
})
export type S3Config = typeof S3Config.Type

/** A job's place among those that wait: higher ones are taken first, equal ones in order of submission. -100 to 100. */
export const Priority = Schema.Int.check(Schema.isBetween({ minimum: -100, maximum: 100 }))

/** The most tags that a job can have. */
export const MAX_TAGS = 16

/** A word to find the job by: 1 to 64 characters. */
export const Tag = Schema.String.check(Schema.isBetweenLength(1, 64))

/** The tags of a job, at most {@link MAX_TAGS}. One that is named twice counts once. */
export const Tags = Schema.Array(Tag).check(Schema.isMaxLength(MAX_TAGS))

/**
 * Stands for a submission: while the job is kept, the same key on the same endpoint is the same job. 1 to 255 printable ASCII characters,
 * as a header can carry them.
 */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,255}$/, { message: "an idempotency key is 1 to 255 printable ASCII characters" })
)

/**
 * What a webhook is told of.
 *
 * - `completed`: the job has ended, in whatever terminal status.
 * - `start`: a worker took it, once per attempt.
 * - `output`: it streamed a chunk.
 * - `progress`: its latest progress; values that were overtaken before they were sent are left out.
 */
export const WebhookEvent = Schema.Literals(["start", "output", "progress", "completed"])
export type WebhookEvent = typeof WebhookEvent.Type

const isHttpUrl = (url: string): boolean => URL.canParse(url) && /^https?:\/\//i.test(url)

/** Where a webhook is sent to: an http or https address of at most 2,048 characters. */
export const WebhookUrl = Schema.String.check(
  Schema.isMaxLength(2_048),
  Schema.makeFilter((url) => isHttpUrl(url) || "a webhook is an http:// or https:// address")
)

/** A webhook with a choice of what it is told of. Ours; the described platform knows the address alone (docs/spec/jobs-api.md#request-body). */
export const Webhook = Schema.Struct({
  url: WebhookUrl,
  /** Default: `["completed"]`. */
  events: Schema.NonEmptyArray(WebhookEvent).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed<readonly ["completed"]>(["completed"]))
  )
})
export type Webhook = typeof Webhook.Type

/**
 * The body of `/run` and `/runsync`.
 *
 * `input` is required and may be any JSON value, `{}` included (docs/spec/rulings.md#empty-input). Unknown keys are ignored, as
 * existing clients expect.
 */
export const RunRequest = Schema.Struct({
  input: Schema.Json,
  policy: Schema.optionalKey(Policy),
  s3Config: Schema.optionalKey(S3Config),
  /** Told of the job's end; in its long form of more. */
  webhook: Schema.optionalKey(Schema.Union([WebhookUrl, Webhook])),
  /** Default: 0. */
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  /** The same as the header `Idempotency-Key`, which counts where both are there. */
  idempotencyKey: Schema.optionalKey(IdempotencyKey)
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
