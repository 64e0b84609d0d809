/**
 * The conformance suite of key stores.
 */
import { assert, describe, it } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { KeyRecord, KeyStore } from "@stint/store/KeyStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const decode = Schema.decodeUnknownSync(KeyRecord)

/** Builds a key id from a small number. */
const idOf = (number: number): KeyId => KeyId.make(number.toString(16).padStart(16, "0"))

const plain = (number: number, settings: Partial<KeyRecord> = {}): KeyRecord => ({
  ...decode({
    id: idOf(number),
    name: "plain",
    scopes: ["jobs"],
    endpoints: ["hello"],
    prefix: `stint_${idOf(number)}_abcd`,
    createdAt: 1_000,
    digest: "d".repeat(64),
    previous: []
  }),
  ...settings
})

const everything = decode({
  id: idOf(0xfff),
  name: "Zürich \u{1F680}; DROP TABLE keys; --",
  scopes: ["worker", "jobs"],
  endpoints: ["a", "b"],
  prefix: "stint_0000000000000fff_abcd",
  createdAt: 1_700_000_000_000,
  rotatedAt: 1_700_000_000_001,
  expiresAt: 1_700_000_000_003,
  revokedAt: 1_700_000_000_004,
  lastUsedAt: 1_700_000_000_005,
  rateLimit: { limit: 7, perMs: 10_000, concurrent: 3 },
  digest: "0".repeat(64),
  previous: [{ digest: "1".repeat(64), until: 1_700_000_000_002 }, { digest: "2".repeat(64), until: 0 }]
})

/** Registers the rules for a key store. The layer is built for every test. */
export const keyStoreSuite = <E>(name: string, store: Layer.Layer<KeyStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, KeyStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  describe(`key store: ${name}`, () => {
    rule(
      "returns a stored key unchanged, with every setting",
      Effect.gen(function*() {
        const store = yield* KeyStore
        for (const key of [everything, plain(1), plain(2, { endpoints: "all", scopes: ["admin"] })]) {
          yield* store.put(key)
          assert.deepStrictEqual(yield* store.get(key.id), key)
        }
        assert.strictEqual((yield* store.list).length, 3)
      })
    )

    rule(
      "returns undefined for an unknown id",
      Effect.gen(function*() {
        const store = yield* KeyStore
        assert.strictEqual(yield* store.get("unknown"), undefined)
        assert.strictEqual(yield* store.get("constructor"), undefined)
        assert.strictEqual(yield* store.update(idOf(1), (key) => key), undefined)
        assert.isFalse(yield* store.remove(idOf(1)))
        assert.deepStrictEqual(yield* store.list, [])
      })
    )

    rule(
      "lists keys by age, whatever the order of creation",
      Effect.gen(function*() {
        const store = yield* KeyStore
        for (const [number, createdAt] of [[1, 30], [2, 10], [4, 20], [3, 20]] as const) {
          yield* store.put(plain(number, { createdAt }))
        }
        assert.deepStrictEqual((yield* store.list).map((key) => key.id), [idOf(2), idOf(3), idOf(4), idOf(1)])
      })
    )

    rule(
      "shows an update to every reader at once, and changes nothing else",
      Effect.gen(function*() {
        const store = yield* KeyStore
        yield* store.put(plain(1))
        yield* store.put(plain(2))
        const changed = yield* store.update(idOf(1), (key) => ({ ...key, revokedAt: 5, digest: "e".repeat(64) }))
        const expected = plain(1, { revokedAt: 5, digest: "e".repeat(64) })
        assert.deepStrictEqual(changed, expected)
        assert.deepStrictEqual(yield* store.get(idOf(1)), expected)
        assert.deepStrictEqual(yield* store.list, [expected, plain(2)])
      })
    )

    rule(
      "applies all of several concurrent updates",
      Effect.gen(function*() {
        const store = yield* KeyStore
        yield* store.put(plain(1, { lastUsedAt: 0 }))
        yield* Effect.forEach(
          Array.from({ length: 50 }),
          () => store.update(idOf(1), (key) => ({ ...key, lastUsedAt: (key.lastUsedAt ?? 0) + 1 })),
          { concurrency: "unbounded", discard: true }
        )
        assert.strictEqual((yield* store.get(idOf(1)))?.lastUsedAt, 50)
        assert.strictEqual((yield* store.list)[0]?.lastUsedAt, 50)
      })
    )

    rule(
      "replaces the stored value on a second put",
      Effect.gen(function*() {
        const store = yield* KeyStore
        yield* store.put(plain(1, { name: "first" }))
        yield* store.put(plain(1, { name: "second" }))
        assert.deepStrictEqual((yield* store.list).map((key) => key.name), ["second"])
      })
    )

    rule(
      "removes exactly the given id",
      Effect.gen(function*() {
        const store = yield* KeyStore
        yield* store.put(plain(1))
        yield* store.put(plain(2))
        assert.isTrue(yield* store.remove(idOf(1)))
        assert.isFalse(yield* store.remove(idOf(1)))
        assert.strictEqual(yield* store.get(idOf(1)), undefined)
        assert.deepStrictEqual((yield* store.list).map((key) => key.id), [idOf(2)])
      })
    )
  })
}
