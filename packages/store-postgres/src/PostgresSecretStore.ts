/**
 * Encrypted secrets in PostgreSQL. While the heartbeats of the node read the same version of the list, it is not read again.
 */
import { SecretRecord, SecretStore } from "@stint/store/SecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { EMPTY, LISTED_VERSION, type ListRead } from "./Heartbeat.ts"
import { insertAll, transpose } from "./JobColumns.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const Body = Schema.fromJsonString(SecretRecord)
const decodeRows = Schema.decodeUnknownSync(Schema.Array(Schema.Tuple([Body, Schema.String])))
const encodeBody = Schema.encodeSync(Body)

const PUT = `${insertAll("secrets", { name: "text", body: "text" })} ON CONFLICT (name) DO UPDATE SET body = excluded.body`

const make = Effect.map(PostgresDatabase, (db) => {
  /** The list that was read last. Its version is undefined after a change by this node. */
  let last: ListRead & { readonly list: ReadonlyArray<SecretRecord> } = { list: [], at: -Infinity, version: undefined }
  /** Incremented with each change by this node. */
  let changes = 0
  const changed = Effect.sync(() => {
    changes += 1
    last = { ...last, version: undefined }
  })
  const read = Effect.suspend(() => {
    const before = changes
    const at = db.heartbeat.time()
    return Effect.map(
      db.read("list secrets", (query) => query(`SELECT body, ${LISTED_VERSION} FROM stint.secrets ORDER BY name`)),
      (found) => {
        const rows = decodeRows(found)
        const list = rows.map(([secret]) => secret)
        if (changes === before) last = { list, at, version: rows[0]?.[1] ?? EMPTY }
        return list
      }
    )
  })
  return SecretStore.of({
    list: Effect.suspend(() => db.heartbeat.isCurrent("secrets", last) ? Effect.succeed(last.list) : read),
    put: (secrets) =>
      db.write("put secrets", async (query) => {
        // One row for each name: a statement cannot change a row twice.
        const byName = new Map(secrets.map((secret) => [secret.name, secret]))
        if (byName.size > 0) await query(PUT, transpose([...byName.values()].map((secret) => [secret.name, encodeBody(secret)])))
      }).pipe(Effect.ensuring(changed)),
    remove: (name) =>
      db.write(
        "remove secret",
        async (query) => (await query(`DELETE FROM stint.secrets WHERE name = $1 RETURNING 1`, [name])).length > 0
      ).pipe(Effect.ensuring(changed))
  })
})

/** The secrets of a database. */
export const layer: Layer.Layer<SecretStore, never, PostgresDatabase> = Layer.effect(SecretStore, make)
