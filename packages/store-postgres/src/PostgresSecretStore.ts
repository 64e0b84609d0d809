/**
 * Encrypted secrets in PostgreSQL.
 */
import { SecretRecord, SecretStore } from "@stint/store/SecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { insertAll, transpose } from "./JobColumns.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const Body = Schema.fromJsonString(SecretRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const encodeBody = Schema.encodeSync(Body)

const PUT = `${insertAll("secrets", { name: "text", body: "text" })} ON CONFLICT (name) DO UPDATE SET body = excluded.body`

const make = Effect.map(PostgresDatabase, (db) =>
  SecretStore.of({
    list: db.read(
      "list secrets",
      async (query) => (await query(`SELECT body FROM stint.secrets ORDER BY name`)).map((row) => decodeRow(row)[0])
    ),
    put: (secrets) =>
      db.write("put secrets", async (query) => {
        // One row for each name: a statement cannot change a row twice.
        const last = new Map(secrets.map((secret) => [secret.name, secret]))
        if (last.size > 0) await query(PUT, transpose([...last.values()].map((secret) => [secret.name, encodeBody(secret)])))
      }),
    remove: (name) =>
      db.write(
        "remove secret",
        async (query) => (await query(`DELETE FROM stint.secrets WHERE name = $1 RETURNING 1`, [name])).length > 0
      )
  }))

/** The secrets of a database. */
export const layer: Layer.Layer<SecretStore, never, PostgresDatabase> = Layer.effect(SecretStore, make)
