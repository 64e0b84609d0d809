/**
 * The durable tables of a store, in the form in which one store hands them to another (docs/decisions/0075-import-into-postgresql.md).
 *
 * A row is a list of plain values. Jobs and batches, whose tables differ between stores, are handed over as encoded records, so that each store
 * decodes its own rows first. Counts are left out, because the receiving store counts again.
 */
import * as Schema from "effect/Schema"
import * as SchemaJITCompiler from "effect/schema/SchemaJITCompiler"
import { BatchRecord } from "../batches/BatchMachine.ts"
import { JobRecord } from "../jobs/JobRecord.ts"

/** A value of a row. */
export type Value = string | number | boolean | null

/** The values of a row, in the order of the columns of its table. */
export type StoredRow = ReadonlyArray<Value>

type ColumnType = "text" | "integer" | "boolean"

/** A table. */
export interface StoredTable {
  readonly name: string
  /** The columns and their types. The first `keys` columns are the key. Rows are ordered by the key, and texts by their bytes. */
  readonly columns: Readonly<Record<string, ColumnType>>
  readonly keys: number
}

const text = "text"
const integer = "integer"
const boolean = "boolean"

const table = (name: string, keys: number, columns: StoredTable["columns"]): StoredTable => ({ name, keys, columns })

/** An object as JSON text. */
const jsonOrNull = <S extends Schema.Constraint>(schema: Schema.NullOr<S>) =>
  Schema.NullOr(Schema.fromJsonString(schema.members[0]))

const { id: JobIdField, ...jobFields } = JobRecord.fields
const { id: BatchIdField, ...batchFields } = BatchRecord.fields

/** A job with everything that belongs to it, except for its chunks, tags and log lines. */
export const StoredJob = Schema.Struct({
  id: JobIdField,
  /** The position in the order of submission. */
  seq: Schema.Int,
  /** The position in the order of claims: for a job that holds a slot of its concurrency key, the slot's turn; otherwise `seq`. */
  position: Schema.Int,
  isRun: Schema.Boolean,
  /** The size of the chunks. */
  chunkBytes: Schema.Int,
  errorGroup: Schema.NullOr(Schema.String),
  idempotencyKey: Schema.NullOr(Schema.String),
  fingerprint: Schema.NullOr(Schema.String),
  ...jobFields,
  retry: jsonOrNull(jobFields.retry),
  webhook: jsonOrNull(jobFields.webhook),
  tags: Schema.fromJsonString(jobFields.tags),
  concurrency: jsonOrNull(jobFields.concurrency)
})
export type StoredJob = typeof StoredJob.Type

/** A batch and its position in the order of creation. */
export const StoredBatch = Schema.Struct({
  id: BatchIdField,
  seq: Schema.Int,
  ...batchFields,
  policy: jsonOrNull(batchFields.policy)
})
export type StoredBatch = typeof StoredBatch.Type

const columnsOf = (fields: object): StoredTable["columns"] => Object.fromEntries(Object.keys(fields).map((name) => [name, text]))

const named = (columns: StoredTable["columns"], row: StoredRow): unknown =>
  Object.fromEntries(Object.keys(columns).map((name, index) => [name, row[index]]))

// Compiled, because a copy decodes every job. An interpreted schema takes 97 µs per job, a compiled one 40 µs.
SchemaJITCompiler.enable(StoredJob.ast)
const decodeJob = Schema.decodeUnknownSync(StoredJob)
const decodeBatch = Schema.decodeUnknownSync(StoredBatch)

/** The jobs. Each store has its own statements for them. */
export const JOBS = table("jobs", 1, columnsOf(StoredJob.fields))

/** The batches. Each store has its own statements for them. */
export const BATCHES = table("batches", 1, columnsOf(StoredBatch.fields))

const isPlain = (value: unknown): value is Value => value === null || ["string", "number", "boolean"].includes(typeof value)

/** The values of a decoded record. */
const valuesOf = ({ columns }: StoredTable, record: Readonly<Record<string, unknown>>): StoredRow =>
  Object.keys(columns).map((name) => {
    const value = record[name]
    return isPlain(value) ? value : JSON.stringify(value)
  })

/** The row of a job. */
export const jobRow = (job: StoredJob): StoredRow => valuesOf(JOBS, job)

/** The job of a row. */
export const toJob = (row: StoredRow): StoredJob => decodeJob(named(JOBS.columns, row))

/** The row of a batch. */
export const batchRow = (batch: StoredBatch): StoredRow => valuesOf(BATCHES, batch)

/** The batch of a row. */
export const toBatch = (row: StoredRow): StoredBatch => decodeBatch(named(BATCHES.columns, row))

/** All tables, in the order in which they are copied: small ones first, so that a problem of the target shows early. */
export const TABLES: ReadonlyArray<StoredTable> = [
  table("endpoints", 1, { id: text, body: text }),
  table("removed_endpoints", 1, { id: text }),
  table("releases", 2, { endpoint: text, number: integer, code: text, body: text }),
  table("handler_schemas", 1, { endpoint: text, body: text }),
  table("keys", 1, { id: text, body: text }),
  table("secrets", 1, { name: text, body: text }),
  table("webhook_secrets", 1, { endpoint: text, body: text }),
  table("concurrency_limits", 1, { endpoint: text, max: integer }),
  table("definitions", 2, { endpoint: text, hash: text, graph: text, at: integer }),
  table("schedules", 2, {
    endpoint: text,
    name: text,
    id: text,
    version: integer,
    due_at: integer,
    checked_at: integer,
    body: text
  }),
  table("bulk", 1, { id: text, version: integer, created_at: integer, ended_at: integer, body: text }),
  table("build_settings", 1, { endpoint: text, body: text }),
  table("builds", 2, { endpoint: text, number: integer, state: text, body: text }),
  table("build_logs", 3, { endpoint: text, build: integer, last: integer, body: text }),
  table("error_groups", 2, { endpoint: text, fingerprint: text, last_seen: integer, body: text }),
  table("removed_error_groups", 1, { endpoint: text, groups: integer }),
  table("usage_hours", 4, {
    hour: integer,
    endpoint: text,
    release: integer,
    key: text,
    attempts: integer,
    execution_ms: integer,
    worker_ms: integer,
    cpu_ms: integer,
    gpu_ms: integer
  }),
  table("usage_sources", 1, { source: text, sequence: integer, at: integer }),
  table("audit", 1, {
    id: integer,
    kind: text,
    at: integer,
    action: text,
    target: text,
    key: text,
    name: text,
    via: text,
    address: text,
    result: text,
    status: integer
  }),
  BATCHES,
  table("batch_requests", 1, { seq: integer, batch: text, id: text, input: text, s3_config: text, options: text }),
  JOBS,
  table("tags", 4, { endpoint: text, tag: text, created_at: integer, id: text }),
  table("chunks", 3, { job: text, attempt: integer, number: integer, body: text }),
  table("runs", 1, {
    run: text,
    root: text,
    endpoint: text,
    definition: text,
    phase: text,
    undo: boolean,
    last: integer,
    wanted: integer,
    held: text
  }),
  table("run_entries", 3, {
    run: text,
    path: text,
    kind: text,
    n: integer,
    at: integer,
    until: integer,
    open: boolean,
    news: integer,
    body: text,
    ms: integer,
    input: text
  }),
  table("run_children", 1, { job: text, endpoint: text, run: text, path: text, root: text }),
  table("run_waits", 6, { run: text, path: text, endpoint: text, at: integer, name: text, key: text }),
  table("run_events", 1, {
    seq: integer,
    endpoint: text,
    name: text,
    key: text,
    id: text,
    expires_at: integer,
    body: text
  }),
  table("deliveries", 1, {
    seq: integer,
    id: text,
    job: text,
    endpoint: text,
    event: text,
    url: text,
    state: text,
    created_at: integer,
    attempts: integer,
    next_at: integer,
    settled_at: integer,
    last_status: integer,
    last_error: text,
    body: text,
    traceparent: text,
    tracestate: text
  }),
  table("webhook_attempts", 1, {
    seq: integer,
    delivery: text,
    at: integer,
    duration_ms: integer,
    status: integer,
    error: text,
    final: boolean
  }),
  table("job_logs", 1, { job: text, last: integer, lines: integer, bytes: integer }),
  table("log_pieces", 1, { seq: integer, job: text, last: integer, lines: integer, bytes: integer, body: text })
]
