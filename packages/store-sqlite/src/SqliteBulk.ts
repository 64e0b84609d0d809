/**
 * Bulk operations in SQLite: part of `SqliteJobStore`, because an operation and the job of its step change in one transaction.
 */
import { BULK_KEPT, BULK_LIST_LIMIT, bulkFollows, BulkRecord, BulkStore, isBulkEnded } from "@stint/store/BulkStore"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(BulkRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)
const decodeVersion = Schema.decodeUnknownSync(Schema.Struct({ version: Schema.Int }))

/** The rows of bulk operations. The methods run within a transaction. */
export interface BulkRows {
  /** Whether a change follows the stored operation. */
  readonly isNext: (after: BulkRecord) => boolean
  readonly put: (after: BulkRecord) => void
}

/** Creates the rows and the store of a database file. */
export const make = (db: SqliteDatabase["Service"]): { readonly rows: BulkRows; readonly service: BulkStore["Service"] } => {
  const sql = {
    get: db.statement(`SELECT body FROM bulk WHERE id = ?`),
    version: db.statement(`SELECT version FROM bulk WHERE id = ?`),
    list: db.statement(`SELECT body FROM bulk ORDER BY created_at DESC, id DESC LIMIT ${BULK_LIST_LIMIT}`),
    unended: db.statement(`SELECT body FROM bulk INDEXED BY bulk_unended WHERE ended_at IS NULL ORDER BY created_at, id`),
    put: db.statement(`INSERT OR REPLACE INTO bulk (id, version, created_at, ended_at, body) VALUES (?, ?, ?, ?, ?)`),
    prune: db.statement(
      `DELETE FROM bulk WHERE ended_at IS NOT NULL AND id IN (SELECT id FROM bulk ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ${BULK_KEPT})`
    )
  }
  const decodeAll = (rows: ReadonlyArray<unknown>) => rows.map((row) => decodeRow(row).body)

  const rows: BulkRows = {
    isNext: (after) => {
      const row = sql.version.get(after.id)
      return bulkFollows(after, row === undefined ? undefined : decodeVersion(row))
    },
    put: (after) => {
      const { createdAt, endedAt, id, version } = after
      sql.put.run(id, version, createdAt, isBulkEnded(after) ? endedAt : null, encodeBody(after))
      if (version === 1) sql.prune.run()
    }
  }

  const service = BulkStore.of({
    get: (id) =>
      db.read("read bulk operation", () => {
        const row = sql.get.get(id)
        return row === undefined ? undefined : decodeRow(row).body
      }),
    list: db.read("list bulk operations", () => decodeAll(sql.list.all())),
    unended: db.read("find bulk operations", () => decodeAll(sql.unended.all())),
    put: (after) =>
      db.write("put bulk operation", () => {
        if (!rows.isNext(after)) return false
        rows.put(after)
        return true
      })
  })
  return { rows, service }
}
