/**
 * The claims of one node that a store has not committed yet, by worker.
 *
 * A store reads whether a worker holds jobs before it writes anything, because most workers that take jobs hold none. A worker that closes its
 * connection and takes again at once may receive a job of its earlier claim after this read, and nobody would return the job before its lease expires.
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
