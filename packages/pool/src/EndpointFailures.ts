/**
 * What goes wrong with the workers of one endpoint: counted, so that the next one waits its time, and shown, so that a person sees why.
 *
 * The last failed worker stands in the registry as `unhealthy` or `throttled`, with its reason, until one of its endpoint works again.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as CrashBudget from "./CrashBudget.ts"

/** Which worker failed. */
export interface Failed {
  readonly id: string
  readonly startedAt: number
}

export interface EndpointFailures {
  /** It could not be started, or ended before it was ready. */
  readonly notStarted: (worker: Failed, state: "unhealthy" | "throttled", reason: string) => Effect.Effect<void>
  /** It had been ready and ended unasked. */
  readonly crashed: (worker: Failed, reason: string) => Effect.Effect<void>
  /** A worker was seen ready for the first time. */
  readonly ready: Effect.Effect<void>
  /** A worker left in order. */
  readonly left: Effect.Effect<void>
  /** How many of `wanted` workers may be started now, while `starting` others have not been seen ready. */
  readonly allow: (wanted: number, starting: number) => number
  /** Before this time none may be started. */
  readonly notBefore: () => number
  /** Shows nothing any more. */
  readonly hide: Effect.Effect<void>
}

export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<EndpointFailures, never, WorkerRegistry> {
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  let budget = CrashBudget.empty
  let shown: string | undefined

  const hide = Effect.suspend(() => {
    if (shown === undefined) return Effect.void
    const worker = shown
    shown = undefined
    return registry.gone(endpoint, worker)
  })

  const show = Effect.fnUntraced(function*(worker: string, state: "unhealthy" | "throttled", reason: string) {
    yield* hide
    yield* registry.failing(endpoint, worker, state, reason, budget.notBefore)
    shown = worker
  })

  const wait = () => `${Math.round((budget.notBefore - now()) / 100) / 10} s`

  return {
    notStarted: Effect.fnUntraced(function*({ id, startedAt }, state, reason) {
      const before = budget
      budget = CrashBudget.failedStart(budget, { now: now(), startedAt, random: yield* Random.next })
      yield* show(id, state, reason)
      if (budget !== before) {
        yield* Effect.logWarning(`A worker of endpoint ${endpoint} did not start; trying again in ${wait()}. ${reason}`)
      }
    }),
    crashed: Effect.fnUntraced(function*({ id, startedAt }, reason) {
      budget = CrashBudget.crashed(budget, { now: now(), startedAt, random: yield* Random.next })
      const waits = budget.notBefore > now()
      yield* Effect.logWarning(
        `Endpoint ${endpoint} lost a worker${waits ? `; the next one starts in ${wait()}` : ""}. ${reason}`
      )
      if (waits) yield* show(id, "unhealthy", reason)
    }),
    ready: Effect.suspend(() => {
      budget = CrashBudget.ready(budget)
      return hide
    }),
    left: Effect.sync(() => {
      budget = CrashBudget.left(budget)
    }),
    allow: (wanted, starting) => CrashBudget.allow(budget, wanted, starting, now()),
    notBefore: () => budget.notBefore,
    hide
  }
})
