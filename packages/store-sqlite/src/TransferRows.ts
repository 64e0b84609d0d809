/**
 * Reads the tables of a platform that is not running, for a copy into another store (`Transfer` of `@stint/store`). Changes nothing.
 *
 * Each table is read with one statement, row by row, in the order of its key. The file stays locked meanwhile, so that no platform
 * can start and change it.
 */
import { hasSlot } from "@stint/store/ConcurrencyRule"
import { BATCHES, batchRow, jobRow, JOBS, type StoredRow, type StoredTable, type Value } from "@stint/store/StoredTables"
import type { TransferSource } from "@stint/store/Transfer"
import { SourceOlder, TransferError } from "@stint/store/TransferError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { DatabaseSync } from "node:sqlite"
import { BATCH, decodeBatch } from "./BatchRows.ts"
import * as IntegrityCheck from "./IntegrityCheck.ts"
import { decodePayload, HEAD, OUTCOME, toRow, valuesOf } from "./JobColumns.ts"
import * as Migrations from "./Migrations.ts"
import { checkOrigin, openError } from "./SqliteDatabase.ts"
import { FileDamaged, SqliteOpenError } from "./SqliteOpenError.ts"
import * as StoppedDatabase from "./StoppedDatabase.ts"
import { CHUNK_BYTES } from "./UsageCounters.ts"

/** How a table is read whose columns differ from those in the file. */
interface Reading {
  /** The tables in the file that it is made of. The first one has one row for each row of the result. */
  readonly tables: ReadonlyArray<string>
  readonly from: string
  /** The expressions of columns that the first table does not have. */
  readonly columns: Readonly<Record<string, string>>
}

/** The job at the top of the nested runs of `run`. */
const rootOf = (run: string): string =>
  `(WITH RECURSIVE up (job) AS (
     SELECT ${run} UNION SELECT run_children.run FROM run_children JOIN up ON run_children.job = up.job
   ) SELECT job FROM up WHERE NOT EXISTS (SELECT 1 FROM run_children WHERE run_children.job = up.job))`

const ofJobs = (table: string): Reading => ({
  tables: [table],
  from: `jobs CROSS JOIN ${table} ON ${table}.job = jobs.seq`,
  columns: { job: "jobs.id" }
})

const READINGS: Readonly<Record<string, Reading>> = {
  batches: { tables: ["batches"], from: "batches", columns: {} },
  jobs: {
    tables: ["jobs", "inputs", "outcomes"],
    from: "jobs LEFT JOIN inputs USING (seq) LEFT JOIN outcomes USING (seq)",
    columns: {}
  },
  chunks: ofJobs("chunks"),
  job_logs: ofJobs("job_logs"),
  log_pieces: {
    tables: ["log_pieces"],
    from: "log_pieces JOIN jobs ON jobs.seq = log_pieces.job",
    columns: { job: "jobs.id" }
  },
  tags: { tables: ["tags"], from: "tags JOIN jobs USING (seq)", columns: { id: "jobs.id" } },
  runs: { tables: ["runs"], from: "runs", columns: { root: rootOf("runs.run") } },
  run_children: { tables: ["run_children"], from: "run_children", columns: { root: rootOf("run_children.run") } },
  deliveries: {
    tables: ["deliveries", "delivery_bodies"],
    from: "deliveries JOIN delivery_bodies USING (seq)",
    columns: { body: "body", traceparent: "traceparent", tracestate: "tracestate" }
  }
}

const readingOf = ({ name }: StoredTable): Reading => READINGS[name] ?? { tables: [name], from: `"${name}"`, columns: {} }

/** The tables of the file that are not copied, and why. */
export const NOT_COPIED: Readonly<Record<string, string>> = {
  tallies: "counts of jobs, which the other store counts again",
  usage: "counts for quotas, which the other store counts again",
  log_total: "the size of all logs, which the other store counts again",
  upgrades: "which version of Stint wrote this file"
}

const JOB_COLUMNS = `${HEAD}, turn, EXISTS (SELECT 1 FROM runs WHERE runs.run = jobs.id), (${CHUNK_BYTES}),
  CASE WHEN finished_at IS NOT NULL THEN error_group END, idempotency_key, fingerprint,
  ${OUTCOME}, input, s3_config, traceparent, tracestate`

/** The statement that reads a table, and the tables in the file that it uses. Its rows are arrays. */
export const statementOf = (table: StoredTable): { readonly sql: string; readonly tables: ReadonlyArray<string> } => {
  const { columns, from, tables } = readingOf(table)
  if (table === JOBS) return { tables, sql: `SELECT ${JOB_COLUMNS} FROM ${from} ORDER BY jobs.id` }
  if (table === BATCHES) return { tables, sql: `SELECT ${BATCH}, seq FROM ${from} ORDER BY id` }
  const expressions = Object.keys(table.columns).map((name) => columns[name] ?? `${tables[0]}."${name}"`)
  return {
    tables,
    sql: `SELECT ${expressions.join(", ")} FROM ${from} ORDER BY ${expressions.slice(0, table.keys).join(", ")}`
  }
}

/** The columns of {@link JOB_COLUMNS} between the head and the payloads, and the names of the payloads. */
const decodeRest = Schema.decodeUnknownSync(Schema.Tuple([
  Schema.NullOr(Schema.Int),
  Schema.BooleanFromBit,
  Schema.Int,
  Schema.NullOr(Schema.String),
  Schema.NullOr(Schema.String),
  Schema.NullOr(Schema.String)
]))
const PAYLOAD = ["progress", "output", "error", "lastError", "input", "s3Config", "traceparent", "tracestate"]

const toJobRow = (row: ReadonlyArray<unknown>): StoredRow => {
  const { head, seq } = toRow(row)
  const payload = row.slice(-PAYLOAD.length)
  const [turn, isRun, chunkBytes, errorGroup, idempotencyKey, fingerprint] = decodeRest(
    row.slice(-PAYLOAD.length - 6, -PAYLOAD.length)
  )
  return jobRow({
    ...head,
    ...decodePayload({ id: head.id, ...Object.fromEntries(PAYLOAD.map((name, index) => [name, payload[index]])) }),
    seq,
    position: hasSlot(head) ? turn ?? seq : seq,
    isRun,
    chunkBytes,
    errorGroup,
    idempotencyKey,
    fingerprint
  })
}

/** A value with the type that its column has in other stores. */
const toValue = (value: unknown, type: StoredTable["columns"][string] | undefined): Value => {
  if (type === "boolean") return value === 1
  if (value === null || typeof value === "string" || typeof value === "number") return value
  throw new TypeError(`a value has the type ${typeof value}`)
}

const decodeCount = Schema.decodeUnknownSync(Schema.Struct({ count: Schema.Int }))
const decodeSeq = Schema.decodeUnknownSync(Schema.Struct({ seq: Schema.Int }))
const decodeOrigin = Schema.decodeUnknownSync(Schema.Struct({ at: Schema.NullOr(Schema.Int) }))

/** The tables of a file. */
export interface TransferRows extends TransferSource {
  /** Tells files apart: the time at which Stint created this one. A backup has the same time as its platform. */
  readonly origin: number | null
  /** Whether payloads are outside the database. Reads all payloads. */
  readonly hasReferences: () => boolean
}

/** A value in these columns that contains U+0001 refers to a payload outside the database. */
const REFERENCES = [
  ["inputs", "input"],
  ["inputs", "s3_config"],
  ["outcomes", "output"],
  ["outcomes", "progress"],
  ["chunks", "body"],
  ["batch_requests", "input"],
  ["delivery_bodies", "body"]
] as const

const make = (db: DatabaseSync): TransferRows => ({
  origin: decodeOrigin(db.prepare("SELECT min(at) AS at FROM upgrades").get()).at,
  count: (table) => {
    const [first] = statementOf(table).tables
    return decodeCount(db.prepare(`SELECT count(*) AS count FROM ${first}`).get()).count
  },
  rows: function*(table) {
    const { sql } = statementOf(table)
    const statement = db.prepare(sql)
    if (table === BATCHES) {
      for (const row of statement.iterate()) yield batchRow({ ...decodeBatch(row), ...decodeSeq(row) })
      return
    }
    const types = Object.values(table.columns)
    statement.setReturnArrays(true)
    for (const row of statement.iterate()) {
      const values = valuesOf(row)
      yield table === JOBS ? toJobRow(values) : values.map((value, index) => toValue(value, types[index]))
    }
  },
  hasReferences: () =>
    REFERENCES.some(([table, column]) =>
      db.prepare(`SELECT 1 FROM ${table} WHERE instr(${column}, char(1)) > 0 LIMIT 1`).get() !== undefined
    )
})

/** The tables of a file, which stays open and locked while the scope is open. */
export const open = Effect.fn("TransferRows.open")(function*(
  file: string
): Effect.fn.Return<TransferRows, SqliteOpenError | TransferError, Scope.Scope> {
  const db = yield* StoppedDatabase.open(file)
  return yield* Effect.try({
    try: () => {
      const { version } = checkOrigin(db, file)
      if (version !== Migrations.LATEST) {
        throw new TransferError({ table: "upgrades", reason: new SourceOlder({ version, needed: Migrations.LATEST }) })
      }
      const problems = IntegrityCheck.checkNow(db)
      if (problems !== undefined) throw new SqliteOpenError({ file, reason: new FileDamaged({ problems }) })
      db.exec("PRAGMA query_only = ON")
      return make(db)
    },
    catch: (cause) => cause instanceof TransferError ? cause : openError(file, cause)
  })
})
