/**
 * Usage in PostgreSQL. Several nodes add to the same sums.
 */
import { UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const Records = Schema.fromJsonString(Schema.Array(UsageRecord))
const encodeRecords = Schema.encodeSync(Records)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Schema.fromJsonString(UsageRecord)]))

const SUMS = ["attempts", "execution_ms", "worker_ms", "cpu_ms", "gpu_ms"]

const NUMBER = `INSERT INTO stint.usage_sources AS known (source, sequence, at) VALUES ($1, $2, $3)
  ON CONFLICT (source) DO UPDATE SET sequence = $2, at = $3 WHERE known.sequence < $2 RETURNING 1`

const KEY = ["hour", "endpoint", "release", "key"]
const ORDER = `ORDER BY ${KEY.join(", ")}`

// Grouped, because one statement cannot change a row twice. In the same order as removals, so that nodes do not deadlock.
const ADD = `INSERT INTO stint.usage_hours AS known (hour, endpoint, release, key, ${SUMS.join(", ")})
  SELECT (r->>'hour')::bigint, (r->>'endpoint') COLLATE "C", (r->>'release')::bigint, (r->>'key') COLLATE "C", sum((r->>'attempts')::bigint),
    sum((r->>'executionMs')::bigint), sum((r->>'workerMs')::bigint), sum((r->>'cpuMs')::bigint), sum((r->>'gpuMs')::bigint)
  FROM json_array_elements($1::json) r GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  ON CONFLICT (hour, endpoint, release, key) DO UPDATE SET ${
  SUMS.map((sum) => `${sum} = known.${sum} + excluded.${sum}`).join(", ")
}`

const LIST = `SELECT json_build_object('hour', hour, 'endpoint', endpoint, 'release', release, 'key', key, 'attempts', attempts,
    'executionMs', execution_ms, 'workerMs', worker_ms, 'cpuMs', cpu_ms, 'gpuMs', gpu_ms)::text
  FROM stint.usage_hours
  WHERE hour >= $1 AND hour < $2 AND (hour, endpoint, release, key) > ($3, $4, $5, $6)
  ORDER BY hour, endpoint, release, key LIMIT $7`

/** Removes rows. They are chosen before they are locked, so that a row that another node has removed meanwhile is not replaced by a newer one. */
const remove = (where: string, limit: string) =>
  `WITH old AS MATERIALIZED (SELECT ${KEY.join(", ")} FROM stint.usage_hours ${where} ${ORDER} LIMIT ${limit}),
    locked AS MATERIALIZED (SELECT ctid FROM stint.usage_hours WHERE (${
    KEY.join(", ")
  }) IN (SELECT * FROM old) ${ORDER} FOR UPDATE)
  DELETE FROM stint.usage_hours WHERE ctid = ANY(ARRAY(SELECT ctid FROM locked)) RETURNING 1`

const TRIM = remove("WHERE hour < $1", "$2")

// The oldest record that is kept has `$1` newer ones.
const EXCEED = remove("", "least($2, greatest(0, (SELECT count(*) FROM stint.usage_hours) - $1))")

/** A bigint has no infinity. */
const finite = (number: number): number => Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)

const make = Effect.map(PostgresDatabase, (db) =>
  UsageStore.of({
    add: ({ at, records, sequence, source }) =>
      db.write("add usage", async (query) => {
        if ((await query(NUMBER, [source, sequence, at])).length === 0) return false
        await query(ADD, [encodeRecords(records)])
        return true
      }),
    list: ({ after, from, limit, to }) =>
      db.read("list usage", async (query) => {
        const { endpoint, hour, key, release } = after ?? { hour: Number.MIN_SAFE_INTEGER, endpoint: "", release: 0, key: "" }
        const rows = await query(LIST, [finite(Math.max(from, hour)), finite(to), hour, endpoint, release, key, finite(limit)])
        return rows.map((row) => decodeRow(row)[0])
      }),
    trim: ({ before, records }, limit) =>
      db.write("trim usage", async (query) => {
        await query(`DELETE FROM stint.usage_sources WHERE at < $1`, [finite(before)])
        const removed = (await query(TRIM, [finite(before), finite(limit)])).length
        return removed + (await query(EXCEED, [finite(records), finite(limit - removed)])).length
      })
  }))

/** The usage of a database. */
export const layer: Layer.Layer<UsageStore, never, PostgresDatabase> = Layer.effect(UsageStore, make)
