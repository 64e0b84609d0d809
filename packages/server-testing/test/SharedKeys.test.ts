/**
 * Several servers over one key store: a revocation on one server applies to the others.
 */
import { expect, it } from "@effect/vitest"
import { AccessKey, NewKey, RevokedKey } from "@stint/contract/AccessKey"
import * as KeyCache from "@stint/store/KeyCache"
import * as KeyStore from "@stint/store/KeyStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layer as layerServer, layerMemory, ServerTest } from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"
import { expectJson } from "../src/WireClient.ts"

/** A server with its own cache of the shared keys, refreshed often to keep the test short. */
const serverOver = (rows: KeyCache.KeyRows) => {
  const keys = Layer.effect(KeyStore.KeyStore, KeyCache.make(rows, { refresh: 20 }))
  return Effect.map(
    Layer.build(Layer.fresh(layerServer({ stores: Layer.merge(layerMemory, keys) }))),
    (context) => Context.get(context, ServerTest)
  )
}

it.live("when one server creates, rotates or revokes a key, the other server applies the change without a restart", () =>
  Effect.scoped(Effect.gen(function*() {
    const { list: all, put, remove, update } = Context.get(yield* Layer.build(KeyStore.layerMemory), KeyStore.KeyStore)
    const [one, two] = [yield* serverOver({ all, put, update, remove }), yield* serverOver({ all, put, update, remove })]
    const endpoint = yield* two.endpoint()
    const statusWith = (secret: string) =>
      Effect.map(two.call(endpoint.path("health"), { authorization: secret }), ({ status }) => status)
    const becomes = (secret: string, status: number) => until(statusWith(secret), (seen) => seen === status)

    const { key, secret } = yield* Effect.flatMap(
      one.call("/api/v1/keys", { json: { name: "shared", endpoints: "all" } }),
      expectJson(201, NewKey)
    )
    yield* becomes(secret, 200)
    const rotated = yield* Effect.flatMap(
      one.call(`/api/v1/keys/${key.id}/rotate`, { json: { graceMs: 0 } }),
      expectJson(200, NewKey)
    )
    yield* becomes(secret, 401)
    yield* becomes(rotated.secret, 200)
    yield* Effect.flatMap(one.call(`/api/v1/keys/${key.id}/revoke`, { method: "POST" }), expectJson(200, RevokedKey))
    yield* becomes(rotated.secret, 401)
    // When the second server records the key's last use, that does not restore the key.
    expect((yield* Effect.flatMap(two.call(`/api/v1/keys/${key.id}`), expectJson(200, AccessKey))).status).toBe("REVOKED")
    expect(yield* statusWith(rotated.secret)).toBe(401)
  })))
