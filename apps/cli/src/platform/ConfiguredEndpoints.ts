/**
 * Deploys the endpoints of the configuration when the platform starts: each that differs from its release, in its settings or its code,
 * becomes a new release. Gives every stored endpoint a release that has none, because an earlier version stored it.
 *
 * Nothing is removed: an endpoint that the configuration no longer names keeps its jobs and workers. The log names it, and
 * `stint endpoints delete` removes it.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { Releases } from "@stint/releases/Releases"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Creates or updates the endpoints. Logs stored endpoints that are not among them. */
export const apply = Effect.fn("ConfiguredEndpoints.apply")(function*(endpoints: ReadonlyArray<EndpointSpec>) {
  const store = yield* EndpointStore
  const releases = yield* Releases
  for (const spec of endpoints) yield* releases.adopt({ spec, createdBy: "configuration" })
  for (const { createdAt: _, previousRelease: __, release, ...spec } of yield* store.list) {
    if (release === undefined) yield* releases.adopt({ spec, createdBy: "configuration" })
  }
  // Without a configuration, all endpoints were created by commands.
  if (endpoints.length === 0) return
  const named = new Set<string>(endpoints.map(({ id }) => id))
  const others = (yield* store.list).filter(({ id }) => !named.has(id)).map(({ id }) => id)
  if (others.length === 0) return
  yield* Effect.logInfo(
    `The configuration does not name ${
      others.length === 1 ? "this stored endpoint, which keeps" : "these stored endpoints, which keep"
    } ` +
      `running: ${others.join(", ")}. To remove one: stint endpoints delete ${others[0]}`
  )
})

/** {@link apply} as a layer. */
export const layer = (endpoints: ReadonlyArray<EndpointSpec>) => Layer.effectDiscard(apply(endpoints))
