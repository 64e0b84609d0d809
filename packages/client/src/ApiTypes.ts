/**
 * The JSON that the jobs API receives and returns, as plain types (docs/spec/jobs-api.md).
 *
 * They repeat the Schemas from `@stint/contract`, so that this package has no dependencies. Type tests in `@stint/client-effect` compare the
 * two, and a property test compares `ResponseGuards.ts` with the Schemas. Durations are in milliseconds.
 */

/** Any JSON value. */
export type Json = null | number | boolean | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/** The status of a job (docs/spec/job-lifecycle.md). The last four are terminal. */
export type JobStatus = "IN_QUEUE" | "IN_PROGRESS" | "COMPLETED" | "FAILED" | "CANCELLED" | "TIMED_OUT"

/** A job (docs/spec/jobs-api.md#job-object). Keys that do not apply are absent. */
export interface Job {
  readonly id: string
  readonly status: JobStatus
  /** The time from submission, or from the last return to the queue, until a worker took the job. */
  readonly delayTime?: number
  /** The duration of the last attempt. Terminal jobs only. */
  readonly executionTime?: number
  /** The handler's output; the latest progress while the job is IN_PROGRESS. Absent when the handler returned `{}`. */
  readonly output?: Json
  /** Why the job failed. For an exception: JSON text with six fields (docs/spec/handler.md#exceptions). */
  readonly error?: string
  /** The number of times the job has returned to the queue. Absent while 0. */
  readonly retries?: number
  /** The worker of the last attempt. */
  readonly workerId?: string
}

/** The response of `run`, `cancel` and `retry`. */
export interface JobReceipt {
  readonly id: string
  readonly status: JobStatus
}

/** The response of `stream`: the job, and the chunks that no reader has received yet. */
export interface StreamPage extends Job {
  readonly stream: ReadonlyArray<{ readonly output: Json }>
}

/** The response of `purge-queue`. */
export interface Purged {
  /** The number of removed jobs. */
  readonly removed: number
  readonly status: "completed"
}

/** An event for a run of a pipeline (docs/spec/pipelines.md#events). */
export interface RunEvent {
  /** The name that the pipeline waits for. */
  readonly name: string
  /** The key of the wait, such as an order number. Default: "". */
  readonly key?: string
  /** Any JSON: the output of the wait. Default: null. */
  readonly data?: Json
  /** The platform delivers each id once, so the client repeats a call with an id after a lost connection. */
  readonly id?: string
  /** How long the event is kept when no run waits for it, in milliseconds. Default: seven days. */
  readonly ttlMs?: number
}

/** The response of `sendEvent`. */
export interface RunEventReceipt {
  /** The run that received the event. `null`: it is kept until a run waits for it. */
  readonly delivered: string | null
  /** The platform had an event with this id before, and did nothing. */
  readonly duplicate?: true
}

/** The response of `health`: jobs and workers by state (docs/spec/jobs-api.md#health). */
export interface Health {
  /** `completed`, `failed` and `retried` count the jobs that are still retained. */
  readonly jobs: {
    readonly completed: number
    readonly failed: number
    readonly inProgress: number
    readonly inQueue: number
    readonly retried: number
  }
  /** A worker without a job counts as `idle` and as `ready`. */
  readonly workers: {
    readonly idle: number
    readonly initializing: number
    readonly ready: number
    readonly running: number
    readonly throttled: number
    readonly unhealthy: number
  }
  /** Absent when the number of waiting jobs (`inQueue`) is not limited. */
  readonly limits?: { readonly waitingJobs: number }
}

/** How often and when a job is retried. Missing members default to the endpoint's settings. */
export interface Retry {
  /** The number of attempts, including those whose worker was lost. 1 to 100. */
  readonly maxAttempts?: number
  /** Also retry after an error in the handler. Default: false. An attempt whose worker was lost is always retried. */
  readonly onError?: boolean
  /** The wait before the next attempt: `initialMs * factor ** (n - 1)` after attempt `n`, at most `maxMs`. Default: no wait. */
  readonly backoff?: {
    /** 0 to 1 day. */
    readonly initialMs: number
    /** 1 to 10. Default: 2. */
    readonly factor?: number
    /** 0 to 7 days. Default: 1 hour. */
    readonly maxMs?: number
  }
}

/** Limits of one job. They override the endpoint's settings. */
export interface Policy {
  /** How long one attempt may run. 5 s to 7 days. */
  readonly executionTimeout?: number
  /** How long the job may exist, including its waiting time. 10 s to 7 days. */
  readonly ttl?: number
  /** Do not start a worker for this job. */
  readonly lowPriority?: boolean
  readonly retry?: Retry
}

/** The bucket that the worker uploads files of this job to. */
export interface S3Config {
  readonly accessId: string
  readonly accessSecret: string
  /** Default: the worker chooses. */
  readonly bucketName?: string
  readonly endpointUrl: string
  readonly objectPath?: string
}

/** An event that is sent to a webhook (docs/spec/webhooks.md). */
export type WebhookEvent = "start" | "output" | "progress" | "completed"

/** A webhook and the events that it receives. */
export interface Webhook {
  /** An http or https URL. */
  readonly url: string
  /** Default: `["completed"]`. */
  readonly events?: readonly [WebhookEvent, ...ReadonlyArray<WebhookEvent>]
}

/** The options for a submission (docs/spec/jobs-api.md#request-body). */
export interface JobOptions {
  readonly policy?: Policy
  readonly s3Config?: S3Config
  /** A URL that receives the job once it has ended, or a webhook with selected events. */
  readonly webhook?: string | Webhook
  /** -100 to 100; jobs with a higher priority run first. Default: 0. */
  readonly priority?: number
  /** Up to 16 tags of 1 to 64 characters, for finding the job in lists. */
  readonly tags?: ReadonlyArray<string>
  /** When the job may start: milliseconds since 1970, or ISO 8601 with a time zone. Default: at once. */
  readonly startAt?: number | string
  /** `startAt` as a delay after the submission, in milliseconds: 0 to 30 days. */
  readonly startAfterMs?: number
}

/** The data of a `status` event. */
export interface JobStatusEvent {
  readonly id: string
  readonly status: "IN_QUEUE" | "IN_PROGRESS"
  /** The number of times that a worker has received the job. */
  readonly attempt: number
  /** The worker of this attempt. */
  readonly workerId?: string
}

/** The data of a `progress` event: the latest progress of an attempt. */
export interface JobProgressEvent {
  readonly attempt: number
  readonly output: Json
}

/** The data of a `chunk` event. `number` starts at 1 in each attempt. */
export interface JobChunkEvent {
  readonly attempt: number
  readonly number: number
  readonly output: Json
}

/** One log line of a job (docs/spec/logging.md#a-jobs-lines), and the data of a `log` event. */
export interface JobLogLine {
  /** Its number within the job, from 1. */
  readonly number: number
  /** When the platform received it. Milliseconds since 1970. */
  readonly time: number
  readonly level: "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR"
  readonly message: string
  readonly attempt: number
  /**
   * `log`: written with a logger. `stdout`, `stderr`: printed. `platform`: a placeholder for lines that the platform dropped, or the end of
   * an attempt without a result.
   */
  readonly source: "log" | "stdout" | "stderr" | "platform"
  /** The path of the pipeline's step that logged it. */
  readonly step?: string
  /** Absent in place of dropped lines. */
  readonly workerId?: string
  /** The release that this worker runs, if the platform started it. */
  readonly release?: number
  /** Only in a line with the source `platform`: the attempt that has ended. `startedAt`: milliseconds since 1970; `time` is the end. */
  readonly ended?: {
    readonly outcome: "failed" | "timed_out" | "lost" | "returned"
    readonly startedAt: number
    /** Why, without a traceback. */
    readonly error?: string
  }
}
