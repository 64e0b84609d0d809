/**
 * The columns of jobs and their decoders. Each row is decoded with a schema, so that an edited row cannot bring invalid data into the state
 * machine.
 */
import { JsonText } from "@stint/contract/Json"
import { dueAt, isReady } from "@stint/store/JobMachine"
import { JobHead, type JobInput, type JobOutcome, type JobRecord, type JobReport } from "@stint/store/JobRecord"
import * as Schema from "effect/Schema"
import * as SchemaJITCompiler from "effect/schema/SchemaJITCompiler"
import type { Row } from "./Connection.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"

/** The table that holds a job's state. */
export type StateTable = "ready" | "delayed" | "running" | "ended"

/** In the order in which they are locked. */
export const STATE_TABLES: ReadonlyArray<StateTable> = ["running", "ready", "delayed", "ended"]

/** The table for the state of a job. */
export const placeOf = (job: JobHead): StateTable =>
  job.status === "IN_PROGRESS" ? "running" : job.status !== "IN_QUEUE" ? "ended" : isReady(job) ? "ready" : "delayed"

/** The columns of the four tables without the payloads, and their types. */
const STATE = {
  id: "text",
  endpoint: "text",
  seq: "bigint",
  status: "text",
  priority: "int",
  low_priority: "boolean",
  isolated: "boolean",
  created_at: "bigint",
  queued_at: "bigint",
  expires_at: "bigint",
  not_before: "bigint",
  attempt: "int",
  retries: "int",
  worker: "text",
  release: "int",
  started_at: "bigint",
  lease_expires_at: "bigint",
  finished_at: "bigint",
  chunks: "int",
  drained: "int",
  due_at: "bigint",
  outcome_bytes: "bigint",
  chunk_bytes: "bigint",
  batch: "text",
  last_error: "text",
  is_run: "boolean",
  concurrency_key: "text",
  concurrency_limit: "int",
  held: "boolean"
} as const

/** The columns of the payloads in the four tables. */
const OUTCOME = { progress: "text", output: "text", error: "text" } as const

/** All columns of the four tables. */
export const ALL = { ...STATE, ...OUTCOME } as const

/** The columns of `jobs`. */
export const JOB = {
  id: "text",
  endpoint: "text",
  seq: "bigint",
  created_at: "bigint",
  owner: "text",
  idempotency_key: "text",
  fingerprint: "text",
  spec: "text",
  hooked: "boolean",
  input_bytes: "bigint",
  input: "text",
  s3_config: "text",
  traceparent: "text",
  tracestate: "text"
} as const

const stateList = Object.keys(STATE).map((name) => `s.${name}`).join(", ")

const PAYLOAD = ["s.progress", "s.output", "s.error", "j.input", "j.s3_config", "j.traceparent", "j.tracestate"]

/** The columns that {@link toEntryRow} reads, of a state `s` and a job `j`. */
const list = (payload: ReadonlyArray<string>) => `${stateList}, j.spec, j.owner, j.input_bytes, j.seq, ${payload.join(", ")}`

/** With all payloads. */
export const RECORD = list(PAYLOAD)

/** Includes payloads only for jobs that have a webhook, because their deliveries contain them. */
export const WITH_WEBHOOK_PAYLOADS = list(PAYLOAD.map((column) => `CASE WHEN j.hooked THEN ${column} END`))

/** With the outcome but without the input. */
export const REPORT = list(PAYLOAD.map((column) => column.startsWith("s.") ? column : "NULL::text"))

/** With the trace context and the error. */
export const TRACE = list(
  PAYLOAD.map((column) => ["s.error", "j.traceparent", "j.tracestate"].includes(column) ? column : "NULL::text")
)

/** With the first 500 characters of the error. */
export const SUMMARY = list(PAYLOAD.map((column) => column === "s.error" ? "left(s.error, 500)" : "NULL::text"))

/**
 * The states of jobs, in whichever table they are. `where` restricts each table. `OFFSET 0`, because `running` often looks empty to the planner: with
 * a condition on the endpoint outside, it would read all running jobs of the endpoint instead of looking up the id.
 */
export const fromAllStateTables = (where: string): string =>
  `(${
    STATE_TABLES.map((place) => `SELECT ${Object.keys(ALL).join(", ")} FROM stint.${place} WHERE ${where}`).join(" UNION ALL ")
  } OFFSET 0) s
   JOIN stint.jobs j ON j.id = s.id`

const { executionTimeoutMs, leaseMs, maxAttempts, retentionMs, retry, tags, ttlMs, webhook } = JobHead.fields

/** The settings of a job that never change. */
const Spec = Schema.fromJsonString(
  Schema.Struct({ executionTimeoutMs, leaseMs, maxAttempts, retentionMs, retry, tags, ttlMs, webhook })
)
const decodeSpec = Schema.decodeUnknownSync(Spec)
const encodeSpec = Schema.encodeSync(Spec)

SchemaJITCompiler.enable(JobHead.ast)
const decodeHead = Schema.decodeUnknownSync(JobHead)
const decodeFixed = Schema.decodeUnknownSync(
  Schema.Tuple([Schema.Int, Schema.Int, Schema.Int, Schema.Int, Schema.Int, Schema.Boolean])
)
const decodeKey = Schema.decodeUnknownSync(Schema.String)
const Text = Schema.NullOr(JsonText)
const Line = Schema.NullOr(Schema.String)
const decodePayload = Schema.decodeUnknownSync(Schema.Tuple([Text, Text, Line, Line, Text, Text, Line, Line]))

/** The maximum number of decoded specifications to cache, by their text. The jobs of an endpoint have few different ones. */
const MAX_SPECS = 1_000
const specs = new Map<unknown, ReturnType<typeof decodeSpec>>()

const specOf = (text: unknown) => {
  const known = specs.get(text)
  if (known !== undefined) return known
  const spec = decodeSpec(text)
  if (specs.size >= MAX_SPECS) specs.clear()
  specs.set(text, spec)
  return spec
}

/** The text of a job's settings. */
export const specText = encodeSpec

/** A decoded row. */
export interface StateRow {
  /** The position in the order of submission. */
  readonly seq: number
  /** The position at which a job with a concurrency key received its slot, while it has one. */
  readonly turn: number
  readonly head: JobHead
  /** Whether the job is the run of a pipeline. */
  readonly isRun: boolean
  readonly inputBytes: number
  readonly outcomeBytes: number
  readonly chunkBytes: number
  readonly outcome: JobOutcome
  /** The input is null when it was not selected. */
  readonly input: Omit<JobInput, "input"> & { readonly input: JsonText | null }
}

/** The number of columns. */
const WIDTH = Object.keys(STATE).length + 4 + PAYLOAD.length

/** Decodes the columns of {@link RECORD}, {@link WITH_WEBHOOK_PAYLOADS}, {@link REPORT} or {@link SUMMARY}. Errors contain the job's id but none of its data. */
export const toStateRow = (row: Row): StateRow => {
  const [
    id,
    endpoint,
    turn,
    status,
    priority,
    lowPriority,
    isolated,
    createdAt,
    queuedAt,
    expiresAt,
    notBefore,
    attempt,
    retries,
    worker,
    release,
    startedAt,
    leaseExpiresAt,
    finishedAt,
    chunks,
    drained,
    ,
    outcomeBytes,
    chunkBytes,
    batchId,
    lastError,
    isRun,
    key,
    limit,
    held,
    spec,
    owner,
    inputBytes,
    seq,
    ...payload
  ] = row.slice(0, WIDTH)
  try {
    const head = decodeHead({
      ...specOf(spec),
      id,
      endpoint,
      status,
      priority,
      lowPriority,
      isolated,
      createdAt,
      queuedAt,
      expiresAt,
      notBefore,
      attempt,
      retries,
      worker,
      release,
      concurrency: key === null ? null : { key: unescapeNul(decodeKey(key)), limit, held },
      startedAt,
      leaseExpiresAt,
      finishedAt,
      chunks,
      drained,
      batchId,
      owner
    })
    const [place, slot, ofInput, ofOutcome, ofChunks, run] = decodeFixed([
      seq,
      turn,
      inputBytes,
      outcomeBytes,
      chunkBytes,
      isRun
    ])
    const [progress, output, error, last, input, s3Config, traceparent, tracestate] = decodePayload([
      ...payload.slice(0, 3),
      lastError,
      ...payload.slice(3)
    ])
    return {
      seq: place,
      turn: slot,
      head,
      isRun: run,
      inputBytes: ofInput,
      outcomeBytes: ofOutcome,
      chunkBytes: ofChunks,
      outcome: { progress, output, error: unescapeNul(error), lastError: unescapeNul(last) },
      input: { input, s3Config, traceparent, tracestate }
    }
  } catch (cause) {
    throw new Error(`the row of job ${String(id)} is invalid: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause
    })
  }
}

/** The complete job in a row of {@link RECORD}. */
export const toRecord = ({ head, input: { input, ...rest }, outcome }: StateRow): JobRecord => {
  if (input === null) throw new Error(`the row of job ${head.id} has no input`)
  return { ...head, ...outcome, ...rest, input }
}

/** The job in a row of {@link REPORT}. */
export const toReport = ({ head, outcome }: StateRow): JobReport => ({ ...head, ...outcome })

/** What the row of a job's state contains. */
interface StoredState extends Pick<StateRow, "head" | "isRun" | "outcomeBytes" | "chunkBytes"> {
  /** The position in the table. */
  readonly position: number
  readonly outcome: Partial<JobOutcome>
}

/** The values of a job's state, in the order of {@link ALL}. */
export const stateValues = (
  { chunkBytes, head, isRun, outcome, outcomeBytes, position }: StoredState
): ReadonlyArray<unknown> => [
  head.id,
  head.endpoint,
  position,
  head.status,
  head.priority,
  head.lowPriority,
  head.isolated,
  head.createdAt,
  head.queuedAt,
  head.expiresAt,
  head.notBefore,
  head.attempt,
  head.retries,
  head.worker,
  head.release,
  head.startedAt,
  head.leaseExpiresAt,
  head.finishedAt,
  head.chunks,
  head.drained,
  dueAt(head),
  outcomeBytes,
  chunkBytes,
  head.batchId,
  escapeNul(outcome.lastError ?? null),
  isRun,
  escapeNul(head.concurrency?.key ?? null),
  head.concurrency?.limit ?? null,
  head.concurrency?.held === true,
  outcome.progress ?? null,
  outcome.output ?? null,
  escapeNul(outcome.error ?? null)
]

/** The parameters of a statement with one array for each column, as rows. */
export const unnest = (columns: Readonly<Record<string, string>>): string =>
  `unnest(${Object.values(columns).map((type, index) => `$${index + 1}::${type}[]`).join(", ")})`

/** `INSERT` of many rows, one array for each column. */
export const insertAll = (table: string, columns: Readonly<Record<string, string>>): string =>
  `INSERT INTO stint.${table} (${Object.keys(columns).join(", ")}) SELECT * FROM ${unnest(columns)}`

/** The arrays for {@link insertAll}. */
export const transpose = (rows: ReadonlyArray<ReadonlyArray<unknown>>): ReadonlyArray<ReadonlyArray<unknown>> =>
  (rows[0] ?? []).map((_, column) => rows.map((row) => row[column]))
