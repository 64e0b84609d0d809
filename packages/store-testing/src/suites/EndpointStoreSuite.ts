/**
 * The conformance suite of endpoint stores.
 */
import { assert, describe, it } from "@effect/vitest"
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scenario from "../Scenario.ts"

const everything = Schema.decodeUnknownSync(Endpoint)({
  id: "everything",
  source: { type: "command", command: ["python3", "worker.py"], directory: "/srv/worker" },
  workers: { min: 1, max: 7, idleTimeoutMs: 1_234 },
  scaler: { type: "REQUEST_COUNT", value: 3 },
  executionTimeoutMs: 5_000,
  ttlMs: 10_000,
  leaseMs: 1_000,
  maxAttempts: 9,
  retentionMs: 1_000,
  errorTraceback: "none",
  env: { CITY: "Zürich \u{1F680}", EMPTY: "" },
  createdAt: 1_700_000_000_000
})

/** Registers the rules for an endpoint store. The layer is built for every test. */
export const endpointStoreSuite = <E>(name: string, store: Layer.Layer<EndpointStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, EndpointStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  describe(`endpoint store: ${name}`, () => {
    rule(
      "returns a stored endpoint unchanged, with every setting",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        for (const endpoint of [everything, Scenario.endpoint()]) {
          yield* store.put(endpoint)
          assert.deepStrictEqual(yield* store.get(endpoint.id), endpoint)
        }
      })
    )

    rule(
      "returns undefined for an unknown id",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        assert.strictEqual(yield* store.get("unknown"), undefined)
        assert.strictEqual(yield* store.get("constructor"), undefined)
        assert.strictEqual(yield* store.get("a\0b"), undefined)
        assert.deepStrictEqual(yield* store.list, [])
      })
    )

    rule(
      "lists endpoints by id, whatever the order of creation",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        for (const id of ["b", "c", "a", "B"]) yield* store.put(Scenario.endpoint({ id }))
        assert.deepStrictEqual((yield* store.list).map((endpoint) => endpoint.id as string), ["B", "a", "b", "c"])
      })
    )

    rule(
      "replaces the stored value on a second put",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        yield* store.put(Scenario.endpoint({ leaseMs: 1_000 }))
        yield* store.put(Scenario.endpoint({ leaseMs: 2_000 }))
        assert.deepStrictEqual((yield* store.list).map((endpoint) => endpoint.leaseMs), [2_000])
      })
    )

    rule(
      "reports success to exactly one of several concurrent creates, and stores its settings",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        const created = yield* Effect.forEach(
          [1_000, 2_000, 3_000, 4_000],
          (leaseMs) => Effect.map(store.create(Scenario.endpoint({ leaseMs })), (mine) => ({ leaseMs, mine })),
          { concurrency: "unbounded" }
        )
        const winners = created.filter(({ mine }) => mine)
        assert.strictEqual(winners.length, 1)
        assert.strictEqual((yield* store.get(Scenario.endpoint().id))?.leaseMs, winners[0]?.leaseMs)
        assert.isFalse(yield* store.create(Scenario.endpoint({ leaseMs: 5_000 })))
        assert.deepStrictEqual((yield* store.list).map((endpoint) => endpoint.leaseMs), [winners[0]?.leaseMs])
      })
    )

    rule(
      "removes exactly the given id",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        yield* store.put(Scenario.endpoint({ id: "a" }))
        yield* store.put(Scenario.endpoint({ id: "b" }))
        assert.strictEqual(yield* store.remove(EndpointId.make("a")), "removed")
        assert.strictEqual(yield* store.remove(EndpointId.make("a")), "missing")
        assert.strictEqual(yield* store.get("a"), undefined)
        assert.deepStrictEqual((yield* store.list).map((endpoint) => endpoint.id as string), ["b"])
      })
    )

    rule(
      "keeps the last schema of each handler unchanged",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        const [a, b] = [EndpointId.make("a"), EndpointId.make("b")]
        for (const id of [a, b]) yield* store.put(Scenario.endpoint({ id }))
        assert.strictEqual(yield* store.schema(a), undefined)
        const title = "Zürich \u{1F680}\0\u2028\"'"
        const input = { type: "object", properties: { [title]: { type: "string", title } }, required: [title] }
        const first = { input, output: {}, streams: false, reportedAt: 1 }
        const second = { input: {}, output: input, error: { enum: [null, 1, title] }, streams: true, release: 3, reportedAt: 2 }
        yield* store.putSchema(a, first)
        assert.deepStrictEqual(yield* store.schema(a), first)
        assert.strictEqual(yield* store.schema(b), undefined)
        yield* store.putSchema(b, first)
        yield* store.putSchema(a, second)
        assert.deepStrictEqual(yield* store.schema(a), second)
        yield* store.put(Scenario.endpoint({ id: a, leaseMs: 5_000 }))
        assert.deepStrictEqual(yield* store.schema(a), second)
        assert.deepStrictEqual(yield* store.schema(b), first)
      })
    )

    rule(
      "removes the schema with its endpoint, and stores none for an endpoint that does not exist",
      Effect.gen(function*() {
        const store = yield* EndpointStore
        const id = EndpointId.make("a")
        const schema = { input: {}, output: {}, streams: false, reportedAt: 1 }
        yield* store.put(Scenario.endpoint({ id }))
        yield* store.putSchema(id, schema)
        yield* store.remove(id)
        assert.strictEqual(yield* store.schema(id), undefined)
        yield* store.putSchema(id, schema)
        yield* store.put(Scenario.endpoint({ id }))
        assert.strictEqual(yield* store.schema(id), undefined)
      })
    )
  })
}
