/**
 * A job store whose large inputs and outputs are kept in a payload store.
 *
 * ```
 *   insert, finish     object put ---> row with a reference committed ---> acknowledged
 *                        |                |
 *                        | fails          | refused: the object is removed
 *                        v                v crash, no answer: an orphan, for the sweep
 *                      refused; nothing was kept
 *
 *   claim              row committed ---> object read ---> handed out
 *                                           | cannot be had now: back into the queue, for nobody before a pause
 *                                           | lost: the job ends FAILED and says why
 *
 *   get, drain, peek   object read where the row refers to one; of a job whose output is lost they say FAILED and why
 * ```
 *
 * Only what a caller puts in and what a job puts out at its end moves. Progress and chunks stay in their rows: each is a megabyte at the most, progress
 * is overwritten all the time, and a chunk is handed out once, which no failure of another store may undo. Lists, timers, counts and places in line never
 * ask the payload store.
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
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { CLAIM_LIMIT, JobPayloads, type OutagePolicy, type PayloadLost } from "./JobPayloads.ts"
import { isEncoded, toRow } from "./PayloadReference.ts"

/** How long a job whose input cannot be had is for nobody, at the least. Milliseconds. */
const MIN_REQUEUE_DELAY = 1_000

/** Inputs that one claim fetches at once. */
const FETCHERS = 4

/** After so many characters one claim hands out no more jobs whose inputs were fetched: they are one answer. */
const MAX_CHARACTERS = 64 * 1024 * 1024

/** The most that is kept of an error, in characters: errors are for people and stay in their rows. */
const ERROR_PREVIEW_LENGTH = 1024 * 1024

type Finish = Extract<JobMachineEvent, { readonly _tag: "Finish" }>

const shortened = (error: string | null): string | null =>
  error === null || error.length <= ERROR_PREVIEW_LENGTH
    ? error
    : `${error.slice(0, ERROR_PREVIEW_LENGTH)}... (${error.length} characters; the rest was not kept)`

const isOffloaded = ({ input, s3Config }: JobRecord): boolean => isEncoded(input) || isEncoded(s3Config)

/** A small job as its row holds it. */
const inRow = (job: JobRecord): JobRecord => {
  const input = toRow(job.input)
  const s3Config = job.s3Config === null ? null : toRow(job.s3Config)
  return input === job.input && s3Config === job.s3Config ? job : { ...job, input, s3Config }
}

/** What became of a job that was claimed. */
type FetchResult =
  | { readonly _tag: "Whole"; readonly job: JobRecord }
  /** It is not to be handed out. */
  | { readonly _tag: "Not"; readonly applied: ApplyResult }

/** What is known of a claim while its inputs are fetched. */
interface ClaimContext {
  readonly worker: string
  /** The claim's time, and what has passed since. */
  readonly now: () => number
}

/** Not handed out, and nothing to tell of it. */
const NOT_HANDED_OUT: FetchResult = { _tag: "Not", applied: { _tag: "Missing" } }

const make = Effect.gen(function*() {
  const inner = yield* JobStore
  const payloads = yield* JobPayloads
  const { discard, isLarge, withPin, offload, read } = payloads

  /** The report with its output in it. */
  const reported = <A extends JobReport>(job: A): Effect.Effect<A, StoreError> => {
    const { output, progress } = job
    if (!isEncoded(output) && !isEncoded(progress)) return Effect.succeed(job)
    return Effect.all([
      isEncoded(output) ? read(output, "try") : Effect.succeed(output),
      isEncoded(progress) ? read(progress, "try") : Effect.succeed(progress)
    ]).pipe(
      Effect.map(([output, progress]): A => ({ ...job, output, progress })),
      // What is told is what the caller has of it; the row says that the job completed, and lists do.
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

  /** Chunks stay in their rows: nothing of the payload store is asked. */
  const chunksOf = (chunks: ReadonlyArray<JsonText>): Effect.Effect<ReadonlyArray<JsonText>, StoreError> =>
    Effect.forEach(
      chunks,
      (chunk) =>
        isEncoded(chunk)
          ? Effect.catchTag(read(chunk, "try"), "PayloadLost", () => Effect.succeed(jsonNull))
          : Effect.succeed(chunk)
    )

  const hasReferences = ({ chunks, job }: DrainResult | PeekResult): boolean =>
    isEncoded(job.output) || isEncoded(job.progress) || chunks.some(isEncoded)

  const peeked = (seen: PeekResult): Effect.Effect<PeekResult, StoreError> =>
    Effect.map(Effect.all([reported(seen.job), chunksOf(seen.chunks)]), ([job, chunks]) => ({ ...seen, job, chunks }))

  /** What was taken is never kept back: a reader whose chunks are here and whose output is not is told to come again for that. */
  const drained = (taken: DrainResult): Effect.Effect<DrainResult, StoreError> =>
    Effect.flatMap(chunksOf(taken.chunks), (chunks) =>
      reported(taken.job).pipe(
        Effect.map((job): DrainResult => ({ ...taken, job, chunks })),
        Effect.catch((error) =>
          chunks.length === 0 ? Effect.fail(error) : Effect.succeed<DrainResult>({
            job: { ...taken.job, output: null, progress: null },
            chunks,
            more: true
          })
        )
      ))

  /** The record with what was put in. */
  const whole = Effect.fnUntraced(function*(
    job: JobRecord,
    onOutage: OutagePolicy
  ): Effect.fn.Return<JobRecord, StoreError | PayloadLost> {
    const input = yield* read(job.input, onOutage)
    const s3Config = job.s3Config === null ? null : yield* read(job.s3Config, onOutage)
    return { ...job, input, s3Config }
  })

  /** The job that a submission's key stood for, whole. */
  const known = Effect.fnUntraced(function*(inserted: InsertResult): Effect.fn.Return<InsertResult, StoreError> {
    if (inserted._tag !== "Known") return inserted
    const job = yield* reported(inserted.job)
    if (!isOffloaded(job)) return { _tag: "Known", job }
    return {
      _tag: "Known",
      // Whoever takes it is told that its input is lost; for whoever submitted it, it is the job that it is.
      job: yield* Effect.catchTag(
        whole(job, "try"),
        "PayloadLost",
        () => Effect.succeed<JobRecord>({ ...job, input: jsonNull, s3Config: null })
      )
    }
  })

  const insertOffloaded = (job: JobRecord, key: SubmissionKey | undefined): Effect.Effect<InsertResult, StoreError> =>
    withPin(
      job.id,
      Effect.gen(function*() {
        const input = yield* offload(job.endpoint, job.id, "input", job.input)
        const s3Config = job.s3Config === null
          ? undefined
          : yield* Effect.onError(offload(job.endpoint, job.id, "s3config", job.s3Config), () => discard(input.key))
        // Where this fails, nobody knows whether the row was kept: the objects stay, for the sweep.
        const inserted = yield* inner.insert({ ...job, input: input.row, s3Config: s3Config?.row ?? null }, key)
        if (inserted._tag !== "Kept") yield* Effect.andThen(discard(input.key), discard(s3Config?.key))
        return yield* known(inserted)
      })
    )

  /** Says that the worker is at it for as long as this runs: a lease may be shorter than the way to the store. */
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

  /** Back into the queue, for nobody for a while where there is a pause. */
  const requeue = Effect.fnUntraced(
    function*({ attempt, endpoint, id }: JobRecord, { now, worker }: ClaimContext, pause: number) {
      // Not all at once when the time has come.
      const spread = (yield* Random.next) * pause * 0.2
      return yield* inner.apply(endpoint, id, {
        _tag: "Return",
        now: now(),
        endpoint,
        worker,
        attempt,
        ...(pause === 0 ? {} : { notBefore: now() + Math.round(pause + spread) })
      })
    }
  )

  const failLost = ({ attempt, endpoint, id }: JobRecord, { now, worker }: ClaimContext, problem: string) => {
    const error = `The job cannot be run, because its input is lost: ${problem}.`
    return inner.apply(endpoint, id, { _tag: "Finish", now: now(), endpoint, worker, attempt, output: null, error })
  }

  /** The job as it is to be handed out, unless it was cancelled or lost its lease while its input was on its way. */
  const stillHeld = (job: JobRecord): Effect.Effect<FetchResult, StoreError> =>
    Effect.map(inner.get(job.endpoint, job.id), (seen): FetchResult => {
      if (seen?.status !== "IN_PROGRESS" || seen.attempt !== job.attempt) return NOT_HANDED_OUT
      return { _tag: "Whole", job: { ...job, leaseExpiresAt: seen.leaseExpiresAt } }
    })

  /** A job that was claimed, with its input; or what became of it without. */
  const fetched = (job: JobRecord, claiming: ClaimContext, millis: number): Effect.Effect<FetchResult> =>
    Effect.raceFirst(
      Effect.timeoutOrElse(whole(job, "wait"), { duration: millis, orElse: () => payloads.failTimedOut(millis) }),
      sendHeartbeats(job, claiming)
    ).pipe(
      Effect.flatMap(stillHeld),
      Effect.catch((error) =>
        Effect.map(
          error._tag === "PayloadLost"
            ? failLost(job, claiming, error.problem)
            : requeue(job, claiming, error.reason._tag === "PayloadMemoryFull" ? MIN_REQUEUE_DELAY : payloads.pause()),
          (applied): FetchResult => ({ _tag: "Not", applied })
        )
      ),
      Effect.catch((error) =>
        Effect.as(
          Effect.logError(
            `Job ${job.id} was claimed and cannot be handed out: ${error.message}. It comes back when its lease is over.`
          ),
          NOT_HANDED_OUT
        )
      )
    )

  const fetchAll = Effect.fnUntraced(function*(
    { expired, jobs }: ClaimResult,
    event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  ): Effect.fn.Return<ClaimResult> {
    const clock = yield* Clock.Clock
    const begun = clock.currentTimeMillisUnsafe()
    const elapsed = () => Math.floor(clock.currentTimeMillisUnsafe() - begun)
    const claiming: ClaimContext = { worker: event.worker, now: () => event.now + elapsed() }
    let characters = 0
    const all = yield* Effect.forEach(
      jobs,
      Effect.fnUntraced(function*(job): Effect.fn.Return<FetchResult> {
        if (!isOffloaded(job)) return { _tag: "Whole", job }
        const left = Duration.toMillis(CLAIM_LIMIT) - elapsed()
        if (characters > MAX_CHARACTERS || left <= 0) {
          return yield* requeue(job, claiming, 0).pipe(
            Effect.map((applied): FetchResult => ({ _tag: "Not", applied })),
            Effect.catch(() => Effect.succeed(NOT_HANDED_OUT))
          )
        }
        const one = yield* fetched(job, claiming, left)
        if (one._tag === "Whole") characters += one.job.input.length
        return one
      }),
      { concurrency: FETCHERS }
    )
    return {
      jobs: all.flatMap((one) => one._tag === "Whole" ? [one.job] : []),
      expired: [...expired, ...all.flatMap((one) => one._tag === "Not" ? [one.applied] : [])]
    }
  })

  const finish = (endpoint: EndpointId, id: JobId, event: Finish, output: JsonText): Effect.Effect<ApplyResult, StoreError> =>
    withPin(
      id,
      Effect.flatMap(offload(endpoint, id, "output", output), ({ key, row }) =>
        Effect.tap(
          inner.apply(endpoint, id, { ...event, output: row }),
          // Refused, or the attempt is tried again: nothing refers to it.
          (applied) => applied._tag === "Changed" && isTerminal(applied.after.status) ? Effect.void : discard(key)
        ))
    )

  return JobStore.of({
    ...inner,
    insert: (job, key) =>
      isLarge(job.input) || isLarge(job.s3Config)
        ? insertOffloaded(job, key)
        : Effect.flatMap(inner.insert(inRow(job), key), known),
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
      Effect.flatMap(inner.get(endpoint, id), (job) => job === undefined ? Effect.succeed(undefined) : reported(job)),
    drain: (endpoint, id, limit) =>
      Effect.flatMap(
        inner.drain(endpoint, id, limit),
        (taken) => taken === undefined || !hasReferences(taken) ? Effect.succeed(taken) : drained(taken)
      ),
    peek: (endpoint, id, after, limit) =>
      Effect.flatMap(
        inner.peek(endpoint, id, after, limit),
        (seen) => seen === undefined || !hasReferences(seen) ? Effect.succeed(seen) : peeked(seen)
      )
  })
})

/** Puts payloads over a job store. */
export const layer: Layer.Layer<JobStore, never, JobStore | JobPayloads> = Layer.effect(JobStore, make)
