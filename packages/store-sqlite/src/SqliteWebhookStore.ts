/**
 * The webhook outbox in SQLite. `SqliteJobStore` writes a delivery in the transaction of the change that causes it.
 */
import type { StoreError } from "@stint/store/StoreError"
import { type WebhookDelivery, type WebhookEntry, WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DeliveryRows from "./DeliveryRows.ts"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const rows = yield* db.read("open", () => DeliveryRows.make(db))

  /** Logs the errors of unreadable rows. */
  const reportRowErrors = Effect.suspend(() =>
    Effect.forEach(rows.takeRowErrors(), (problem) =>
      Effect.logError(
        `The webhook outbox skips a row that it cannot read: ${problem} It is not delivered until the row is repaired or deleted.`
      ), { discard: true })
  )

  return WebhookStore.of({
    claimDue: (now, limit, leaseMs) =>
      // Reads first, so that an idle sender causes no transactions.
      Effect.flatMap(
        db.read("claim deliveries", () => rows.isDue(now)),
        (isDue): Effect.Effect<ReadonlyArray<WebhookDelivery>, StoreError> =>
          isDue
            ? db.write("claim deliveries", () =>
              rows.due(now, limit).map(({ delivery, seq }) => {
                const claimed = { ...delivery, attempts: delivery.attempts + 1, nextAt: now + leaseMs }
                rows.save(seq, claimed)
                return claimed
              }))
            : Effect.succeed([])
      ).pipe(Effect.tap(() => reportRowErrors)),
    settle: (endpoint, id, attempt, outcome) =>
      db.write("settle delivery", () => {
        const row = rows.find(endpoint, id)
        if (row?.entry.state !== "pending" || row.entry.attempts !== attempt) return false
        const settled = { ...row.entry, settledAt: outcome.at, lastStatus: outcome.status, lastError: outcome.error }
        const after: WebhookEntry = outcome._tag === "Retry"
          ? { ...settled, nextAt: outcome.nextAt }
          : { ...settled, state: outcome._tag === "Delivered" ? "delivered" : "failed", nextAt: null }
        rows.save(row.seq, after)
        return true
      }),
    nextDueAt: db.read("next delivery", rows.nextDueAt),
    list: (query) => Effect.tap(db.read("list deliveries", () => rows.list(query)), () => reportRowErrors),
    get: (endpoint, id) => db.read("get delivery", () => rows.whole(endpoint, id)),
    resend: (endpoint, id, now) =>
      db.write("resend delivery", () => {
        const row = rows.find(endpoint, id)
        if (row === undefined) return undefined
        const after: WebhookEntry = { ...row.entry, state: "pending", nextAt: now }
        rows.save(row.seq, after)
        return after
      }),
    removeBefore: (time, limit) => db.write("remove deliveries", () => rows.removeBefore(time, limit)),
    removeEnded: (endpoint, limit) => db.write("remove deliveries", () => rows.removeEnded(endpoint, limit))
  })
})

/** The outbox of a database file. */
export const layer: Layer.Layer<WebhookStore, StoreError, SqliteDatabase> = Layer.effect(WebhookStore, make)
