/**
 * Deploys the endpoints of the configuration when the platform starts: each endpoint whose settings or code differ from its release gets a new
 * release. Makes a release for every stored endpoint that has none because an earlier version of Stint stored it.
 *
 * Nothing is removed: an endpoint that the configuration no longer names keeps its jobs and workers. The log names it, and
 * `stint endpoints delete` removes it.
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import { Releases } from "@stint/releases/Releases"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * Creates or updates the endpoints. Logs stored endpoints that are not among them. Returns the endpoints that have no release yet, which run from
 * their files until their first release is made.
 */
export const apply = Effect.fn("ConfiguredEndpoints.apply")(function*(endpoints: ReadonlyArray<EndpointSpec>) {
  const store = yield* EndpointStore
  const releases = yield* Releases
  for (const spec of endpoints) {
    const known = yield* store.get(spec.id)
    // A change is deployed before the first request. Startup does not wait for a handler's first bundle, which takes a second.
    if (known?.release !== undefined) yield* releases.redeploy({ spec, createdBy: CONFIGURATION })
    else yield* store.put({ ...spec, createdAt: known?.createdAt ?? (yield* Clock.currentTimeMillis) })
  }
  const withoutRelease = (yield* store.list).filter(({ release }) => release === undefined)
  // Without a configuration, all endpoints were created by commands.
  if (endpoints.length === 0) return withoutRelease
  const named = new Set<string>(endpoints.map(({ id }) => id))
  const others = (yield* store.list).filter(({ id }) => !named.has(id)).map(({ id }) => id)
  if (others.length === 0) return withoutRelease
  yield* Effect.logInfo(
    `The configuration does not name ${
      others.length === 1 ? "this stored endpoint, which keeps" : "these stored endpoints, which keep"
    } ` +
      `running: ${others.join(", ")}. To remove one: stint endpoints delete ${others[0]}`
  )
  return withoutRelease
})

/** Makes the first release of endpoints that have none. */
const adopt = Effect.fn("ConfiguredEndpoints.adopt")(function*(endpoints: ReadonlyArray<Endpoint>) {
  const releases = yield* Releases
  for (const { id } of endpoints) {
    yield* releases.adopt(id, CONFIGURATION).pipe(
      Effect.catch(({ message }) =>
        Effect.logError(
          `Endpoint ${id} runs from its files, because its first release cannot be stored: ${message}. Restart the platform, or deploy the endpoint.`
        )
      )
    )
  }
})

/** The author of the releases that the configuration causes. */
const CONFIGURATION = "configuration"

/** {@link apply} as a layer. First releases are made in the background. */
export const layer = (endpoints: ReadonlyArray<EndpointSpec>) =>
  Layer.effectDiscard(Effect.flatMap(apply(endpoints), (found) => Effect.forkScoped(adopt(found))))
