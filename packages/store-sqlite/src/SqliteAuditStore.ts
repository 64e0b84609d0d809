/**
 * The audit log in SQLite.
 */
import { AuditEntry } from "@stint/contract/Audit"
import { AUDIT_KINDS, AuditStore } from "@stint/store/AuditStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const decodeRow = Schema.decodeUnknownSync(AuditEntry)

const COLUMNS = `at, action, target, key, name, via, address, result, status`

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const sql = yield* db.read("open audit", () => ({
    append: db.statement(`INSERT INTO audit (kind, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    // One statement for all combinations of filters. The bounds of the audit log limit the number of rows that it reads. Its parameters have names,
    // because Node 22 refuses numbered ones.
    list: db.statement(
      `SELECT id, ${COLUMNS} FROM audit WHERE id < $before AND at >= $since
         AND ($action IS NULL OR action = $action OR substr(action, 1, length($action) + 1) = $action || '.')
         AND ($key IS NULL OR key = $key OR name = $key)
         AND ($target IS NULL OR target = $target OR substr(target, 1, length($target) + 1) = $target || '/')
         AND ($result IS NULL OR result = $result)
       ORDER BY id DESC LIMIT $limit + 0`
    ),
    expire: db.statement(`DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY at LIMIT ? + 0)`),
    exceed: db.statement(
      `DELETE FROM audit WHERE id IN (
         SELECT id FROM audit WHERE kind = $kind
           AND id <= (SELECT id FROM audit WHERE kind = $kind ORDER BY id DESC LIMIT 1 OFFSET $entries + 0)
         ORDER BY id LIMIT $limit + 0)`
    )
  }))

  return AuditStore.of({
    append: (kind, entry) =>
      db.write("append to the audit", () => {
        const { action, address, at, key, name, result, status, target, via } = entry
        const { lastInsertRowid } = sql.append.run(kind, at, action, target, key, name, via, address, result, status)
        return { ...entry, id: Number(lastInsertRowid) }
      }),
    list: ({ action = null, before = Number.MAX_SAFE_INTEGER, key = null, limit, result = null, since = 0, target = null }) =>
      db.read(
        "list the audit",
        () => sql.list.all({ before, since, action, key, target, result, limit }).map((row) => decodeRow(row))
      ),
    trim: ({ before, entries }, limit) =>
      db.write("trim the audit", () => {
        let removed = Number(sql.expire.run(before, limit).changes)
        for (const kind of AUDIT_KINDS) removed += Number(sql.exceed.run({ kind, entries, limit: limit - removed }).changes)
        return removed
      })
  })
})

/** The audit log of a database file. */
export const layer: Layer.Layer<AuditStore, StoreError, SqliteDatabase> = Layer.effect(AuditStore, make)
