/**
 * Tracks the failures of one endpoint's workers. Counts them for the restart backoff, and shows the latest failure with its reason.
 *
 * The registry lists the last failed worker as `unhealthy` or `throttled` until one of the endpoint's workers works again.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as RestartBackoff from "./RestartBackoff.ts"

/** A failed worker. */
export interface FailedWorker {
  readonly id: string
  readonly startedAt: number
}

export interface EndpointFailures {
  /** The worker could not be started, or exited before it was ready. */
  readonly startFailed: (worker: FailedWorker, state: "unhealthy" | "throttled", reason: string) => Effect.Effect<void>
  /** A ready worker exited without a request. */
  readonly crashed: (worker: FailedWorker, reason: string) => Effect.Effect<void>
  /** A worker called the platform for the first time. */
  readonly ready: Effect.Effect<void>
  /** A worker exited as requested. */
  readonly exited: Effect.Effect<void>
  /** How many of `wanted` workers may start now, given `starting` workers that are not ready yet. */
  readonly allowedStarts: (wanted: number, starting: number) => number
  /** No worker may start before this time. */
  readonly notBefore: () => number
  /** Removes the displayed failure. */
  readonly clear: Effect.Effect<void>
}

export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<EndpointFailures, never, WorkerRegistry> {
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  let backoff = RestartBackoff.empty
  let published: string | undefined

  const clear = Effect.suspend(() => {
    if (published === undefined) return Effect.void
    const worker = published
    published = undefined
    return registry.removed(endpoint, worker)
  })

  const publish = Effect.fnUntraced(function*(worker: string, state: "unhealthy" | "throttled", reason: string) {
    yield* clear
    yield* registry.failing(endpoint, worker, state, reason, backoff.notBefore)
    published = worker
  })

  const wait = () => `${Math.round((backoff.notBefore - now()) / 100) / 10} s`

  return {
    startFailed: Effect.fnUntraced(function*({ id, startedAt }, state, reason) {
      const before = backoff
      backoff = RestartBackoff.failedStart(backoff, { now: now(), startedAt, random: yield* Random.next })
      yield* publish(id, state, reason)
      if (backoff !== before) {
        yield* Effect.logWarning(`A worker of endpoint ${endpoint} did not start; trying again in ${wait()}. ${reason}`)
      }
    }),
    crashed: Effect.fnUntraced(function*({ id, startedAt }, reason) {
      backoff = RestartBackoff.crashed(backoff, { now: now(), startedAt, random: yield* Random.next })
      const waits = backoff.notBefore > now()
      yield* Effect.logWarning(
        `Endpoint ${endpoint} lost a worker${waits ? `; the next one starts in ${wait()}` : ""}. ${reason}`
      )
      if (waits) yield* publish(id, "unhealthy", reason)
    }),
    ready: Effect.suspend(() => {
      backoff = RestartBackoff.ready(backoff)
      return clear
    }),
    exited: Effect.sync(() => {
      backoff = RestartBackoff.exited(backoff)
    }),
    allowedStarts: (wanted, starting) => RestartBackoff.allowedStarts(backoff, wanted, starting, now()),
    notBefore: () => backoff.notBefore,
    clear
  }
})
