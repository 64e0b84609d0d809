/**
 * The endpoints whose workers this node starts (`Nodes.owns`). The autoscaler treats the others as deleted. When a node joins and takes over
 * endpoints, their workers finish their jobs here while the new node starts workers there.
 */
import { EndpointStore } from "@stint/store/EndpointStore"
import { Nodes } from "@stint/store/Nodes"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"

/** Replaces the list of the endpoint store. */
export const layer: Layer.Layer<EndpointStore, never, EndpointStore> = Layer.effect(
  EndpointStore,
  Effect.gen(function*() {
    const store = yield* EndpointStore
    const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
    if (nodes === undefined) return store
    return { ...store, list: Effect.map(store.recentList ?? store.list, (all) => all.filter(({ id }) => nodes.owns(id))) }
  })
)

/** Releases the endpoints when this node begins to shut down, while its workers finish their jobs. Must be the outermost layer. */
export const layerReleaseAtShutdown: Layer.Layer<never> = Layer.effectDiscard(
  Effect.flatMap(
    Effect.serviceOption(Nodes),
    Option.match({ onNone: () => Effect.void, onSome: ({ leave }) => Effect.addFinalizer(() => leave) })
  )
)

/**
 * Longer than the time for which a dead node still counts as alive, so that a restarted node does not warn about its own earlier process.
 */
const NODES_KNOWN_AFTER = "10 seconds"

/** Warns if this node has generated its own keys although there are other nodes, which do not know these keys. */
export const layerKeyWarning: Layer.Layer<never> = Layer.effectDiscard(
  Effect.gen(function*() {
    const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
    if (nodes === undefined) return
    const warn = Effect.logError(
      "Other nodes use the same database, but do not accept the keys that this node has generated. " +
        "Set STINT_API_KEY and STINT_SECRETS_KEY to the same values on all nodes (docs/operations/many-nodes.md)."
    )
    // Nodes with the operator's keys do not warn about this node, so this node checks for them as long as it runs.
    const others = Effect.repeat(Effect.delay(Effect.sync(nodes.hasOthers), NODES_KNOWN_AFTER), { until: (found) => found })
    yield* Effect.forkScoped(Effect.andThen(others, warn))
  })
)
