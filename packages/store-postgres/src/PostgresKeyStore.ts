/**
 * Access keys in PostgreSQL, with all keys cached in memory (`KeyCache`). A revocation reaches the other nodes within `KeyCache.SHARED_REFRESH`. While
 * the heartbeats of the node read the same version of the keys, they are not read again. Otherwise they are read every {@link UNCONFIRMED_MILLIS}.
 */
import * as KeyCache from "@stint/store/KeyCache"
import { KeyRecord, KeyStore } from "@stint/store/KeyStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { EMPTY, LISTED_VERSION, type ListRead } from "./Heartbeat.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

/** How often to check whether the keys have changed, which costs no statement: `KeyCache.SHARED_REFRESH` holds with the heartbeats that read their version. */
const CHECK = "500 millis"

/** How often to try to read the keys without recent heartbeats, at the next check. */
const UNCONFIRMED_MILLIS = 4_000

const Body = Schema.fromJsonString(KeyRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const decodeListed = Schema.decodeUnknownSync(Schema.Array(Schema.Tuple([Body, Schema.String])))
const encodeBody = Schema.encodeSync(Body)

const write = (query: Query, key: KeyRecord) =>
  query(`INSERT INTO stint.keys (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, [
    key.id,
    encodeBody(key)
  ])

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  let last: ListRead = { at: -Infinity, version: undefined }
  let triedAt = -Infinity
  return yield* KeyCache.make({
    all: Effect.suspend(() => {
      const at = db.heartbeat.time()
      triedAt = at
      return db.read("read keys", async (query) => {
        const rows = decodeListed(await query(`SELECT body, ${LISTED_VERSION} FROM stint.keys`))
        last = { at, version: rows[0]?.[1] ?? EMPTY }
        return rows.map(([key]) => key)
      })
    }),
    isCurrent: () =>
      db.heartbeat.isCurrent("keys", last) || (!db.heartbeat.isRecent() && db.heartbeat.time() - triedAt < UNCONFIRMED_MILLIS),
    put: (key) => Effect.asVoid(db.write("put key", (query) => write(query, key))),
    update: (id, change) =>
      db.write("update key", async (query) => {
        const [row] = await query(`SELECT body FROM stint.keys WHERE id = $1 FOR UPDATE`, [id])
        if (row === undefined) return undefined
        const changed = change(decodeRow(row)[0])
        await write(query, changed)
        return changed
      }),
    remove: (id) =>
      db.write("remove key", async (query) => (await query(`DELETE FROM stint.keys WHERE id = $1 RETURNING 1`, [id])).length > 0)
  }, { refresh: CHECK })
})

/** The key store of a database. */
export const layer: Layer.Layer<KeyStore, StoreError, PostgresDatabase> = Layer.effect(KeyStore, make)
