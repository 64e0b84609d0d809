/**
 * Takes jobs as long as there is room for them, and hands them to `JobRunner` (specification 3 "Worker loop", wire-facts 5.3 and
 * docs/spec/worker-protocol.md#taking-a-job).
 *
 * ```
 *        +------------------------------------------------------------------+
 *        v                                                                  |
 *   concurrency --> room? --no--> wait until a handler has ended --> room   |
 *        |            |                                                     |
 *        |           yes --> take as many as there is room --> start each --+
 *        |                     |                                            |
 *        |                     +--none------> at once, or after a short wait when the answer came too fast
 *        |                     +--429-------> 5 s
 *        |                     +--an error--> growing waits up to 5 s, said once
 *        |                     +--no answer for longer than the limit--> the worker is to stop
 *        +--changed--> wait until no job is held, looked at once a second
 * ```
 *
 * Nothing on the way from a free place to the next take sleeps, and a place is free when its handler has ended: the next take goes out
 * together with the result, not after it. The end of the layer's scope ends an open take.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { messageOf } from "../handlers/Outcome.ts"
import * as Backoff from "../transport/Backoff.ts"
import { JobSource } from "../transport/JobSource.ts"
import type { JobSourceError } from "../transport/JobSource.ts"
import { JobRunner } from "./JobRunner.ts"
import { Ready } from "./Ready.ts"
import { Shutdown } from "./Shutdown.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How many jobs are taken. */
export interface Options {
  /**
   * How many jobs may run at once, given how many may now; asked before each take
   * (docs/spec/worker-lifecycle.md#concurrency). Default: always 1, or what
   * `--rp_api_concurrency` says in local test mode, which is also the most that this function can reach there.
   *
   * A change waits until no job is held, and no job is taken meanwhile. An exception or anything but a whole number of 1 or more
   * leaves the number as it is, with a line in the log.
   */
  readonly concurrencyModifier?: (current: number) => number
}

/** How long a worker that takes too often stays away (docs/spec/worker-protocol.md#taking-a-job). Milliseconds. */
export const RATE_LIMIT_DELAY = 5_000

/** The waits while the platform does not answer. */
const ERROR_BACKOFF: Backoff.Limits = { initial: 200, max: 5_000 }

/** An empty answer that came sooner than this was no long poll. Milliseconds. */
const MIN_LONG_POLL = 1_000

/** The waits after such answers: short at first, because one may be a platform that restarts. */
const EMPTY_POLL_BACKOFF: Backoff.Limits = { initial: 50, max: 1_000 }

/** How often a waiting change of the concurrency looks whether all jobs are gone (docs/spec/worker-lifecycle.md#concurrency). Milliseconds. */
const RESIZE_POLL_INTERVAL = 1_000

const isRateLimited = ({ reason }: JobSourceError) => reason._tag === "Refused" && reason.status === 429

const hint = ({ reason }: JobSourceError): string => {
  if (reason._tag === "Unreachable") return "Trying until it does."
  switch (reason.status) {
    case 401:
    case 403:
      return "Check that PLATFORM_AI_API_KEY (or RUNPOD_AI_API_KEY) is a valid key for this endpoint. Trying on."
    case 404:
      return "Check that PLATFORM_WEBHOOK_GET_JOB (or RUNPOD_WEBHOOK_GET_JOB) names an endpoint that exists. Trying on."
    default:
      return "Trying on."
  }
}

/** What the modifier says, or `current` where it says nothing usable. */
const nextConcurrency = Effect.fnUntraced(function*(modifier: (current: number) => number, current: number) {
  const wanted = yield* Effect.sync(() => modifier(current)).pipe(
    Effect.catchDefect((thrown) =>
      Effect.as(Effect.logError(`concurrency_modifier threw ${messageOf(thrown)}; the concurrency stays ${current}.`), current)
    )
  )
  if (Number.isSafeInteger(wanted) && wanted >= 1) return wanted
  yield* Effect.logError(
    `concurrency_modifier returned ${String(wanted)}, which is no whole number of 1 or more; the concurrency stays ${current}.`
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
  const modifier = options.concurrencyModifier

  /** The most jobs at once that the local API was asked to run (docs/spec/rulings.md#local-test-mode). */
  const max = flags.serveApi ? flags.apiConcurrency : undefined
  let concurrency = max ?? 1
  /** Failed takes in a row. */
  let failures = 0
  const errorBackoff = Backoff.make(ERROR_BACKOFF)
  const emptyPollBackoff = Backoff.make(EMPTY_POLL_BACKOFF)
  /** When the platform did not answer for the first time since it last did. */
  let unreachableSince: number | undefined

  const resize = Effect.fnUntraced(function*(wanted: number) {
    while (jobs.size() > 0) yield* Effect.sleep(RESIZE_POLL_INTERVAL)
    yield* Effect.logInfo(`Up to ${wanted} ${wanted === 1 ? "job" : "jobs"} at once from now on (before: ${concurrency}).`)
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

  const nothing = Effect.fnUntraced(function*(asked: number) {
    if (clock.currentTimeMillisUnsafe() - asked >= MIN_LONG_POLL) emptyPollBackoff.reset()
    else yield* emptyPollBackoff.sleep
  })

  const taken = (received: ReadonlyArray<ReceivedJob>, asked: number): Effect.Effect<void> => {
    const next = received.length === 0 ? nothing(asked) : jobs.start(received)
    if (received.length > 0) emptyPollBackoff.reset()
    if (failures === 0) return next
    failures = 0
    errorBackoff.reset()
    unreachableSince = undefined
    return Effect.andThen(Effect.logInfo("Taking jobs again."), next)
  }

  // These run for every job, so they are plain calls and few steps.
  const take = Effect.suspend(() => {
    const asked = clock.currentTimeMillisUnsafe()
    // Who waits for it wakes up in a later turn of the event loop, with the request on its way.
    if (!Deferred.isDoneUnsafe(ready)) Deferred.doneUnsafe(ready, Exit.void)
    return Effect.matchEffect(source.take({ count: jobs.availableSlots(concurrency), hasJobs: jobs.size() > 0 }), {
      onFailure: failed,
      onSuccess: (received) => taken(received, asked)
    })
  })

  const takeWhenSlotFree = Effect.suspend(() =>
    jobs.availableSlots(concurrency) > 0 ? take : Effect.andThen(jobs.awaitSlot(concurrency), take)
  )

  const once = modifier === undefined ? takeWhenSlotFree : Effect.flatMap(
    Effect.suspend(() => nextConcurrency(modifier, concurrency)),
    (asked) => {
      const wanted = Math.min(asked, max ?? asked)
      return wanted === concurrency ? takeWhenSlotFree : Effect.andThen(resize(wanted), takeWhenSlotFree)
    }
  )

  // Without a turn of the event loop between rounds: each round waits for the platform anyway.
  yield* Effect.forkScoped(Effect.forever(once, { disableYield: true }))
})

/** The duty as a layer: it takes while the layer's scope is open. */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, Ready | JobSource | JobRunner | Shutdown | WorkerConfig> => Layer.effectDiscard(make(options))
