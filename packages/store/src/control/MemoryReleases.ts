/**
 * Releases in memory, together with the endpoints in memory.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { Release } from "@stint/contract/Release"
import * as Effect from "effect/Effect"
import * as ReleaseMachine from "./ReleaseMachine.ts"
import { baseOf, type DeployResult, type ReleaseStore } from "./ReleaseStore.ts"

/** The releases, and a function that removes those of a removed endpoint. */
export interface MemoryReleases {
  readonly service: ReleaseStore["Service"]
  readonly removeAll: (id: EndpointId) => void
}

/** An empty store. `readEndpoint` and `writeEndpoint` access the endpoints. */
export const make = (
  readEndpoint: (id: EndpointId) => Endpoint | undefined,
  writeEndpoint: (endpoint: Endpoint) => void
): MemoryReleases => {
  const byEndpoint = new Map<EndpointId, Map<number, Release>>()
  const releasesOf = (id: EndpointId): Map<number, Release> => byEndpoint.get(id) ?? new Map<number, Release>()
  const read = (id: EndpointId) => (number: number) => releasesOf(id).get(number)

  const write = ({ endpoint, releases }: ReleaseMachine.ReleaseChange) => {
    writeEndpoint(endpoint)
    const known = releasesOf(endpoint.id)
    for (const release of releases) known.set(release.number, release)
    byEndpoint.set(endpoint.id, known)
  }

  return {
    removeAll: (id) => {
      byEndpoint.delete(id)
    },
    service: {
      deploy: (base, deployment) =>
        Effect.sync((): DeployResult => {
          const { id } = deployment.settings
          const before = readEndpoint(id)
          if (baseOf(before) !== base) return { _tag: "Moved", base: baseOf(before) }
          const latest = Math.max(0, ...releasesOf(id).keys())
          const change = ReleaseMachine.deploy(before, latest, read(id), deployment)
          write(change)
          for (const number of releasesOf(id).keys()) {
            if (ReleaseMachine.isObsolete(change.endpoint, latest + 1, number)) releasesOf(id).delete(number)
          }
          return { _tag: "Deployed", release: change.releases[0], endpoint: change.endpoint }
        }),
      settle: (id, number, outcome) =>
        Effect.sync(() => {
          const change = ReleaseMachine.settle(readEndpoint(id), number, read(id), outcome)
          if (change !== undefined) write(change)
          return change?.endpoint
        }),
      get: (id, number) => Effect.sync(() => read(id)(number)),
      list: (id, { before = Infinity, limit }) =>
        Effect.sync(() =>
          [...releasesOf(id).values()].filter(({ number }) => number < before).sort((a, b) => b.number - a.number).slice(0, limit)
        ),
      codes: Effect.sync(() =>
        new Set(
          [...byEndpoint.values()].flatMap((all) =>
            [...all.values()].flatMap(({ code }) => code === undefined ? [] : [code.hash])
          )
        )
      )
    }
  }
}
