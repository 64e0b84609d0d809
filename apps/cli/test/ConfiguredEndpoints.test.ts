import { assert, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as Releases from "@stint/releases/Releases"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as ConfiguredEndpoints from "../src/platform/ConfiguredEndpoints.ts"

const specOf = (id: string, maxAttempts = 2) =>
  Schema.decodeUnknownSync(EndpointSpec)({ id, source: { type: "external" }, maxAttempts })

it.effect("keeps endpoints that the configuration no longer names, and logs them with the command that removes them", () => {
  const lines: Array<string> = []
  return Effect.gen(function*() {
    const store = yield* EndpointStore.EndpointStore
    yield* ConfiguredEndpoints.apply([specOf("a"), specOf("b"), specOf("c")])
    assert.deepStrictEqual(lines, [])
    yield* TestClock.adjust("1 hour")
    yield* ConfiguredEndpoints.apply([specOf("a", 7)])
    assert.deepStrictEqual(
      (yield* store.list).map(({ createdAt, id, maxAttempts }) => [String(id), maxAttempts, createdAt] as const),
      [
        ["a", 7, 0],
        ["b", 2, 0],
        ["c", 2, 0]
      ]
    )
    assert.deepStrictEqual(lines, [
      "The configuration does not name these stored endpoints, which keep running: b, c. To remove one: stint endpoints delete b"
    ])
    lines.length = 0
    // A platform without a configuration has endpoints that commands created.
    yield* ConfiguredEndpoints.apply([])
    assert.deepStrictEqual(lines, [])
  }).pipe(
    Effect.provide(
      Layer.merge(
        Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone), Layer.provideMerge(EndpointStore.layerMemory)),
        Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
      )
    )
  )
})
