/**
 * Schedules in SQLite: part of `SqliteJobStore`, because a schedule and the job of its firing change in one transaction.
 */
import { EndpointId } from "@stint/contract/Ids"
import { ScheduleName } from "@stint/contract/Schedule"
import { follows, ScheduleRecord, ScheduleStore, SET_BACK_MILLIS } from "@stint/store/ScheduleStore"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(ScheduleRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)
const decodeVersion = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String, version: Schema.Int }))
const decodeDue = Schema.decodeUnknownSync(Schema.Struct({ endpoint: EndpointId, name: ScheduleName, due_at: Schema.Int }))

/** The rows of schedules. The methods run within a transaction. */
export interface ScheduleRows {
  /** Whether a change follows the stored schedule. */
  readonly isNext: (after: ScheduleRecord) => boolean
  readonly put: (after: ScheduleRecord) => void
}

/** Creates the rows and the store of a database file. */
export const make = (
  db: SqliteDatabase["Service"]
): { readonly rows: ScheduleRows; readonly service: ScheduleStore["Service"] } => {
  const sql = {
    get: db.statement(`SELECT body FROM schedules WHERE endpoint = ? AND name = ?`),
    version: db.statement(`SELECT id, version FROM schedules WHERE endpoint = ? AND name = ?`),
    all: db.statement(`SELECT body FROM schedules ORDER BY endpoint, name`),
    of: db.statement(`SELECT body FROM schedules WHERE endpoint = ? ORDER BY name`),
    put: db.statement(
      `INSERT OR REPLACE INTO schedules (endpoint, name, id, version, due_at, checked_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)`
    ),
    remove: db.statement(`DELETE FROM schedules WHERE endpoint = ? AND name = ?`),
    due: db.statement(
      `SELECT endpoint, name, due_at FROM schedules WHERE due_at IS NOT NULL AND (due_at <= ? OR checked_at > ?)`
    )
  }

  const rows: ScheduleRows = {
    isNext: (after) => {
      const row = sql.version.get(after.endpoint, after.name)
      return follows(after, row === undefined ? undefined : decodeVersion(row))
    },
    put: (after) => {
      const { checkedAt, dueAt, endpoint, id, name, version } = after
      sql.put.run(endpoint, name, id, version, dueAt, checkedAt, encodeBody(after))
    }
  }

  const service = ScheduleStore.of({
    get: (endpoint, name) =>
      db.read("read schedule", () => {
        const row = sql.get.get(endpoint, name)
        return row === undefined ? undefined : decodeRow(row).body
      }),
    list: (endpoint) =>
      db.read(
        "list schedules",
        () => (endpoint === undefined ? sql.all.all() : sql.of.all(endpoint)).map((row) => decodeRow(row).body)
      ),
    put: (after) =>
      db.write("put schedule", () => {
        if (!rows.isNext(after)) return false
        rows.put(after)
        return true
      }),
    remove: (endpoint, name) => db.write("remove schedule", () => sql.remove.run(endpoint, name).changes > 0),
    due: (now) =>
      db.read(
        "find due schedules",
        () =>
          sql.due.all(now, now + SET_BACK_MILLIS).map((row) => decodeDue(row)).sort((a, b) => a.due_at - b.due_at)
            .map(({ endpoint, name }) => ({ endpoint, name }))
      )
  })
  return { rows, service }
}
