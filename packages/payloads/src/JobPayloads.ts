/**
 * Writes the payloads of jobs to the payload store and reads them back.
 *
 * ```
 *   put      text --UTF-8, SHA-256--> OWNER/ENDPOINT/JOB/KIND.TIME.RANDOM        the key is new each time
 *   read     cached? | fetch --size and SHA-256 match?--> text
 *                         | Missing, Damaged: PayloadLost, permanent
 *                         | Unavailable: StoreError, temporary
 * ```
 *
 * After the store has failed, operations that can wait ({@link OutagePolicy}) fail at once until a delay has passed. The delay grows
 * during the outage, so that the platform spends its time on jobs without large payloads.
 *
 * A job is pinned from the time its object is written until its row is committed. The sweep skips pinned jobs, no matter how long the
 * commit takes.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import * as OutageLog from "@stint/store/OutageLog"
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import { PayloadMemoryFull, PayloadUnavailable, StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createHash, randomUUID } from "node:crypto"
import * as PayloadCache from "./PayloadCache.ts"
import type { PayloadError } from "./PayloadError.ts"
import * as PayloadReference from "./PayloadReference.ts"
import { PayloadKey, PayloadStore } from "./PayloadStore.ts"

/** Which payloads move to the store, and the limits. */
export interface Options {
  /**
   * The platform's name in the store: the first segment of all its keys. Platforms that share a store need different names. The
   * name of a platform must not change. The sweep removes all objects under this name that belong to no job.
   */
  readonly owner: string
  /**
   * Payloads longer than this move to the store. Characters. Default: 256 Ki. A lower threshold keeps the database and its backups smaller; a
   * higher threshold saves requests to the store, which cost more than a row of that size.
   */
  readonly threshold?: number
  /** The capacity of the cache of recently written or read payloads. Characters. Default: 64 Mi. 0 disables the cache. */
  readonly cache?: number
  /** Time limit of one read or write. Default: 60 seconds. A worker's take waits less (see {@link CLAIM_LIMIT}). */
  readonly timeout?: Duration.Input
}

/** The time limit for the inputs of one take: the worker's client times out 30 s after the longest wait for a job. */
export const CLAIM_LIMIT = Duration.seconds(20)

/** The minimum and maximum delay after a failure. Milliseconds. */
const MIN_RETRY_DELAY = 1_000
const MAX_RETRY_DELAY = 60_000

/** Which of a job's payloads. */
export type Kind = "input" | "s3config" | "output"

/**
 * How an operation behaves while the store is failing: `try` to call it, because a caller is waiting for the result, or `wait` until the delay has
 * passed.
 */
export type OutagePolicy = "try" | "wait"

/** A payload is permanently lost. `problem` is the cause, without a full stop, and is shown to the caller. */
export class PayloadLost extends Schema.TaggedError<PayloadLost>()("PayloadLost", {
  problem: Schema.String
}) {}

/** The text for a row, and the key of the object that was written, if any. */
export interface OffloadedText {
  readonly row: JsonText
  readonly key: PayloadKey | undefined
}

/** Text with its references resolved. */
export interface ResolvedText {
  readonly text: string
  /** The causes of lost payloads, each without a full stop. */
  readonly problems: ReadonlyArray<string>
}

/** Ids that are safe in a key. All ids that the platform creates are safe; for any other id, the payloads stay in their rows. */
const PLAIN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/

export class JobPayloads extends Context.Service<JobPayloads, {
  readonly owner: PayloadKey
  /** Whether the text is long enough to move to the store. */
  readonly isLarge: (text: string | null) => boolean
  /** Stores a large payload and returns the text for the job's row. If it fails with `PayloadUnavailable`, nothing was stored. */
  readonly offload: (endpoint: EndpointId, job: JobId, kind: Kind, text: JsonText) => Effect.Effect<OffloadedText, StoreError>
  /** Resolves a row. */
  readonly read: (row: JsonText, onOutage: OutagePolicy) => Effect.Effect<JsonText, StoreError | PayloadLost>
  /** Resolves the references in a longer text. A lost payload becomes `null`, and `problems` contains the cause. */
  readonly resolve: (
    text: JsonText,
    onOutage: OutagePolicy
  ) => Effect.Effect<ResolvedText, StoreError>
  /** Fails, as if the store had not responded, if the effect takes longer than this. */
  readonly failTimedOut: (millis: number) => Effect.Effect<never, StoreError>
  /** Removes an object that nothing refers to. Never fails, because the sweep removes leftovers. */
  readonly discard: (key: PayloadKey | undefined) => Effect.Effect<void>
  /** Runs the effect while the sweep skips the job's objects. */
  readonly withPin: <A, E, R>(job: JobId, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly isPinned: (job: string) => boolean
  /** The delay before a waiting operation is tried again. Milliseconds, at least 1,000. */
  readonly retryDelayMillis: () => number
}>()("@stint/payloads/JobPayloads") {}

const unavailable = (operation: "put" | "get", problem: string) =>
  new StoreError({ reason: new PayloadUnavailable({ operation, problem }) })

const lost = (problem: string): Effect.Effect<never, PayloadLost> =>
  Effect.andThen(Effect.logError(`A payload is lost: ${problem}.`), new PayloadLost({ problem }))

const digestOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("base64url")

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* PayloadStore
  const memory = yield* PayloadMemoryBudget
  const clock = yield* Clock.Clock
  const owner = yield* Effect.orDie(Schema.decodeUnknownEffect(PayloadKey)(options.owner))
  const threshold = options.threshold ?? 256 * 1024
  const timeout = Duration.fromInputUnsafe(options.timeout ?? "60 seconds")
  const cache = PayloadCache.make(options.cache ?? 64 * 1024 * 1024)
  const now = () => Math.floor(clock.currentTimeMillisUnsafe())
  /** Monotonic time, for retries: it does not change when the wall clock is set. */
  const elapsed = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)

  const pins = new Map<string, number>()
  let failingSince: number | undefined
  let retryAt = 0
  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logError(
        `Large payloads cannot be stored or read: ${problem}. Jobs that need one wait; all others continue. Retrying.`
      ),
    onRecovery: Effect.logInfo("Large payloads can be stored and read again.")
  })

  const failed = (problem: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const time = elapsed()
      failingSince ??= time
      retryAt = time + Math.min(MAX_RETRY_DELAY, Math.max(MIN_RETRY_DELAY, time - failingSince))
      return outage.failed(problem)
    })

  const succeeded: Effect.Effect<void> = Effect.suspend(() => {
    failingSince = undefined
    retryAt = 0
    return outage.succeeded
  })

  /** Calls the store within the time limit, and records whether the store works. */
  const ask = <A>(operation: "put" | "get", call: Effect.Effect<A, PayloadError>): Effect.Effect<A, StoreError | PayloadLost> =>
    call.pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => failTimedOut(operation, timeout)
      }),
      Effect.tap(() => succeeded),
      Effect.catch((error): Effect.Effect<never, StoreError | PayloadLost> => {
        if (error._tag === "StoreError") return Effect.andThen(failed(error.message), error)
        if (error.reason._tag === "Unavailable") {
          return Effect.andThen(failed(error.message), unavailable(operation, error.message))
        }
        return lost(error.message)
      })
    )

  const fetch = (reference: PayloadReference.PayloadReference): Effect.Effect<JsonText, StoreError | PayloadLost> =>
    Effect.gen(function*() {
      const { bytes, digest, key } = reference
      if (bytes >= BUDGET_THRESHOLD_BYTES && !(yield* memory.tryReserve(bytes))) {
        return yield* new StoreError({ reason: new PayloadMemoryFull({ bytes }) })
      }
      const found = yield* ask("get", store.get(key, bytes))
      if (digestOf(found) !== digest) {
        return yield* lost(
          `the object ${key} of ${store.description} differs from the bytes that were put: its SHA-256 does not match`
        )
      }
      const text = JsonText.make(Buffer.from(found.buffer, found.byteOffset, found.byteLength).toString("utf8"))
      cache.set(key, text)
      return text
    }).pipe(Effect.scoped)

  const readParsed = (
    parsed: PayloadReference.Parsed,
    onOutage: OutagePolicy
  ): Effect.Effect<string, StoreError | PayloadLost> =>
    Effect.suspend(() => {
      switch (parsed._tag) {
        case "Text":
          return Effect.succeed(parsed.text)
        case "Broken":
          return new PayloadLost({ problem: "its row contains a reference in an unknown format" })
        case "Reference": {
          const cached = cache.get(parsed.key)
          if (cached !== undefined) return Effect.succeed(cached)
          return onOutage === "wait" && elapsed() < retryAt
            ? unavailable("get", `${store.description} failed moments ago`)
            : fetch(parsed)
        }
      }
    })

  const isLarge = (text: string | null) => text !== null && text.length > threshold

  const failTimedOut = (operation: "put" | "get", duration: Duration.Input): Effect.Effect<never, StoreError> =>
    Effect.fail(
      unavailable(operation, `${store.description} did not answer within ${Duration.format(Duration.fromInputUnsafe(duration))}`)
    )

  return JobPayloads.of({
    owner,
    isLarge,
    offload: (endpoint, job, kind, text) =>
      Effect.suspend((): Effect.Effect<OffloadedText, StoreError> => {
        // A lone surrogate has no UTF-8 encoding. Text that contains one cannot be JSON from a request, and stays in its row.
        if (!isLarge(text) || !PLAIN_ID.test(job) || !text.isWellFormed()) {
          return Effect.succeed({ row: PayloadReference.toRow(text), key: undefined })
        }
        const bytes = Buffer.from(text)
        const key = PayloadKey.make(`${owner}/${endpoint}/${job}/${kind}.${now()}.${randomUUID()}`)
        const row = PayloadReference.referenceToRow({ key, bytes: bytes.byteLength, digest: digestOf(bytes) })
        return ask("put", store.put(key, bytes)).pipe(
          Effect.catchTag("PayloadLost", ({ problem }) => unavailable("put", problem)),
          Effect.map(() => {
            cache.set(key, text)
            return { row, key }
          })
        )
      }),
    read: (row, onOutage) => Effect.map(readParsed(PayloadReference.parse(row), onOutage), (text) => JsonText.make(text)),
    resolve: (text, onOutage) =>
      Effect.suspend((): Effect.Effect<ResolvedText, StoreError> => {
        const parts = PayloadReference.partsOf(text)
        if (parts === undefined) return Effect.succeed({ text, problems: [] })
        const problems: Array<string> = []
        return Effect.forEach(parts, (part) =>
          Effect.catchTag(readParsed(part, onOutage), "PayloadLost", ({ problem }) =>
            Effect.sync(() => {
              problems.push(problem)
              return "null"
            }))).pipe(Effect.map((texts) => ({ text: texts.join(""), problems })))
      }),
    failTimedOut: (millis) => Effect.tapError(failTimedOut("get", millis), (error) => failed(error.message)),
    discard: (key) =>
      key === undefined ? Effect.void : Effect.suspend(() => {
        cache.delete(key)
        return Effect.ignore(Effect.timeoutOption(store.remove(key), timeout))
      }),
    withPin: (job, effect) =>
      Effect.acquireUseRelease(
        Effect.sync(() => pins.set(job, (pins.get(job) ?? 0) + 1)),
        () => effect,
        () =>
          Effect.sync(() => {
            const left = (pins.get(job) ?? 1) - 1
            if (left === 0) pins.delete(job)
            else pins.set(job, left)
          })
      ),
    isPinned: (job) => pins.has(job),
    retryDelayMillis: () => Math.max(MIN_RETRY_DELAY, retryAt - elapsed())
  })
})

/** Job payloads in the given store. */
export const layer = (options: Options): Layer.Layer<JobPayloads, never, PayloadStore> => Layer.effect(JobPayloads, make(options))
