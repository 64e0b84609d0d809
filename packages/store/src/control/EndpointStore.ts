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
import type { StoreError } from "../StoreError.ts"

/** What became of a removal. */
export type RemoveResult = "removed" | "missing" | "busy"

export class EndpointStore extends Context.Service<EndpointStore, {
  /** Undefined when there is none. On the hot path of every request: backends answer from memory. */
  readonly get: (id: string) => Effect.Effect<Endpoint | undefined, StoreError>
  /** All, by id. */
  readonly list: Effect.Effect<ReadonlyArray<Endpoint>, StoreError>
  /** Creates. False, and nothing changes, where there is one of that id: of two who create at once, one is told so. */
  readonly create: (endpoint: Endpoint) => Effect.Effect<boolean, StoreError>
  /** Creates or replaces. */
  readonly put: (endpoint: Endpoint) => Effect.Effect<void, StoreError>
  /**
   * Removes. A backend that keeps the jobs too looks in the same step whether there are any that have not ended, or batches of them: then
   * the endpoint is `busy` and stays. Drafts of batches end with it. From that step on it takes no more jobs, until it is created anew.
   */
  readonly remove: (id: EndpointId) => Effect.Effect<RemoveResult, StoreError>
}>()("@stint/store/EndpointStore") {}

/** Endpoints in memory, and what their jobs have to know of them. */
export interface Endpoints {
  readonly service: EndpointStore["Service"]
  /** Whether there was an endpoint of that id, and is none any more. */
  readonly wasRemoved: (id: EndpointId) => boolean
}

/** No endpoints yet. `isBusy` says which have jobs that have not ended. */
export const makeMemory = (isBusy: (id: EndpointId) => boolean): Endpoints => {
  const endpoints = new Map<string, Endpoint>()
  const removed = new Set<string>()
  const put = (endpoint: Endpoint) => {
    endpoints.set(endpoint.id, endpoint)
    removed.delete(endpoint.id)
  }
  return {
    wasRemoved: (id) => removed.has(id),
    service: EndpointStore.of({
      get: (id) => Effect.sync(() => endpoints.get(id)),
      list: Effect.sync(() => [...endpoints.values()].sort((a, b) => (a.id < b.id ? -1 : 1))),
      create: (endpoint) =>
        Effect.sync(() => {
          if (endpoints.has(endpoint.id)) return false
          put(endpoint)
          return true
        }),
      put: (endpoint) => Effect.sync(() => put(endpoint)),
      remove: (id) =>
        Effect.sync(() => {
          if (!endpoints.has(id)) return "missing"
          if (isBusy(id)) return "busy"
          endpoints.delete(id)
          removed.add(id)
          return "removed"
        })
    })
  }
}

/** Endpoints in memory, gone with the process. They know of no jobs, so none of them is ever busy. */
export const layerMemory: Layer.Layer<EndpointStore> = Layer.sync(EndpointStore, () => makeMemory(() => false).service)
