/**
 * Encrypted secrets in SQLite.
 */
import { SecretRecord, SecretStore } from "@stint/store/SecretStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(SecretRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { all, put, remove } = yield* db.read("open secrets", () => ({
    all: db.statement(`SELECT body FROM secrets ORDER BY name`),
    put: db.statement(`INSERT OR REPLACE INTO secrets (name, body) VALUES (?, ?)`),
    remove: db.statement(`DELETE FROM secrets WHERE name = ?`)
  }))

  return SecretStore.of({
    list: db.read("list secrets", () => all.all().map((row) => decodeRow(row).body)),
    put: (secrets) =>
      db.write("put secrets", () => {
        for (const secret of secrets) put.run(secret.name, encodeBody(secret))
      }),
    remove: (name) => db.write("remove secret", () => remove.run(name).changes > 0)
  })
})

/** The secrets of a database file. */
export const layer: Layer.Layer<SecretStore, StoreError, SqliteDatabase> = Layer.effect(SecretStore, make)
