/**
 * Payloads on their way into the payload store and out of it.
 *
 * ```
 *   put      text --UTF-8, SHA-256--> OWNER/ENDPOINT/JOB/KIND.TIME.RANDOM        the key is new each time
 *   read     cached? | fetch --size and SHA-256 hold?--> text
 *                         | Missing, Damaged: lost for good, in words
 *                         | Unavailable: now it cannot be had
 * ```
 *
 * Of a store that fails, a memory is kept: after a failure, those who can wait ({@link Patience}) do not try again before a pause that grows with the outage,
 * so that a platform whose store is away spends its time on jobs that need none.
 *
 * A job whose object is written and not yet referred to is pinned: the sweep leaves it alone, however long the commit takes.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
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

/** What moves, and how patiently. */
export interface Options {
  /**
   * The platform's name in the store: the first segment of all its keys. Platforms that share a store must have different ones, and one platform always
   * the same: the sweep removes what is below it and belongs to no job.
   */
  readonly owner: string
  /**
   * Texts of more characters than this move. Default: 256 KiB. A lower one keeps the database and its backups smaller; a higher one saves the way to the
   * store, which costs more than a row of its size.
   */
  readonly threshold?: number
  /** What is kept in memory of what was written or read last, in characters. Default: 64 Mi. 0 keeps nothing. */
  readonly cache?: number
  /** How long one write or read may take. Default: 60 seconds. A worker's take waits for less, see {@link CLAIM_LIMIT}. */
  readonly timeout?: Duration.Input
}

/** How long a worker's take waits for inputs: the client gives up on it 30 s after the longest wait for a job. */
export const CLAIM_LIMIT = Duration.seconds(20)

/** The first and the longest pause after a failure, in milliseconds. */
const MIN_RETRY_DELAY = 1_000
const MAX_RETRY_DELAY = 60_000

/** What of a job is kept. */
export type Kind = "input" | "s3config" | "output"

/** Whether to try a store that has just failed: a caller who waits for an answer does, what can be put off is put off. */
export type OutagePolicy = "try" | "wait"

/** A payload that will never be had again. `problem` is a part of a sentence, for the caller. */
export class PayloadLost extends Schema.TaggedError<PayloadLost>()("PayloadLost", {
  problem: Schema.String
}) {}

/** A text as it goes into a row, and the object that was written for it. */
export interface OffloadedText {
  readonly row: JsonText
  readonly key: PayloadKey | undefined
}

/** A text with its payloads in it. */
export interface ResolvedText {
  readonly text: string
  /** Why payloads of it are lost, each a part of a sentence. */
  readonly problems: ReadonlyArray<string>
}

/** The ids that are safe in a key. All that the platform makes are; payloads of others stay in their rows. */
const PLAIN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/

export class JobPayloads extends Context.Service<JobPayloads, {
  readonly owner: PayloadKey
  /** Whether a text of that length moves. */
  readonly isLarge: (text: string | null) => boolean
  /** A text as it goes into a row of the job. Fails with `PayloadUnavailable`, and nothing was kept. */
  readonly offload: (
    endpoint: EndpointId,
    job: JobId,
    kind: Kind,
    text: JsonText
  ) => Effect.Effect<OffloadedText, StoreError>
  /** The text that a row stands for. */
  readonly read: (row: JsonText, onOutage: OutagePolicy) => Effect.Effect<JsonText, StoreError | PayloadLost>
  /** A text into which rows were spliced, with what they stand for. What is lost is `null`, and `problems` says why. */
  readonly resolve: (
    text: JsonText,
    onOutage: OutagePolicy
  ) => Effect.Effect<ResolvedText, StoreError>
  /** Fails as a store that did not answer in so many milliseconds. */
  readonly failTimedOut: (millis: number) => Effect.Effect<never, StoreError>
  /** Removes an object that nothing refers to. Fails never: the sweep finds what is left. */
  readonly discard: (key: PayloadKey | undefined) => Effect.Effect<void>
  /** The sweep leaves the job's objects alone while this runs. */
  readonly withPin: <A, E, R>(job: JobId, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly isPinned: (job: string) => boolean
  /** How long those who wait are to wait before they try again, in milliseconds. A second at the least. */
  readonly pause: () => number
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

  const pins = new Map<string, number>()
  let failingSince: number | undefined
  let retryAt = 0

  const failed = (problem: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const first = failingSince === undefined
      failingSince ??= now()
      retryAt = now() + Math.min(MAX_RETRY_DELAY, Math.max(MIN_RETRY_DELAY, now() - failingSince))
      return first
        ? Effect.logError(
          `Large payloads cannot be kept or had: ${problem}. Jobs that need none go on; those that do wait. Trying on.`
        )
        : Effect.void
    })

  const worked: Effect.Effect<void> = Effect.suspend(() => {
    if (failingSince === undefined) return Effect.void
    failingSince = undefined
    retryAt = 0
    return Effect.logInfo("Large payloads are kept and had again.")
  })

  /** One call of the store, bounded; what it says of itself is remembered. */
  const ask = <A>(operation: "put" | "get", call: Effect.Effect<A, PayloadError>): Effect.Effect<A, StoreError | PayloadLost> =>
    call.pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => failTimedOut(operation, timeout)
      }),
      Effect.tap(() => worked),
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
        return yield* lost(`the object ${key} of ${store.description} is not what was put there: its SHA-256 is another`)
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
          return new PayloadLost({ problem: "its row refers to a payload in a way that this platform does not know" })
        case "Reference": {
          const known = cache.get(parsed.key)
          if (known !== undefined) return Effect.succeed(known)
          return onOutage === "wait" && now() < retryAt
            ? unavailable("get", `${store.description} failed a moment ago`)
            : fetch(parsed)
        }
      }
    })

  const isLarge = (text: string | null) => text !== null && text.length > threshold

  const failTimedOut = (operation: "put" | "get", duration: Duration.Input): Effect.Effect<never, StoreError> =>
    Effect.fail(
      unavailable(operation, `${store.description} did not answer in ${Duration.format(Duration.fromInputUnsafe(duration))}`)
    )

  return JobPayloads.of({
    owner,
    isLarge,
    offload: (endpoint, job, kind, text) =>
      Effect.suspend((): Effect.Effect<OffloadedText, StoreError> => {
        // A lone half of a surrogate pair has no UTF-8: such a text is no JSON from outside, and stays where it is.
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
    pause: () => Math.max(MIN_RETRY_DELAY, retryAt - now())
  })
})

/** Payloads over whatever store is given. */
export const layer = (options: Options): Layer.Layer<JobPayloads, never, PayloadStore> => Layer.effect(JobPayloads, make(options))
