/**
 * Publishes what happens in the stores of endpoints, releases and builds. Their changes are rare. The job queue publishes job changes
 * itself, because each of them passes through it exactly once.
 */
import type { Build } from "@stint/contract/Build"
import { MAX_REASON } from "@stint/contract/PlatformEvent"
import { BuildStore } from "@stint/store/BuildStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { RollOutcome } from "@stint/store/ReleaseMachine"
import { type DeployResult, ReleaseStore } from "@stint/store/ReleaseStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type NewPlatformEvent, PlatformEvents } from "./PlatformEvents.ts"

const settled = (endpoint: string, release: number, outcome: RollOutcome): NewPlatformEvent => {
  switch (outcome._tag) {
    case "Ready":
      return { type: "release.active", endpoint, release }
    case "Promoted":
      return { type: "release.promoted", endpoint, release }
    case "Failed":
      return { type: "release.failed", endpoint, release, reason: outcome.reason.slice(0, MAX_REASON) }
  }
}

const ended = ({ endpoint, number, reason, state }: Build): ReadonlyArray<NewPlatformEvent> =>
  state === "succeeded" || state === "failed" || state === "cancelled"
    ? [{
      type: "build.ended",
      endpoint,
      build: number,
      state,
      ...(reason === undefined ? {} : { reason: reason.slice(0, MAX_REASON) })
    }]
    : []

/** The endpoint is stored in the same step as its release. */
const deployed = (result: DeployResult): ReadonlyArray<NewPlatformEvent> => {
  if (result._tag === "Moved") return []
  const { createdBy, endpoint, number, rollbackOf } = result.release
  return [
    {
      type: "release.deployed",
      endpoint,
      release: number,
      by: createdBy,
      ...(rollbackOf === undefined ? {} : { rollbackOf })
    },
    { type: "endpoint.changed", endpoint }
  ]
}

const make = Effect.gen(function*() {
  const { isOpen, publish } = yield* PlatformEvents
  const endpoints = yield* EndpointStore
  const releases = yield* ReleaseStore
  const builds = yield* BuildStore

  /** Publishes what an operation did, if anything. */
  const published = <A, E>(operation: Effect.Effect<A, E>, eventsOf: (result: A) => ReadonlyArray<NewPlatformEvent>) =>
    Effect.tap(operation, (result) =>
      Effect.sync(() => {
        if (isOpen()) { for (const event of eventsOf(result)) publish(event) }
      }))

  return {
    endpoints: EndpointStore.of({
      ...endpoints,
      create: (endpoint) =>
        published(
          endpoints.create(endpoint),
          (isNew) => isNew ? [{ type: "endpoint.changed", endpoint: endpoint.id }] : []
        ),
      put: (endpoint) => published(endpoints.put(endpoint), () => [{ type: "endpoint.changed", endpoint: endpoint.id }]),
      remove: (id) =>
        published(endpoints.remove(id), (result) => result === "removed" ? [{ type: "endpoint.removed", endpoint: id }] : [])
    }),
    releases: ReleaseStore.of({
      ...releases,
      deploy: (base, deployment) => published(releases.deploy(base, deployment), deployed),
      settle: (id, number, outcome) =>
        published(
          releases.settle(id, number, outcome),
          (endpoint) => endpoint === undefined ? [] : [settled(id, number, outcome)]
        )
    }),
    builds: BuildStore.of({
      ...builds,
      create: (build) =>
        published(
          builds.create(build),
          (created) => created === undefined ? [] : [{ type: "build.queued", endpoint: created.endpoint, build: created.number }]
        ),
      update: (build) => published(builds.update(build), (stored) => stored ? ended(build) : [])
    })
  }
})

/** The underlying stores, wrapped so that they publish their changes. */
export const layer: Layer.Layer<
  EndpointStore | ReleaseStore | BuildStore,
  never,
  EndpointStore | ReleaseStore | BuildStore
> = Layer.effectContext(
  Effect.map(
    make,
    ({ builds, endpoints, releases }) =>
      Context.make(EndpointStore, endpoints).pipe(Context.add(ReleaseStore, releases), Context.add(BuildStore, builds))
  )
)
