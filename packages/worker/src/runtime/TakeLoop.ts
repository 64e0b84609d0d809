/**
 * Takes jobs while there are free slots, and starts them in `JobRunner` (docs/spec/worker-lifecycle.md#concurrency,
 * docs/spec/worker-protocol.md#taking-a-job).
 *
 * ```
 *        +------------------------------------------------------------------+
 *        v                                                                  |
 *   concurrency --> slot? --no--> wait until a handler has ended --> slot   |
 *        |            |                                                     |
 *        |           yes --> take as many as slots are free --> start each -+
 *        |                     |                                            |
 *        |                     +--none------> at once, or after a backoff when the response arrived too soon
 *        |                     +--429-------> 5 s
 *        |                     +--an error--> backoff up to 5 s, logged once
 *        |                     +--no response for longer than the limit--> the worker shuts down
 *        +--changed--> at once; by concurrencyModifier: when no job is held, checked once a second
 * ```
 *
 * A slot is free when its handler has ended, so the worker sends the next take together with the result, without a delay. Closing the layer's
 * scope interrupts a pending take.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { messageOf } from "../handlers/ThrownValue.ts"
import * as Backoff from "../transport/Backoff.ts"
import { JobSource } from "../transport/JobSource.ts"
import type { JobSourceError } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { Ready } from "./Ready.ts"
import { Shutdown } from "./Shutdown.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** Controls how many jobs the worker takes. */
export interface Options {
  /**
   * The number of jobs that may run at once, or a function of the current number; called before each take, and once a second while all slots
   * are taken. Default: always 1. In local test mode, `--rp_api_concurrency` is the default and the maximum.
   *
   * A change takes effect at once: the worker takes more jobs, or none until enough have ended. An invalid result of the function is handled like
   * one of `concurrencyModifier`. An invalid number is a defect: the worker does not start.
   */
  readonly concurrency?: number | ((current: number) => number)
  /**
   * Like `concurrency`, but with the timing of RunPod's SDK (docs/spec/worker-lifecycle.md#concurrency). Called before each take.
   *
   * A change takes effect once the worker holds no jobs; until then it takes no new jobs. If the function throws, or returns anything but an
   * integer of at least 1, the concurrency does not change and the worker logs an ERROR.
   */
  readonly concurrencyModifier?: (current: number) => number
}

/** The delay after a 429 (docs/spec/worker-protocol.md#taking-a-job). Milliseconds. */
export const RATE_LIMIT_DELAY = 5_000

/** The backoff after failed takes. */
const ERROR_BACKOFF: Backoff.Limits = { initial: 200, max: 5_000 }

/** An empty response that arrives sooner than this did not come from a long poll. Milliseconds. */
const MIN_LONG_POLL = 1_000

/** The backoff after such responses. It starts with a short delay, because the platform may just be restarting. */
const EMPTY_POLL_BACKOFF: Backoff.Limits = { initial: 50, max: 1_000 }

/**
 * How often the loop checks, during a pending change to the concurrency, whether all jobs have ended (docs/spec/worker-lifecycle.md#concurrency),
 * and how often `concurrency` is called while all slots are taken. Milliseconds.
 */
const RESIZE_POLL_INTERVAL = 1_000

const isRateLimited = ({ reason }: JobSourceError) => reason._tag === "Refused" && reason.status === 429

const hint = ({ reason }: JobSourceError): string => {
  if (reason._tag === "Unreachable") return "Retrying until it does."
  switch (reason.status) {
    case 401:
    case 403:
      return "Check that PLATFORM_AI_API_KEY (or RUNPOD_AI_API_KEY) is a valid key for this endpoint. Retrying."
    case 404:
      return "Check that PLATFORM_WEBHOOK_GET_JOB (or RUNPOD_WEBHOOK_GET_JOB) names an existing endpoint. Retrying."
    default:
      return "Retrying."
  }
}

const isConcurrency = (value: number): boolean => Number.isSafeInteger(value) && value >= 1

/** The result of `next`, or `current` when that result is invalid. `name` is for the log. */
const nextConcurrency = Effect.fnUntraced(function*(name: string, next: (current: number) => number, current: number) {
  const wanted = yield* Effect.sync(() => next(current)).pipe(
    Effect.catchDefect((thrown) =>
      Effect.as(Effect.logError(`${name} threw ${messageOf(thrown)}; the concurrency stays ${current}.`), current)
    )
  )
  if (isConcurrency(wanted)) return wanted
  yield* Effect.logError(
    `${name} returned ${String(wanted)}, which is not an integer of at least 1; the concurrency stays ${current}.`
  )
  return current
})

const make = Effect.fnUntraced(function*(options: Options) {
  const source = yield* JobSource
  const jobs = yield* JobRunner
  const ready = yield* Ready
  const clock = yield* Clock.Clock
  const shutdown = yield* Shutdown
  const { flags, unreachableLimit = Infinity } = yield* WorkerConfig
  const { concurrencyModifier: modifier } = options
  const initial = typeof options.concurrency === "number" ? options.concurrency : 1
  const live = typeof options.concurrency === "function" ? options.concurrency : undefined
  if (!isConcurrency(initial)) {
    return yield* Effect.die(new TypeError(`concurrency is ${initial}, but must be an integer of at least 1.`))
  }

  /** The maximum concurrency of the local API (docs/spec/rulings.md#local-test-mode). */
  const max = flags.serveApi ? flags.apiConcurrency : undefined
  let concurrency = typeof options.concurrency === "number" ? Math.min(initial, max ?? initial) : max ?? initial
  /** The number of consecutive failed takes. */
  let failures = 0
  const errorBackoff = Backoff.make(ERROR_BACKOFF)
  const emptyPollBackoff = Backoff.make(EMPTY_POLL_BACKOFF)
  /** When the first request since the platform's last response failed. Milliseconds since 1970. */
  let unreachableSince: number | undefined

  const resize = Effect.fnUntraced(function*(wanted: number) {
    yield* Effect.logInfo(`Up to ${wanted} ${wanted === 1 ? "job" : "jobs"} can run at once now (before: ${concurrency}).`)
    concurrency = wanted
  })

  const failed = Effect.fnUntraced(function*(error: JobSourceError) {
    failures++
    if (error.reason._tag !== "Unreachable") unreachableSince = undefined
    else {
      const now = clock.currentTimeMillisUnsafe()
      unreachableSince ??= now
      if (now - unreachableSince >= unreachableLimit) {
        yield* shutdown.request({ reason: `the platform has not answered for ${now - unreachableSince} ms`, exitCode: 1 })
        return yield* Effect.never
      }
    }
    if (isRateLimited(error)) return yield* Effect.sleep(RATE_LIMIT_DELAY)
    if (failures === 1) yield* Effect.logError(`Cannot take jobs: ${error.message}. ${hint(error)}`)
    yield* errorBackoff.sleep
  })

  const receivedNothing = Effect.fnUntraced(function*(asked: number) {
    if (clock.currentTimeMillisUnsafe() - asked >= MIN_LONG_POLL) emptyPollBackoff.reset()
    else yield* emptyPollBackoff.sleep
  })

  const taken = (received: ReadonlyArray<ReceivedJob>, asked: number): Effect.Effect<void> => {
    const next = received.length === 0 ? receivedNothing(asked) : jobs.start(received)
    if (received.length > 0) emptyPollBackoff.reset()
    if (failures === 0) return next
    failures = 0
    errorBackoff.reset()
    unreachableSince = undefined
    return Effect.andThen(Effect.logInfo("Taking jobs again."), next)
  }

  // The functions below run for every job, so they use plain function calls and few Effect steps.
  const take = Effect.suspend(() => {
    const asked = clock.currentTimeMillisUnsafe()
    // Waiters resume in a later turn of the event loop, after the request has been sent.
    if (!Deferred.isDoneUnsafe(ready)) Deferred.doneUnsafe(ready, Exit.void)
    return Effect.matchEffect(source.take({ count: jobs.availableSlots(concurrency), hasJobs: jobs.size() > 0 }), {
      onFailure: failed,
      onSuccess: (received) => taken(received, asked)
    })
  })

  const takeWhenSlotFree = Effect.suspend(() =>
    jobs.availableSlots(concurrency) > 0 ? take : Effect.andThen(jobs.awaitSlot(concurrency), take)
  )

  /** Calls `then` with the concurrency to use from now on. */
  const changing = (name: string, next: (current: number) => number, then: (wanted: number) => Effect.Effect<void>) =>
    Effect.flatMap(
      Effect.suspend(() => nextConcurrency(name, next, concurrency)),
      (asked) => then(Math.min(asked, max ?? asked))
    )

  const awaitNoJobs = Effect.suspend(() =>
    Effect.whileLoop({ while: () => jobs.size() > 0, body: () => Effect.sleep(RESIZE_POLL_INTERVAL), step: () => {} })
  )

  const takeOrCheckAgain = Effect.suspend(() =>
    jobs.availableSlots(concurrency) > 0
      ? take
      : Effect.raceFirst(jobs.awaitSlot(concurrency), Effect.sleep(RESIZE_POLL_INTERVAL))
  )

  const once = modifier !== undefined
    ? changing("concurrency_modifier", modifier, (wanted) =>
      wanted === concurrency
        ? takeWhenSlotFree
        : awaitNoJobs.pipe(Effect.andThen(resize(wanted)), Effect.andThen(takeWhenSlotFree)))
    : live !== undefined
    ? changing(
      "concurrency",
      live,
      (wanted) => wanted === concurrency ? takeOrCheckAgain : Effect.andThen(resize(wanted), takeOrCheckAgain)
    )
    : takeWhenSlotFree

  // No yield is needed between rounds, because each round waits for the platform anyway.
  yield* Effect.forkScoped(Effect.forever(once, { disableYield: true }))
})

/** Takes jobs while the layer's scope is open. */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, Ready | JobSource | JobRunner | Shutdown | WorkerConfig> => Layer.effectDiscard(make(options))
