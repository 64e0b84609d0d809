/**
 * The state machine of a job. Pure: `(job, event) -> transition | rejection`. Stores persist what it says and decide nothing.
 *
 * ```
 *                     Claim                     Finish
 *   [ IN_QUEUE ] -----------------> [ IN_PROGRESS ] -----> [ COMPLETED ]  no error
 *    |  ^  ^  ^                       |  |  |  |  |  ^ `-> [ FAILED ]     error
 *    |  |  |  |     Return            |  |  |  |  |  | Heartbeat, Progress, Chunk
 *    |  |  |  +-----------------------+  |  |  |  +--+
 *    |  |  |   LoseLease, lease over     |  |  |
 *    |  |  |   (Tick), Finish with an    |  |  |
 *    |  |  |   error that is retried     |  |  |
 *    |  |  +--------- no backoff --------+  |  |
 *    |  |                                |  |  |
 *    |  +- Tick - [ IN_QUEUE, for nobody | before `notBefore` ]
 *    |                 ^-- backoff, or ---+  |  |
 *    |                    Return until then   |  |
 *    |          after the last attempt: [ FAILED ]
 *    | Cancel                               |  |
 *    +------------> [ CANCELLED ] <---------+  |
 *    | ttl over (Tick, Claim)                  | ttl or executionTimeout over (Tick)
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
 * - A job whose time is over is never handed out: a `Claim` that finds it so times it out.
 * - Chance comes with the event (`random`), as time does: the machine has neither a clock nor a die.
 * - Every record has a next event: {@link dueAt} is always a time.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import * as Result from "effect/Result"
import type { JobHead, JobOutcome, JobRecord, JobReport } from "./JobRecord.ts"

/** Who speaks: a worker of an endpoint and, where it knows, the attempt that it was given. */
interface WorkerIdentity {
  readonly now: number
  readonly endpoint: EndpointId
  readonly worker: string
  readonly attempt?: number
}

/** For events that may start a backoff: a number from 0 up to 1 that shortens it. Absent: the wait is as long as it gets. */
interface Jitter {
  readonly random?: number
}

/** What a worker, or somebody who knows what became of it, says of a job that it holds. */
export type WorkerEvent =
  /** The worker's heartbeat: the lease starts anew. */
  | { readonly _tag: "Heartbeat" } & WorkerIdentity
  | { readonly _tag: "Progress"; readonly output: JsonText } & WorkerIdentity
  /** One streamed chunk. Its body is kept beside the record. `number`, from 1, where the worker counts: a repeat is known by it. */
  | { readonly _tag: "Chunk"; readonly number?: number } & WorkerIdentity
  | { readonly _tag: "Finish"; readonly output: JsonText | null; readonly error: string | null } & WorkerIdentity & Jitter
  /** The worker is known to be gone. `cause` says how, in words for the caller. */
  | { readonly _tag: "LoseLease"; readonly cause: string } & WorkerIdentity & Jitter
  /**
   * The worker hands the job back without having started it, or it could not be handed out after all. Costs no attempt. It is for nobody
   * before `notBefore`, where there is one; default: ready at once.
   */
  | { readonly _tag: "Return"; readonly notBefore?: number } & WorkerIdentity

/** What can happen to a job. `now` is milliseconds since 1970, read by the caller: the machine has no clock. */
export type JobMachineEvent =
  | WorkerEvent
  /** A worker takes the job. */
  | { readonly _tag: "Claim"; readonly now: number; readonly worker: string }
  /** Whatever is due at `now`: backoff, lease, ttl, execution timeout, retention. */
  | { readonly _tag: "Tick"; readonly now: number } & Jitter
  /** A caller's wishes. The endpoint is the one that the caller named. */
  | { readonly _tag: "Cancel"; readonly now: number; readonly endpoint: EndpointId }
  | { readonly _tag: "Retry"; readonly now: number; readonly endpoint: EndpointId }
  /** The batch of an ended job is removed: from now on the job goes as all others do. */
  | { readonly _tag: "Leave"; readonly now: number }
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
  /** A chunk of that number is kept already. */
  | { readonly _tag: "Repeated" }
  /** The chunk is not the one that comes next; `expected` is. */
  | { readonly _tag: "Gap"; readonly expected: number }
  /** Only FAILED and TIMED_OUT jobs can be retried. */
  | { readonly _tag: "NotRetryable"; readonly status: JobHead["status"] }
  /** Nothing is due yet. */
  | { readonly _tag: "NotDue" }

const put = (job: JobHead, outcome: Partial<JobOutcome> = {}, discardChunks = false): Result.Result<Transition, Rejection> =>
  Result.succeed({ _tag: "Put", job, outcome, discardChunks })

const reject = (rejection: Rejection): Result.Result<Transition, Rejection> => Result.fail(rejection)

/** When the job's attempt has to be over. */
const deadlineOf = (job: JobHead): number => (job.startedAt ?? job.createdAt) + job.executionTimeoutMs

/** Whether the job waits for a worker, and not for the end of a backoff. */
export const isReady = (job: JobHead): boolean => job.status === "IN_QUEUE" && job.notBefore === null

/** A time that does not come. */
const NEVER = Number.MAX_SAFE_INTEGER

/**
 * When the job's next timer fires: for a waiting job its backoff or its ttl, for a running one the first of lease, execution timeout and ttl, for
 * an ended one the end of its retention, for which one that belongs to a batch waits for that to be removed. A `Tick` at or after this time always changes something.
 */
export const dueAt = (job: JobHead): number => {
  if (job.finishedAt !== null) return job.batchId === null ? job.finishedAt + job.retentionMs : NEVER
  if (job.leaseExpiresAt === null) return job.notBefore === null ? job.expiresAt : Math.min(job.notBefore, job.expiresAt)
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
  put(
    { ...job, status, notBefore: null, leaseExpiresAt: null, finishedAt: now },
    { progress: null, output, error, lastError: null }
  )

/** The most that is kept of the reason why an attempt came to nothing. Characters. */
const LAST_ERROR_LENGTH = 2_000

/**
 * Whether a worker's error is the one for which its attempt came to nothing and the job is tried again: it was delivered before. Only for a
 * worker that names its attempt.
 */
export const isRetriedError = (
  { attempt, endpoint, lastError, status, worker }: JobReport,
  by: { readonly endpoint: EndpointId; readonly worker: string; readonly attempt?: number | undefined },
  error: string | null
): boolean =>
  endpoint === by.endpoint && error !== null && lastError === error.slice(0, LAST_ERROR_LENGTH) &&
  (status === "IN_QUEUE"
    ? by.attempt === attempt && by.worker === worker
    : status === "IN_PROGRESS" && by.attempt === attempt - 1)

/** Back to the queue. The clock of `delayTime` starts anew; the place in line does not: it goes by priority and submission. */
const requeue = (
  job: JobHead,
  now: number,
  again: { readonly retries: number; readonly notBefore: number | null; readonly lastError?: string }
): Result.Result<Transition, Rejection> =>
  put(
    {
      ...job,
      status: "IN_QUEUE",
      queuedAt: now,
      notBefore: again.notBefore,
      startedAt: null,
      leaseExpiresAt: null,
      retries: again.retries,
      chunks: 0,
      drained: 0
    },
    again.lastError === undefined
      ? { progress: null }
      : { progress: null, lastError: again.lastError.slice(0, LAST_ERROR_LENGTH) },
    true
  )

/**
 * A number from 0 up to 1 out of a job's id. One event may send many jobs back at once, all with the same `random`: this is what tells
 * them apart.
 */
const hashFraction = (id: string): number => {
  // FNV-1a, mixed once more: ids that differ in their last letter alone are to be far apart.
  let hash = 0x811c9dc5
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32
}

/** When the attempt after `failed` ones may begin; null: at once. */
const nextAttemptAt = (job: JobHead, now: number, failed: number, random: number | undefined): number | null => {
  const backoff = job.retry?.backoff ?? null
  if (backoff === null) return null
  const longest = Math.min(backoff.maxMs, backoff.initialMs * backoff.factor ** (failed - 1))
  const shortened = random === undefined ? 1 : 1 - ((random + hashFraction(job.id)) % 1) / 2
  const wait = Math.round(longest * shortened)
  return wait === 0 ? null : now + wait
}

/** The attempt came to nothing: another one where there may be one, and what `last` says where not. */
const failAttempt = (
  job: JobHead,
  now: number,
  cause: string,
  random: number | undefined,
  last: (why: string) => Result.Result<Transition, Rejection>
): Result.Result<Transition, Rejection> => {
  const failed = job.retries + 1
  if (failed >= job.maxAttempts) {
    return last(`This was ${job.maxAttempts === 1 ? "the only attempt allowed" : `attempt ${failed} of ${job.maxAttempts}`}.`)
  }
  const notBefore = nextAttemptAt(job, now, failed, random)
  if (notBefore !== null && notBefore >= job.expiresAt) {
    return last(`This was attempt ${failed} of ${job.maxAttempts}, and the job's time to live ends before the next may begin.`)
  }
  return requeue(job, now, { retries: failed, notBefore, lastError: cause })
}

/** A time after now and within the job's life; null: at once. */
const delayUntil = (job: JobHead, now: number, notBefore: number | undefined): number | null => {
  if (notBefore === undefined) return null
  const until = Math.min(notBefore, job.expiresAt - 1)
  return until > now ? until : null
}

const loseLease = (job: JobHead, now: number, cause: string, random: number | undefined): Result.Result<Transition, Rejection> =>
  failAttempt(job, now, cause, random, (why) => end(job, now, "FAILED", null, `${cause} ${why}`))

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const expire = (job: JobHead, now: number): Result.Result<Transition, Rejection> =>
  end(
    job,
    now,
    "TIMED_OUT",
    null,
    `The job's time to live (${seconds(job.ttlMs)}) ended while it was ${
      job.leaseExpiresAt === null ? "waiting for a worker" : `running on worker ${job.worker}`
    }.`
  )

const tick = (job: JobHead, now: number, random: number | undefined): Result.Result<Transition, Rejection> => {
  if (now < dueAt(job)) return reject({ _tag: "NotDue" })
  if (job.finishedAt !== null) return Result.succeed({ _tag: "Remove" })
  if (now >= job.expiresAt) return expire(job, now)
  // Ready since the backoff ended, whenever that is noticed: `delayTime` counts from there.
  if (job.notBefore !== null) return put({ ...job, queuedAt: job.notBefore, notBefore: null })
  if (now >= deadlineOf(job)) {
    return end(
      job,
      now,
      "TIMED_OUT",
      null,
      `The attempt ran longer than its execution timeout (${seconds(job.executionTimeoutMs)}) on worker ${job.worker}.`
    )
  }
  return loseLease(job, now, `Worker ${job.worker} was silent for ${seconds(job.leaseMs)} and lost the job.`, random)
}

/** What is chosen when a job is submitted. All else of a new job is given. */
export type Submitted =
  & Pick<
    JobRecord,
    | "id"
    | "endpoint"
    | "input"
    | "s3Config"
    | "traceparent"
    | "tracestate"
    | "lowPriority"
    | "createdAt"
    | "ttlMs"
    | "executionTimeoutMs"
    | "leaseMs"
    | "maxAttempts"
    | "retentionMs"
  >
  & Partial<Pick<JobRecord, "priority" | "retry" | "webhook" | "tags" | "batchId">>

/** A job as it enters the queue. */
export const submitted = (job: Submitted): JobRecord => ({
  ...job,
  priority: job.priority ?? 0,
  retry: job.retry ?? null,
  webhook: job.webhook ?? null,
  tags: job.tags ?? [],
  batchId: job.batchId ?? null,
  status: "IN_QUEUE",
  queuedAt: job.createdAt,
  notBefore: null,
  expiresAt: job.createdAt + job.ttlMs,
  attempt: 0,
  retries: 0,
  worker: null,
  startedAt: null,
  leaseExpiresAt: null,
  finishedAt: null,
  progress: null,
  output: null,
  error: null,
  lastError: null,
  chunks: 0,
  drained: 0
})

/** Decides what an event does to a job. */
export const transition = (job: JobHead, event: JobMachineEvent): Result.Result<Transition, Rejection> => {
  switch (event._tag) {
    case "Claim": {
      if (!isReady(job)) return reject({ _tag: "NotWaiting" })
      if (event.now >= job.expiresAt) return expire(job, event.now)
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
      return tick(job, event.now, event.random)
    case "Retry": {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (job.status !== "FAILED" && job.status !== "TIMED_OUT") return reject({ _tag: "NotRetryable", status: job.status })
      // The new life is as long as the first was: a job that timed out could otherwise never run again.
      return put(
        {
          ...job,
          status: "IN_QUEUE",
          queuedAt: event.now,
          expiresAt: event.now + job.ttlMs,
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
    case "Leave":
      return job.finishedAt === null || job.batchId === null ? reject({ _tag: "NotDue" }) : put({ ...job, batchId: null })
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
        case "Heartbeat":
          return put({ ...job, leaseExpiresAt: event.now + job.leaseMs })
        case "Progress":
          return put({ ...job, leaseExpiresAt: event.now + job.leaseMs }, { progress: event.output })
        case "Chunk":
          if (event.number !== undefined && event.number !== job.chunks + 1) {
            return reject(
              event.number >= 1 && event.number <= job.chunks ? { _tag: "Repeated" } : { _tag: "Gap", expected: job.chunks + 1 }
            )
          }
          return put({ ...job, chunks: job.chunks + 1, leaseExpiresAt: event.now + job.leaseMs })
        case "Finish": {
          const { error, now, output } = event
          if (error === null) return end(job, now, "COMPLETED", output, null)
          const last = () => end(job, now, "FAILED", output, error)
          return job.retry?.onError === true ? failAttempt(job, now, error, event.random, last) : last()
        }
        case "LoseLease":
          return loseLease(job, event.now, event.cause, event.random)
        case "Return":
          return requeue(job, event.now, { retries: job.retries, notBefore: delayUntil(job, event.now, event.notBefore) })
      }
    }
  }
}
