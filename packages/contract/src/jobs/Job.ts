/**
 * Jobs, submissions and receipts (docs/spec/jobs-api.md#job-object, docs/spec/jobs-api.md#request-body).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { Tags } from "./Tags.ts"

export { Tag, Tags } from "./Tags.ts"

/**
 * The status of a job (docs/spec/job-lifecycle.md#statuses).
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

/** Whether a job with this status has ended. A job can leave a terminal status only by `retry`, from FAILED or TIMED_OUT. */
export const isTerminal = (status: JobStatus): boolean => status !== "IN_QUEUE" && status !== "IN_PROGRESS"

/**
 * The job object of `/status`, `/runsync` and webhooks.
 *
 * Times are whole milliseconds. Keys that do not apply are absent.
 */
export const Job = Schema.Struct({
  id: Schema.String,
  status: JobStatus,
  /** The time from submission, or from the last return to the queue, until a worker took the job. */
  delayTime: Schema.optionalKey(Schema.Int),
  /** The duration of the last attempt. Terminal jobs only. */
  executionTime: Schema.optionalKey(Schema.Int),
  /** The handler's output; the latest progress while IN_PROGRESS. Absent when the handler returned `{}` (docs/spec/handler.md#returned-values). */
  output: Schema.optionalKey(Schema.Json),
  /** Why the job failed. For an exception, this is JSON text with six fields (docs/spec/handler.md#exceptions). */
  error: Schema.optionalKey(Schema.String),
  /** How often the job has returned to the queue after a failed attempt. Absent if 0. */
  retries: Schema.optionalKey(Schema.Int),
  /** The worker of the last attempt. */
  workerId: Schema.optionalKey(Schema.String)
})
export type Job = typeof Job.Type

const millis = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** 7 days: the longest lifetime and execution time of a job (docs/spec/jobs-api.md#request-body). */
export const MAX_JOB_MILLIS = 7 * 24 * 60 * 60 * 1000

/**
 * The wait before the next attempt: `initialMs * factor ** (n - 1)` after the n-th failed attempt, at most `maxMs`. Jitter shortens each wait
 * by up to half, so that jobs that failed together do not retry together.
 */
export const Backoff = Schema.Struct({
  /** 0 to 1 day. */
  initialMs: millis(0, 86_400_000),
  /** 1 (constant waits) to 10. Default: 2. */
  factor: Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: 10 })).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(2))
  ),
  /** The longest wait: 0 to 7 days. Default: 1 hour. */
  maxMs: millis(0, MAX_JOB_MILLIS).pipe(Schema.withDecodingDefaultKey(Effect.succeed(3_600_000)))
})
export type Backoff = typeof Backoff.Type

/**
 * How a failed attempt is retried (docs/spec/job-lifecycle.md#retries). For missing keys, the endpoint's `retry` applies, and then the
 * defaults: the endpoint's `maxAttempts`, no retry after errors, and no wait.
 */
export const Retry = Schema.Struct({
  /** The number of attempts: 1 to 100. */
  maxAttempts: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 }))),
  /**
   * Whether to retry after a handler error as well. Default: false, so that an error fails the job. A job is always retried when its worker is lost.
   */
  onError: Schema.optionalKey(Schema.Boolean),
  /** The wait before the next attempt. Default: no wait. */
  backoff: Schema.optionalKey(Backoff)
})
export type Retry = typeof Retry.Type

/** Limits of one job in milliseconds, which override the endpoint's settings (docs/spec/jobs-api.md#request-body). */
export const Policy = Schema.Struct({
  /** How long one attempt may run. 5 s to 7 days. */
  executionTimeout: Schema.optionalKey(millis(5_000, MAX_JOB_MILLIS)),
  /** How long the job may exist, including the time it waits. 10 s to 7 days. */
  ttl: Schema.optionalKey(millis(10_000, MAX_JOB_MILLIS)),
  /** If true, the autoscaler does not start a worker for this job. */
  lowPriority: Schema.optionalKey(Schema.Boolean),
  /** How often and when the job is retried. A Stint extension. */
  retry: Schema.optionalKey(Retry)
})
export type Policy = typeof Policy.Type

/** The bucket for the worker's uploads. Passed on to the worker unchanged, with any other keys (docs/spec/jobs-api.md#request-body). */
export const S3Config = Schema.Struct({
  accessId: Schema.String,
  accessSecret: Schema.String,
  /** Default: the worker chooses (docs/spec/uploads.md#destination). */
  bucketName: Schema.optionalKey(Schema.String),
  endpointUrl: Schema.String,
  objectPath: Schema.optionalKey(Schema.String)
})
export type S3Config = typeof S3Config.Type

/** The priority of a job, -100 to 100. Jobs with a higher priority run first; jobs with equal priority run in order of submission. */
export const Priority = Schema.Int.check(Schema.isBetween({ minimum: -100, maximum: 100 }))

/** Parses a time in ISO 8601 with a time zone to milliseconds since 1970; NaN for other text. */
export const parseIsoTime = (text: string): number =>
  /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/.test(text) ? Date.parse(text) : Number.NaN

/** A time in ISO 8601 with a time zone, like `2026-11-21T08:00:00Z`, as milliseconds since 1970. */
const TimeText = Schema.String.check(
  Schema.makeFilter((text) =>
    !Number.isNaN(parseIsoTime(text)) || "expected a time in ISO 8601 with a time zone, like 2026-11-21T08:00:00Z"
  )
).pipe(
  Schema.decodeTo(Schema.Int, {
    decode: SchemaGetter.transform(parseIsoTime),
    encode: SchemaGetter.transform((millis) => new Date(millis).toISOString())
  })
)

/** The latest time that `Date` can represent, in milliseconds since 1970. */
const MAX_TIME = 8_640_000_000_000_000

/** A point in time: milliseconds since 1970, or ISO 8601 with a time zone. */
export const PointInTime = Schema.Union([millis(0, MAX_TIME), TimeText])

/** 30 days: the maximum time from a submission until the job may start. */
export const MAX_START_DELAY_MILLIS = 30 * 24 * 60 * 60 * 1000

/**
 * Identifies a submission: as long as the job exists, a submission with the same key to the same endpoint returns that job. 1 to 255
 * printable ASCII characters, so that the key can be sent in a header.
 */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,255}$/, { message: "an idempotency key is 1 to 255 printable ASCII characters" })
)

/**
 * An event that a webhook can receive (docs/spec/webhooks.md#events).
 *
 * - `completed`: the job has ended, in any terminal status.
 * - `start`: a worker took the job; sent for each attempt.
 * - `output`: the job streamed a chunk.
 * - `progress`: the job reported progress. Only the latest value is sent; a value that is replaced before it is sent is skipped.
 */
export const WebhookEvent = Schema.Literals(["start", "output", "progress", "completed"])
export type WebhookEvent = typeof WebhookEvent.Type

const isHttpUrl = (url: string): boolean => URL.canParse(url) && /^https?:\/\//i.test(url)

/** Whether a URL has neither control characters nor unpaired surrogates. `URL` removes or replaces them, which would change the receiver. */
const isUrlText = (url: string): boolean => /^\P{Cc}*$/u.test(url) && url.isWellFormed()

const NO_URL_TEXT = "expected a URL without control characters and unpaired surrogates"

/** The URL of a webhook: http or https, at most 2,048 characters. Also used for stored webhooks, which may be older than {@link NewWebhookUrl}. */
const WebhookUrl = Schema.String.check(
  Schema.isMaxLength(2_048),
  Schema.makeFilter((url) => isHttpUrl(url) || "expected an http:// or https:// URL")
)

/** The URL of a webhook in a request. */
export const NewWebhookUrl = WebhookUrl.check(Schema.makeFilter((url) => isUrlText(url) || NO_URL_TEXT))

/** A webhook with a choice of events. A Stint extension: RunPod accepts only the URL (docs/spec/webhooks.md#naming-a-receiver). */
export const Webhook = Schema.Struct({
  url: WebhookUrl,
  /** At most 16; duplicates count once. Default: `["completed"]`. */
  events: Schema.NonEmptyArray(WebhookEvent).check(Schema.isMaxLength(16)).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed<readonly ["completed"]>(["completed"]))
  )
})
export type Webhook = typeof Webhook.Type

/** A webhook as a request names it: a URL that receives the ended job, or a webhook with a choice of events. */
export const WebhookRequest = Schema.Union([WebhookUrl, Webhook])

/** A webhook in its long form. A bare URL receives only the `completed` event. */
export const webhookOf = (webhook: typeof WebhookRequest.Type | undefined): Webhook | undefined =>
  typeof webhook === "string" ? { url: webhook, events: ["completed"] } : webhook

/**
 * The body of `/run` and `/runsync`.
 *
 * `input` is required and may be any JSON value, including `{}` (docs/spec/rulings.md#empty-input). Unknown keys are ignored, because some
 * existing clients send additional keys.
 */
export const RunRequest = Schema.Struct({
  input: Schema.Json,
  policy: Schema.optionalKey(Policy),
  s3Config: Schema.optionalKey(S3Config),
  webhook: Schema.optionalKey(
    WebhookRequest.check(
      Schema.makeFilter((webhook) =>
        typeof webhook === "string"
          ? isUrlText(webhook) || NO_URL_TEXT
          : isUrlText(webhook.url) || { path: ["url"], issue: NO_URL_TEXT }
      )
    )
  ),
  /** Default: 0. */
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  /**
   * When the job may start (docs/spec/jobs-api.md#delayed-jobs): milliseconds since 1970, or ISO 8601 with a time zone. The job is IN_QUEUE until
   * then, and its ttl starts then. Default, and for a time in the past: at once. A Stint extension.
   */
  startAt: Schema.optionalKey(PointInTime),
  /** The start time as a duration from the submission, in milliseconds: 0 to 30 days. Cannot be combined with `startAt`. */
  startAfterMs: Schema.optionalKey(millis(0, MAX_START_DELAY_MILLIS)),
  /** Has the same effect as the header `Idempotency-Key`, which takes precedence. */
  idempotencyKey: Schema.optionalKey(IdempotencyKey)
})
export type RunRequest = typeof RunRequest.Type

/** The response of `/run`, `/cancel` and `/retry`. */
export const JobReceipt = Schema.Struct({ id: Schema.String, status: JobStatus })
export type JobReceipt = typeof JobReceipt.Type

/** The response of `/stream`: the job and its unread chunks. `stream` is always present, even if empty. */
export const StreamPage = Schema.Struct({
  ...Job.fields,
  stream: Schema.Array(Schema.Struct({ output: Schema.Json }))
})
export type StreamPage = typeof StreamPage.Type

/** The response of `/purge-queue`. */
export const Purged = Schema.Struct({ removed: Schema.Int, status: Schema.Literal("completed") })
export type Purged = typeof Purged.Type
