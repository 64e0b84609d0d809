/**
 * Delivers results and chunks. Retries until the platform accepts them or it is certain that it never will.
 *
 * ```
 *  response                    action
 *  2xx                         delivered
 *  none, 408, 425, 429, 5xx    retry with backoff, because the platform may be restarting. During shutdown, for 30 s
 *  401, 403                    retry slowly, with an ERROR that says what to check
 *  409                         the worker no longer holds the job (lease lost, cancelled): give up with a WARN
 *  404, 410                    unknown job or endpoint: give up with an ERROR
 *  413                         too large: deliver the job as FAILED with that reason instead
 *  other 3xx, 4xx              three attempts, then like 413
 * ```
 *
 * When the response to an accepted delivery is lost, the worker delivers the result or chunk again. Results are fenced and chunks are
 * numbered, so our platform stores each of them once. A platform that does not support chunk numbers stores such a chunk twice.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import * as Outcome from "../handlers/Outcome.ts"
import type { Shutdown } from "../runtime/Shutdown.ts"
import { WorkerConfig } from "../runtime/WorkerConfig.ts"
import * as Backoff from "./Backoff.ts"
import { JobSource } from "./JobSource.ts"
import type { JobSourceError } from "./JobSource.ts"
import * as ShutdownRetryLimit from "./ShutdownRetryLimit.ts"

/** This worker no longer holds the job, so any further work on it is obsolete. */
export class JobLost extends Schema.TaggedError<JobLost>()("JobLost", {
  detail: Schema.String
}) {}

/** The platform does not accept this body. */
export class BodyRejected extends Schema.TaggedError<BodyRejected>()("BodyRejected", {
  detail: Schema.String
}) {}

/** Why a delivery failed permanently. */
export type DeliveryError = JobLost | BodyRejected

/** The backoff between attempts. It starts with a short delay, because most failures are a single lost connection. */
const RETRY_BACKOFF: Backoff.Limits = { initial: 100, max: 5_000 }

/** The backoff while the platform rejects the key, which an operator must fix. */
const AUTH_BACKOFF: Backoff.Limits = { initial: 5_000, max: 30_000 }

/** The number of attempts for a body that is rejected with an unusual status, in case an intermediary sent that status. */
const MAX_REJECTED_TRIES = 3

export class ResultDelivery extends Context.Service<ResultDelivery, {
  /**
   * Delivers the result; `stream` is true when chunks were delivered before it. Completes when the result has been delivered or is lost; a
   * lost result is logged.
   */
  readonly deliverResult: (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean) => Effect.Effect<void>
  /**
   * Delivers chunk `number` of this attempt, from 1. The chunk is any JSON value. Deliver the chunks of a job one after the other.
   */
  readonly deliverChunk: (job: ReceivedJob, chunk: unknown, number: number) => Effect.Effect<void, DeliveryError>
}>()("@stint/worker/ResultDelivery") {}

type RetryDecision = "retry" | "retrySlowly" | "lost" | "reject" | "retryThenReject"

const retryDecision = ({ reason }: JobSourceError): RetryDecision => {
  if (reason._tag === "Unreachable") return "retry"
  switch (reason.status) {
    case 401:
    case 403:
      return "retrySlowly"
    case 404:
    case 409:
    case 410:
      return "lost"
    case 413:
      return "reject"
    case 408:
    case 425:
    case 429:
      return "retry"
    default:
      return reason.status >= 500 ? "retry" : "retryThenReject"
  }
}

/**
 * A platform may reject a result larger than this (docs/spec/worker-lifecycle.md#delivery-of-results). It is compared with the number of
 * characters, which never exceeds the number of bytes.
 */
const LARGE_RESULT_BYTES = 20 * 1024 * 1024

const size = (text: string) => `${Buffer.byteLength(text)} bytes`

const make = Effect.gen(function*() {
  const source = yield* JobSource
  const { identity } = yield* WorkerConfig

  const waitForRetry = yield* ShutdownRetryLimit.make

  const retrying = Effect.fnUntraced(function*(what: string, initial: JobSourceError, send: Effect.Effect<void, JobSourceError>) {
    const started = yield* Clock.currentTimeMillis
    const retryBackoff = Backoff.make(RETRY_BACKOFF)
    const authBackoff = Backoff.make(AUTH_BACKOFF)
    let error = initial
    for (let failures = 1;; failures++) {
      const decision = retryDecision(error)
      if (decision === "lost") {
        const conflict = error.reason._tag === "Refused" && error.reason.status === 409
        yield* conflict
          ? Effect.logWarning(`The platform rejected the ${what}, because this worker no longer holds the job: ${error.message}`)
          : Effect.logError(
            `Cannot deliver the ${what}: ${error.message}. The platform does not know the job or its endpoint.`
          )
        return yield* new JobLost({ detail: error.message })
      }
      if (decision === "reject" || (decision === "retryThenReject" && failures >= MAX_REJECTED_TRIES)) {
        return yield* new BodyRejected({ detail: error.message })
      }
      const slowly = decision === "retrySlowly"
      if (failures === 1) {
        yield* slowly
          ? Effect.logError(
            `The platform rejected the ${what}: ${error.message}. Check that PLATFORM_AI_API_KEY (or RUNPOD_AI_API_KEY) is a key for ` +
              "this endpoint. Retrying."
          )
          : Effect.logWarning(`Could not deliver the ${what}: ${error.message}. Retrying until the platform accepts it.`)
      }
      if (!(yield* waitForRetry(started, slowly ? authBackoff : retryBackoff))) {
        yield* Effect.logError(`The ${what} is lost: the worker shuts down, and the last attempt failed: ${error.message}.`)
        return yield* new JobLost({ detail: error.message })
      }
      const failed = yield* Effect.match(send, { onFailure: (next) => next, onSuccess: () => undefined })
      if (failed === undefined) {
        yield* Effect.logInfo(`Delivered the ${what} after ${failures} failed ${failures === 1 ? "attempt" : "attempts"}.`)
        return
      }
      error = failed
    }
  })

  const deliver = (what: string, send: Effect.Effect<void, JobSourceError>): Effect.Effect<void, DeliveryError> =>
    Effect.catch(send, (error) => retrying(what, error, send))

  /** Delivers a report instead of a result that the platform rejected. */
  const deliverRejectionReport = (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean, text: string, detail: string) => {
    const reason = `The platform refused the result of ${size(text)}: ${detail}. ` +
      "Return less, or upload large data and return its address."
    const report: Outcome.Outcome = outcome.stopPod === undefined ? { error: reason } : { error: reason, stopPod: true }
    return Effect.logError(`${reason} The job is reported as FAILED.`).pipe(
      Effect.andThen(deliver("report of the refused result", source.deliverResult(job, JSON.stringify(report), stream))),
      Effect.catch((error) =>
        error._tag === "JobLost"
          ? Effect.void
          : Effect.logError(`The platform also refused the report of the refused result: ${error.detail}. Giving up.`)
      )
    )
  }

  const deliverResult = (job: ReceivedJob, outcome: Outcome.Outcome, stream: boolean): Effect.Effect<void> => {
    const { text } = Outcome.toText(outcome, identity)
    const delivered = Effect.catch(
      deliver("result", source.deliverResult(job, text, stream)),
      (error) => error._tag === "JobLost" ? Effect.void : deliverRejectionReport(job, outcome, stream, text, error.detail)
    )
    return text.length <= LARGE_RESULT_BYTES ? delivered : Effect.andThen(
      Effect.logWarning(
        `The result has ${
          size(text)
        }; a platform may reject more than ${LARGE_RESULT_BYTES}. Upload large data and return its address.`
      ),
      delivered
    )
  }

  return ResultDelivery.of({
    deliverResult: (job, outcome, stream) => Effect.suspend(() => deliverResult(job, outcome, stream)),
    deliverChunk: (job, chunk, number) =>
      Effect.suspend(() => {
        const text = JSON.stringify({ output: chunk === undefined ? null : chunk })
        return Effect.catchTag(
          deliver("chunk", source.deliverChunk(job, text, number)),
          "BodyRejected",
          ({ detail }) =>
            Effect.fail(
              new BodyRejected({
                detail: `The platform refused a chunk of ${size(text)}: ${detail}. Only a string is split into several chunks; ` +
                  "yield smaller chunks."
              })
            )
        )
      })
  })
})

/** Delivers over the current transport. */
export const layer: Layer.Layer<ResultDelivery, never, JobSource | Shutdown | WorkerConfig> = Layer.effect(ResultDelivery, make)
