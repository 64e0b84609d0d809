/**
 * The state machine of a job. Pure: `(job, event) -> transition | rejection`. Stores persist what it says and decide nothing.
 *
 * ```
 *                     Claim                     Finish
 *   [ IN_QUEUE ] -----------------> [ IN_PROGRESS ] -----> [ COMPLETED ]  no error
 *    |  ^  ^                          |  |  |  |  |  ^ `-> [ FAILED ]     error
 *    |  |  |        Return            |  |  |  |  |  | Beat, Progress, Chunk
 *    |  |  +--------------------------+  |  |  |  +--+
 *    |  |   LoseLease, lease over (Tick) |  |  |
 *    |  +--------------------------------+  |  |
 *    |          after the last attempt: [ FAILED ]
 *    | Cancel                               |  |
 *    +------------> [ CANCELLED ] <---------+  |
 *    | ttl over (Tick)                         | ttl or executionTimeout over (Tick)
 *    +------------> [ TIMED_OUT ] <------------+
 *
 *   Retry:  FAILED | TIMED_OUT -> IN_QUEUE          retention over (Tick): any terminal status -> removed
 * ```
 *
 * Rules that hold for every sequence of events (and that the property tests check):
 *
 * - The first terminal transition wins; nothing but `Retry` leaves a terminal status.
 * - Every word of a worker ({@link WorkerEvent}) is fenced: it must come from the worker that holds the lease, on the job's own endpoint
 *   (worker ids are chosen freely, so two endpoints may each have a worker of one name), and, when it names an attempt, from that attempt.
 * - `attempt` never shrinks.
 * - Every record has a next event: {@link dueAt} is always a time.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import * as Result from "effect/Result"
import type { JobHead, JobOutcome, JobRecord } from "./JobRecord.ts"

/** Who speaks: a worker of an endpoint and, where it knows, the attempt that it was given. */
interface Speaker {
  readonly now: number
  readonly endpoint: EndpointId
  readonly worker: string
  readonly attempt?: number
}

/** What a worker, or somebody who knows what became of it, says of a job that it holds. */
export type WorkerEvent =
  /** The worker's heartbeat: the lease starts anew. */
  | { readonly _tag: "Beat" } & Speaker
  | { readonly _tag: "Progress"; readonly output: JsonText } & Speaker
  /** One streamed chunk. Its body is kept beside the record. */
  | { readonly _tag: "Chunk" } & Speaker
  | { readonly _tag: "Finish"; readonly output: JsonText | null; readonly error: string | null } & Speaker
  /** The worker is known to be gone. `cause` says how, in words for the caller. */
  | { readonly _tag: "LoseLease"; readonly cause: string } & Speaker
  /** The worker hands the job back without having started it. Costs no attempt. */
  | { readonly _tag: "Return" } & Speaker

/** What can happen to a job. `now` is milliseconds since 1970, read by the caller: the machine has no clock. */
export type JobEvent =
  | WorkerEvent
  /** A worker takes the job. */
  | { readonly _tag: "Claim"; readonly now: number; readonly worker: string }
  /** Whatever is due at `now`: lease, ttl, execution timeout, retention. */
  | { readonly _tag: "Tick"; readonly now: number }
  /** A caller's wishes. The endpoint is the one that the caller named. */
  | { readonly _tag: "Cancel"; readonly now: number; readonly endpoint: EndpointId }
  | { readonly _tag: "Retry"; readonly now: number; readonly endpoint: EndpointId }
  /** After a restart of the platform: no worker could beat meanwhile, so a running lease starts anew. */
  | { readonly _tag: "Recover"; readonly now: number }

/** What to do to the store. */
export type Transition =
  | {
    readonly _tag: "Put"
    readonly job: JobHead
    /** The payloads that change with it. The others stay as they are. */
    readonly outcome: Partial<JobOutcome>
    /** The chunks of earlier attempts are to be forgotten. */
    readonly discardChunks: boolean
  }
  | { readonly _tag: "Remove" }

/** Why an event changes nothing. */
export type Rejection =
  /** The job has ended; `by` is the worker of its last attempt. */
  | { readonly _tag: "Ended"; readonly status: JobHead["status"]; readonly by: string | null; readonly attempt: number }
  /** The endpoint of whoever asks is not the job's: to them there is no such job. */
  | { readonly _tag: "OtherEndpoint" }
  /** The lease is somebody else's, or nobody's. */
  | { readonly _tag: "NotHeld"; readonly by: string | null; readonly attempt: number }
  /** Only a waiting job can be claimed. */
  | { readonly _tag: "NotWaiting" }
  /** Only FAILED and TIMED_OUT jobs can be retried. */
  | { readonly _tag: "NotRetryable"; readonly status: JobHead["status"] }
  /** Nothing is due yet. */
  | { readonly _tag: "NotDue" }

const put = (job: JobHead, outcome: Partial<JobOutcome> = {}, discardChunks = false): Result.Result<Transition, Rejection> =>
  Result.succeed({ _tag: "Put", job, outcome, discardChunks })

const reject = (rejection: Rejection): Result.Result<Transition, Rejection> => Result.fail(rejection)

/** When the job's attempt has to be over. */
const deadlineOf = (job: JobHead): number => (job.startedAt ?? job.createdAt) + job.executionTimeoutMs

/**
 * When the job's next timer fires: for a waiting job its ttl, for a running one the first of lease, execution timeout and ttl, for
 * an ended one the end of its retention. A `Tick` at or after this time always changes something.
 */
export const dueAt = (job: JobHead): number => {
  if (job.finishedAt !== null) return job.finishedAt + job.retentionMs
  if (job.leaseExpiresAt === null) return job.expiresAt
  return Math.min(job.leaseExpiresAt, deadlineOf(job), job.expiresAt)
}

/** Queue wait before the last attempt, in milliseconds; undefined before the first. */
export const delayTime = (job: JobHead): number | undefined =>
  job.startedAt === null ? undefined : Math.max(0, job.startedAt - job.queuedAt)

/** How long the worker held the last attempt, in milliseconds; undefined until the job has ended, and where it never ran. */
export const executionTime = (job: JobHead): number | undefined =>
  job.startedAt === null || job.finishedAt === null ? undefined : Math.max(0, job.finishedAt - job.startedAt)

const end = (
  job: JobHead,
  now: number,
  status: "COMPLETED" | "FAILED" | "CANCELLED" | "TIMED_OUT",
  output: JsonText | null,
  error: string | null
): Result.Result<Transition, Rejection> =>
  put({ ...job, status, leaseExpiresAt: null, finishedAt: now }, { progress: null, output, error })

/** Back to the queue. The clock of `delayTime` starts anew; the place in line does not: it goes by submission. */
const requeue = (job: JobHead, now: number, retries: number): Result.Result<Transition, Rejection> =>
  put(
    {
      ...job,
      status: "IN_QUEUE",
      queuedAt: now,
      startedAt: null,
      leaseExpiresAt: null,
      retries,
      chunks: 0,
      drained: 0
    },
    { progress: null },
    true
  )

const loseLease = (job: JobHead, now: number, cause: string): Result.Result<Transition, Rejection> => {
  const lost = job.retries + 1
  if (lost < job.maxAttempts) return requeue(job, now, lost)
  const attempts = job.maxAttempts === 1 ? "the only attempt allowed" : `attempt ${lost} of ${job.maxAttempts}`
  return end(job, now, "FAILED", null, `${cause} This was ${attempts}.`)
}

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const tick = (job: JobHead, now: number): Result.Result<Transition, Rejection> => {
  if (now < dueAt(job)) return reject({ _tag: "NotDue" })
  if (job.finishedAt !== null) return Result.succeed({ _tag: "Remove" })
  if (now >= job.expiresAt) {
    return end(
      job,
      now,
      "TIMED_OUT",
      null,
      `The job's time to live (${seconds(job.expiresAt - job.createdAt)}) ended while it was ${
        job.leaseExpiresAt === null ? "waiting for a worker" : `running on worker ${job.worker}`
      }.`
    )
  }
  if (now >= deadlineOf(job)) {
    return end(
      job,
      now,
      "TIMED_OUT",
      null,
      `The attempt ran longer than its execution timeout (${seconds(job.executionTimeoutMs)}) on worker ${job.worker}.`
    )
  }
  return loseLease(job, now, `Worker ${job.worker} was silent for ${seconds(job.leaseMs)} and lost the job.`)
}

/** What is chosen when a job is submitted. All else of a new job is given. */
export type Submitted = Pick<
  JobRecord,
  | "id"
  | "endpoint"
  | "input"
  | "s3Config"
  | "traceparent"
  | "tracestate"
  | "lowPriority"
  | "createdAt"
  | "expiresAt"
  | "executionTimeoutMs"
  | "leaseMs"
  | "maxAttempts"
  | "retentionMs"
>

/** A job as it enters the queue. */
export const submitted = (job: Submitted): JobRecord => ({
  ...job,
  status: "IN_QUEUE",
  queuedAt: job.createdAt,
  attempt: 0,
  retries: 0,
  worker: null,
  startedAt: null,
  leaseExpiresAt: null,
  finishedAt: null,
  progress: null,
  output: null,
  error: null,
  chunks: 0,
  drained: 0
})

/** Decides what an event does to a job. */
export const transition = (job: JobHead, event: JobEvent): Result.Result<Transition, Rejection> => {
  switch (event._tag) {
    case "Claim": {
      if (job.status !== "IN_QUEUE") return reject({ _tag: "NotWaiting" })
      return put({
        ...job,
        status: "IN_PROGRESS",
        attempt: job.attempt + 1,
        worker: event.worker,
        startedAt: event.now,
        leaseExpiresAt: event.now + job.leaseMs,
        chunks: 0,
        drained: 0
      })
    }
    case "Tick":
      return tick(job, event.now)
    case "Retry": {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (job.status !== "FAILED" && job.status !== "TIMED_OUT") return reject({ _tag: "NotRetryable", status: job.status })
      // The new life is as long as the first was: a job that timed out could otherwise never run again.
      return put(
        {
          ...job,
          status: "IN_QUEUE",
          queuedAt: event.now,
          expiresAt: event.now + (job.expiresAt - job.createdAt),
          createdAt: event.now,
          startedAt: null,
          finishedAt: null,
          retries: 0,
          chunks: 0,
          drained: 0
        },
        { output: null, error: null },
        true
      )
    }
    case "Cancel": {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (isTerminal(job.status)) {
        return reject({ _tag: "Ended", status: job.status, by: job.worker, attempt: job.attempt })
      }
      return end(job, event.now, "CANCELLED", null, null)
    }
    case "Recover": {
      if (job.leaseExpiresAt === null) return reject({ _tag: "NotHeld", by: null, attempt: job.attempt })
      return put({ ...job, leaseExpiresAt: Math.max(job.leaseExpiresAt, event.now + job.leaseMs) })
    }
    default: {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (isTerminal(job.status)) {
        return reject({ _tag: "Ended", status: job.status, by: job.worker, attempt: job.attempt })
      }
      const held = job.leaseExpiresAt !== null && job.worker === event.worker
      if (!held || (event.attempt !== undefined && event.attempt !== job.attempt)) {
        return reject({ _tag: "NotHeld", by: job.leaseExpiresAt === null ? null : job.worker, attempt: job.attempt })
      }
      switch (event._tag) {
        case "Beat":
          return put({ ...job, leaseExpiresAt: event.now + job.leaseMs })
        case "Progress":
          return put({ ...job, leaseExpiresAt: event.now + job.leaseMs }, { progress: event.output })
        case "Chunk":
          return put({ ...job, chunks: job.chunks + 1, leaseExpiresAt: event.now + job.leaseMs })
        case "Finish":
          return end(job, event.now, event.error === null ? "COMPLETED" : "FAILED", event.output, event.error)
        case "LoseLease":
          return loseLease(job, event.now, event.cause)
        case "Return":
          return requeue(job, event.now, job.retries)
      }
    }
  }
}
