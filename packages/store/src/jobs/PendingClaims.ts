/**
 * The claims of one node that a store has not committed yet, by worker.
 *
 * When a worker takes jobs and holds none, each job that the store still assigns to it is lost (JobQueue). A store first reads whether there are any,
 * because there are rarely. A worker may close its connection during a claim and take again before the claim is committed: this read does not see the
 * claimed jobs yet, and they would stay assigned until their leases expire.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"

/** The pending claims. */
export interface PendingClaims {
  /** Whether a claim of the worker may still give it jobs. */
  readonly has: (endpoint: EndpointId, worker: string) => boolean
  /** Runs a claim. It must not be interrupted: its transaction would continue. */
  readonly during: <A, E, R>(endpoint: EndpointId, worker: string, claim: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

const keyOf = (endpoint: EndpointId, worker: string): string => `${endpoint}\n${worker}`

/** No pending claims. */
export const make = (): PendingClaims => {
  const claims = new Map<string, number>()
  return {
    has: (endpoint, worker) => claims.has(keyOf(endpoint, worker)),
    during: (endpoint, worker, claim) =>
      Effect.suspend(() => {
        const key = keyOf(endpoint, worker)
        claims.set(key, (claims.get(key) ?? 0) + 1)
        return Effect.onExit(claim, () =>
          Effect.sync(() => {
            const others = (claims.get(key) ?? 1) - 1
            if (others === 0) claims.delete(key)
            else claims.set(key, others)
          }))
      })
  }
}
