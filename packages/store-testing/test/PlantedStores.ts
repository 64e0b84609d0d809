/**
 * In-memory stores with planted bugs, for the tests of scenarios and searches.
 */
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export type Store = JobStore["Service"]

/** The in-memory store with some operations replaced. */
export const planted = (replace: (store: Store) => Partial<Store>): Layer.Layer<JobStore> =>
  Layer.effect(JobStore, Effect.map(JobStore, (store) => JobStore.of({ ...store, ...replace(store) }))).pipe(
    Layer.provide(MemoryJobStore.layer)
  )

/** Accepts the result of a worker whose lease belongs to another worker. */
export const acceptsStaleResults = planted((store) => ({
  apply: (endpoint, id, event) =>
    Effect.flatMap(
      store.get(endpoint, id),
      (job) =>
        store.apply(
          endpoint,
          id,
          event._tag === "Finish" && job?.status === "IN_PROGRESS" && job.worker !== null
            ? { ...event, worker: job.worker, attempt: job.attempt }
            : event
        )
    )
}))

/** Ignores idempotency keys. */
export const ignoresKeys = planted((store) => ({ insert: (job) => store.insert(job, undefined) }))
