/** Tests that keys survive closing and opening a database file. */
import { assert, it } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteKeyStore from "../src/SqliteKeyStore.ts"
import { tempFile } from "./TestDatabase.ts"

const keyOf = (id: string): KeyRecord => ({
  id: KeyId.make(id),
  name: "ci",
  scopes: ["jobs"],
  endpoints: "all",
  prefix: `stint_${id}_abcd`,
  createdAt: 1,
  digest: "d".repeat(64),
  previous: []
})

it.effect("keeps keys, changes and removals after the process ends", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    const inOneLife = <A, E>(use: (store: KeyStore["Service"]) => Effect.Effect<A, E>) =>
      Effect.scoped(
        Effect.flatMap(
          Layer.build(SqliteKeyStore.layer.pipe(Layer.provide(SqliteDatabase.layer({ file })))),
          (context) => Effect.provide(Effect.flatMap(KeyStore, use), context)
        )
      )
    const [kept, gone] = [keyOf("000000000000000a"), keyOf("000000000000000b")]
    yield* inOneLife((store) =>
      Effect.gen(function*() {
        yield* store.put(kept)
        yield* store.put(gone)
        yield* store.update(kept.id, (key) => ({ ...key, revokedAt: 7 }))
        yield* store.remove(gone.id)
      })
    )
    yield* inOneLife((store) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* store.list, [{ ...kept, revokedAt: 7 }])
        assert.deepStrictEqual(yield* store.get(kept.id), { ...kept, revokedAt: 7 })
        assert.strictEqual(yield* store.get(gone.id), undefined)
      })
    )
  }))
