/**
 * The progress of one job on its way to the platform.
 *
 * ```
 *   update --> pending (the newest only) --interval--> on its way --2xx-----------> shown
 *                 ^                                       |  \-----404, 409, 410--> over: the job is not this worker's any more
 *                 |                                       |
 *                 +--- nothing newer, fewer than 4 tries -+--- other 4xx, 4th try --> this value is given up
 *
 *   the handler ends --> pending is dropped; what is on its way is waited for, up to `patience` --> the result goes
 * ```
 *
 * One fiber sends, and only while there is something to send: the values of a job cannot overtake each other, and the one that is
 * on its way is the only one that the result could overtake. Waiting for its answer rules that out; the limit is there because a
 * platform that does not answer must not keep the result. What was cut off after that limit may have arrived all the same; a
 * platform that fences (ours does) ignores it.
 */
import * as Backoff from "@stint/worker/Backoff"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import type { JobSource, JobSourceError } from "@stint/worker/JobSource"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/** How often one value is tried. A value that nobody replaces for that long is worth the last try, too. */
export const MAX_ATTEMPTS = 4

/** The waits after failures. They are not shortened by newer values: a platform in trouble needs fewer calls, not newer ones. */
const RETRY_BACKOFF: Backoff.Limits = { initial: 100, max: 5_000 }

/** The times that a user may set. Milliseconds. */
export interface ProgressTimeouts {
  readonly interval: number
  readonly flushTimeout: number
}

/** The progress of one job. */
export interface JobProgress {
  /** Sends a value, JSON text, as soon as it may go; unless a newer one comes before. Returns at once. */
  readonly update: (text: string) => void
  /** Whether nothing is on its way and nothing waits. */
  readonly isIdle: () => boolean
  /** No value goes from now on. Ends when none is on its way. */
  readonly end: Effect.Effect<void>
  /** No value goes from now on; what is on its way is cut off. */
  readonly abort: Effect.Effect<void>
}

/** What an answer of the platform means for the value that it is about. */
type RetryDecision = "again" | "refused" | "over"

const retryDecision = ({ reason }: JobSourceError): RetryDecision => {
  if (reason._tag === "Unreachable") return "again"
  switch (reason.status) {
    case 404:
    case 409:
    case 410:
      return "over"
    case 408:
    case 425:
    case 429:
      return "again"
    default:
      return reason.status >= 500 ? "again" : "refused"
  }
}

/** No progress yet. `context` is that of the job's fiber: it has the clock, the log and the job's id for its lines. */
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
  let onItsWay = false
  let over = false
  let warned = false
  const backoff = Backoff.make(RETRY_BACKOFF)
  /** Before this moment nothing goes. Milliseconds since 1970. */
  let notBefore = 0

  const failed = Effect.fnUntraced(function*(text: string, tries: number, error: JobSourceError) {
    const judged = retryDecision(error)
    if (judged === "over") {
      over = true
      pending = undefined
      yield* Effect.logDebug(`No more progress of this job is sent: ${error.message}.`)
      return
    }
    notBefore = Math.max(notBefore, clock.currentTimeMillisUnsafe() + (yield* backoff.next))
    if (!warned) {
      warned = true
      yield* Effect.logWarning(
        judged === "again"
          ? `Progress could not be sent: ${error.message}. Trying on, with the latest value; the job itself is not affected.`
          : `The platform refused the progress: ${error.message}. It is left out; the job itself is not affected.`
      )
    }
    if (judged === "again" && tries < MAX_ATTEMPTS && pending === undefined && !over) pending = { text, tries: tries + 1 }
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
      onItsWay = true
      notBefore = clock.currentTimeMillisUnsafe() + interval
      const error = yield* Effect.match(source.progress(job, value), { onFailure: (error) => error, onSuccess: () => undefined })
      onItsWay = false
      if (error === undefined) backoff.reset()
      else yield* failed(text, tries, error)
    }
    // In one step with the look above: an update that comes between the two would wait for ever.
    sending = false
  })

  const stop = () => {
    over = true
    pending = undefined
  }

  const abort = Effect.suspend(() => {
    stop()
    return sending && sender !== undefined ? Fiber.interrupt(sender) : Effect.void
  })

  return {
    update: (text) => {
      if (over) return
      pending = { text, tries: 1 }
      if (sending) return
      sending = true
      sender = Effect.runForkWith(context)(sendAll)
    },
    isIdle: () => !sending,
    end: Effect.suspend(() => {
      stop()
      if (!sending || !onItsWay || sender === undefined) return abort
      return Effect.flatMap(
        Effect.timeoutOption(Fiber.await(sender), flushTimeout),
        (ended) =>
          Option.isSome(ended) ? Effect.void : Effect.andThen(
            Effect.logDebug(
              `The last progress of this job got no answer for ${flushTimeout} ms and is given up; the result goes first.`
            ),
            abort
          )
      )
    }),
    abort
  }
}
