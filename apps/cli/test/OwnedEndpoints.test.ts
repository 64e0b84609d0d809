import { assert, describe, it } from "@effect/vitest"
import { NodeNetwork } from "@stint/store-testing"
import { Nodes } from "@stint/store/Nodes"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as OwnedEndpoints from "../src/platform/OwnedEndpoints.ts"

describe("the warning of a node that has generated its own keys", () => {
  it.effect("appears once, even when other nodes join long after the start", () =>
    Effect.gen(function*() {
      const logged: Array<string> = []
      let hasOthers = false
      const nodes = NodeNetwork.stub({ hasOthers: () => hasOthers })
      const layer = OwnedEndpoints.layerKeyWarning.pipe(
        Layer.provide(Layer.succeed(Nodes, nodes)),
        Layer.provide(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))]))
      )
      yield* Layer.build(layer)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(logged, [])
      hasOthers = true
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(logged.length, 1)
      assert.include(logged[0], "STINT_SECRETS_KEY")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(logged.length, 1)
    }))
})
