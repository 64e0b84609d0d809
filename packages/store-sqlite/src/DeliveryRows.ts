/**
 * The rows of the webhook outbox: statements and decoders.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { compareNewestFirst, type ListCursor } from "@stint/store/ListCursor"
import {
  type DeliveryPage,
  type DeliveryQuery,
  type NewDelivery,
  newDelivery,
  WebhookDelivery,
  WebhookEntry
} from "@stint/store/WebhookStore"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** A delivery and its row number. */
export interface DeliveryRow {
  readonly seq: number
  readonly entry: WebhookEntry
}

/** A delivery with its content, and its row number. */
export interface DueRow {
  readonly seq: number
  readonly delivery: WebhookDelivery
}

/** The rows of all deliveries. All methods throw when the database fails. */
export interface DeliveryRows {
  /** Writes a delivery. A progress delivery replaces an unclaimed progress delivery of the same job. */
  readonly add: (delivery: NewDelivery) => void
  readonly find: (endpoint: EndpointId, id: string) => DeliveryRow | undefined
  readonly whole: (endpoint: EndpointId, id: string) => WebhookDelivery | undefined
  /** Due deliveries. Postpones unreadable rows. */
  readonly due: (now: number, limit: number) => ReadonlyArray<DueRow>
  /** The errors of unreadable rows since the last call. Each row is reported once. */
  readonly takeRowErrors: () => ReadonlyArray<string>
  readonly isDue: (now: number) => boolean
  readonly nextDueAt: () => number | null
  readonly save: (seq: number, entry: WebhookEntry) => void
  /** Newest first. Omits unreadable rows. */
  readonly list: (query: DeliveryQuery) => DeliveryPage
  /** Removes deliveries that ended before a time. Returns their number. */
  readonly removeBefore: (time: number, limit: number) => number
  /** Removes ended deliveries of an endpoint. Returns their number. */
  readonly removeEnded: (endpoint: EndpointId, limit: number) => number
}

/** Unreadable rows are postponed by this time. */
const QUARANTINE_MILLIS = 3_600_000

const ENTRY = `deliveries.seq, id, job, endpoint, event, url, state, created_at AS createdAt, attempts, next_at AS nextAt,
  settled_at AS settledAt, last_status AS lastStatus, last_error AS lastError`

/** The cursor before the first delivery of a list. */
const NEWEST: ListCursor = { createdAt: Number.MAX_SAFE_INTEGER, id: "" }

const STATES = WebhookEntry.fields.state.literals

const decodeEntry = Schema.decodeUnknownSync(Schema.Struct({ ...WebhookEntry.fields, seq: Schema.Int }))
const decodeWhole = Schema.decodeUnknownSync(WebhookDelivery)
const decodeTime = Schema.decodeUnknownSync(Schema.Struct({ time: Schema.NullOr(Schema.Int) }))
const decodeCursor = Schema.decodeUnknownSync(Schema.Struct({ createdAt: Schema.Int, id: Schema.String }))
const decodeSeq = Schema.decodeUnknownSync(Schema.Struct({ seq: Schema.Int }))
const decodeId = Schema.decodeUnknownOption(Schema.Struct({ id: Schema.String, job: Schema.String }))

const toRow = (row: unknown): DeliveryRow => {
  const { seq, ...entry } = decodeEntry(row)
  return { seq, entry }
}

/** Prepares all statements. */
export const make = (db: SqliteDatabase["Service"]): DeliveryRows => {
  const insert = db.statement(
    `INSERT INTO deliveries (id, job, endpoint, event, url, state, created_at, attempts, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )
  const insertBody = db.statement(`INSERT INTO delivery_bodies (seq, body, traceparent, tracestate) VALUES (?, ?, ?, ?)`)
  const unsent = db.statement(
    `SELECT seq FROM deliveries INDEXED BY deliveries_unsent WHERE job = ? AND event = 'progress' AND attempts = 0`
  )
  const find = db.statement(`SELECT ${ENTRY} FROM deliveries WHERE id = ?`)
  const WHOLE = `SELECT ${ENTRY}, body, traceparent, tracestate FROM deliveries`
  const whole = db.statement(`${WHOLE} JOIN delivery_bodies USING (seq) WHERE id = ?`)
  const due = db.statement(
    `${WHOLE} INDEXED BY deliveries_due LEFT JOIN delivery_bodies USING (seq) WHERE next_at <= ? ORDER BY next_at, seq LIMIT ? + 0`
  )
  const quarantine = db.statement(`UPDATE deliveries SET next_at = ? WHERE seq = ?`)
  const isDue = db.statement(`SELECT 1 FROM deliveries INDEXED BY deliveries_due WHERE next_at <= ? LIMIT 1`)
  const nextDueAt = db.statement(
    `SELECT min(next_at) AS time FROM deliveries INDEXED BY deliveries_due WHERE next_at IS NOT NULL`
  )
  const save = db.statement(
    `UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, settled_at = ?, last_status = ?, last_error = ? WHERE seq = ?`
  )
  const AFTER = `created_at <= ? AND (created_at < ? OR id < ?) ORDER BY created_at DESC, id DESC LIMIT ? + 0`
  const ofJob = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_of_job
     WHERE job = ? AND state = coalesce(?, state) AND endpoint = coalesce(?, endpoint) AND ${AFTER}`
  )
  const ofEndpoint = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_of_endpoint
     WHERE endpoint = ? AND state = ? AND ${AFTER}`
  )
  const inState = db.statement(
    `SELECT ${ENTRY} FROM deliveries INDEXED BY deliveries_in_state WHERE state = ? AND ${AFTER}`
  )
  const ended = db.statement(
    `SELECT seq FROM deliveries INDEXED BY deliveries_ended WHERE next_at IS NULL AND settled_at < ? ORDER BY settled_at LIMIT ? + 0`
  )
  const endedOf = db.statement(
    `SELECT seq FROM deliveries INDEXED BY deliveries_of_endpoint WHERE endpoint = ? AND state IN ('delivered', 'failed') LIMIT ? + 0`
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

  /** Row numbers of unreadable deliveries that have been reported. */
  const reported = new Set<number>()
  let rowErrors: Array<string> = []

  const recordRowError = (seq: number, row: unknown, cause: unknown) => {
    if (reported.has(seq)) return
    reported.add(seq)
    const name = Option.match(decodeId(row), { onNone: () => "", onSome: ({ id, job }) => ` ${id} of job ${job}` })
    rowErrors.push(`a row of webhook delivery${name} is invalid: ${cause instanceof Error ? cause.message : String(cause)}`)
  }

  /** Decodes rows. Calls `quarantined` for each unreadable row. */
  const readable = <A>(
    found: ReadonlyArray<unknown>,
    decode: (row: unknown) => A,
    quarantined: (seq: number) => void = () => {}
  ) =>
    found.flatMap((row) => {
      try {
        return [decode(row)]
      } catch (cause) {
        const { seq } = decodeSeq(row)
        quarantined(seq)
        recordRowError(seq, row, cause)
        return []
      }
    })

  return {
    add: (delivery) => {
      if (delivery.event === "progress") removeAll(unsent.all(delivery.job))
      const { attempts, body, createdAt, endpoint, event, id, job, nextAt, state, traceparent, tracestate, url } = newDelivery(
        delivery
      )
      const { lastInsertRowid } = insert.run(id, job, endpoint, event, url, state, createdAt, attempts, nextAt)
      insertBody.run(lastInsertRowid, body, traceparent, tracestate)
    },
    find: (endpoint, id) => {
      const found = find.get(id)
      const row = found === undefined ? undefined : toRow(found)
      return row?.entry.endpoint === endpoint ? row : undefined
    },
    whole: (endpoint, id) => {
      const found = whole.get(id)
      const delivery = found === undefined ? undefined : decodeWhole(found)
      return delivery?.endpoint === endpoint ? delivery : undefined
    },
    due: (now, limit) =>
      readable(
        due.all(now, limit),
        (row) => ({ seq: decodeSeq(row).seq, delivery: decodeWhole(row) }),
        (seq) => quarantine.run(now + QUARANTINE_MILLIS, seq)
      ),
    takeRowErrors: () => {
      const taken = rowErrors
      rowErrors = []
      return taken
    },
    isDue: (now) => isDue.get(now) !== undefined,
    nextDueAt: () => decodeTime(nextDueAt.get()).time,
    save: (seq, { attempts, lastError, lastStatus, nextAt, settledAt, state }) => {
      save.run(state, attempts, nextAt, settledAt, lastStatus, lastError, seq)
    },
    list: ({ after = NEWEST, endpoint, job, limit, state }) => {
      const states = state === undefined ? STATES : [state]
      const page = [after.createdAt, after.createdAt, after.id, limit + 1] as const
      const found = job === undefined
        ? states.flatMap((state) =>
          endpoint === undefined ? inState.all(state, ...page) : ofEndpoint.all(endpoint, state, ...page)
        )
        : ofJob.all(job, state ?? null, endpoint ?? null, ...page)
      const sorted = found.map((row) => ({ ...decodeCursor(row), row })).sort(compareNewestFirst)
      const shown = sorted.slice(0, limit)
      const last = sorted.length > shown.length ? shown.at(-1) : undefined
      return {
        deliveries: readable(shown.map(({ row }) => row), toRow).map(({ entry }) => entry),
        next: last === undefined ? null : { createdAt: last.createdAt, id: last.id }
      }
    },
    removeBefore: (time, limit) => removeAll(ended.all(time, limit)),
    removeEnded: (endpoint, limit) => removeAll(endedOf.all(endpoint, limit))
  }
}
