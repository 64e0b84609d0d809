/**
 * The conformance suite of secret stores.
 */
import { assert, describe, it } from "@effect/vitest"
import { SecretName } from "@stint/contract/Secret"
import { type SecretRecord, SecretStore } from "@stint/store/SecretStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"

const record = (name: string, settings: Partial<SecretRecord> = {}): SecretRecord => ({
  name: SecretName.make(name),
  version: "0123456789abcdef",
  createdAt: 1_000,
  updatedAt: 1_700_000_000_000,
  key: "a1b2c3d4",
  sealed: "AAECAwQ=",
  ...settings
})

/** Registers the rules for a secret store. The layer is built for every test. */
export const secretStoreSuite = <E>(name: string, store: Layer.Layer<SecretStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, SecretStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  describe(`secret store: ${name}`, () => {
    rule(
      "returns stored secrets unchanged, ordered by name",
      Effect.gen(function*() {
        const store = yield* SecretStore
        assert.deepStrictEqual(yield* store.list, [])
        const all = [record("HF_TOKEN"), record("a.b-c", { sealed: "x".repeat(100_000) }), record("hf-token"), record("z")]
        yield* store.put(all.toReversed())
        assert.deepStrictEqual(yield* store.list, all)
      })
    )

    rule(
      "replaces the stored value on a second put, and treats names that differ in case as different secrets",
      Effect.gen(function*() {
        const store = yield* SecretStore
        yield* store.put([record("token")])
        yield* store.put([record("TOKEN")])
        yield* store.put([record("token", { version: "second", sealed: "new" })])
        assert.deepStrictEqual(yield* store.list, [record("TOKEN"), record("token", { version: "second", sealed: "new" })])
      })
    )

    rule(
      "removes exactly the given name, and reports whether it existed",
      Effect.gen(function*() {
        const store = yield* SecretStore
        yield* store.put([record("one")])
        yield* store.put([record("two")])
        assert.isTrue(yield* store.remove(SecretName.make("one")))
        assert.isFalse(yield* store.remove(SecretName.make("one")))
        assert.isFalse(yield* store.remove(SecretName.make("constructor")))
        assert.deepStrictEqual(yield* store.list, [record("two")])
      })
    )

    rule(
      "stores several secrets at once, in addition to those that it already has",
      Effect.gen(function*() {
        const store = yield* SecretStore
        yield* store.put([record("a"), record("b")])
        yield* store.put([record("b", { key: "other" }), record("c", { key: "other" })])
        yield* store.put([])
        assert.deepStrictEqual((yield* store.list).map(({ key, name }) => [name, key]), [
          ["a", "a1b2c3d4"],
          ["b", "other"],
          ["c", "other"]
        ])
      })
    )
  })
}
