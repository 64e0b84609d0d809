/**
 * The webhook outbox in PostgreSQL. `PostgresJobStore` writes a delivery in the same transaction as the change that causes it. Senders of several
 * nodes claim by `SKIP LOCKED`, so they need no leader.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { compareNewestFirst, type ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import { type DeliveryQuery, type WebhookDelivery, WebhookEntry, WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query, Row } from "./Connection.ts"
import { ENTRY, toDelivery, toEntry, WHOLE } from "./DeliveryRows.ts"
import { escapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

/** How long unreadable rows are postponed. */
const QUARANTINE_MILLIS = 3_600_000

/** The cursor before the first delivery of a list. */
const NEWEST: ListCursor = { createdAt: Number.MAX_SAFE_INTEGER, id: "" }

const STATES = WebhookEntry.fields.state.literals

const decodeTime = Schema.decodeUnknownSync(Schema.NullOr(Schema.Int))

// `MATERIALIZED`, because a subquery may run once for each row and then lock more rows than its limit.
const CLAIM = `WITH u AS MATERIALIZED (
    SELECT seq, next_at AS due_at FROM stint.deliveries WHERE next_at <= $1 ORDER BY next_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED
  ) UPDATE stint.deliveries d SET attempts = d.attempts + 1, next_at = $3 FROM u
  WHERE d.seq = u.seq RETURNING ${WHOLE.split(", ").map((column) => `d.${column}`).join(", ")}, u.due_at, d.seq`

const SAVE =
  `UPDATE stint.deliveries SET state = $2, attempts = $3, next_at = $4, settled_at = $5, last_status = $6, last_error = $7 WHERE id = $1`

const save = (query: Query, { attempts, id, lastError, lastStatus, nextAt, settledAt, state }: WebhookEntry) =>
  query(SAVE, [id, state, attempts, nextAt, settledAt, lastStatus, escapeNul(lastError)])

const lock = async (query: Query, endpoint: EndpointId, id: string): Promise<WebhookEntry | undefined> => {
  const [row] = await query(`SELECT ${ENTRY} FROM stint.deliveries WHERE id = $1 AND endpoint = $2 FOR UPDATE`, [id, endpoint])
  return row === undefined ? undefined : toEntry(row)
}

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  const reported = new Set<string>()
  let errors: Array<string> = []

  /** Decodes rows and skips the unreadable ones. */
  const readable = <A>(rows: ReadonlyArray<Row>, decode: (row: Row) => A, quarantined: (id: string) => void = () => {}) =>
    rows.flatMap((row) => {
      try {
        return [decode(row)]
      } catch (cause) {
        const id = String(row[0])
        quarantined(id)
        if (!reported.has(id)) {
          errors.push(
            `a row of webhook delivery ${id} of job ${String(row[1])} is invalid: ${
              cause instanceof Error ? cause.message : String(cause)
            }`
          )
        }
        reported.add(id)
        return []
      }
    })

  const reportRowErrors = Effect.suspend(() => {
    const taken = errors
    errors = []
    return Effect.forEach(taken, (problem) =>
      Effect.logError(
        `The webhook outbox skips a row that it cannot read: ${problem} It is not delivered until the row is repaired or deleted.`
      ), { discard: true })
  })

  const claim = async (query: Query, now: number, limit: number, leaseMs: number): Promise<ReadonlyArray<WebhookDelivery>> => {
    const rows = await query(CLAIM, [now, limit, now + leaseMs])
    const unreadable: Array<string> = []
    const ordered = [...rows].sort((a, b) => Number(a.at(-2)) - Number(b.at(-2)) || Number(a.at(-1)) - Number(b.at(-1)))
    const claimed = readable(ordered, toDelivery, (id) => unreadable.push(id))
    if (unreadable.length > 0) {
      await query(`UPDATE stint.deliveries SET attempts = attempts - 1, next_at = $2 WHERE id = ANY($1::text[])`, [
        unreadable,
        now + QUARANTINE_MILLIS
      ])
    }
    return claimed
  }

  const list = async (query: Query, { after = NEWEST, endpoint, job, limit, state }: DeliveryQuery) => {
    const states = state === undefined ? STATES : [state]
    const page = [after.createdAt, after.id, limit + 1]
    const AFTER = `(created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3`
    const found = job === undefined
      ? (await Promise.all(states.map((one) =>
        endpoint === undefined
          ? query(`SELECT ${ENTRY} FROM stint.deliveries WHERE state = $4 AND ${AFTER}`, [...page, one])
          : query(`SELECT ${ENTRY} FROM stint.deliveries WHERE state = $4 AND endpoint = $5 AND ${AFTER}`, [
            ...page,
            one,
            endpoint
          ])
      ))).flat()
      : await query(
        `SELECT ${ENTRY} FROM stint.deliveries WHERE job = $4 AND state = coalesce($5, state) AND endpoint = coalesce($6, endpoint) AND ${AFTER}`,
        [...page, job, state ?? null, endpoint ?? null]
      )
    const sorted = found.map((row) => ({ createdAt: Number(row[6]), id: String(row[0]), row })).sort(compareNewestFirst)
    const shown = sorted.slice(0, limit)
    const last = sorted.length > shown.length ? shown.at(-1) : undefined
    return {
      deliveries: readable(shown.map(({ row }) => row), toEntry),
      next: last === undefined ? null : { createdAt: last.createdAt, id: last.id }
    }
  }

  const removeWhere = (where: string, values: ReadonlyArray<unknown>) =>
    db.write("remove deliveries", async (query) =>
      (await query(
        `WITH u AS MATERIALIZED (SELECT seq FROM stint.deliveries WHERE ${where} FOR UPDATE SKIP LOCKED)
         DELETE FROM stint.deliveries d USING u WHERE d.seq = u.seq RETURNING 1`,
        values
      )).length)

  return WebhookStore.of({
    claimDue: (now, limit, leaseMs) =>
      // Reads first, so that an idle sender causes no transactions.
      Effect.flatMap(
        db.read("claim deliveries", (query) => query(`SELECT 1 FROM stint.deliveries WHERE next_at <= $1 LIMIT 1`, [now])),
        (due): Effect.Effect<ReadonlyArray<WebhookDelivery>, StoreError> =>
          due.length === 0 ? Effect.succeed([]) : db.write("claim deliveries", (query) => claim(query, now, limit, leaseMs))
      ).pipe(Effect.tap(() => reportRowErrors)),
    settle: (endpoint, id, attempt, outcome) =>
      db.write("settle delivery", async (query) => {
        const entry = await lock(query, endpoint, id)
        if (entry?.state !== "pending" || entry.attempts !== attempt) return false
        const settled = { ...entry, settledAt: outcome.at, lastStatus: outcome.status, lastError: outcome.error }
        await save(
          query,
          outcome._tag === "Retry"
            ? { ...settled, nextAt: outcome.nextAt }
            : { ...settled, state: outcome._tag === "Delivered" ? "delivered" : "failed", nextAt: null }
        )
        return true
      }),
    nextDueAt: db.read("next delivery", async (query) => {
      const [row] = await query(`SELECT min(next_at) FROM stint.deliveries WHERE next_at IS NOT NULL`)
      return decodeTime(row?.[0])
    }),
    list: (query) => Effect.tap(db.read("list deliveries", (run) => list(run, query)), () => reportRowErrors),
    get: (endpoint, id) =>
      db.read("get delivery", async (query) => {
        const [row] = await query(`SELECT ${WHOLE} FROM stint.deliveries WHERE id = $1 AND endpoint = $2`, [id, endpoint])
        return row === undefined ? undefined : toDelivery(row)
      }),
    resend: (endpoint, id, now) =>
      db.write("resend delivery", async (query) => {
        const entry = await lock(query, endpoint, id)
        if (entry === undefined) return undefined
        const after: WebhookEntry = { ...entry, state: "pending", nextAt: now }
        await save(query, after)
        return after
      }),
    removeBefore: (time, limit) => removeWhere("next_at IS NULL AND settled_at < $1 ORDER BY settled_at LIMIT $2", [time, limit]),
    removeEnded: (endpoint, limit) =>
      removeWhere("endpoint = $1 AND state IN ('delivered', 'failed') LIMIT $2", [endpoint, limit])
  })
})

/** The outbox of a database. */
export const layer: Layer.Layer<WebhookStore, never, PostgresDatabase> = Layer.effect(WebhookStore, make)
