/**
 * The store of endpoints and their settings, in the same database as the jobs (docs/decisions/0002-endpoints-beside-jobs.md).
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointSchema } from "@stint/contract/HandlerSchema"
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreError } from "../StoreError.ts"
import * as MemoryReleases from "./MemoryReleases.ts"
import { ReleaseStore } from "./ReleaseStore.ts"

/** The result of a removal. */
export type RemoveResult = "removed" | "missing" | "busy"

export class EndpointStore extends Context.Service<EndpointStore, {
  /** Undefined for an unknown endpoint. Called for every request, so backends read from memory. */
  readonly get: (id: string) => Effect.Effect<Endpoint | undefined, StoreError>
  /** All endpoints, ordered by id. */
  readonly list: Effect.Effect<ReadonlyArray<Endpoint>, StoreError>
  /**
   * The same for loops that repeat it: with all changes by this process, and those by others up to 1.25 s ago. Backends return the same array until an
   * endpoint changes. Missing if {@link list} costs no query.
   */
  readonly recentList?: Effect.Effect<ReadonlyArray<Endpoint>, StoreError>
  /**
   * Creates an endpoint. Returns false and changes nothing when the id already exists; one of two concurrent calls with the same id returns
   * false.
   */
  readonly create: (endpoint: Endpoint) => Effect.Effect<boolean, StoreError>
  /** Creates or replaces an endpoint. */
  readonly put: (endpoint: Endpoint) => Effect.Effect<void, StoreError>
  /**
   * Removes an endpoint. Returns `busy` and changes nothing while it has jobs or batches that have not ended; the check and the removal are
   * one atomic step. Draft batches are cancelled later. A removed endpoint rejects jobs until it is created again.
   */
  readonly remove: (id: EndpointId) => Effect.Effect<RemoveResult, StoreError>
  /** The schema of the endpoint's handler; undefined if none has been reported. */
  readonly schema: (id: EndpointId) => Effect.Effect<EndpointSchema | undefined, StoreError>
  /** Replaces the schema of the handler. Does nothing if the endpoint does not exist. */
  readonly putSchema: (id: EndpointId, schema: EndpointSchema) => Effect.Effect<void, StoreError>
}>()("@stint/store/EndpointStore") {}

/** Endpoints in memory, for the job store in memory. */
export interface Endpoints {
  readonly service: EndpointStore["Service"]
  readonly releases: ReleaseStore["Service"]
  /** Whether the endpoint was removed. */
  readonly wasRemoved: (id: EndpointId) => boolean
}

/** An empty store. `isBusy`: whether an endpoint has jobs that have not ended. `onRemoved`: removes what belongs to it. */
export const makeMemory = (
  isBusy: (id: EndpointId) => boolean,
  onRemoved: (id: EndpointId) => void = () => {}
): Endpoints => {
  const endpoints = new Map<string, Endpoint>()
  const removed = new Set<string>()
  const schemas = new Map<EndpointId, EndpointSchema>()
  const put = (endpoint: Endpoint) => {
    endpoints.set(endpoint.id, endpoint)
    removed.delete(endpoint.id)
  }
  const releases = MemoryReleases.make((id) => endpoints.get(id), put)
  return {
    releases: releases.service,
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
          schemas.delete(id)
          releases.removeAll(id)
          onRemoved(id)
          removed.add(id)
          return "removed"
        }),
      schema: (id) => Effect.sync(() => schemas.get(id)),
      putSchema: (id, schema) =>
        Effect.sync(() => {
          if (endpoints.has(id)) schemas.set(id, schema)
        })
    })
  }
}

/** Endpoints and releases in memory, without jobs: no endpoint is ever busy. */
export const layerMemory: Layer.Layer<EndpointStore | ReleaseStore> = Layer.effectContext(Effect.sync(() => {
  const { releases, service } = makeMemory(() => false)
  return Context.make(EndpointStore, service).pipe(Context.add(ReleaseStore, releases))
}))
