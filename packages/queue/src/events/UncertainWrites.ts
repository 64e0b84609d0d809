/**
 * A store's write that failed may have been kept all the same: its answer was lost. Nobody knows whom to wake then, so everybody whom the
 * write may concern is told to look again. A wake-up is only a hint.
 *
 * ```
 *   insert                    who waits for a job of that endpoint
 *   apply, append             who waits for that job, and who waits for one
 *   tick, of many             everybody
 *   claim                     nobody: what was claimed comes back with the end of its lease
 * ```
 *
 * Without it such a job, submitted or ready again, would wait for the end of somebody's long poll (R5, docs/spec/figures.md#reliability).
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"

/** Whom a write may concern; everybody where it does not say. */
export interface AffectedKeys {
  readonly endpoint?: EndpointId
  readonly job?: JobId
}

/** The store, whose failed writes are followed by `notifyUncertain`. */
export const notifyOnUncertainWrite = (
  store: JobStore["Service"],
  notifyUncertain: (affected: AffectedKeys) => void
): JobStore["Service"] => {
  const or = <A, E>(write: Effect.Effect<A, E>, affected: AffectedKeys): Effect.Effect<A, E> =>
    Effect.tapError(write, () => Effect.sync(() => notifyUncertain(affected)))
  return {
    ...store,
    insert: (job, key) => or(store.insert(job, key), { endpoint: job.endpoint }),
    apply: (endpoint, id, event) => or(store.apply(endpoint, id, event), { endpoint, job: id }),
    append: (endpoint, id, event, body) => or(store.append(endpoint, id, event, body), { endpoint, job: id }),
    tick: (event, limit) => or(store.tick(event, limit), {}),
    applyRunning: (filter, event) => or(store.applyRunning(filter, event), filter === "all" ? {} : { endpoint: filter.endpoint }),
    applyWaiting: (endpoint, event, limit) => or(store.applyWaiting(endpoint, event, limit), { endpoint })
  }
}
