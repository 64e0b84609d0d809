/**
 * What the jobs of endpoints and keys with quotas use, in memory and in the table `usage` (docs/decisions/0035-quotas.md).
 *
 * ```
 *   first submission with a quota --> counter of this endpoint or key, counted = 0
 *   each submission               --> counts the next COUNT_STEP jobs, until all are counted
 *   each change of a counted job  --> changes the counter in the same transaction
 *   first submission without      --> the counter is removed
 * ```
 *
 * A counter covers the jobs with row numbers up to `counted`. Changes to later jobs are ignored until the count reaches them, so the counter is
 * exact at every step. Without counters, operations only check that there are none.
 */
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import { inputBytes, outcomeBytes, type QuotaScope, type QuotaUsage } from "@stint/store/Quota"
import * as Schema from "effect/Schema"
import type { Row } from "./JobColumns.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

interface Counter {
  waiting: number
  bytes: number
  /** Jobs with at most this row number are counted. */
  counted: number
}

/** All jobs are counted. */
const ALL = Number.MAX_SAFE_INTEGER

/** The maximum number of jobs that one submission counts, which takes about 5 ms. */
const COUNT_STEP = 1_000

/** Files with up to this number of jobs are recounted when they are opened, which takes about 50 ms. */
const CHECKED_JOBS = 10_000

const SCOPES: ReadonlyArray<QuotaScope> = ["endpoint", "key"]

/** The columns of `jobs` by which a scope finds its jobs. */
const COLUMN: Readonly<Record<QuotaScope, string>> = { endpoint: "endpoint", key: "owner" }

/** The size of a payload: `payloadBytes` of `@stint/store` in SQL. Does not read the pages of large texts. */
const bytesOf = (column: string): string =>
  `coalesce(CASE WHEN octet_length(${column}) < 1000 AND unicode(${column}) = 1 AND substr(${column}, 2, 1) <> '='
     THEN CAST(substr(${column}, instr(${column}, ' ') + 1) AS INTEGER) ELSE octet_length(${column}) END, 0)`

const OUTCOME_BYTES = ["progress", "output", "error", "last_error"].map(bytesOf).join(" + ")

/** The size of the chunks of a row of `jobs`. */
export const CHUNK_BYTES = `coalesce((SELECT sum(${bytesOf("body")}) FROM chunks WHERE chunks.job = jobs.seq), 0)`

const JOB_BYTES = `coalesce((SELECT ${bytesOf("input")} + ${bytesOf("s3_config")} FROM inputs WHERE inputs.seq = jobs.seq), 0)
  + coalesce((SELECT ${OUTCOME_BYTES} FROM outcomes WHERE outcomes.seq = jobs.seq), 0)
  + ${CHUNK_BYTES}
  + coalesce((SELECT bytes FROM job_logs WHERE job_logs.job = jobs.seq), 0)`

const Usage = Schema.Struct({ waiting: Schema.Int, bytes: Schema.Int })
const decodeUsage = Schema.decodeUnknownSync(Usage)
const decodeCounter = Schema.decodeUnknownSync(
  Schema.Struct({ scope: Schema.Literals(["endpoint", "key"]), id: Schema.String, ...Usage.fields, counted: Schema.Int })
)
const decodeBytes = Schema.decodeUnknownSync(Schema.Struct({ bytes: Schema.Int }))
const decodeEnd = Schema.decodeUnknownSync(Schema.Struct({ rows: Schema.Int, last: Schema.NullOr(Schema.Int) }))

/** A counter that did not match the stored jobs when the file was opened, and that was corrected. */
export interface Correction {
  readonly scope: QuotaScope
  readonly id: string
  readonly stored: QuotaUsage
  readonly counted: QuotaUsage
}

/** The counters of a database file. All methods except `takeCorrections` run within a transaction. */
export interface UsageCounters {
  /** Whether any counter exists. */
  readonly isActive: () => boolean
  /** The usage of an endpoint or a key. Starts or continues its count. A count that is not complete returns what it has counted so far. */
  readonly of: (scope: QuotaScope, id: string) => QuotaUsage
  /** Removes a counter, because the quota no longer exists. */
  readonly stop: (scope: QuotaScope, id: string) => void
  /** Whether a counter covers the job. */
  readonly covers: (row: Row) => boolean
  /** The size of a job's outcome, and of its chunks if `withChunks`. */
  readonly sizeOf: (seq: number, withChunks: boolean) => number
  readonly inserted: (seq: number, job: JobRecord) => void
  /** Counts a change by `bytes`. */
  readonly changed: (row: Row, after: JobHead, bytes: number) => void
  /** Called before the rows of the job are removed. */
  readonly removing: (row: Row) => void
  /** Counts a change to a job's log. */
  readonly logged: (seq: number, endpoint: string, owner: string, bytes: number) => void
  readonly takeCorrections: () => ReadonlyArray<Correction>
}

const isQueued = ({ status }: JobHead): number => status === "IN_QUEUE" ? 1 : 0

const open = (db: SqliteDatabase["Service"]): UsageCounters => {
  const all = db.statement(`SELECT scope, id, waiting, bytes, counted FROM usage`)
  const put = db.statement(`INSERT OR REPLACE INTO usage (scope, id, waiting, bytes, counted) VALUES (?, ?, ?, ?, ?)`)
  const remove = db.statement(`DELETE FROM usage WHERE scope = ? AND id = ?`)
  const end = db.statement(
    `SELECT count(*) AS rows, max(seq) AS last FROM (SELECT seq FROM jobs WHERE seq > ? ORDER BY seq LIMIT ? + 0)`
  )
  const sum = (scope: QuotaScope) =>
    db.statement(
      `SELECT coalesce(sum(status = 'IN_QUEUE'), 0) AS waiting, coalesce(sum(${JOB_BYTES}), 0) AS bytes
       FROM jobs NOT INDEXED WHERE seq > ? AND seq <= ? AND ${COLUMN[scope]} = ?`
    )
  const sums = { endpoint: sum("endpoint"), key: sum("key") }
  const jobBytes = db.statement(`SELECT ${JOB_BYTES} AS bytes FROM jobs WHERE seq = ?`)
  const outcomeSize = db.statement(`SELECT ${OUTCOME_BYTES} AS bytes FROM outcomes WHERE seq = ?`)
  const chunkSize = db.statement(`SELECT coalesce(sum(${bytesOf("body")}), 0) AS bytes FROM chunks WHERE job = ?`)

  const committed: Readonly<Record<QuotaScope, Map<string, Readonly<Counter>>>> = { endpoint: new Map(), key: new Map() }
  /** The changes of the current transaction. Undefined: the counter is removed. */
  const changes: Readonly<Record<QuotaScope, Map<string, Counter | undefined>>> = { endpoint: new Map(), key: new Map() }
  const clear = () => SCOPES.forEach((scope) => changes[scope].clear())

  const current = (scope: QuotaScope, id: string): Readonly<Counter> | undefined =>
    changes[scope].has(id) ? changes[scope].get(id) : committed[scope].get(id)

  /** The counter that the transaction may change. */
  const writable = (scope: QuotaScope, id: string): Counter => {
    const known = changes[scope].get(id)
    if (known !== undefined) return known
    const counter = { ...(current(scope, id) ?? { waiting: 0, bytes: 0, counted: 0 }) }
    changes[scope].set(id, counter)
    return counter
  }

  /** Counts up to `limit` further jobs. */
  const count = (counter: Counter, scope: QuotaScope, id: string, limit: number) => {
    const { last, rows } = decodeEnd(end.get(counter.counted, limit))
    const { bytes, waiting } = decodeUsage(sums[scope].get(counter.counted, last ?? counter.counted, id))
    counter.waiting += waiting
    counter.bytes += bytes
    counter.counted = rows < limit ? ALL : last ?? ALL
  }

  const add = (seq: number, endpoint: string, owner: string, waiting: number, bytes: number) => {
    if (waiting === 0 && bytes === 0) return
    for (const [scope, id] of [["endpoint", endpoint], ["key", owner]] as const) {
      const counted = current(scope, id)?.counted
      if (counted === undefined || seq > counted) continue
      const counter = writable(scope, id)
      counter.waiting += waiting
      counter.bytes += bytes
    }
  }

  const corrections: Array<Correction> = []
  const isSmall = decodeEnd(end.get(0, CHECKED_JOBS + 1)).rows <= CHECKED_JOBS
  for (const row of all.all()) {
    const { id, scope, ...stored } = decodeCounter(row)
    const counter = { waiting: 0, bytes: 0, counted: 0 }
    if (isSmall) count(counter, scope, id, CHECKED_JOBS + 1)
    committed[scope].set(id, isSmall ? counter : stored)
    const differs = stored.counted === ALL && (counter.waiting !== stored.waiting || counter.bytes !== stored.bytes)
    if (isSmall && differs) corrections.push({ scope, id, stored, counted: counter })
  }

  db.join({
    beforeCommit: () => {
      for (const scope of SCOPES) {
        for (const [id, counter] of changes[scope]) {
          if (counter === undefined) remove.run(scope, id)
          else put.run(scope, id, counter.waiting, counter.bytes, counter.counted)
        }
      }
    },
    committed: () => {
      for (const scope of SCOPES) {
        for (const [id, counter] of changes[scope]) {
          if (counter === undefined) committed[scope].delete(id)
          else committed[scope].set(id, counter)
        }
      }
      clear()
    },
    rolledBack: clear
  })

  const isActive = () => SCOPES.some((scope) => committed[scope].size > 0 || changes[scope].size > 0)

  const covered = (scope: QuotaScope, id: string, seq: number): boolean => seq <= (current(scope, id)?.counted ?? -1)

  return {
    isActive,
    of: (scope, id) => {
      const counter = current(scope, id)
      if (counter?.counted === ALL) return counter
      const next = writable(scope, id)
      count(next, scope, id, COUNT_STEP)
      return next
    },
    stop: (scope, id) => {
      if (current(scope, id) !== undefined) changes[scope].set(id, undefined)
    },
    covers: ({ head: { endpoint, owner }, seq }) =>
      isActive() && (covered("endpoint", endpoint, seq) || covered("key", owner, seq)),
    sizeOf: (seq, withChunks) => {
      const outcome = outcomeSize.get(seq)
      return (outcome === undefined ? 0 : decodeBytes(outcome).bytes) + (withChunks ? decodeBytes(chunkSize.get(seq)).bytes : 0)
    },
    inserted: (seq, job) => {
      if (isActive()) add(seq, job.endpoint, job.owner, isQueued(job), inputBytes(job) + outcomeBytes(job))
    },
    changed: ({ head: before, seq }, after, bytes) => {
      add(seq, after.endpoint, after.owner, isQueued(after) - isQueued(before), bytes)
    },
    removing: ({ head, seq }) => {
      if (isActive()) add(seq, head.endpoint, head.owner, -isQueued(head), -decodeBytes(jobBytes.get(seq)).bytes)
    },
    logged: (seq, endpoint, owner, bytes) => {
      if (isActive()) add(seq, endpoint, owner, 0, bytes)
    },
    takeCorrections: () => corrections.splice(0)
  }
}

const opened = new WeakMap<SqliteDatabase["Service"], UsageCounters>()

/** The counters of a database. The stores of one database share them. */
export const make = (db: SqliteDatabase["Service"]): UsageCounters => {
  const known = opened.get(db)
  if (known !== undefined) return known
  const counters = open(db)
  opened.set(db, counters)
  return counters
}
