/**
 * Access keys in SQLite, with all keys cached in memory (`KeyCache`). Only this process can write to the file (`SqliteDatabase`), so the cache
 * needs no refresh.
 */
import * as KeyCache from "@stint/store/KeyCache"
import { KeyRecord, KeyStore } from "@stint/store/KeyStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(KeyRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { all, get, put, remove } = yield* db.read("open keys", () => ({
    all: db.statement(`SELECT body FROM keys`),
    get: db.statement(`SELECT body FROM keys WHERE id = ?`),
    put: db.statement(`INSERT OR REPLACE INTO keys (id, body) VALUES (?, ?)`),
    remove: db.statement(`DELETE FROM keys WHERE id = ?`)
  }))

  const write = (key: KeyRecord) => put.run(key.id, encodeBody(key))

  return yield* KeyCache.make({
    all: db.read("read keys", () => all.all().map((row) => decodeRow(row).body)),
    put: (key) =>
      db.write("put key", () => {
        write(key)
      }),
    update: (id, change) =>
      db.write("update key", () => {
        const row = get.get(id)
        if (row === undefined) return undefined
        const changed = change(decodeRow(row).body)
        write(changed)
        return changed
      }),
    remove: (id) => db.write("remove key", () => remove.run(id).changes > 0)
  })
})

/** The key store of a database file. */
export const layer: Layer.Layer<KeyStore, StoreError, SqliteDatabase> = Layer.effect(KeyStore, make)
