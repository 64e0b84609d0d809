/**
 * Reads and writes whole tables, for a copy from another store (`Transfer` of `@stint/store`).
 */
import { inputBytes, outcomeBytes } from "@stint/store/Quota"
import {
  BATCHES,
  batchRow,
  jobRow,
  JOBS,
  type StoredRow,
  type StoredTable,
  toBatch,
  toJob,
  type Value
} from "@stint/store/StoredTables"
import type { KeyRange } from "@stint/store/Transfer"
import { RowRefused, TransferError } from "@stint/store/TransferError"
import * as Schema from "effect/Schema"
import { toBatch as toBatchRecord } from "./BatchRows.ts"
import type { Query, Row } from "./Connection.ts"
import {
  ALL,
  insertAll,
  JOB,
  placeOf,
  RECORD,
  STATE_TABLES,
  stateValues,
  toRecord,
  toStateRow,
  transpose,
  unnest
} from "./JobColumns.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"
import { BATCH, batchValues, jobValues } from "./TransactionWrites.ts"

/** The columns in which the stores escape NUL characters (NulText.ts). Jobs are not listed, because JobColumns.ts escapes theirs. */
const ESCAPED: Readonly<Record<string, ReadonlyArray<string>>> = {
  audit: ["target"],
  build_logs: ["body"],
  deliveries: ["url", "last_error"],
  runs: ["held"],
  run_events: ["name", "key", "id"],
  run_waits: ["name", "key"],
  webhook_attempts: ["error"]
}

/** The columns of unique indexes beside the key, and their names in the rows that are handed over. */
const UNIQUE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  batch_requests: { id: "id" },
  deliveries: { id: "id" },
  jobs: { endpoint: "endpoint", idempotency_key: "idempotencyKey", owner: "owner" },
  run_entries: { run: "run", n: "n" },
  run_events: { endpoint: "endpoint", id: "id" }
}

const TYPES = { text: "text", integer: "bigint", boolean: "boolean" } as const

const isEscaped = ({ name }: StoredTable, column: string): boolean => ESCAPED[name]?.includes(column) === true

/** The columns of a table, quoted, and their types in PostgreSQL. */
const columnsOf = ({ columns }: StoredTable): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(columns).map(([name, type]) => [`"${name}"`, TYPES[type]]))

const keyColumns = (table: StoredTable): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(columnsOf(table)).slice(0, table.keys))

/** The values of a row as they are stored. */
const toStored = (table: StoredTable, row: StoredRow): ReadonlyArray<unknown> => {
  const names = Object.keys(table.columns)
  return row.map((value, index) => {
    if (typeof value !== "string") return value
    const column = names[index] ?? ""
    if (isEscaped(table, column)) return escapeNul(value)
    if (value.includes("\0")) {
      const key = JSON.stringify(row.slice(0, table.keys))
      throw new TransferError({
        table: table.name,
        reason: new RowRefused({ problem: `the column ${column} of the row ${key} contains a NUL character` })
      })
    }
    return value
  })
}

const decodeValue = Schema.decodeUnknownSync(Schema.NullOr(Schema.Union([Schema.String, Schema.Finite, Schema.Boolean])))

const fromStored = (table: StoredTable, row: Row): StoredRow => {
  const names = Object.keys(table.columns)
  return row.map((stored, index): Value => {
    const value = decodeValue(stored)
    return typeof value === "string" && isEscaped(table, names[index] ?? "") ? unescapeNul(value) : value
  })
}

/** The condition of a range, and its values. */
const conditionOf = (table: StoredTable, keys: Readonly<Record<string, string>>, { after, last }: KeyRange) => {
  const values: Array<unknown> = []
  const bound = (operator: string, key: StoredRow | undefined) => {
    if (key === undefined) return []
    const parameters = toStored(table, key.slice(0, table.keys)).map((value, index) => {
      values.push(value)
      return `$${values.length}::${Object.values(keys)[index] ?? "text"}`
    })
    return [`(${Object.keys(keys).join(", ")}) ${operator} (${parameters.join(", ")})`]
  }
  const bounds = [...bound(">", after), ...bound("<=", last)]
  return { where: bounds.length === 0 ? "true" : bounds.join(" AND "), values }
}

const JOB_STATE = Object.keys(ALL).join(", ")

const decodeSeq = Schema.decodeUnknownSync(Schema.Int)
const decodeExtra = Schema.decodeUnknownSync(
  Schema.Tuple([Schema.NullOr(Schema.String), Schema.NullOr(Schema.String), Schema.NullOr(Schema.String)])
)

const toJobRow = (row: Row): StoredRow => {
  const state = toStateRow(row)
  const [errorGroup, idempotencyKey, fingerprint] = decodeExtra(row.slice(-3))
  const { chunkBytes, isRun, seq, turn } = state
  return jobRow({ ...toRecord(state), seq, position: turn, isRun, chunkBytes, errorGroup, idempotencyKey, fingerprint })
}

/** The first rows of a range, in the order of the key. */
export const readRows = async (
  query: Query,
  table: StoredTable,
  range: KeyRange,
  limit: number
): Promise<ReadonlyArray<StoredRow>> => {
  if (table === JOBS || table === BATCHES) {
    const { values, where } = conditionOf(table, { id: "text" }, range)
    const most = `ORDER BY id LIMIT $${values.length + 1}`
    if (table === BATCHES) {
      const rows = await query(`SELECT body, seq FROM stint.batches WHERE ${where} ${most}`, [...values, limit])
      return rows.map((row) => batchRow({ ...toBatchRecord(row), seq: decodeSeq(row[1]) }))
    }
    const states = STATE_TABLES.map((place) =>
      `(SELECT ${JOB_STATE}, ${place === "ended" ? "error_group" : "NULL::text AS error_group"}
        FROM stint.${place} WHERE ${where} ${most})`
    )
    const rows = await query(
      `SELECT ${RECORD}, s.error_group, j.idempotency_key, j.fingerprint FROM (${states.join(" UNION ALL ")}) s
       JOIN stint.jobs j ON j.id = s.id ORDER BY s.id LIMIT $${values.length + 1}`,
      [...values, limit]
    )
    return rows.map(toJobRow)
  }
  const { values, where } = conditionOf(table, keyColumns(table), range)
  const rows = await query(
    `SELECT ${Object.keys(columnsOf(table)).join(", ")} FROM stint.${table.name} WHERE ${where}
     ORDER BY ${Object.keys(keyColumns(table)).join(", ")} LIMIT $${values.length + 1}`,
    [...values, limit]
  )
  return rows.map((row) => fromStored(table, row))
}

/** The keys of the first rows of a range, in their order. */
export const readKeys = async (
  query: Query,
  table: StoredTable,
  range: KeyRange,
  limit: number
): Promise<ReadonlyArray<StoredRow>> => {
  const keys = table === JOBS || table === BATCHES ? { id: "text" } : keyColumns(table)
  const { values, where } = conditionOf(table, keys, range)
  const names = Object.keys(keys).join(", ")
  const most = `ORDER BY ${names} LIMIT $${values.length + 1}`
  const of = (name: string) => `SELECT ${names} FROM stint.${name} WHERE ${where} ${most}`
  const states = STATE_TABLES.map((place) => `(${of(place)})`).join(" UNION ALL ")
  const rows = await query(
    table === JOBS
      ? `SELECT s.id FROM (${states}) s JOIN stint.jobs j ON j.id = s.id ORDER BY s.id LIMIT $${values.length + 1}`
      : of(table.name),
    [...values, limit]
  )
  return rows.map((row) => fromStored(table, row))
}

/** Removes rows by their keys. */
const removeRows = async (query: Query, table: StoredTable, rows: ReadonlyArray<StoredRow>) => {
  const keys = table === JOBS || table === BATCHES ? { id: "text" } : keyColumns(table)
  const names = Object.keys(keys)
  const places = table === JOBS ? ["jobs", ...STATE_TABLES] : [table.name]
  const values = transpose(rows.map((row) => toStored(table, row.slice(0, table.keys))))
  for (const place of places) {
    await query(
      `DELETE FROM stint.${place} t USING (SELECT DISTINCT * FROM ${unnest(keys)}) AS u (${names.join(", ")})
       WHERE ${names.map((name) => `t.${name} = u.${name}`).join(" AND ")}`,
      values
    )
  }
}

/**
 * Removes rows that hold a unique value of a row to be added. The source no longer has them, or a later page adds them again: since an earlier copy,
 * an idempotency key may have passed to another job.
 */
export const removeRivals = async (query: Query, table: StoredTable, added: ReadonlyArray<StoredRow>): Promise<void> => {
  const unique = Object.entries(UNIQUE[table.name] ?? {})
  if (unique.length === 0 || added.length === 0) return
  const names = Object.keys(table.columns)
  const types = Object.fromEntries(unique.map(([column, name]) => [column, TYPES[table.columns[name] ?? "text"]]))
  const values = added.map((row) => {
    const stored = table === JOBS ? row : toStored(table, row)
    return unique.map(([, name]) => stored[names.indexOf(name)])
  })
  const keys = Object.keys(table === JOBS ? { id: "text" } : keyColumns(table))
  const rivals = await query(
    `SELECT ${keys.map((key) => `t.${key}`).join(", ")} FROM stint.${table.name} t
     JOIN ${unnest(types)} AS u (${Object.keys(types).join(", ")})
       ON ${Object.keys(types).map((column) => `t.${column} = u.${column}`).join(" AND ")}`,
    transpose(values)
  )
  if (rivals.length > 0) await removeRows(query, table, rivals.map((row) => fromStored(table, row)))
}

/** `INSERT` that keeps the numbers of rows. */
const insertKeeping = (table: string, columns: Readonly<Record<string, string>>): string =>
  insertAll(table, columns).replace(") SELECT", ") OVERRIDING SYSTEM VALUE SELECT")

const addJobs = async (query: Query, rows: ReadonlyArray<StoredRow>) => {
  const jobs = rows.map(toJob)
  await query(
    insertAll("jobs", JOB),
    transpose(jobs.map((job) =>
      jobValues({
        head: job,
        input: job,
        inputBytes: inputBytes(job),
        seq: job.seq,
        key: job.idempotencyKey === null
          ? undefined
          : { key: job.idempotencyKey, owner: job.owner, fingerprint: job.fingerprint ?? "" }
      })
    ))
  )
  for (const place of STATE_TABLES) {
    const placed = jobs.filter((job) => placeOf(job) === place)
    if (placed.length === 0) continue
    const columns = place === "ended" ? { ...ALL, error_group: "text" } : ALL
    await query(
      insertAll(place, columns),
      transpose(placed.map((job) => [
        ...stateValues({ ...job, head: job, outcome: job, outcomeBytes: outcomeBytes(job) }),
        ...(place === "ended" ? [job.errorGroup] : [])
      ]))
    )
  }
}

/** Removes rows by their keys and then adds rows, within a transaction. */
export const replaceRows = async (
  query: Query,
  table: StoredTable,
  removed: ReadonlyArray<StoredRow>,
  added: ReadonlyArray<StoredRow>
): Promise<void> => {
  if (removed.length > 0) await removeRows(query, table, removed)
  if (added.length === 0) return
  if (table === JOBS) return addJobs(query, added)
  if (table === BATCHES) {
    const batches = added.map(toBatch)
    await query(
      insertKeeping("batches", { ...BATCH, seq: "bigint" }),
      transpose(batches.map((one) => [...batchValues(one), one.seq]))
    )
    return
  }
  await query(insertKeeping(table.name, columnsOf(table)), transpose(added.map((row) => toStored(table, row))))
}
