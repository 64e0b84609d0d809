/**
 * The audit log in PostgreSQL.
 */
import { AuditEntry } from "@stint/contract/Audit"
import { AUDIT_KINDS, AuditStore } from "@stint/store/AuditStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Row } from "./Connection.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const Body = Schema.fromJsonString(AuditEntry)
const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const decodeId = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

/** The target may contain a NUL character, because it has the parameters of a rejected request. */
const decodeRow = (row: Row): AuditEntry => {
  const [entry] = decodeBody(row)
  return { ...entry, target: unescapeNul(entry.target) ?? entry.target }
}

const COLUMNS = `at, action, target, key, name, via, address, result, status`

const LIST = `SELECT (SELECT row_to_json(entry) FROM (SELECT a.id, ${
  COLUMNS.split(", ").map((column) => `a.${column}`).join(", ")
}) entry)::text
  FROM stint.audit a WHERE id < $1 AND at >= $2
    AND ($3::text IS NULL OR action = $3 OR starts_with(action, $3 || '.'))
    AND ($4::text IS NULL OR key = $4 OR name = $4)
    AND ($5::text IS NULL OR target = $5 OR starts_with(target, $5 || '/'))
    AND ($6::text IS NULL OR result = $6)
  ORDER BY id DESC LIMIT $7`

// Several nodes trim at the same time. They skip the entries that another one removes, because they lock in different orders.
const EXPIRE = `WITH old AS MATERIALIZED (SELECT id FROM stint.audit WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)
  DELETE FROM stint.audit WHERE id IN (SELECT id FROM old) RETURNING 1`

const EXCEED = `WITH old AS MATERIALIZED (
    SELECT id FROM stint.audit WHERE kind = $1
      AND id <= (SELECT id FROM stint.audit WHERE kind = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
  DELETE FROM stint.audit WHERE id IN (SELECT id FROM old) RETURNING 1`

/** A bigint has no infinity. */
const finite = (number: number): number => Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)

const make = Effect.map(PostgresDatabase, (db) =>
  AuditStore.of({
    append: (kind, entry) =>
      db.write("append to the audit", async (query) => {
        const { action, address, at, key, name, result, status, target, via } = entry
        const [row] = await query(
          `INSERT INTO stint.audit (kind, ${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id`,
          [kind, at, action, escapeNul(target), key, name, via, address, result, status]
        )
        return { ...entry, id: decodeId(row)[0] }
      }),
    list: ({ action = null, before = Number.MAX_SAFE_INTEGER, key = null, limit, result = null, since = 0, target = null }) =>
      db.read(
        "list the audit",
        async (query) =>
          (await query(LIST, [finite(before), finite(since), action, key, escapeNul(target), result, finite(limit)])).map(
            decodeRow
          )
      ),
    trim: ({ before, entries }, limit) =>
      db.write("trim the audit", async (query) => {
        let removed = (await query(EXPIRE, [finite(before), finite(limit)])).length
        for (const kind of AUDIT_KINDS) {
          removed += (await query(EXCEED, [kind, finite(entries), finite(limit - removed)])).length
        }
        return removed
      })
  }))

/** The audit log of a database. */
export const layer: Layer.Layer<AuditStore, never, PostgresDatabase> = Layer.effect(AuditStore, make)
