/**
 * Keys in the same file as their jobs. Few and read with every request, so all are kept in memory.
 */
import type { KeyId } from "@stint/contract/AccessKey"
import { byAge, KeyRecord, KeyStore } from "@stint/queue/KeyStore"
import type { QueueError } from "@stint/queue/QueueError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(KeyRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { keys, put, remove } = yield* db.read("open keys", () => ({
    keys: new Map<string, KeyRecord>(
      db.statement(`SELECT body FROM keys`).all().map((row) => {
        const key = decodeRow(row).body
        return [key.id, key]
      })
    ),
    put: db.statement(`INSERT OR REPLACE INTO keys (id, body) VALUES (?, ?)`),
    remove: db.statement(`DELETE FROM keys WHERE id = ?`)
  }))

  // One change at a time, and each until it is in memory too: what is in memory is then what is stored.
  const lock = yield* Semaphore.make(1)
  const change = <A>(effect: Effect.Effect<A, QueueError>) => Effect.uninterruptible(lock.withPermits(1)(effect))

  const keep = (operation: string, key: KeyRecord) =>
    db.write(operation, () => {
      put.run(key.id, encodeBody(key))
    }).pipe(Effect.tap(() => Effect.sync(() => keys.set(key.id, key))))

  return KeyStore.of({
    get: (id) => Effect.sync(() => keys.get(id)),
    list: Effect.sync(() => [...keys.values()].sort(byAge)),
    put: (key) => change(keep("put key", key)),
    update: (id: KeyId, edit) =>
      change(Effect.suspend(() => {
        const known = keys.get(id)
        if (known === undefined) return Effect.succeed(undefined)
        const edited = edit(known)
        return Effect.as(keep("update key", edited), edited)
      })),
    remove: (id) =>
      change(
        db.write("remove key", () => remove.run(id).changes > 0).pipe(
          Effect.tap(() => Effect.sync(() => keys.delete(id)))
        )
      )
  })
})

/** The key store of a database file. */
export const layer: Layer.Layer<KeyStore, QueueError, SqliteDatabase> = Layer.effect(KeyStore, make)
