/**
 * Delivers results and chunks: tries until the platform accepts them or it is certain that it never will.
 *
 * ```
 *  the platform answers        then
 *  2xx                         delivered
 *  nothing, 408, 429, 5xx      again and again, with growing waits: it may be restarting. While the worker stops, for 30 s more
 *  401, 403                    again, slowly, with an ERROR that says what to check
 *  409                         the job is no longer this worker's (lease lost, cancelled): given up with a WARN
 *  404, 410                    no such job or endpoint: given up with an ERROR
 *  413                         too large: the job is delivered as FAILED with that reason instead
 *  other 3xx, 4xx              three tries, then as 413
 * ```
 *
 * A delivery may be accepted and its answer lost, so it may be sent twice. A result is fenced, and a chunk has a number: our platform keeps
 * either once. One that knows no numbers keeps such a chunk twice.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import * as Outcome from "../handlers/Outcome.ts"
import { Shutdown } from "../runtime/Shutdown.ts"
import { WorkerConfig } from "../runtime/WorkerConfig.ts"
import * as Backoff from "./Backoff.ts"
import { JobSource } from "./JobSource.ts"
import type { JobSourceError } from "./JobSource.ts"

/** The job is no longer this worker's: whatever it still does is for nothing. */
export class JobLost extends Schema.TaggedError<JobLost>()("JobLost", {
  detail: Schema.String
}) {}

/** The platform will not take this body. */
export class BodyRejected extends Schema.TaggedError<BodyRejected>()("BodyRejected", {
  detail: Schema.String
}) {}

/** Why something was not delivered and never will be. */
export type DeliveryError = JobLost | BodyRejected

/** How long deliveries are retried while the worker stops. Milliseconds. */
export const SHUTDOWN_RETRY_TIMEOUT = 30_000

/** The waits between tries. The first is short, because most failures are one lost connection. */
const RETRY_BACKOFF: Backoff.Limits = { initial: 100, max: 5_000 }

/** The waits while the platform does not accept the key: only a human can change that. */
const AUTH_BACKOFF: Backoff.Limits = { initial: 5_000, max: 30_000 }

/** Tries of a body that the platform calls wrong, in case something between here and there said so. */
const MAX_REJECTED_TRIES = 3

export class ResultDelivery extends Context.Service<ResultDelivery, {
  /**
   * Delivers the result; `stream` says that chunks went before it. Ends when it is delivered or lost; what is lost is in the log.
   */
  readonly done: (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean) => Effect.Effect<void>
  /**
   * Delivers one chunk, any value that JSON can hold, the `number`th of this attempt, from 1. Chunks of a job must be delivered one
   * after the other.
   */
  readonly chunk: (job: ReceivedJob, chunk: unknown, number: number) => Effect.Effect<void, DeliveryError>
}>()("@stint/worker/ResultDelivery") {}

type RetryDecision = "again" | "slowly" | "lost" | "refused" | "doubtful"

const retryDecision = ({ reason }: JobSourceError): RetryDecision => {
  if (reason._tag === "Unreachable") return "again"
  switch (reason.status) {
    case 401:
    case 403:
      return "slowly"
    case 404:
    case 409:
    case 410:
      return "lost"
    case 413:
      return "refused"
    case 408:
    case 425:
    case 429:
      return "again"
    default:
      return reason.status >= 500 ? "again" : "doubtful"
  }
}

/**
 * From here on a result may be refused; the described platform only advises
 * (docs/spec/worker-lifecycle.md#delivery-of-results). Characters, which are bytes at
 * least.
 */
const LARGE_RESULT_BYTES = 20 * 1024 * 1024

const size = (text: string) => `${Buffer.byteLength(text)} bytes`

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const shutdown = yield* Shutdown
  const { identity } = yield* WorkerConfig

  let stoppingSince: number | undefined
  yield* shutdown.requested.pipe(
    Effect.andThen(Clock.currentTimeMillis),
    Effect.map((now) => {
      stoppingSince = now
    }),
    Effect.forkScoped
  )

  /** Whether there is no time left for another try after `wait`. */
  const isOver = (started: number, now: number, wait: number) =>
    stoppingSince !== undefined && now + wait > Math.max(stoppingSince, started) + SHUTDOWN_RETRY_TIMEOUT

  const retrying = Effect.fnUntraced(function*(what: string, initial: JobSourceError, send: Effect.Effect<void, JobSourceError>) {
    const started = yield* Clock.currentTimeMillis
    const retryBackoff = Backoff.make(RETRY_BACKOFF)
    const authBackoff = Backoff.make(AUTH_BACKOFF)
    let error = initial
    for (let failures = 1;; failures++) {
      const judged = retryDecision(error)
      if (judged === "lost") {
        const conflict = error.reason._tag === "Refused" && error.reason.status === 409
        yield* conflict
          ? Effect.logWarning(`The ${what} is not accepted, because the job is no longer this worker's: ${error.message}`)
          : Effect.logError(
            `The ${what} cannot be delivered: ${error.message}. The platform does not know the job or its endpoint.`
          )
        return yield* new JobLost({ detail: error.message })
      }
      if (judged === "refused" || (judged === "doubtful" && failures >= MAX_REJECTED_TRIES)) {
        return yield* new BodyRejected({ detail: error.message })
      }
      const slowly = judged === "slowly"
      if (failures === 1) {
        yield* slowly
          ? Effect.logError(
            `The ${what} is not accepted: ${error.message}. Check that PLATFORM_AI_API_KEY (or RUNPOD_AI_API_KEY) is a key for ` +
              "this endpoint. Trying on."
          )
          : Effect.logWarning(`The ${what} could not be delivered: ${error.message}. Trying until it is accepted.`)
      }
      const wait = yield* (slowly ? authBackoff : retryBackoff).next
      if (isOver(started, yield* Clock.currentTimeMillis, wait)) {
        yield* Effect.logError(`The ${what} is lost: the worker stops and the last try failed with: ${error.message}.`)
        return yield* new JobLost({ detail: error.message })
      }
      yield* Effect.sleep(wait)
      const failed = yield* Effect.match(send, { onFailure: (next) => next, onSuccess: () => undefined })
      if (failed === undefined) {
        yield* Effect.logInfo(`The ${what} is delivered, after ${failures} failed ${failures === 1 ? "try" : "tries"}.`)
        return
      }
      error = failed
    }
  })

  const deliver = (what: string, send: Effect.Effect<void, JobSourceError>): Effect.Effect<void, DeliveryError> =>
    Effect.catch(send, (error) => retrying(what, error, send))

  /** What is delivered in place of a result that the platform will not take. */
  const deliverRejectionReport = (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean, text: string, detail: string) => {
    const reason = `The platform refused the result of ${size(text)}: ${detail}. ` +
      "Return less, or upload large data and return its address."
    const report: Outcome.Outcome = outcome.stopPod === undefined ? { error: reason } : { error: reason, stopPod: true }
    return Effect.logError(`${reason} The job is reported as FAILED.`).pipe(
      Effect.andThen(deliver("report of the refused result", source.done(job, JSON.stringify(report), stream))),
      Effect.catch((error) =>
        error._tag === "JobLost"
          ? Effect.void
          : Effect.logError(`The platform refused even the report of the refused result: ${error.detail}. The job is given up.`)
      )
    )
  }

  const done = (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean): Effect.Effect<void> => {
    const { text } = Outcome.toText(outcome, identity)
    const delivered = Effect.catch(
      deliver("result", source.done(job, text, stream)),
      (error) => error._tag === "JobLost" ? Effect.void : deliverRejectionReport(job, outcome, stream, text, error.detail)
    )
    return text.length <= LARGE_RESULT_BYTES ? delivered : Effect.andThen(
      Effect.logWarning(
        `The result has ${
          size(text)
        }; a platform may refuse more than ${LARGE_RESULT_BYTES}. Upload large data and return its address.`
      ),
      delivered
    )
  }

  return ResultDelivery.of({
    done: (job, outcome, stream) => Effect.suspend(() => done(job, outcome, stream)),
    chunk: (job, chunk, number) =>
      Effect.suspend(() => {
        const text = JSON.stringify({ output: chunk === undefined ? null : chunk })
        return Effect.catchTag(
          deliver("chunk", source.chunk(job, text, number)),
          "BodyRejected",
          ({ detail }) =>
            Effect.fail(
              new BodyRejected({ detail: `The platform refused a chunk of ${size(text)}: ${detail}. Yield smaller chunks.` })
            )
        )
      })
  })
})

/** Deliveries over the current transport. */
export const layer: Layer.Layer<ResultDelivery, never, JobSource | Shutdown | WorkerConfig> = Layer.effect(ResultDelivery, make)
