import { Agents } from "@stint/pool/Agents"
import { suite } from "@stint/pool/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { awaitState, layerAgent, layerPlatform, linkOver, network } from "./TestAgents.ts"

/** A platform that runs no workers itself, and one agent. */
const layer = Layer.effectDiscard(Effect.gen(function*() {
  const agents = yield* Agents
  yield* Layer.build(layerAgent(linkOver(agents, "one", network())))
  yield* awaitState("one", "connected")
})).pipe(Layer.provideMerge(Layer.fresh(layerPlatform())))

suite("agent", {
  layer,
  source: { type: "command", command: ["scripted"] },
  broken: { type: "command", command: ["missing"] }
})
