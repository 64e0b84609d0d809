/**
 * The rows of the webhook outbox: the statements that write, find and remove them, and their way into the queue's words.
 */
import { fresh, type NewDelivery } from "@stint/queue/MemoryWebhooks"
import { type DeliveryQuery, WebhookDelivery, WebhookEntry } from "@stint/queue/WebhookStore"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** A delivery and its place in the log. */
export interface DeliveryRow {
  readonly seq: number
  readonly entry: WebhookEntry
}

/** The rows of all deliveries. Everything throws when the database fails. */
export interface DeliveryRows {
  /** Writes a delivery. Of a job's progress it takes the place of a value that no sender has had yet. */
  readonly add: (delivery: NewDelivery) => void
  readonly find: (id: string) => DeliveryRow | undefined
  readonly whole: (id: string) => WebhookDelivery | undefined
  readonly due: (now: number, limit: number) => ReadonlyArray<DeliveryRow>
  readonly isDue: (now: number) => boolean
  readonly nextDueAt: () => number | null
  readonly save: (seq: number, entry: WebhookEntry) => void
  /** Newest first. */
  readonly list: (query: DeliveryQuery) => ReadonlyArray<DeliveryRow>
  /** Removes what ended before a time; how many there were. */
  readonly removeBefore: (time: number, limit: number) => number
}

const ENTRY = `deliveries.seq, id, job, endpoint, event, url, state, created_at AS createdAt, attempts, next_at AS nextAt,
  settled_at AS settledAt, last_status AS lastStatus, last_error AS lastError`

const STATES = WebhookEntry.fields.state.literals

const decodeEntry = Schema.decodeUnknownSync(Schema.Struct({ ...WebhookEntry.fields, seq: Schema.Int }))
const decodeWhole = Schema.decodeUnknownSync(WebhookDelivery)
const decodeTime = Schema.decodeUnknownSync(Schema.Struct({ time: Schema.NullOr(Schema.Int) }))
const decodeSeq = Schema.decodeUnknownSync(Schema.Struct({ seq: Schema.Int }))

const toRow = (row: unknown): DeliveryRow => {
  const { seq, ...entry } = decodeEntry(row)
  return { seq, entry }
}

/** Prepares the statements. */
export const make = (db: SqliteDatabase["Service"]): DeliveryRows => {
  const insert = db.statement(
    `INSERT INTO deliveries (id, job, endpoint, event, url, state, created_at, attempts, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )
  const insertBody = db.statement(`INSERT INTO delivery_bodies (seq, body) VALUES (?, ?)`)
  const unsent = db.statement(
    `SELECT seq FROM deliveries INDEXED BY deliveries_unsent WHERE job = ? AND event = 'progress' AND attempts = 0`
  )
  const find = db.statement(`SELECT ${ENTRY} FROM deliveries WHERE id = ?`)
  const whole = db.statement(`SELECT ${ENTRY}, body FROM deliveries JOIN delivery_bodies USING (seq) WHERE id = ?`)
  const due = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_due WHERE next_at <= ? ORDER BY next_at, seq LIMIT ?`
  )
  const isDue = db.statement(`SELECT 1 FROM deliveries INDEXED BY deliveries_due WHERE next_at <= ? LIMIT 1`)
  const nextDueAt = db.statement(
    `SELECT min(next_at) AS time FROM deliveries INDEXED BY deliveries_due WHERE next_at IS NOT NULL`
  )
  const save = db.statement(
    `UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, settled_at = ?, last_status = ?, last_error = ? WHERE seq = ?`
  )
  const ofJob = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_of_job
     WHERE job = ? AND state = coalesce(?, state) AND endpoint = coalesce(?, endpoint) AND seq < ? ORDER BY seq DESC LIMIT ?`
  )
  const ofEndpoint = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_of_endpoint
     WHERE endpoint = ? AND state = ? AND seq < ? ORDER BY seq DESC LIMIT ?`
  )
  const inState = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_in_state WHERE state = ? AND seq < ? ORDER BY seq DESC LIMIT ?`
  )
  const ended = db.statement(
    `SELECT seq FROM deliveries INDEXED BY deliveries_ended WHERE next_at IS NULL AND settled_at < ? ORDER BY settled_at LIMIT ?`
  )
  const remove = db.statement(`DELETE FROM deliveries WHERE seq = ?`)
  const removeBody = db.statement(`DELETE FROM delivery_bodies WHERE seq = ?`)

  const removeAll = (found: ReadonlyArray<unknown>): number => {
    for (const row of found) {
      const { seq } = decodeSeq(row)
      remove.run(seq)
      removeBody.run(seq)
    }
    return found.length
  }

  return {
    add: (delivery) => {
      if (delivery.event === "progress") removeAll(unsent.all(delivery.job))
      const { attempts, body, createdAt, endpoint, event, id, job, nextAt, state, url } = fresh(delivery)
      const { lastInsertRowid } = insert.run(id, job, endpoint, event, url, state, createdAt, attempts, nextAt)
      insertBody.run(lastInsertRowid, body)
    },
    find: (id) => {
      const row = find.get(id)
      return row === undefined ? undefined : toRow(row)
    },
    whole: (id) => {
      const row = whole.get(id)
      return row === undefined ? undefined : decodeWhole(row)
    },
    due: (now, limit) => due.all(now, limit).map(toRow),
    isDue: (now) => isDue.get(now) !== undefined,
    nextDueAt: () => decodeTime(nextDueAt.get()).time,
    save: (seq, { attempts, lastError, lastStatus, nextAt, settledAt, state }) => {
      save.run(state, attempts, nextAt, settledAt, lastStatus, lastError, seq)
    },
    list: ({ after = Number.MAX_SAFE_INTEGER, endpoint, job, limit, state }) => {
      if (job !== undefined) return ofJob.all(job, state ?? null, endpoint ?? null, after, limit).map(toRow)
      const states = state === undefined ? STATES : [state]
      return states
        .flatMap((state) =>
          endpoint === undefined ? inState.all(state, after, limit) : ofEndpoint.all(endpoint, state, after, limit)
        )
        .map(toRow)
        .sort((a, b) => b.seq - a.seq)
        .slice(0, limit)
    },
    removeBefore: (time, limit) => removeAll(ended.all(time, limit))
  }
}
