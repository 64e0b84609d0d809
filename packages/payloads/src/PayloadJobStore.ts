/**
 * A job store that keeps large inputs and outputs in a payload store.
 *
 * ```
 *   insert, finish     object put ---> row with a reference committed ---> acknowledged
 *                        |                |
 *                        | fails          | rejected: the object is removed
 *                        v                v crash, no response: the object is an orphan; the sweep removes it
 *                      the operation fails; nothing was stored
 *
 *   claim              row committed ---> object read ---> returned to the worker
 *                                           | unavailable: the job returns to the queue, claimable after a delay
 *                                           | lost: the job ends FAILED with the cause
 *
 *   get, drain, peek   resolve the references of the row; a job with a lost output is reported as FAILED with the cause
 *   input              resolves the reference of the row; a lost input is an error
 * ```
 *
 * Only inputs and final outputs move. Progress and chunks stay in their rows: each has at most one megabyte, progress is overwritten
 * often, and a chunk is drained only once, so a failure of the payload store must not lose it. Lists, timers, counts and queue positions
 * never call the payload store.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { jsonNull, type JsonText } from "@stint/contract/Json"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord, JobReport } from "@stint/store/JobRecord"
import {
  type ApplyResult,
  type ClaimResult,
  type DrainResult,
  type InsertResult,
  JobStore,
  type PeekResult,
  type SubmissionKey
} from "@stint/store/JobStore"
import type { Quotas } from "@stint/store/Quota"
import { PayloadUnavailable, StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { CLAIM_LIMIT, JobPayloads, type OutagePolicy, type PayloadLost } from "./JobPayloads.ts"
import { isEncoded, toRow } from "./PayloadReference.ts"

/** The minimum delay before a job with an unavailable input can be claimed again. Milliseconds. */
const MIN_REQUEUE_DELAY = 1_000

/** The number of concurrent fetches for one claim. */
const FETCH_CONCURRENCY = 4

/**
 * The maximum number of characters of fetched inputs in one claim, because all its jobs are sent in one response. Further jobs return to
 * the queue.
 */
const MAX_CHARACTERS = 64 * 1024 * 1024

/** The maximum number of characters of an error that are stored. Errors are for people and stay in their rows. */
const MAX_ERROR_LENGTH = 1024 * 1024

type Finish = Extract<JobMachineEvent, { readonly _tag: "Finish" }>

const shortened = (error: string | null): string | null =>
  error === null || error.length <= MAX_ERROR_LENGTH
    ? error
    : `${error.slice(0, MAX_ERROR_LENGTH)}... (${error.length} characters; the rest was not stored)`

const isOffloaded = ({ input, s3Config }: JobRecord): boolean => isEncoded(input) || isEncoded(s3Config)

/** Encodes a job without large payloads. */
const inRow = (job: JobRecord): JobRecord => {
  const input = toRow(job.input)
  const s3Config = job.s3Config === null ? null : toRow(job.s3Config)
  return input === job.input && s3Config === job.s3Config ? job : { ...job, input, s3Config }
}

/** The outcome for a claimed job. */
type FetchResult =
  | { readonly _tag: "Fetched"; readonly job: JobRecord }
  /** The worker does not get the job. */
  | { readonly _tag: "Skipped"; readonly applied: ApplyResult }

/** The claim whose inputs are fetched. */
interface ClaimContext {
  readonly worker: string
  /** The time of the claim plus the time that has elapsed since then. */
  readonly now: () => number
}

/** A job that is skipped without a transition to report. */
const SKIPPED: FetchResult = { _tag: "Skipped", applied: { _tag: "Missing" } }

const make = Effect.gen(function*() {
  const inner = yield* JobStore
  const payloads = yield* JobPayloads
  const { discard, isLarge, withPin, offload, read } = payloads

  /** Resolves the output and progress of a report. */
  const resolveReport = <A extends JobReport>(job: A): Effect.Effect<A, StoreError> => {
    const { output, progress } = job
    if (!isEncoded(output) && !isEncoded(progress)) return Effect.succeed(job)
    return Effect.all([
      isEncoded(output) ? read(output, "try") : Effect.succeed(output),
      isEncoded(progress) ? read(progress, "try") : Effect.succeed(progress)
    ]).pipe(
      Effect.map(([output, progress]): A => ({ ...job, output, progress })),
      // The caller cannot get the output, so the job is reported as failed. Its row and lists keep the status COMPLETED.
      Effect.catchTag("PayloadLost", ({ problem }) =>
        Effect.succeed<A>({
          ...job,
          status: "FAILED",
          output: null,
          progress: null,
          error: `The job ended ${job.status}, and its output is lost: ${problem}.`
        }))
    )
  }

  /** Decodes chunks. They stay in their rows, so this does not call the payload store. */
  const decodeChunks = (chunks: ReadonlyArray<JsonText>): Effect.Effect<ReadonlyArray<JsonText>, StoreError> =>
    Effect.forEach(
      chunks,
      (chunk) =>
        isEncoded(chunk)
          ? Effect.catchTag(read(chunk, "try"), "PayloadLost", () => Effect.succeed(jsonNull))
          : Effect.succeed(chunk)
    )

  const hasReferences = ({ chunks, job }: DrainResult | PeekResult): boolean =>
    isEncoded(job.output) || isEncoded(job.progress) || chunks.some(isEncoded)

  const resolvePeek = (seen: PeekResult): Effect.Effect<PeekResult, StoreError> =>
    Effect.map(Effect.all([resolveReport(seen.job), decodeChunks(seen.chunks)]), ([job, chunks]) => ({ ...seen, job, chunks }))

  /** Always returns the drained chunks: if only the output is unavailable, `more` makes the reader request it again. */
  const resolveDrain = (taken: DrainResult): Effect.Effect<DrainResult, StoreError> =>
    Effect.flatMap(decodeChunks(taken.chunks), (chunks) =>
      resolveReport(taken.job).pipe(
        Effect.map((job): DrainResult => ({ ...taken, job, chunks })),
        Effect.catch((error) =>
          chunks.length === 0 ? Effect.fail(error) : Effect.succeed<DrainResult>({
            job: { ...taken.job, output: null, progress: null },
            chunks,
            more: true
          })
        )
      ))

  /** Resolves the input and s3Config of a record. */
  const resolveInput = Effect.fnUntraced(function*(
    job: JobRecord,
    onOutage: OutagePolicy
  ): Effect.fn.Return<JobRecord, StoreError | PayloadLost> {
    const input = yield* read(job.input, onOutage)
    const s3Config = job.s3Config === null ? null : yield* read(job.s3Config, onOutage)
    return { ...job, input, s3Config }
  })

  /** Resolves the existing job of a duplicate submission. */
  const resolveDuplicate = Effect.fnUntraced(function*(inserted: InsertResult): Effect.fn.Return<InsertResult, StoreError> {
    if (inserted._tag !== "Duplicate") return inserted
    const job = yield* resolveReport(inserted.job)
    if (!isOffloaded(job)) return { _tag: "Duplicate", job }
    return {
      _tag: "Duplicate",
      // When a job's input is lost, the claim fails the job; its submitter still gets the job here.
      job: yield* Effect.catchTag(
        resolveInput(job, "try"),
        "PayloadLost",
        () => Effect.succeed<JobRecord>({ ...job, input: jsonNull, s3Config: null })
      )
    }
  })

  const insertOffloaded = (
    job: JobRecord,
    key: SubmissionKey | undefined,
    quotas: Quotas | undefined
  ): Effect.Effect<InsertResult, StoreError> =>
    withPin(
      job.id,
      Effect.gen(function*() {
        const input = yield* offload(job.endpoint, job.id, "input", job.input)
        const s3Config = job.s3Config === null
          ? undefined
          : yield* Effect.onError(offload(job.endpoint, job.id, "s3config", job.s3Config), () => discard(input.key))
        // If this fails, the row may or may not be committed, so the objects stay; the sweep removes them if they are orphans.
        const inserted = yield* inner.insert({ ...job, input: input.row, s3Config: s3Config?.row ?? null }, key, quotas)
        if (inserted._tag !== "Inserted") yield* Effect.andThen(discard(input.key), discard(s3Config?.key))
        return yield* resolveDuplicate(inserted)
      })
    )

  /** Extends the lease while this runs: a fetch may take longer than the lease. */
  const sendHeartbeats = (
    { attempt, endpoint, id, leaseMs }: JobRecord,
    { now, worker }: ClaimContext
  ): Effect.Effect<never, StoreError> =>
    Effect.sleep(Math.max(100, leaseMs / 3)).pipe(
      Effect.andThen(
        Effect.suspend(() => inner.apply(endpoint, id, { _tag: "Heartbeat", now: now(), endpoint, worker, attempt }))
      ),
      Effect.forever
    )

  /** Returns a job to the queue; workers can claim it after the delay. Milliseconds. */
  const requeue = Effect.fnUntraced(
    function*({ attempt, endpoint, id }: JobRecord, { now, worker }: ClaimContext, delay: number) {
      // Add jitter, so that jobs that fail together are not claimed together.
      const jitter = (yield* Random.next) * delay * 0.2
      return yield* inner.apply(endpoint, id, {
        _tag: "Return",
        now: now(),
        endpoint,
        worker,
        attempt,
        ...(delay === 0 ? {} : { notBefore: now() + Math.round(delay + jitter) })
      })
    }
  )

  const failLost = ({ attempt, endpoint, id }: JobRecord, { now, worker }: ClaimContext, problem: string) => {
    const error = `The job cannot run, because its input is lost: ${problem}.`
    return inner.apply(endpoint, id, { _tag: "Finish", now: now(), endpoint, worker, attempt, output: null, error })
  }

  /** The job with its current lease, unless it was cancelled or lost its lease during the fetch. */
  const stillHeld = (job: JobRecord): Effect.Effect<FetchResult, StoreError> =>
    Effect.map(inner.get(job.endpoint, job.id), (seen): FetchResult => {
      if (seen?.status !== "IN_PROGRESS" || seen.attempt !== job.attempt) return SKIPPED
      return { _tag: "Fetched", job: { ...job, leaseExpiresAt: seen.leaseExpiresAt } }
    })

  /** Fetches the input of a claimed job, or ends or requeues the job. */
  const fetchInput = (job: JobRecord, claiming: ClaimContext, millis: number): Effect.Effect<FetchResult> =>
    Effect.raceFirst(
      Effect.timeoutOrElse(resolveInput(job, "wait"), { duration: millis, orElse: () => payloads.failTimedOut(millis) }),
      sendHeartbeats(job, claiming)
    ).pipe(
      Effect.flatMap(stillHeld),
      Effect.catch((error) =>
        Effect.map(
          error._tag === "PayloadLost"
            ? failLost(job, claiming, error.problem)
            : requeue(job, claiming, error.reason._tag === "PayloadMemoryFull" ? MIN_REQUEUE_DELAY : payloads.retryDelayMillis()),
          (applied): FetchResult => ({ _tag: "Skipped", applied })
        )
      ),
      Effect.catch((error) =>
        Effect.as(
          Effect.logError(
            `Job ${job.id} was claimed, and its input could not be fetched: ${error.message}. The job returns to the queue when its lease expires.`
          ),
          SKIPPED
        )
      )
    )

  const fetchAll = Effect.fnUntraced(function*(
    { expired, isolating, jobs }: ClaimResult,
    event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  ): Effect.fn.Return<ClaimResult> {
    const clock = yield* Clock.Clock
    const begun = clock.monotonicTimeNanosUnsafe()
    const elapsed = () => Number((clock.monotonicTimeNanosUnsafe() - begun) / 1_000_000n)
    const claiming: ClaimContext = { worker: event.worker, now: () => event.now + elapsed() }
    let characters = 0
    const results = yield* Effect.forEach(
      jobs,
      Effect.fnUntraced(function*(job): Effect.fn.Return<FetchResult> {
        if (!isOffloaded(job)) return { _tag: "Fetched", job }
        const left = Duration.toMillis(CLAIM_LIMIT) - elapsed()
        if (characters > MAX_CHARACTERS || left <= 0) {
          return yield* requeue(job, claiming, 0).pipe(
            Effect.map((applied): FetchResult => ({ _tag: "Skipped", applied })),
            Effect.catch(() => Effect.succeed(SKIPPED))
          )
        }
        const one = yield* fetchInput(job, claiming, left)
        if (one._tag === "Fetched") characters += one.job.input.length
        return one
      }),
      { concurrency: FETCH_CONCURRENCY }
    )
    return {
      jobs: results.flatMap((one) => one._tag === "Fetched" ? [one.job] : []),
      expired: [...expired, ...results.flatMap((one) => one._tag === "Skipped" ? [one.applied] : [])],
      isolating
    }
  })

  const finish = (endpoint: EndpointId, id: JobId, event: Finish, output: JsonText): Effect.Effect<ApplyResult, StoreError> =>
    withPin(
      id,
      Effect.flatMap(offload(endpoint, id, "output", output), ({ key, row }) =>
        Effect.tap(
          inner.apply(endpoint, id, { ...event, output: row }),
          // The result was rejected or the job is retried, so no row refers to the object.
          (applied) => applied._tag === "Changed" && isTerminal(applied.after.status) ? Effect.void : discard(key)
        ))
    )

  return JobStore.of({
    ...inner,
    insert: (job, key, quotas) =>
      isLarge(job.input) || isLarge(job.s3Config)
        ? insertOffloaded(job, key, quotas)
        : Effect.flatMap(inner.insert(inRow(job), key, quotas), resolveDuplicate),
    apply: (endpoint, id, event) => {
      switch (event._tag) {
        case "Finish": {
          const ended = event.error === null ? event : { ...event, error: shortened(event.error) }
          if (ended.output === null) return inner.apply(endpoint, id, ended)
          return isLarge(ended.output)
            ? finish(endpoint, id, ended, ended.output)
            : inner.apply(endpoint, id, { ...ended, output: toRow(ended.output) })
        }
        case "Progress":
          return inner.apply(endpoint, id, { ...event, output: toRow(event.output) })
        default:
          return inner.apply(endpoint, id, event)
      }
    },
    append: (endpoint, id, event, body) => inner.append(endpoint, id, event, toRow(body)),
    claim: (endpoint, limit, event) =>
      Effect.flatMap(
        inner.claim(endpoint, limit, event),
        (claimed) => claimed.jobs.some(isOffloaded) ? fetchAll(claimed, event) : Effect.succeed(claimed)
      ),
    get: (endpoint, id) =>
      Effect.flatMap(inner.get(endpoint, id), (job) => job === undefined ? Effect.succeed(undefined) : resolveReport(job)),
    input: (endpoint, id) =>
      Effect.flatMap(inner.input(endpoint, id), (input) =>
        input === undefined || !isEncoded(input)
          ? Effect.succeed(input)
          : Effect.catchTag(
            read(input, "try"),
            "PayloadLost",
            ({ problem }) =>
              Effect.fail(new StoreError({ reason: new PayloadUnavailable({ operation: "get", problem, isLost: true }) }))
          )),
    drain: (endpoint, id, limit) =>
      Effect.flatMap(
        inner.drain(endpoint, id, limit),
        (taken) => taken === undefined || !hasReferences(taken) ? Effect.succeed(taken) : resolveDrain(taken)
      ),
    peek: (endpoint, id, after, limit) =>
      Effect.flatMap(
        inner.peek(endpoint, id, after, limit),
        (seen) => seen === undefined || !hasReferences(seen) ? Effect.succeed(seen) : resolvePeek(seen)
      )
  })
})

/** Adds payloads to a job store. */
export const layer: Layer.Layer<JobStore, never, JobStore | JobPayloads> = Layer.effect(JobStore, make)
