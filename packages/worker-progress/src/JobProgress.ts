/**
 * Sends the progress of one job to the platform (docs/spec/progress.md#order).
 *
 * ```
 *   update --> pending (only the newest) --interval--> in flight --2xx-----------> delivered
 *                 ^                                       |  \----404, 409, 410--> stopped: this worker no longer holds the job
 *                 |                                       |
 *                 +-- no newer value, fewer than 4 tries -+--- other 4xx, 4th try --> the value is dropped
 *
 *   the handler ends --> pending is dropped; the value in flight is awaited, up to `flushTimeout` --> the result is sent
 * ```
 *
 * One fiber sends, and only while there is a value to send. So the values of a job stay in order, and the result could overtake only the
 * value in flight. The worker therefore waits for its response, but at most `flushTimeout`, because a platform that does not answer must
 * not delay the result. A request aborted after that time may still arrive; a platform that checks the lease (as Stint does) ignores it.
 */
import * as Backoff from "@stint/worker/Backoff"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import type { JobSource, JobSourceError } from "@stint/worker/JobSource"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/** The maximum number of attempts for one value. A newer value replaces a failed one. */
const MAX_ATTEMPTS = 4

/** The backoff after failures. Newer values do not shorten it, because an overloaded platform needs fewer requests. */
const RETRY_BACKOFF: Backoff.Limits = { initial: 100, max: 5_000 }

/** The times from the options. Milliseconds. */
export interface ProgressTimeouts {
  readonly interval: number
  readonly flushTimeout: number
}

/** The progress of one job. */
export interface JobProgress {
  /** Sends a value (JSON text) after the interval, unless a newer value replaces it. Returns immediately. */
  readonly update: (text: string) => void
  /** Whether no value is pending or in flight. */
  readonly isIdle: () => boolean
  /** Stops sending, and completes when no value is in flight. */
  readonly end: Effect.Effect<void>
  /** Stops sending, and aborts the value in flight. */
  readonly abort: Effect.Effect<void>
}

/** The consequence of a failed request. `stop`: send no more progress of this job. */
type RetryDecision = "retry" | "reject" | "stop"

const retryDecision = ({ reason }: JobSourceError): RetryDecision => {
  if (reason._tag === "Unreachable") return "retry"
  switch (reason.status) {
    case 404:
    case 409:
    case 410:
      return "stop"
    case 408:
    case 425:
    case 429:
      return "retry"
    default:
      return reason.status >= 500 ? "retry" : "reject"
  }
}

/** Creates the sender of a job. `context` is that of the job's fiber: it has the clock, the logger and the job's id for log lines. */
export const make = (
  source: JobSource["Service"],
  job: ReceivedJob,
  context: Context.Context<never>,
  { interval, flushTimeout }: ProgressTimeouts
): JobProgress => {
  const clock = Context.get(context, Clock.Clock)
  let pending: { readonly text: string; readonly tries: number } | undefined
  let sender: Fiber.Fiber<void> | undefined
  let sending = false
  let inFlight = false
  let stopped = false
  let warned = false
  const backoff = Backoff.make(RETRY_BACKOFF)
  /** The earliest time of the next request. Milliseconds since 1970. */
  let notBefore = 0

  const failed = Effect.fnUntraced(function*(text: string, tries: number, error: JobSourceError) {
    const decision = retryDecision(error)
    if (decision === "stop") {
      stopped = true
      pending = undefined
      yield* Effect.logDebug(`The worker sends no more progress of this job: ${error.message}.`)
      return
    }
    notBefore = Math.max(notBefore, clock.currentTimeMillisUnsafe() + (yield* backoff.next))
    if (!warned) {
      warned = true
      yield* Effect.logWarning(
        decision === "retry"
          ? `Progress could not be sent: ${error.message}. Retrying with the latest value; the job itself is not affected.`
          : `The platform rejected the progress: ${error.message}. The value is dropped; the job itself is not affected.`
      )
    }
    if (decision === "retry" && tries < MAX_ATTEMPTS && pending === undefined && !stopped) pending = { text, tries: tries + 1 }
  })

  const sendAll = Effect.gen(function*() {
    while (pending !== undefined) {
      const wait = notBefore - clock.currentTimeMillisUnsafe()
      if (wait > 0) {
        yield* Effect.sleep(wait)
        continue
      }
      const { text, tries } = pending
      const value: unknown = JSON.parse(text)
      pending = undefined
      inFlight = true
      notBefore = clock.currentTimeMillisUnsafe() + interval
      const error = yield* Effect.match(source.progress(job, value), { onFailure: (error) => error, onSuccess: () => undefined })
      inFlight = false
      if (error === undefined) backoff.reset()
      else yield* failed(text, tries, error)
    }
    // No yield between the loop condition and this line: an update in between would never be sent.
    sending = false
  })

  const stop = () => {
    stopped = true
    pending = undefined
  }

  const abort = Effect.suspend(() => {
    stop()
    return sending && sender !== undefined ? Fiber.interrupt(sender) : Effect.void
  })

  return {
    update: (text) => {
      if (stopped) return
      pending = { text, tries: 1 }
      if (sending) return
      sending = true
      sender = Effect.runForkWith(context)(sendAll)
    },
    isIdle: () => !sending,
    end: Effect.suspend(() => {
      stop()
      if (!sending || !inFlight || sender === undefined) return abort
      return Effect.flatMap(
        Effect.timeoutOption(Fiber.await(sender), flushTimeout),
        (ended) =>
          Option.isSome(ended) ? Effect.void : Effect.andThen(
            Effect.logDebug(
              `The platform did not answer the last progress of this job within ${flushTimeout} ms. The request is aborted and the result is sent.`
            ),
            abort
          )
      )
    }),
    abort
  }
}
