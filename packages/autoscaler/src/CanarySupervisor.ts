/**
 * Supervises the canary of one endpoint: limits its workers to their share of the jobs, and decides when it is rolled back.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import { reasonToRollBack, rollbackReason } from "./CanaryVerdict.ts"
import type { CanaryTemplate } from "./WorkerTemplate.ts"

/** What is known about the canary at a check. */
export interface CanaryState {
  readonly canary: CanaryTemplate
  /** The active release. */
  readonly active: number
  /** Whether a worker of the canary takes jobs. */
  readonly isWorking: boolean
}

export interface CanarySupervisor {
  /** Checks the canary (undefined: there is none). Returns the reason to roll it back, if any. */
  readonly check: (state: CanaryState | undefined) => Effect.Effect<string | undefined>
  /** Whether a worker of this canary has been ready. */
  readonly isProven: (canary: CanaryTemplate) => boolean
}

/** The supervisor of an endpoint without a canary. */
export const make = Effect.fnUntraced(function*(
  endpoint: EndpointId
): Effect.fn.Return<CanarySupervisor, never, JobQueue | WorkerRegistry> {
  const queue = yield* JobQueue
  const { canaries } = yield* WorkerRegistry
  let proven: number | undefined
  let hasShare = false

  return {
    check: Effect.fnUntraced(function*(state) {
      if (state === undefined) {
        if (hasShare) yield* queue.setCanary(endpoint, undefined)
        hasShare = false
        return undefined
      }
      const { active, canary: { release, rule }, isWorking } = state
      if (!hasShare || canaries.shareOf(endpoint)?.release !== release) {
        hasShare = true
        yield* queue.setCanary(endpoint, { release, active, percent: rule.percent })
      }
      if (isWorking) proven = release
      const results = canaries.resultsOf(endpoint)
      const rates = results === undefined ? undefined : reasonToRollBack(rule, results)
      return results === undefined || rates === undefined ? undefined : rollbackReason(rule, results, rates, active)
    }),
    isProven: ({ release }) => proven === release
  }
})
