/**
 * Tracks the failures of one endpoint's workers. Counts them for the restart backoff, and shows the latest failure with its reason.
 *
 * The backoff belongs to the endpoint's current release: a new release starts without it, and failures of older workers do not count.
 *
 * The registry lists the last failed worker as `unhealthy` or `throttled` until one of the endpoint's workers works again.
 */
// Some generators return the rest of their work as an effect, which the caller runs later.
// @effect-diagnostics returnEffectInGen:off
import type { EndpointId } from "@stint/contract/Ids"
import { monotonicMillis } from "@stint/queue/ClockWatch"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as RestartBackoff from "./RestartBackoff.ts"

/** A failed worker. */
export interface FailedWorker {
  readonly id: string
  readonly startedAt: number
  /** The release that it ran. */
  readonly fingerprint: string
}

export interface EndpointFailures {
  /** Sets the current release. A new release clears the backoff and the displayed failure. */
  readonly released: (fingerprint: string) => Effect.Effect<void>
  /**
   * The worker could not be started, or exited before it was ready. Counts the failure at once; the returned effect logs and displays it.
   */
  readonly startFailed: (
    worker: FailedWorker,
    state: "unhealthy" | "throttled",
    reason: string
  ) => Effect.Effect<Effect.Effect<void>>
  /**
   * The first worker of a release that is being verified waits for room, until the monotonic time `retryAt`. Counts nothing, because the other release is
   * not affected. Logs each reason once.
   */
  readonly awaitsRoom: (worker: FailedWorker, reason: string, retryAt: number) => Effect.Effect<void>
  /** A ready worker that held `jobs` exited without a request. Counts the failure at once; the returned effect logs and displays it. */
  readonly crashed: (worker: FailedWorker, jobs: ReadonlyArray<string>, reason: string) => Effect.Effect<Effect.Effect<void>>
  /** A worker called the platform for the first time. */
  readonly ready: Effect.Effect<void>
  /** A worker of this release delivered a result, or exited as requested. */
  readonly succeeded: (fingerprint: string) => void
  /** How many of `wanted` workers may start now, given `starting` workers that are not ready yet. */
  readonly allowedStarts: (wanted: number, starting: number) => number
  /** No worker may start before this monotonic time. */
  readonly notBefore: () => number
  /** The pool has room again. Returns true if a start was waiting for capacity; it no longer waits. */
  readonly hasRoom: () => boolean
  /** Removes the displayed failure. */
  readonly clear: Effect.Effect<void>
}

export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<EndpointFailures, never, WorkerRegistry> {
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => monotonicMillis(clock)
  let backoff = RestartBackoff.empty
  let published: string | undefined
  let release: string | undefined
  let isThrottled = false
  let awaited: string | undefined

  const clear = Effect.suspend(() => {
    if (published === undefined) return Effect.void
    const worker = published
    published = undefined
    return registry.removed(endpoint, worker)
  })

  const publish = Effect.fnUntraced(function*(
    worker: string,
    state: "unhealthy" | "throttled",
    reason: string,
    at: number = backoff.notBefore
  ) {
    yield* clear
    const retryAt = Math.round(at - now() + clock.currentTimeMillisUnsafe())
    yield* registry.failing(endpoint, worker, state, reason, retryAt)
    published = worker
  })

  const wait = () => `${Math.round((backoff.notBefore - now()) / 100) / 10} s`

  return {
    released: (fingerprint) => {
      if (fingerprint === release) return Effect.void
      release = fingerprint
      backoff = RestartBackoff.empty
      return clear
    },
    startFailed: Effect.fnUntraced(function*({ fingerprint, id, startedAt }, state, reason) {
      const random = yield* Random.next
      const before = backoff
      isThrottled = state === "throttled"
      if (fingerprint === release) backoff = RestartBackoff.failedStart(backoff, { now: now(), startedAt, random })
      if (backoff === before) return fingerprint === release ? publish(id, state, reason) : Effect.void
      return Effect.andThen(
        publish(id, state, reason),
        Effect.logWarning(`A worker of endpoint ${endpoint} did not start; trying again in ${wait()}. ${reason}`)
      )
    }),
    awaitsRoom: Effect.fnUntraced(function*({ fingerprint, id }, reason, retryAt) {
      isThrottled = true
      yield* publish(id, "throttled", reason, retryAt)
      if (awaited === fingerprint + reason) return
      awaited = fingerprint + reason
      yield* Effect.logWarning(`The new release of endpoint ${endpoint} waits for its first worker. ${reason}`)
    }),
    crashed: Effect.fnUntraced(function*({ fingerprint, id, startedAt }, jobs, reason) {
      const random = yield* Random.next
      if (fingerprint === release) backoff = RestartBackoff.crashed(backoff, { now: now(), startedAt, random, jobs })
      const waits = fingerprint === release && backoff.notBefore > now()
      return Effect.andThen(
        Effect.logWarning(`Endpoint ${endpoint} lost a worker${waits ? `; the next one starts in ${wait()}` : ""}. ${reason}`),
        waits ? publish(id, "unhealthy", reason) : Effect.void
      )
    }),
    ready: Effect.suspend(() => {
      backoff = RestartBackoff.ready(backoff)
      return clear
    }),
    succeeded: (fingerprint) => {
      if (fingerprint === release) backoff = RestartBackoff.succeeded(backoff)
    },
    allowedStarts: (wanted, starting) => RestartBackoff.allowedStarts(backoff, wanted, starting, now()),
    notBefore: () => backoff.notBefore,
    hasRoom: () => {
      if (!isThrottled) return false
      isThrottled = false
      backoff = RestartBackoff.ready(backoff)
      return true
    },
    clear
  }
})
