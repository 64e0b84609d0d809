/**
 * Handles failed writes that may have been stored nevertheless, because only the response was lost. The queue does not know what such a
 * write changed, so it wakes all waiters that the write may affect. This is safe because a notification is only a hint.
 *
 * ```
 *   failed write              woken
 *   insert, apply, append     waiters of the job and of its endpoint
 *   applyRunning/-Waiting     waiters of the endpoint, and every reader and follower
 *   tick, writes to runs      every waiter
 *   claim                     one waiting worker of the endpoint, if the take that failed was woken (LeaseOperations.ts): claimed jobs
 *                             return to the queue when their leases expire, but the job may not have been claimed
 * ```
 *
 * The waiters of other nodes, too: those of a job or an endpoint at once, all others with the next heartbeat (`Nodes.publishAll`).
 *
 * Without this, a job that was stored this way would wait until a long poll times out (R5, docs/spec/figures.md#reliability).
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JobStore } from "@stint/store/JobStore"
import type { RunStore } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"

/** The endpoint and job that a write may affect. A missing key means every endpoint or every job. */
export interface AffectedKeys {
  readonly endpoint?: EndpointId
  readonly job?: JobId
}

/** Wraps a store so that each failed write calls `notifyUncertain`. */
export const notifyOnUncertainWrite = (
  store: JobStore["Service"],
  notifyUncertain: (affected: AffectedKeys) => void
): JobStore["Service"] => {
  const notifyOnError = <A, E>(write: Effect.Effect<A, E>, affected: AffectedKeys): Effect.Effect<A, E> =>
    Effect.tapError(write, () => Effect.sync(() => notifyUncertain(affected)))
  return {
    ...store,
    insert: (job, key, quotas) => notifyOnError(store.insert(job, key, quotas), { endpoint: job.endpoint, job: job.id }),
    apply: (endpoint, id, event) => notifyOnError(store.apply(endpoint, id, event), { endpoint, job: id }),
    append: (endpoint, id, event, body) => notifyOnError(store.append(endpoint, id, event, body), { endpoint, job: id }),
    tick: (event, limit) => notifyOnError(store.tick(event, limit), {}),
    applyRunning: (filter, event) =>
      notifyOnError(store.applyRunning(filter, event), filter === "timed" ? {} : { endpoint: filter.endpoint }),
    applyWaiting: (endpoint, event, limit) => notifyOnError(store.applyWaiting(endpoint, event, limit), { endpoint })
  }
}

/** Like {@link notifyOnUncertainWrite}, for runs: an entry may start, end and cancel jobs of any endpoint. */
export const notifyOnUncertainRun = (store: RunStore["Service"], notifyUncertain: Effect.Effect<void>): RunStore["Service"] => ({
  ...store,
  journal: (endpoint, worker, writes, now) =>
    Effect.tapError(store.journal(endpoint, worker, writes, now), () => notifyUncertain),
  define: (endpoint, hash, graph, now) => Effect.tapError(store.define(endpoint, hash, graph, now), () => notifyUncertain),
  send: (endpoint, event, now) => Effect.tapError(store.send(endpoint, event, now), () => notifyUncertain),
  retry: (endpoint, id, from, now) => Effect.tapError(store.retry(endpoint, id, from, now), () => notifyUncertain)
})
