/**
 * The platform's journal (docs/spec/pipelines.md#run-journal).
 *
 * ```
 *   writes of all runs in one turn of the event loop --> one request --> responses, one per run
 *   a write of a run that may continue soon          --> its own request, because the platform holds it for up to a second
 *
 *   no response, 408, 425, 429, 5xx  the same request again, with backoff: entries are stored once
 *   401, 403                         again, slowly, with an ERROR that names the key
 *   413, other 4xx                   each run's write alone; then the write of that run is refused
 *   no response during a shutdown    again for 30 s; then this worker has lost the run, and another worker continues it
 * ```
 *
 * Only one request that is not held is in flight at a time, so writes that arrive in the meantime share the next one.
 */
import { MAX_JOURNAL_RECORDS, MAX_JOURNAL_RUNS, RunJournalResponse } from "@stint/contract/RunJournal"
import type { RunAnswer } from "@stint/contract/RunJournal"
import * as Backoff from "@stint/worker/Backoff"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import { JobSource } from "@stint/worker/JobSource"
import type { JobSourceError } from "@stint/worker/JobSource"
import type { Shutdown } from "@stint/worker/Shutdown"
import * as ShutdownRetryLimit from "@stint/worker/ShutdownRetryLimit"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { MAX_WRITE_LENGTH, PARK_DELAY_MILLIS } from "./Activation.ts"
import { JournalRefused, PlatformGone } from "./Journal.ts"
import type { DefinitionRef, Journal } from "./Journal.ts"

/** The backoff while the platform does not respond. It starts with a short delay, because most failures are a single lost connection. */
const RETRY_BACKOFF: Backoff.Limits = { initial: 100, max: 2_000 }

/** The backoff while the platform rejects the key, which an operator must correct. */
const AUTH_BACKOFF: Backoff.Limits = { initial: 5_000, max: 30_000 }

const decodeResponse = Schema.decodeUnknownEffect(Schema.fromJsonString(RunJournalResponse))

interface Waiting {
  readonly text: string
  /** The number of its records. */
  readonly records: number
  readonly definition: DefinitionRef
  readonly run: string
  readonly answer: Deferred.Deferred<RunAnswer, JournalRefused | PlatformGone>
}

/** What a failed call means. */
const decisionOf = ({ reason }: JobSourceError): "retry" | "slowly" | "refused" => {
  if (reason._tag === "Unreachable") return "retry"
  if (reason.status === 401 || reason.status === 403) return "slowly"
  return reason.status >= 500 || [408, 425, 429].includes(reason.status) ? "retry" : "refused"
}

/** A journal over the worker's own connection to the platform. */
export const make = Effect.fnUntraced(function*(
  send: NonNullable<JobSource["Service"]["runJournal"]>
): Effect.fn.Return<Journal["Service"], never, JobSource | Scope.Scope | Shutdown> {
  const source = yield* JobSource
  const waitForRetry = yield* ShutdownRetryLimit.make
  const scope = yield* Effect.scope
  /** The definitions that the platform has stored. */
  const known = new Set<string>()

  /** Waits before the next attempt. Fails if a shutdown leaves no time for it. */
  const waitAfter = Effect.fnUntraced(function*({ message }: JobSourceError, started: number, backoff: Backoff.Backoff) {
    if (yield* waitForRetry(started, backoff)) return
    return yield* new PlatformGone({ message: `the worker shuts down, and the last attempt to write failed: ${message}` })
  })

  const post = (body: string): Effect.Effect<RunJournalResponse, JournalRefused | PlatformGone> =>
    Effect.gen(function*() {
      const started = yield* Clock.currentTimeMillis
      const retries = Backoff.make(RETRY_BACKOFF)
      const slow = Backoff.make(AUTH_BACKOFF)
      for (let failures = 0;; failures++) {
        const result = yield* Effect.match(send(body), {
          onFailure: (error) => ({ error }),
          onSuccess: (text) => ({ text })
        })
        if ("text" in result) {
          return yield* Effect.mapError(
            decodeResponse(result.text),
            (error) =>
              new JournalRefused({ message: `The platform returned an invalid response to run-journal: ${error.message}` })
          )
        }
        const decision = decisionOf(result.error)
        if (decision === "refused") {
          return yield* new JournalRefused({
            message: `The platform does not accept the journal of the run: ${result.error.message}`
          })
        }
        if (failures === 0) {
          yield* decision === "slowly"
            ? Effect.logError(
              `The platform rejected the journal: ${result.error.message}. Check that PLATFORM_AI_API_KEY is a key for this endpoint.`
            )
            : Effect.logWarning(`Cannot write to the journal: ${result.error.message}. Retrying until the platform responds.`)
        }
        yield* waitAfter(result.error, started, decision === "slowly" ? slow : retries)
      }
    })

  const bodyOf = (batch: ReadonlyArray<Waiting>, wait: boolean): string => {
    const definitions = new Map(
      batch.filter(({ definition }) => !known.has(definition.hash)).map(({ definition }) =>
        [definition.hash, definition.graph] as const
      )
    )
    const parts = [
      ...(definitions.size === 0 ? [] : [
        `"definitions":${JSON.stringify([...definitions].map(([hash, graph]) => ({ hash, graph })))}`
      ]),
      ...(wait ? [`"waitMs":${PARK_DELAY_MILLIS}`] : []),
      `"runs":[${batch.map(({ text }) => text).join(",")}]`
    ]
    return `{${parts.join(",")}}`
  }

  /** Sends a batch. Sends a run again with its definition if the platform has lost the definition. */
  const sendBatch = (batch: ReadonlyArray<Waiting>, wait: boolean): Effect.Effect<void> =>
    Effect.matchEffect(post(bodyOf(batch, wait)), {
      onFailure: (error) => {
        if (error._tag === "PlatformGone") {
          for (const { answer } of batch) Deferred.doneUnsafe(answer, Effect.fail(error))
          return Effect.void
        }
        const [first, ...others] = batch
        if (first === undefined) return Effect.void
        if (others.length === 0) return Effect.asVoid(Deferred.fail(first.answer, error))
        return Effect.forEach(batch, (one) => sendBatch([one], wait), { discard: true })
      },
      onSuccess: (response) => {
        const answers = new Map(response.runs.map((answer) => [answer.run, answer] as const))
        const again: Array<Waiting> = []
        for (const one of batch) {
          const answer = answers.get(one.run)
          if (answer?.definition === "unknown") {
            known.delete(one.definition.hash)
            again.push(one)
            continue
          }
          known.add(one.definition.hash)
          Deferred.doneUnsafe(
            one.answer,
            answer === undefined
              ? Effect.fail(new JournalRefused({ message: "The platform's response to run-journal lacks this run." }))
              : Effect.succeed(answer)
          )
        }
        return again.length === 0 ? Effect.void : sendBatch(again, wait)
      }
    })

  let waiting: Array<Waiting> = []
  let sending = false

  /** The next batch: as many writes as fit, but at least one. */
  const nextBatch = (): ReadonlyArray<Waiting> => {
    let length = 0
    let all = 0
    let count = 0
    for (const { records, text } of waiting) {
      length += text.length
      all += records
      if (count === MAX_JOURNAL_RUNS || (count > 0 && (length > MAX_WRITE_LENGTH || all > MAX_JOURNAL_RECORDS))) break
      count++
    }
    const batch = waiting.slice(0, count)
    waiting = waiting.slice(count)
    return batch
  }

  const flush = Effect.gen(function*() {
    yield* Effect.yieldNow
    while (waiting.length > 0) yield* sendBatch(nextBatch(), false)
    sending = false
  })

  const write: Journal["Service"]["write"] = (write, definition, hold = false) =>
    Effect.suspend(() => {
      const one: Waiting = {
        run: write.run,
        text: JSON.stringify(write),
        records: write.records?.length ?? 0,
        definition,
        answer: Deferred.makeUnsafe()
      }
      const answer = Deferred.await(one.answer)
      if (hold) return Effect.andThen(sendBatch([one], true), answer)
      waiting.push(one)
      if (sending) return answer
      sending = true
      return Effect.andThen(Effect.forkIn(flush, scope), answer)
    })

  const chunk = (job: ReceivedJob, value: unknown, number: number): Effect.Effect<void, PlatformGone> =>
    Effect.gen(function*() {
      const started = yield* Clock.currentTimeMillis
      const body = JSON.stringify({ output: value === undefined ? null : value })
      const retries = Backoff.make(RETRY_BACKOFF)
      while (true) {
        const failure = yield* Effect.match(source.deliverChunk(job, body, number), {
          onFailure: (error) => error,
          onSuccess: () => undefined
        })
        if (failure === undefined) return
        if (decisionOf(failure) === "refused") return yield* Effect.die(failure)
        yield* waitAfter(failure, started, retries)
      }
    })

  const announce = ({ graph, hash }: DefinitionRef): Effect.Effect<void> =>
    Effect.matchEffect(post(JSON.stringify({ definitions: [{ hash, graph }], runs: [] })), {
      onFailure: (error) => error._tag === "PlatformGone" ? Effect.void : Effect.logError(error.message),
      onSuccess: () => Effect.sync(() => void known.add(hash))
    })

  return { write, announce, chunk, finishes: true }
})
