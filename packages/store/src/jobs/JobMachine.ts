/**
 * The state machine of a job: a pure function `(job, event) -> transition | rejection`. Stores persist its transitions.
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
 *    |  |                                |  |  |            submitted with a start time: starts here
 *    |  +- Tick - [ IN_QUEUE, not ready  | before `notBefore` ]
 *    |                 ^-- backoff, or ---+  |  |
 *    |                    Return until then   |  |
 *    |          after the last attempt: [ FAILED ]
 *    | Cancel                               |  |
 *    +------------> [ CANCELLED ] <---------+  |
 *    | ttl over (Tick, Claim)                  | ttl or executionTimeout over (Tick)
 *    +------------> [ TIMED_OUT ] <------------+
 *
 *   Retry, until the retention ends:  FAILED | TIMED_OUT -> IN_QUEUE
 *   a pipeline's run (RunMachine.ts):  IN_PROGRESS --Park--> IN_PROGRESS, parked: no worker, no lease --Wake, Tick--> IN_QUEUE
 *   retention over (Tick):            any terminal status -> removed
 * ```
 *
 * Invariants for every sequence of events, checked by property tests:
 *
 * - The first terminal transition wins. Only `Retry` leaves a terminal status.
 * - Every {@link WorkerEvent} is fenced: it must come from the worker that holds the lease, on the job's endpoint, and from the current
 *   attempt if it names one. The endpoint matters because two endpoints may have workers with the same id.
 * - `attempt` never decreases.
 * - An expired job is never claimed: a `Claim` times it out.
 * - Time (`now`) and randomness (`random`) are part of the event. The machine reads no clock and no random source.
 * - Every job has a next event: {@link dueAt} is always a time.
 * - A job that was lost with its worker is isolated until a worker survives it ({@link JobHead}).
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import * as Result from "effect/Result"
import { NO_OWNER } from "../Owner.ts"
import type { BulkRecord } from "./BulkStore.ts"
import type { JobHead, JobOutcome, JobRecord, JobReport } from "./JobRecord.ts"

/** The worker that sends an event, and the attempt if the worker knows it. */
interface WorkerIdentity {
  readonly now: number
  readonly endpoint: EndpointId
  readonly worker: string
  readonly attempt?: number
}

/** Jitter of a backoff: a number in [0, 1). Default: no jitter, which gives the longest wait. */
interface Jitter {
  readonly random?: number
}

/** An event from the worker that holds the job, or about that worker. */
export type WorkerEvent =
  /** A heartbeat: extends the lease. */
  | { readonly _tag: "Heartbeat" } & WorkerIdentity
  | { readonly _tag: "Progress"; readonly output: JsonText } & WorkerIdentity
  /** One streamed chunk. Its body is stored beside the record. Workers may number chunks from 1 to make repeats detectable. */
  | { readonly _tag: "Chunk"; readonly number?: number } & WorkerIdentity
  | {
    readonly _tag: "Finish"
    readonly output: JsonText | null
    readonly error: string | null
    /** After a cancel, the run has undone its work and ends as CANCELLED. */
    readonly cancelled?: boolean
    /** The error must not be retried. */
    readonly isFinal?: boolean
  }
    & WorkerIdentity
    & Jitter
  /**
   * The worker is gone. `cause` explains why, for the caller. The job may have killed its worker, so the next attempt is isolated, unless
   * `blameless`.
   */
  | { readonly _tag: "LoseLease"; readonly cause: string; readonly blameless?: boolean } & WorkerIdentity & Jitter
  /**
   * The worker returns the job without having started it, or the job could not be delivered to the worker. Does not use up an attempt.
   * Without `notBefore`, the job is ready at once.
   */
  | { readonly _tag: "Return"; readonly notBefore?: number } & WorkerIdentity
  /**
   * The worker of a run writes to its journal: extends the lease, and with `progress` resets `retries`. A run that only restarts makes no
   * progress; otherwise a step that kills its worker would be repeated forever. `expiresAt`: extends the run's life.
   */
  | { readonly _tag: "Journal"; readonly progress: boolean; readonly expiresAt?: number } & WorkerIdentity
  /** The run waits without a worker, until `Wake` or the time `until`. */
  | { readonly _tag: "Park"; readonly until: number | null } & WorkerIdentity

/** An event. `now` is in milliseconds since 1970. */
export type JobMachineEvent =
  | WorkerEvent
  /**
   * A worker claims the job. `release`: the release that the worker runs, if it is known. `keyLimit`: the endpoint's current limit for each
   * concurrency key, which only the store needs (ConcurrencyRule.ts).
   */
  | {
    readonly _tag: "Claim"
    readonly now: number
    readonly worker: string
    readonly release?: number | undefined
    readonly keyLimit?: number | undefined
  }
  /** A timer: backoff, lease, time to live, execution timeout or retention. */
  | { readonly _tag: "Tick"; readonly now: number } & Jitter
  /** Something arrived for a parked run: the run returns to the queue. */
  | { readonly _tag: "Wake"; readonly now: number }
  /**
   * A caller cancels or retries the job. The endpoint is the one in the request. `bulk`: the bulk operation after this step. The store writes it in
   * the same commit, or rejects the event as `Superseded` (BulkStore.ts).
   */
  | { readonly _tag: "Cancel"; readonly now: number; readonly endpoint: EndpointId; readonly bulk?: BulkRecord }
  | { readonly _tag: "Retry"; readonly now: number; readonly endpoint: EndpointId; readonly bulk?: BulkRecord }
  /** The batch of an ended job is being removed: from now on the job's own retention applies. */
  | { readonly _tag: "LeaveBatch"; readonly now: number }
  /**
   * Workers could not send heartbeats, because the platform was down or suspended, or the wall clock was set: the running job gets a full
   * lease from now. `by`: the number of milliseconds to ignore, negative if the clock was set back. The timers of a running job move by this amount.
   * A backoff only moves back: its end is a wall-clock time, which a clock that was set back would postpone. A start time does not move.
   * `onlyBackoffs`: running jobs stay as they are.
   */
  | { readonly _tag: "Recover"; readonly now: number; readonly by?: number; readonly onlyBackoffs?: true }

/** The change that the store must persist. */
export type Transition =
  | {
    readonly _tag: "Put"
    readonly job: JobHead
    /** The payloads that change. The others stay as they are. */
    readonly outcome: Partial<JobOutcome>
    /** Delete the chunks of earlier attempts. */
    readonly discardChunks: boolean
  }
  | { readonly _tag: "Remove" }

/** Why an event was rejected. */
export type Rejection =
  /** The job has ended. `by`: the worker of its last attempt. */
  | { readonly _tag: "Ended"; readonly status: JobHead["status"]; readonly by: string | null; readonly attempt: number }
  /** The event names another endpoint. The caller must treat the job as missing. */
  | { readonly _tag: "OtherEndpoint" }
  /** The worker does not hold the lease. `by`: the holder, if any. */
  | { readonly _tag: "NotHeld"; readonly by: string | null; readonly attempt: number }
  /** Only a ready job can be claimed. */
  | { readonly _tag: "NotWaiting" }
  /** A chunk with this number is already stored. */
  | { readonly _tag: "Repeated" }
  /** The chunk is not the next one. `expected`: the number of the next chunk. */
  | { readonly _tag: "Gap"; readonly expected: number }
  /** Only FAILED and TIMED_OUT jobs can be retried. */
  | { readonly _tag: "NotRetryable"; readonly status: JobHead["status"] }
  /** The retention of the job or of its batch has ended. The caller must treat the job as missing. */
  | { readonly _tag: "Expired" }
  /** Nothing is due yet. */
  | { readonly _tag: "NotDue" }
  /** The event's bulk operation has been changed since. Nothing was written. */
  | { readonly _tag: "Superseded" }

/** The bulk operation after an event, if the event is a step of one. */
export const bulkOf = (event: JobMachineEvent): BulkRecord | undefined =>
  event._tag === "Cancel" || event._tag === "Retry" ? event.bulk : undefined

const put = (job: JobHead, outcome: Partial<JobOutcome> = {}, discardChunks = false): Result.Result<Transition, Rejection> =>
  Result.succeed({ _tag: "Put", job, outcome, discardChunks })

const reject = (rejection: Rejection): Result.Result<Transition, Rejection> => Result.fail(rejection)

/** When the execution timeout ends. */
const deadlineOf = (job: JobHead): number => (job.startedAt ?? job.createdAt) + job.executionTimeoutMs

/** Whether the job can be claimed: IN_QUEUE, its start time or backoff has passed, and it is not held because of its concurrency key. */
export const isReady = (job: JobHead): boolean =>
  job.status === "IN_QUEUE" && job.notBefore === null && (job.concurrency === null || !job.concurrency.held)

/** Whether the job waits for the start time that its submission asked for. A later `notBefore` is the end of a backoff. */
export const isScheduled = (job: JobHead): job is JobHead & { readonly notBefore: number } =>
  job.notBefore !== null && job.attempt === 0

/** Whether a run waits without a worker. Callers see it as IN_PROGRESS. */
export const isParked = (job: JobHead): boolean => job.status === "IN_PROGRESS" && job.leaseExpiresAt === null

/** Later than any time. */
const NEVER = Number.MAX_SAFE_INTEGER

/**
 * When the job's next timer fires. A waiting job: backoff or time to live. A running job: lease, execution timeout or time to live. An ended
 * job: retention, but not before its batch is removed. A `Tick` at or after this time always changes the job.
 */
export const dueAt = (job: JobHead): number => {
  if (job.finishedAt !== null) return job.batchId === null ? job.finishedAt + job.retentionMs : NEVER
  if (job.leaseExpiresAt === null) return job.notBefore === null ? job.expiresAt : Math.min(job.notBefore, job.expiresAt)
  return Math.min(job.leaseExpiresAt, deadlineOf(job), job.expiresAt)
}

/** Queue wait before the last attempt, in milliseconds; undefined before the first. */
export const delayTime = (job: JobHead): number | undefined =>
  job.startedAt === null ? undefined : Math.max(0, job.startedAt - job.queuedAt)

/** Duration of the last attempt, in milliseconds; undefined until the job has ended, and if it never ran. */
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

/** Length of `lastError`, in characters. */
const LAST_ERROR_LENGTH = 2_000

/**
 * Whether a worker repeats an error that was already stored and led to a retry, because the response to its first delivery was lost.
 * Detected only for workers that send the attempt number.
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

/**
 * Returns the job to the queue and restarts `delayTime`. Its place in the claim order does not change: it depends on priority and
 * submission order. A run keeps its chunks, because its next attempt continues it.
 */
const requeue = (
  job: JobHead,
  now: number,
  next: { readonly retries: number; readonly notBefore: number | null; readonly lastError?: string },
  isRun: boolean
): Result.Result<Transition, Rejection> =>
  put(
    {
      ...job,
      status: "IN_QUEUE",
      queuedAt: now,
      notBefore: next.notBefore,
      startedAt: null,
      leaseExpiresAt: null,
      retries: next.retries,
      ...(isRun ? undefined : { chunks: 0, drained: 0 })
    },
    next.lastError === undefined
      ? { progress: null }
      : { progress: null, lastError: next.lastError.slice(0, LAST_ERROR_LENGTH) },
    !isRun
  )

/** A parked run returns to the queue. `delayTime` starts at `queuedAt`. */
const wake = (job: JobHead, queuedAt: number, isRun: boolean): Result.Result<Transition, Rejection> =>
  requeue(job, queuedAt, { retries: job.retries, notBefore: null }, isRun)

/**
 * A number in [0, 1), derived from the job's id. One event may requeue many jobs with the same `random`; this spreads their backoffs.
 */
const hashFraction = (id: string): number => {
  // FNV-1a with a final mix, so that ids that differ only in the last character are far apart.
  let hash = 0x811c9dc5
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32
}

/** The longest backoff after `failed` attempts, in milliseconds; null: none. */
const longestBackoff = ({ retry }: JobHead, failed: number): number | null => {
  const backoff = retry?.backoff ?? null
  return backoff === null ? null : Math.min(backoff.maxMs, backoff.initialMs * backoff.factor ** (failed - 1))
}

/** When the next attempt may start after `failed` attempts; null: at once. */
const nextAttemptAt = (job: JobHead, now: number, failed: number, random: number | undefined): number | null => {
  const longest = longestBackoff(job, failed)
  if (longest === null) return null
  const shortened = random === undefined ? 1 : 1 - ((random + hashFraction(job.id)) % 1) / 2
  const wait = Math.round(longest * shortened)
  return wait === 0 ? null : now + wait
}

/** Handles a failed attempt: requeues the job, or ends it with `last` when no attempts remain. */
const failAttempt = (
  job: JobHead,
  now: number,
  cause: string,
  random: number | undefined,
  isRun: boolean,
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
  return requeue(job, now, { retries: failed, notBefore, lastError: cause }, isRun)
}

/** `notBefore`, limited to the time to live; null when it has passed. */
const delayUntil = (job: JobHead, now: number, notBefore: number | undefined): number | null => {
  if (notBefore === undefined) return null
  const until = Math.min(notBefore, job.expiresAt - 1)
  return until > now ? until : null
}

const loseLease = (lost: JobHead, now: number, cause: string, random: number | undefined, isRun: boolean, blameless = false) => {
  const job = blameless ? lost : { ...lost, isolated: true }
  return failAttempt(job, now, cause, random, isRun, (why) => end(job, now, "FAILED", null, `${cause} ${why}`))
}

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const expire = (job: JobHead, now: number, isRun: boolean): Result.Result<Transition, Rejection> => {
  const where = isParked(job)
    ? "parked"
    : job.leaseExpiresAt === null
    ? "waiting for a worker"
    : `running on worker ${job.worker}`
  // A started run lives longer than its job's time to live.
  const life = isRun ? "The run's time to live" : `The job's time to live (${seconds(job.ttlMs)})`
  return end(job, now, "TIMED_OUT", null, `${life} ended while it was ${where}.`)
}

const tick = (job: JobHead, now: number, random: number | undefined, isRun: boolean): Result.Result<Transition, Rejection> => {
  if (now < dueAt(job)) return reject({ _tag: "NotDue" })
  if (job.finishedAt !== null) return Result.succeed({ _tag: "Remove" })
  if (now >= job.expiresAt) return expire(job, now, isRun)
  if (isParked(job)) return wake(job, job.notBefore ?? now, isRun)
  // `delayTime` starts at the start time or at the end of the backoff, not at this tick.
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
  return loseLease(job, now, `Worker ${job.worker} was silent for ${seconds(job.leaseMs)} and lost the job.`, random, isRun)
}

/** The fields of a new job that the submission specifies. */
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
  & Partial<Pick<JobRecord, "priority" | "retry" | "webhook" | "tags" | "batchId" | "owner" | "notBefore" | "concurrency">>

/** A new job, IN_QUEUE. Its time to live starts at its start time. */
export const submitted = (job: Submitted): JobRecord => ({
  ...job,
  priority: job.priority ?? 0,
  retry: job.retry ?? null,
  webhook: job.webhook ?? null,
  tags: job.tags ?? [],
  batchId: job.batchId ?? null,
  owner: job.owner ?? NO_OWNER,
  status: "IN_QUEUE",
  queuedAt: job.createdAt,
  notBefore: job.notBefore ?? null,
  expiresAt: (job.notBefore ?? job.createdAt) + job.ttlMs,
  attempt: 0,
  retries: 0,
  isolated: false,
  concurrency: job.concurrency ?? null,
  worker: null,
  release: null,
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

/** Applies an event to a job. `isRun`: the job is the run of a pipeline, whose attempts continue each other. */
export const transition = (job: JobHead, event: JobMachineEvent, isRun = false): Result.Result<Transition, Rejection> => {
  switch (event._tag) {
    case "Claim": {
      if (!isReady(job)) return reject({ _tag: "NotWaiting" })
      if (event.now >= job.expiresAt) return expire(job, event.now, isRun)
      return put({
        ...job,
        status: "IN_PROGRESS",
        attempt: job.attempt + 1,
        worker: event.worker,
        release: event.release ?? null,
        startedAt: event.now,
        leaseExpiresAt: event.now + job.leaseMs,
        ...(isRun ? undefined : { chunks: 0, drained: 0 })
      })
    }
    case "Tick":
      return tick(job, event.now, event.random, isRun)
    case "Wake":
      return isParked(job) ? wake(job, event.now, isRun) : reject({ _tag: "NotDue" })
    case "Retry": {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (job.finishedAt !== null && event.now >= dueAt(job)) return reject({ _tag: "Expired" })
      if (job.status !== "FAILED" && job.status !== "TIMED_OUT") return reject({ _tag: "NotRetryable", status: job.status })
      // The time to live restarts; otherwise a job that timed out could never run again.
      return put(
        {
          ...job,
          status: "IN_QUEUE",
          queuedAt: event.now,
          expiresAt: event.now + job.ttlMs,
          startedAt: null,
          finishedAt: null,
          retries: 0,
          ...(isRun ? undefined : { chunks: 0, drained: 0 })
        },
        { output: null, error: null },
        !isRun
      )
    }
    case "Cancel": {
      if (event.endpoint !== job.endpoint) return reject({ _tag: "OtherEndpoint" })
      if (isTerminal(job.status)) {
        return reject({ _tag: "Ended", status: job.status, by: job.worker, attempt: job.attempt })
      }
      return end(job, event.now, "CANCELLED", null, null)
    }
    case "LeaveBatch":
      return job.finishedAt === null || job.batchId === null ? reject({ _tag: "NotDue" }) : put({ ...job, batchId: null })
    case "Recover": {
      const { by = 0, now } = event
      // A run sleeps until a wall-clock time, which does not move.
      if (isParked(job)) return reject({ _tag: "NotDue" })
      if (job.notBefore !== null) {
        // A start time is a wall-clock time that the caller chose, so it does not move.
        if (isScheduled(job)) return reject({ _tag: "NotDue" })
        // A backoff that began after the clock was set already uses the new time, so moving it makes it end too early.
        const moved = by < 0 && job.notBefore - now > -by / 2 ? job.notBefore + by : job.notBefore
        // The clock may have been set several times, or set back before a failure was stored that had read it: no backoff lasts longer than its settings say.
        const notBefore = Math.min(moved, now + (longestBackoff(job, job.retries) ?? Number.POSITIVE_INFINITY))
        return notBefore === job.notBefore ? reject({ _tag: "NotDue" }) : put({ ...job, notBefore })
      }
      if (event.onlyBackoffs === true) return reject({ _tag: "NotDue" })
      if (job.leaseExpiresAt === null) return reject({ _tag: "NotHeld", by: null, attempt: job.attempt })
      // Not the later of the two leases: when the clock was set back, the old lease ends too late.
      const renewed = { ...job, leaseExpiresAt: now + job.leaseMs }
      if (by === 0 || job.startedAt === null) return put(renewed)
      // Does not move a job that was claimed after the clock was set, or move a job twice if the response to the first event was lost. If the clock
      // was set back by less than the job has been running, these cases cannot be distinguished. The timers of such a job fire late, not early.
      const isStale = by > 0 ? job.startedAt + by <= now : job.startedAt > now
      return put(isStale ? { ...renewed, startedAt: job.startedAt + by, expiresAt: job.expiresAt + by } : renewed)
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
          const survived = job.isolated ? { ...job, isolated: false } : job
          if (event.cancelled === true) return end(survived, now, "CANCELLED", null, null)
          if (error === null) return end(survived, now, "COMPLETED", output, null)
          const last = () => end(survived, now, "FAILED", output, error)
          return job.retry?.onError === true && event.isFinal !== true
            ? failAttempt(survived, now, error, event.random, isRun, last)
            : last()
        }
        case "LoseLease":
          return loseLease(job, event.now, event.cause, event.random, isRun, event.blameless)
        case "Return":
          return requeue(job, event.now, { retries: job.retries, notBefore: delayUntil(job, event.now, event.notBefore) }, isRun)
        case "Journal":
          return put({
            ...job,
            leaseExpiresAt: event.now + job.leaseMs,
            expiresAt: Math.max(job.expiresAt, event.expiresAt ?? 0),
            ...(event.progress ? { retries: 0, isolated: false } : undefined)
          })
        case "Park":
          // Without `until`, a run that nothing wakes returns to the queue when its time to live ends.
          return put({
            ...job,
            worker: null,
            leaseExpiresAt: null,
            notBefore: Math.min(job.expiresAt - 1, Math.max(event.now + 1, event.until ?? Infinity))
          }, { progress: null })
      }
    }
  }
}
