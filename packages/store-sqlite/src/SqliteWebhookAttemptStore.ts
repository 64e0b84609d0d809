/**
 * Webhook delivery attempts in SQLite.
 */
import type { StoreError } from "@stint/store/StoreError"
import { WebhookAttempt, WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ ...WebhookAttempt.fields, final: Schema.BooleanFromBit }))
const decodeCounts = Schema.decodeUnknownSync(Schema.Struct({ all: Schema.Int, sinceFinal: Schema.Int }))

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const statements = yield* db.read("open webhook attempts", () => ({
    add: db.statement(
      `INSERT INTO webhook_attempts (delivery, at, duration_ms, status, error, final) VALUES (?, ?, ?, ?, ?, ?)`
    ),
    list: db.statement(
      `SELECT delivery, at, duration_ms AS durationMs, status, error, final FROM webhook_attempts WHERE delivery = ? ORDER BY seq`
    ),
    attemptCounts: db.statement(
      `SELECT count(*) AS "all", count(*) FILTER (WHERE seq > coalesce(
         (SELECT max(seq) FROM webhook_attempts WHERE delivery = ?1 AND final = 1), 0)) AS sinceFinal
       FROM webhook_attempts WHERE delivery = ?1`
    ),
    remove: db.statement(
      `DELETE FROM webhook_attempts WHERE seq IN (SELECT seq FROM webhook_attempts WHERE at < ? ORDER BY at LIMIT ? + 0)`
    )
  }))

  return WebhookAttemptStore.of({
    add: ({ at, delivery, durationMs, error, final, status }) =>
      db.write("add webhook attempt", () => {
        statements.add.run(delivery, at, durationMs, status, error, final ? 1 : 0)
      }),
    list: (delivery) => db.read("list webhook attempts", () => statements.list.all(delivery).map((row) => decodeRow(row))),
    attemptCounts: (delivery) => db.read("count webhook attempts", () => decodeCounts(statements.attemptCounts.get(delivery))),
    removeBefore: (time, limit) => db.write("remove webhook attempts", () => Number(statements.remove.run(time, limit).changes))
  })
})

/** The attempts of a database file. */
export const layer: Layer.Layer<WebhookAttemptStore, StoreError, SqliteDatabase> = Layer.effect(WebhookAttemptStore, make)
