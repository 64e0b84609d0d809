/**
 * Bulk operations in PostgreSQL. A step is a change made by `PostgresJobStore`, in the transaction of its job.
 */
import { BULK_KEPT, BULK_LIST_LIMIT, bulkFollows, BulkRecord, BulkStore } from "@stint/store/BulkStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query, Row } from "./Connection.ts"
import { escapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const Body = Schema.fromJsonString(BulkRecord)
const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const encodeBody = Schema.encodeSync(Body)
const decodeVersion = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

const toRecord = (row: Row): BulkRecord => decodeBody(row)[0]

const valuesOf = (record: BulkRecord): ReadonlyArray<unknown> => {
  const { createdAt, endedAt, id, version } = record
  return [id, version, createdAt, endedAt, encodeBody(record)]
}

const INSERT = `INSERT INTO stint.bulk (id, version, created_at, ended_at, body) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT DO NOTHING RETURNING 1`

const UPDATE = `UPDATE stint.bulk SET version = $2, created_at = $3, ended_at = $4, body = $5
  WHERE id = $1 AND version = $2 - 1 RETURNING 1`

const PRUNE = `DELETE FROM stint.bulk WHERE ended_at IS NOT NULL
  AND id IN (SELECT id FROM stint.bulk ORDER BY created_at DESC, id DESC OFFSET ${BULK_KEPT})`

/** Locks the operation within the transaction of a step, and returns whether the step follows it. */
export const lockNext = async (query: Query, step: BulkRecord): Promise<boolean> => {
  const [row] = await query(`SELECT version FROM stint.bulk WHERE id = $1 FOR UPDATE`, [step.id])
  return row !== undefined && bulkFollows(step, { version: decodeVersion(row)[0] })
}

/** Runs within the transaction of a step, after {@link lockNext}. */
export const putStep = async (query: Query, step: BulkRecord): Promise<void> => {
  await query(UPDATE, valuesOf(step))
}

/** The bulk operations of a database. */
export const layer: Layer.Layer<BulkStore, never, PostgresDatabase> = Layer.effect(
  BulkStore,
  Effect.gen(function*() {
    const db = yield* PostgresDatabase
    return BulkStore.of({
      get: (id) =>
        db.read("read bulk operation", async (query) => {
          const [row] = await query(`SELECT body FROM stint.bulk WHERE id = $1`, [escapeNul(id)])
          return row === undefined ? undefined : toRecord(row)
        }),
      list: db.read(
        "list bulk operations",
        async (query) =>
          (await query(`SELECT body FROM stint.bulk ORDER BY created_at DESC, id DESC LIMIT ${BULK_LIST_LIMIT}`)).map(toRecord)
      ),
      unended: db.read(
        "find bulk operations",
        async (query) => (await query(`SELECT body FROM stint.bulk WHERE ended_at IS NULL ORDER BY created_at, id`)).map(toRecord)
      ),
      put: (after) =>
        db.write("put bulk operation", async (query) => {
          if (after.version > 1) return (await query(UPDATE, valuesOf(after))).length > 0
          const stored = await query(INSERT, valuesOf(after))
          await query(PRUNE)
          return stored.length > 0
        })
    })
  })
)
