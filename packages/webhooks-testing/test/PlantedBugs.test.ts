/** The simulation of the webhook sender runs over stores with planted bugs and must report them (R10). */
import { assert, describe, it } from "@effect/vitest"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerServices, simulate } from "../src/WebhookDeliverySuite.ts"
import { memory } from "./MemoryStores.ts"

type Store = WebhookStore["Service"]

const simulateOver = (replace: (store: Store) => Partial<Store>) => {
  const stores = Layer.effect(WebhookStore, Effect.map(WebhookStore, (store) => WebhookStore.of({ ...store, ...replace(store) })))
  return Effect.provide(simulate(1, 30), layerServices(stores.pipe(Layer.provideMerge(memory))))
}

describe("chaos: planted bugs in a simulation of the webhook sender", () => {
  it.effect("R10: the simulation reports nothing over a store without a bug", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* simulateOver(() => ({}))).violations, [])
    }))

  it.effect("R10: the simulation detects a store that marks failed deliveries as delivered", () =>
    Effect.gen(function*() {
      const { violations } = yield* simulateOver((store) => ({
        settle: (endpoint, id, attempt, outcome) =>
          store.settle(endpoint, id, attempt, outcome._tag === "Retry" ? { ...outcome, _tag: "Delivered" } : outcome)
      }))
      assert.match(violations.join("\n"), /was never delivered/)
    }))
})
