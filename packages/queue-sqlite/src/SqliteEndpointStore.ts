/**
 * Endpoints in the same file as their jobs. Few and read with every request, so all are kept in memory.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointStore } from "@stint/queue/EndpointStore"
import type { QueueError } from "@stint/queue/QueueError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(Endpoint)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { endpoints, put, remove } = yield* db.read("open", () => ({
    endpoints: new Map<string, Endpoint>(
      db.statement(`SELECT body FROM endpoints`).all().map((row) => {
        const endpoint = decodeRow(row).body
        return [endpoint.id, endpoint]
      })
    ),
    put: db.statement(`INSERT OR REPLACE INTO endpoints (id, body) VALUES (?, ?)`),
    remove: db.statement(`DELETE FROM endpoints WHERE id = ?`)
  }))

  return EndpointStore.of({
    get: (id) => Effect.sync(() => endpoints.get(id)),
    list: Effect.sync(() => [...endpoints.values()].sort((a, b) => (a.id < b.id ? -1 : 1))),
    put: (endpoint) =>
      db.write("put endpoint", () => {
        put.run(endpoint.id, encodeBody(endpoint))
      }).pipe(
        Effect.tap(() => Effect.sync(() => endpoints.set(endpoint.id, endpoint))),
        Effect.uninterruptible
      ),
    remove: (id) =>
      db.write("remove endpoint", () => remove.run(id).changes > 0).pipe(
        Effect.tap(() => Effect.sync(() => endpoints.delete(id))),
        Effect.uninterruptible
      )
  })
})

/** The endpoint store of a database file. */
export const layer: Layer.Layer<EndpointStore, QueueError, SqliteDatabase> = Layer.effect(EndpointStore, make)
