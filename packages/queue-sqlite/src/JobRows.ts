/**
 * The rows of a job: the statements that find, write and remove them, and their way into the queue's words.
 *
 * Every row is decoded with a schema: a file that somebody else wrote into must not put nonsense into the state machine. That costs
 * 2 µs a job, as much as finding it.
 *
 * `INDEXED BY` is a promise that SQLite keeps or breaks loudly: no statement here ever turns into a scan of the history.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { dueAt } from "@stint/queue/JobMachine"
import { JobHead, JobInput, JobOutcome, type JobRecord, JobReport } from "@stint/queue/JobRecord"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** A job and its place in line, by which its other rows are found. */
export interface Row {
  readonly seq: number
  readonly head: JobHead
}

/** The rows of all jobs. Everything throws when the database fails. */
export interface JobRows {
  readonly find: (id: JobId) => Row | undefined
  readonly report: (id: JobId) => JobReport | undefined
  readonly payload: (seq: number) => JobInput & JobOutcome
  /** Waiting jobs of an endpoint, in order of submission. */
  readonly ready: (endpoint: EndpointId, limit: number) => ReadonlyArray<Row>
  readonly running: (filter: { readonly endpoint: EndpointId; readonly worker: string } | "all") => ReadonlyArray<Row>
  readonly isHolding: (endpoint: EndpointId, worker: string) => boolean
  /** Jobs whose timer has fired, those due longest first. */
  readonly due: (now: number, limit: number) => ReadonlyArray<Row>
  readonly isDue: (now: number) => boolean
  readonly oldestQueuedAt: (endpoint: EndpointId) => number | null
  /** The highest place in line that was given out; 0 when there is none. */
  readonly lastSeq: () => number
  /** False, and nothing is written, when there is a job of that id. */
  readonly insert: (seq: number, job: JobRecord) => boolean
  /** Writes what a transition changed. */
  readonly save: (row: Row, after: JobHead, outcome: Partial<JobOutcome>, discardChunks: boolean) => void
  readonly remove: (row: Row) => void
  readonly addChunk: (seq: number, job: JobHead, body: JsonText) => void
  /** The chunks of the job's attempt from number `from` (the first is 1) on, in order, until the caller has had enough. */
  readonly chunks: (row: Row, from: number) => Iterable<JsonText>
  readonly setDrained: (seq: number, drained: number) => void
}

const HEAD = `jobs.seq, id, endpoint, status, low_priority AS lowPriority, created_at AS createdAt, queued_at AS queuedAt,
  expires_at AS expiresAt, execution_timeout_ms AS executionTimeoutMs, lease_ms AS leaseMs, max_attempts AS maxAttempts,
  retention_ms AS retentionMs, attempt, retries, worker, started_at AS startedAt, lease_expires_at AS leaseExpiresAt,
  finished_at AS finishedAt, chunks, drained`

/** Decodes rows. Names the job whose row it cannot understand, and shows nothing else of it: payloads are nobody's business. */
const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownSync(schema)
  return (row: unknown): S["Type"] => {
    try {
      return decode(row)
    } catch (cause) {
      const job = Predicate.hasProperty(row, "id") ? `job ${String(row.id)}` : "a job"
      throw new Error(`a row of ${job} makes no sense: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    }
  }
}

const decodeHead = decoder(Schema.Struct({ ...JobHead.fields, lowPriority: Schema.BooleanFromBit, seq: Schema.Int }))
const decodeReport = decoder(Schema.Struct({ ...JobReport.fields, lowPriority: Schema.BooleanFromBit }))
const decodePayload = decoder(Schema.Struct({ ...JobInput.fields, ...JobOutcome.fields }))
const decodeChunk = decoder(Schema.Struct({ body: JsonText }))
const decodeTime = decoder(Schema.Struct({ time: Schema.NullOr(Schema.Int) }))

const toRow = (row: unknown): Row => {
  const { seq, ...head } = decodeHead(row)
  return { seq, head }
}

/** Prepares the statements. */
export const make = (db: SqliteDatabase["Service"]): JobRows => {
  const find = db.statement(`SELECT ${HEAD} FROM jobs WHERE id = ?`)
  const report = db.statement(`SELECT ${HEAD}, progress, output, error FROM jobs LEFT JOIN outcomes USING (seq) WHERE id = ?`)
  const payload = db.statement(
    `SELECT input, s3_config AS s3Config, traceparent, tracestate, progress, output, error FROM inputs LEFT JOIN outcomes USING (seq) WHERE inputs.seq = ?`
  )
  const ready = db.statement(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_ready WHERE endpoint = ? AND status = 'IN_QUEUE' ORDER BY seq LIMIT ?`
  )
  const running = db.statement(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_running WHERE endpoint = ? AND worker = ? AND status = 'IN_PROGRESS' ORDER BY seq`
  )
  const allRunning = db.statement(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_running WHERE status = 'IN_PROGRESS' ORDER BY seq`
  )
  const isHolding = db.statement(
    `SELECT 1 FROM jobs INDEXED BY jobs_running WHERE endpoint = ? AND worker = ? AND status = 'IN_PROGRESS' LIMIT 1`
  )
  const due = db.statement(`SELECT ${HEAD} FROM jobs INDEXED BY jobs_due WHERE due_at <= ? ORDER BY due_at, seq LIMIT ?`)
  const isDue = db.statement(`SELECT 1 FROM jobs INDEXED BY jobs_due WHERE due_at <= ? LIMIT 1`)
  const oldest = db.statement(
    `SELECT min(queued_at) AS time FROM jobs INDEXED BY jobs_oldest
     WHERE endpoint = ? AND status = 'IN_QUEUE' AND low_priority = 0`
  )
  const lastSeq = db.statement(`SELECT max(seq) AS time FROM jobs`)

  const insertJob = db.statement(
    `INSERT INTO jobs (seq, id, endpoint, status, low_priority, created_at, queued_at, expires_at, execution_timeout_ms, lease_ms,
       max_attempts, retention_ms, attempt, retries, worker, started_at, lease_expires_at, finished_at, chunks, drained, due_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
  )
  const insertInput = db.statement(`INSERT INTO inputs (seq, input, s3_config, traceparent, tracestate) VALUES (?, ?, ?, ?, ?)`)
  // A heartbeat or a chunk: leaves the indexes of ready and running jobs alone.
  const touch = db.statement(`UPDATE jobs SET lease_expires_at = ?, chunks = ?, due_at = ? WHERE seq = ?`)
  const move = db.statement(
    `UPDATE jobs SET status = ?, created_at = ?, queued_at = ?, expires_at = ?, attempt = ?, retries = ?, worker = ?, started_at = ?,
       lease_expires_at = ?, finished_at = ?, chunks = ?, drained = ?, due_at = ? WHERE seq = ?`
  )
  const putOutcome = db.statement(`INSERT OR REPLACE INTO outcomes (seq, progress, output, error) VALUES (?, ?, ?, ?)`)
  const putProgress = db.statement(
    `INSERT INTO outcomes (seq, progress) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET progress = excluded.progress`
  )
  const removeOutcome = db.statement(`DELETE FROM outcomes WHERE seq = ?`)
  const removeJob = db.statement(`DELETE FROM jobs WHERE seq = ?`)
  const removeInput = db.statement(`DELETE FROM inputs WHERE seq = ?`)
  const addChunk = db.statement(`INSERT INTO chunks (job, attempt, number, body) VALUES (?, ?, ?, ?)`)
  const chunks = db.statement(`SELECT body FROM chunks WHERE job = ? AND attempt = ? AND number >= ? ORDER BY number`)
  const removeChunks = db.statement(`DELETE FROM chunks WHERE job = ?`)
  const setDrained = db.statement(`UPDATE jobs SET drained = ? WHERE seq = ?`)

  const saveOutcome = (seq: number, outcome: Partial<JobOutcome>) => {
    const { error, output, progress } = outcome
    if (error === undefined && output === undefined) {
      if (progress !== undefined && progress !== null) putProgress.run(seq, progress)
      // While nothing has come out there is no row, and progress is all that can have come out of a job that has not ended.
      if (progress === null) removeOutcome.run(seq)
    } else if (error == null && output == null) {
      removeOutcome.run(seq)
    } else {
      putOutcome.run(seq, progress ?? null, output ?? null, error ?? null)
    }
  }

  return {
    find: (id) => {
      const row = find.get(id)
      return row === undefined ? undefined : toRow(row)
    },
    report: (id) => {
      const row = report.get(id)
      return row === undefined ? undefined : decodeReport(row)
    },
    payload: (seq) => decodePayload(payload.get(seq)),
    ready: (endpoint, limit) => ready.all(endpoint, limit).map(toRow),
    running: (filter) => (filter === "all" ? allRunning.all() : running.all(filter.endpoint, filter.worker)).map(toRow),
    isHolding: (endpoint, worker) => isHolding.get(endpoint, worker) !== undefined,
    due: (now, limit) => due.all(now, limit).map(toRow),
    isDue: (now) => isDue.get(now) !== undefined,
    oldestQueuedAt: (endpoint) => decodeTime(oldest.get(endpoint)).time,
    lastSeq: () => decodeTime(lastSeq.get()).time ?? 0,
    insert: (seq, job) => {
      const { changes } = insertJob.run(
        seq,
        job.id,
        job.endpoint,
        job.status,
        job.lowPriority ? 1 : 0,
        job.createdAt,
        job.queuedAt,
        job.expiresAt,
        job.executionTimeoutMs,
        job.leaseMs,
        job.maxAttempts,
        job.retentionMs,
        job.attempt,
        job.retries,
        job.worker,
        job.startedAt,
        job.leaseExpiresAt,
        job.finishedAt,
        job.chunks,
        job.drained,
        dueAt(job)
      )
      if (changes === 0) return false
      insertInput.run(seq, job.input, job.s3Config, job.traceparent, job.tracestate)
      saveOutcome(seq, { progress: job.progress, output: job.output, error: job.error })
      return true
    },
    save: ({ head: before, seq }, after, outcome, discardChunks) => {
      if (before.status === after.status) {
        touch.run(after.leaseExpiresAt, after.chunks, dueAt(after), seq)
      } else {
        move.run(
          after.status,
          after.createdAt,
          after.queuedAt,
          after.expiresAt,
          after.attempt,
          after.retries,
          after.worker,
          after.startedAt,
          after.leaseExpiresAt,
          after.finishedAt,
          after.chunks,
          after.drained,
          dueAt(after),
          seq
        )
      }
      saveOutcome(seq, outcome)
      if (discardChunks && before.chunks > 0) removeChunks.run(seq)
    },
    remove: ({ head, seq }) => {
      removeJob.run(seq)
      removeInput.run(seq)
      removeOutcome.run(seq)
      if (head.chunks > 0) removeChunks.run(seq)
    },
    addChunk: (seq, job, body) => {
      addChunk.run(seq, job.attempt, job.chunks, body)
    },
    chunks: function*({ head, seq }, from) {
      for (const row of chunks.iterate(seq, head.attempt, from)) yield decodeChunk(row).body
    },
    setDrained: (seq, drained) => {
      setDrained.run(drained, seq)
    }
  }
}
