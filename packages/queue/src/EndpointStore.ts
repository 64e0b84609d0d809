/**
 * The seam for endpoints: their settings, kept beside the jobs.
 *
 * It lives with the queue because every backend that keeps jobs keeps these too, in the same database
 * (docs/decisions/0002-endpoints-beside-jobs.md).
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { QueueError } from "./QueueError.ts"

export class EndpointStore extends Context.Service<EndpointStore, {
  /** Undefined when there is none. On the hot path of every request: backends answer from memory. */
  readonly get: (id: string) => Effect.Effect<Endpoint | undefined, QueueError>
  /** All, by id. */
  readonly list: Effect.Effect<ReadonlyArray<Endpoint>, QueueError>
  /** Creates or replaces. */
  readonly put: (endpoint: Endpoint) => Effect.Effect<void, QueueError>
  /** True when it was there. */
  readonly remove: (id: EndpointId) => Effect.Effect<boolean, QueueError>
}>()("@stint/queue/EndpointStore") {}

/** Endpoints in memory, gone with the process. */
export const layerMemory: Layer.Layer<EndpointStore> = Layer.sync(EndpointStore, () => {
  const endpoints = new Map<string, Endpoint>()
  return EndpointStore.of({
    get: (id) => Effect.sync(() => endpoints.get(id)),
    list: Effect.sync(() => [...endpoints.values()].sort((a, b) => (a.id < b.id ? -1 : 1))),
    put: (endpoint) =>
      Effect.sync(() => {
        endpoints.set(endpoint.id, endpoint)
      }),
    remove: (id) => Effect.sync(() => endpoints.delete(id))
  })
})
