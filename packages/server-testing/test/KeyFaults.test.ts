/**
 * Tests a failing key store: no secret is returned unless it was stored, and known keys continue to work.
 */
import { expect, layer } from "@effect/vitest"
import { AccessKey, NewKey } from "@stint/contract/AccessKey"
import * as KeyStore from "@stint/store/KeyStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layer as layerServer, layerMemory, ServerTest } from "../src/ServerTest.ts"
import { expectJson, expectProblem } from "../src/WireClient.ts"

class Faults extends Context.Service<Faults, { isDown: boolean }>()("@stint/server/test/KeyFaults/Faults") {}

/** A key store that can be made to fail. It keeps its in-memory state, as the contract of key stores requires. */
const faulty = Layer.effect(
  KeyStore.KeyStore,
  Effect.gen(function*() {
    const faults = yield* Faults
    const store = yield* KeyStore.KeyStore
    const fragile = <A>(effect: Effect.Effect<A, StoreError>) =>
      Effect.suspend(() =>
        faults.isDown
          ? Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "keys", cause: new Error("disk full") }) }))
          : effect
      )
    return KeyStore.KeyStore.of({
      get: store.get,
      list: fragile(store.list),
      put: (key) => fragile(store.put(key)),
      update: (id, change) => fragile(store.update(id, change)),
      remove: (id) => fragile(store.remove(id))
    })
  })
).pipe(
  Layer.provide(KeyStore.layerMemory),
  Layer.provideMerge(Layer.sync(Faults, () => ({ isDown: false })))
)

const stores = Layer.merge(layerMemory, faulty)

layer(layerServer({ stores }).pipe(Layer.provideMerge(faulty)), { excludeTestServices: true })("a failing key store", (it) => {
  it.effect("returns 503 without a secret to create, rotate, patch and revoke, and known keys continue to work unchanged", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const faults = yield* Faults
      const one = yield* endpoint()
      const { key, secret } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "known", endpoints: [one.id] } }),
        expectJson(201, NewKey)
      )
      faults.isDown = true
      const calls = [
        call("/api/v1/keys", { json: { name: "lost", endpoints: [one.id] } }),
        call("/api/v1/keys"),
        call(`/api/v1/keys/${key.id}/rotate`, { json: { graceMs: 0 } }),
        call(`/api/v1/keys/${key.id}/revoke`, { method: "POST" }),
        call(`/api/v1/keys/${key.id}`, { method: "PATCH", json: { name: "other" } })
      ]
      for (const answer of yield* Effect.all(calls)) {
        yield* expectProblem(503)(answer)
        expect(answer.text).not.toMatch(/stint_[0-9a-f]{16}_/)
      }
      expect((yield* call(one.path("health"), { authorization: secret })).status).toBe(200)
      faults.isDown = false
      const stored = yield* Effect.flatMap(call(`/api/v1/keys/${key.id}`), expectJson(200, AccessKey))
      expect(stored).toMatchObject({ name: "known", status: "ACTIVE", prefix: key.prefix })
    }))
})
