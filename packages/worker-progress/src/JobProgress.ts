/**
 * The progress of one job: sends it while the handler runs, and orders it before the result (docs/spec/progress.md#order).
 *
 * ```
 *   update --> ProgressSender on the heartbeat thread, which a handler cannot block
 *                \--or on this thread, for transports without such a thread
 *
 *   the handler ends --> unsent values are dropped; the value in flight is awaited, up to `flushTimeout` --> the result is sent
 * ```
 *
 * The worker waits for the response to the value in flight, but at most `flushTimeout`, because a platform that does not respond must not delay
 * the result. A request aborted after that time may still arrive; a platform that checks the lease (as Stint does) ignores it.
 */
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import type { JobSource } from "@stint/worker/JobSource"
import { makeProgressSender } from "@stint/worker/ProgressSender"
import type { ProgressSender } from "@stint/worker/ProgressSender"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

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

type Source = JobSource["Service"]

type Log = (level: "DEBUG" | "WARN", message: string) => void

/** A sender on this thread. */
const onThisThread = (
  source: Source,
  job: ReceivedJob,
  context: Context.Context<never>,
  interval: number,
  log: Log
): ProgressSender => {
  const clock = Context.get(context, Clock.Clock)
  const fork = (effect: Effect.Effect<void>) => {
    const fiber = Effect.runForkWith(context)(effect)
    return () => fiber.interruptUnsafe()
  }
  return makeProgressSender({
    now: () => clock.currentTimeMillisUnsafe(),
    random: Math.random,
    after: (millis, callback) => fork(Effect.andThen(Effect.sleep(millis), Effect.sync(callback))),
    send: (text, ended) => {
      const value: unknown = JSON.parse(text)
      return fork(Effect.match(source.progress(job, value), {
        onFailure: ({ message, reason }) => ended({ status: reason._tag === "Refused" ? reason.status : undefined, message }),
        onSuccess: () => ended()
      }))
    },
    log
  }, interval)
}

/** Creates a job's progress. `context` is the context of the job's fiber, with the clock, the logger and the job's id for log lines. */
export const make = (
  source: Source,
  job: ReceivedJob,
  context: Context.Context<never>,
  { interval, flushTimeout }: ProgressTimeouts
): JobProgress => {
  // Opened by the first value, because most jobs report none.
  let sender: ProgressSender | undefined
  let stopped = false

  const log: Log = (level, message) => {
    Effect.runForkWith(context)(level === "WARN" ? Effect.logWarning(message) : Effect.logDebug(message))
  }
  const open = (): ProgressSender => {
    const thread = source.progressThread
    return thread?.open(thread.addressOf(job), interval, log) ?? onThisThread(source, job, context, interval, log)
  }

  const abort = Effect.sync(() => {
    stopped = true
    sender?.abort()
  })

  return {
    update: (text) => {
      if (stopped) return
      sender ??= open()
      sender.update(text)
    },
    isIdle: () => sender === undefined || sender.isIdle(),
    end: Effect.suspend(() => {
      stopped = true
      if (sender === undefined) return Effect.void
      const { end } = sender
      return Effect.callback<void>((resume) => end(() => resume(Effect.void))).pipe(
        Effect.timeoutOption(flushTimeout),
        Effect.flatMap((ended) =>
          Option.isSome(ended) ? Effect.void : Effect.andThen(
            Effect.logDebug(
              `The platform did not answer the last progress of this job within ${flushTimeout} ms. The request is aborted and the result is sent.`
            ),
            abort
          )
        )
      )
    }),
    abort
  }
}
