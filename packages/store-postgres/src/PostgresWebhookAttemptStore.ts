/**
 * Webhook delivery attempts in PostgreSQL.
 */
import { WebhookAttempt, WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Row } from "./Connection.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const decodeAttempt = Schema.decodeUnknownSync(WebhookAttempt)
const decodeCounts = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))

const toAttempt = ([delivery, at, durationMs, status, error, final]: Row): WebhookAttempt => {
  const attempt = decodeAttempt({ delivery, at, durationMs, status, error, final })
  return { ...attempt, error: unescapeNul(attempt.error) }
}

const make = Effect.map(PostgresDatabase, (db) =>
  WebhookAttemptStore.of({
    add: ({ at, delivery, durationMs, error, final, status }) =>
      Effect.asVoid(
        db.write("add webhook attempt", (query) =>
          query(
            `INSERT INTO stint.webhook_attempts (delivery, at, duration_ms, status, error, final) VALUES ($1, $2, $3, $4, $5, $6)`,
            [
              delivery,
              at,
              Math.round(durationMs),
              status,
              escapeNul(error),
              final
            ]
          ))
      ),
    list: (delivery) =>
      db.read("list webhook attempts", async (query) =>
        (await query(
          `SELECT delivery, at, duration_ms, status, error, final FROM stint.webhook_attempts WHERE delivery = $1 ORDER BY seq`,
          [delivery]
        )).map(toAttempt)),
    attemptCounts: (delivery) =>
      db.read("count webhook attempts", async (query) => {
        const [row] = await query(
          `SELECT count(*)::int, (count(*) FILTER (WHERE seq > coalesce(
             (SELECT max(seq) FROM stint.webhook_attempts WHERE delivery = $1 AND final), 0)))::int
           FROM stint.webhook_attempts WHERE delivery = $1`,
          [delivery]
        )
        const [all, sinceFinal] = decodeCounts(row)
        return { all, sinceFinal }
      }),
    removeBefore: (time, limit) =>
      db.write("remove webhook attempts", async (query) =>
        (await query(
          `WITH u AS MATERIALIZED (
             SELECT seq FROM stint.webhook_attempts WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED
           ) DELETE FROM stint.webhook_attempts a USING u WHERE a.seq = u.seq RETURNING 1`,
          [time, limit]
        )).length)
  }))

/** The attempts of a database. */
export const layer: Layer.Layer<WebhookAttemptStore, never, PostgresDatabase> = Layer.effect(WebhookAttemptStore, make)
