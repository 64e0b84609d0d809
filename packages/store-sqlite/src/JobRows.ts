/**
 * The rows of jobs: their statements. See {@link toRow} for their columns.
 *
 * `INDEXED BY` makes SQLite fail instead of scanning all jobs when an index is missing.
 *
 * Hot path: for a heartbeat or a chunk, only `lease_expires_at`, `chunks` and `due_at` are updated instead of all state columns, so the
 * indexes of ready and running jobs stay unchanged.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import type { BusyWorker } from "@stint/store/ClaimRule"
import { dueAt, isParked } from "@stint/store/JobMachine"
import type { JobHead, JobInput, JobOutcome, JobRecord, JobReport, JobSummary } from "@stint/store/JobRecord"
import type { JobTraceContext, SubmissionKey } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import { NO_OWNER } from "@stint/store/Owner"
import {
  decodeBusyWorker,
  decodeChunk,
  decodeCursor,
  decodeFingerprint,
  decodePayload,
  decodeSeq,
  decodeTagged,
  decodeTime,
  decodeTrace,
  HEAD,
  OUTCOME,
  type Row,
  toReport,
  toRow,
  toSummary,
  valuesOf
} from "./JobColumns.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The rows found, and the number of unreadable rows that were postponed. */
export interface FoundRows {
  readonly rows: ReadonlyArray<Row>
  readonly unreadable: number
}

/** A time range with inclusive bounds, and the position of the previous page's last job in it. */
export interface TimeRange {
  readonly from: number
  readonly to: number
  readonly after: ListCursor
}

/** A listed job, and its row for {@link toSummary}. */
export interface ListedRow extends ListCursor {
  readonly row: unknown
}

/** A tagged job, for {@link JobRows.summary}. */
export interface TaggedRow extends ListCursor {
  readonly seq: number
}

/** Number of running jobs whose heads are cached: at most about 10 MB. */
const MAX_CACHED = 10_000

/** Unreadable rows are postponed by this time. */
const QUARANTINE_MILLIS = 3_600_000

/** The rows of all jobs. All methods throw when the database fails. */
export interface JobRows {
  readonly find: (endpoint: EndpointId, id: JobId) => Row | undefined
  readonly report: (endpoint: EndpointId, id: JobId) => JobReport | undefined
  readonly payload: (seq: number) => JobInput & JobOutcome
  readonly traceOf: (endpoint: EndpointId, id: JobId) => JobTraceContext | undefined
  /** The job with an idempotency key: the owner's job, or else the job without an owner. */
  readonly ofKey: (endpoint: EndpointId, key: SubmissionKey) => { readonly row: Row; readonly fingerprint: string } | undefined
  /** Whether the endpoint was removed. */
  readonly isEndpointRemoved: (endpoint: EndpointId) => boolean
  /** Ready jobs of an endpoint, in claim order. Postpones unreadable rows. */
  readonly ready: (endpoint: EndpointId, limit: number, now: number) => FoundRows
  /** Like `ready`, but without isolated jobs. */
  readonly readyShared: (endpoint: EndpointId, limit: number, now: number) => FoundRows
  /** The workers that run jobs of an endpoint. */
  readonly busyWorkers: (endpoint: EndpointId) => ReadonlyArray<BusyWorker>
  /** Held jobs of a concurrency key, in the order in which they are released. Postpones unreadable rows. */
  readonly held: (endpoint: EndpointId, key: string, limit: number, now: number) => FoundRows
  /** Number of ready jobs ahead of a ready job, counted up to `limit`. */
  readonly ahead: (row: Row, limit: number) => number
  /** IN_QUEUE jobs of an endpoint, in order of submission. */
  readonly queued: (endpoint: EndpointId, limit: number) => ReadonlyArray<Row>
  /** Jobs with one status in a time range, newest first. */
  readonly listed: (endpoint: EndpointId, status: string, range: TimeRange, limit: number) => ReadonlyArray<ListedRow>
  /** Jobs with a tag in a time range, newest first. */
  readonly tagged: (endpoint: EndpointId, tag: string, range: TimeRange, limit: number) => ReadonlyArray<TaggedRow>
  readonly summary: (seq: number) => JobSummary | undefined
  readonly running: (filter: { readonly endpoint: EndpointId; readonly worker: string } | "timed") => ReadonlyArray<Row>
  /** IN_QUEUE jobs of a batch, in order of submission. */
  readonly waitingOf: (batch: BatchId, limit: number) => ReadonlyArray<Row>
  /** Jobs that belong to a batch. */
  readonly ofBatch: (batch: BatchId, limit: number) => ReadonlyArray<Row>
  readonly isHolding: (endpoint: EndpointId, worker: string) => boolean
  /** Due jobs, ordered by due time. Postpones unreadable rows. */
  readonly due: (now: number, limit: number) => FoundRows
  readonly isDue: (now: number) => boolean
  readonly oldestQueuedAt: (endpoint: EndpointId) => number | null
  /** The highest row number; 0 when there are no rows. */
  readonly lastSeq: () => number
  /** The errors of unreadable rows since the last call. Each row is reported once. */
  readonly takeRowErrors: () => ReadonlyArray<string>
  /** Returns false and writes nothing when the id already exists. */
  readonly insert: (seq: number, job: JobRecord, key: SubmissionKey | undefined) => boolean
  /** Writes the changes of a transition. */
  readonly save: (row: Row, after: JobHead, outcome: Partial<JobOutcome>, discardChunks: boolean) => void
  /** Writes the error group of a job that has failed. */
  readonly setErrorGroup: (seq: number, fingerprint: string) => void
  readonly remove: (row: Row) => void
  readonly addChunk: (seq: number, attempt: number, number: number, body: JsonText) => void
  /** The chunks of an attempt from number `from` (the first is 1), in order, read lazily. */
  readonly chunks: (seq: number, attempt: number, from: number) => Iterable<JsonText>
  /** Ends the retention of an ended job. */
  readonly release: (id: JobId) => void
  readonly setDrained: (row: Row, drained: number) => void
}

const jsonOrNull = (value: unknown): string | null => value === null ? null : JSON.stringify(value)

/** Prepares all statements. */
export const make = (db: SqliteDatabase["Service"]): JobRows => {
  /** A statement whose rows are arrays that begin with `HEAD`, for {@link toRow}. */
  const heads = (sql: string) => {
    const statement = db.statement(sql)
    statement.setReturnArrays(true)
    return statement
  }

  const find = heads(`SELECT ${HEAD} FROM jobs WHERE id = ?`)
  const report = heads(`SELECT ${HEAD}, ${OUTCOME} FROM jobs LEFT JOIN outcomes USING (seq) WHERE id = ?`)
  const payload = db.statement(
    `SELECT input, s3_config AS s3Config, traceparent, tracestate, ${OUTCOME} FROM inputs LEFT JOIN outcomes USING (seq) WHERE inputs.seq = ?`
  )
  const traceOf = db.statement(
    `SELECT traceparent, tracestate, error, last_error AS lastError FROM jobs JOIN inputs USING (seq) LEFT JOIN outcomes USING (seq)
     WHERE id = ? AND endpoint = ?`
  )
  const ofKey = heads(
    `SELECT ${HEAD}, fingerprint FROM jobs INDEXED BY jobs_keys WHERE endpoint = ? AND idempotency_key = ? AND owner IN (?, '${NO_OWNER}')
     ORDER BY owner DESC LIMIT 1`
  )
  const isEndpointRemoved = db.statement(`SELECT 1 FROM removed_endpoints WHERE id = ?`)
  const ready = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_ready WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL
     ORDER BY priority DESC, turn, seq LIMIT ? + 0`
  )
  const readyShared = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_ready WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL AND isolated = 0
     ORDER BY priority DESC, turn, seq LIMIT ? + 0`
  )
  const held = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_held WHERE endpoint = ? AND concurrency_key = ? AND turn IS NULL AND not_before IS NULL
     ORDER BY priority DESC, seq LIMIT ? + 0`
  )
  const busyWorkers = db.statement(
    `SELECT worker, count(*) AS jobs, max(isolated) AS isolated FROM jobs INDEXED BY jobs_running
     WHERE endpoint = ? AND status = 'IN_PROGRESS' AND worker IS NOT NULL GROUP BY worker`
  )
  const above = db.statement(
    `SELECT count(*) AS time FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready
     WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL AND priority > ? LIMIT ? + 0)`
  )
  const turnOf = db.statement(`SELECT turn AS time FROM jobs WHERE seq = ?`)
  const before = db.statement(
    `SELECT count(*) AS time FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready
     WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND priority = ? AND turn = ? AND seq < ? LIMIT ? + 0)`
  )
  const earlier = db.statement(
    `SELECT count(*) AS time FROM (SELECT 1 FROM jobs INDEXED BY jobs_ready
     WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND priority = ? AND turn < ? LIMIT ? + 0)`
  )
  const queued = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_listed WHERE endpoint = ? AND status = 'IN_QUEUE' ORDER BY created_at, seq LIMIT ? + 0`
  )
  const listed = db.statement(
    `SELECT ${HEAD}, substr(error, 1, 500) AS error, error_group AS errorGroup FROM jobs INDEXED BY jobs_listed LEFT JOIN outcomes USING (seq)
     WHERE endpoint = ? AND status = ? AND created_at BETWEEN ? AND ? AND (created_at < ? OR id < ?)
     ORDER BY created_at DESC, id DESC LIMIT ? + 0`
  )
  const tagged = db.statement(
    `SELECT tags.created_at AS createdAt, id, seq FROM tags CROSS JOIN jobs USING (seq)
     WHERE tags.endpoint = ? AND tag = ? AND tags.created_at BETWEEN ? AND ? AND (tags.created_at < ? OR id < ?)
     ORDER BY tags.created_at DESC, id DESC LIMIT ? + 0`
  )
  const summary = db.statement(
    `SELECT ${HEAD}, substr(error, 1, 500) AS error, error_group AS errorGroup FROM jobs LEFT JOIN outcomes USING (seq) WHERE jobs.seq = ?`
  )
  const quarantine = db.statement(
    `UPDATE jobs SET due_at = ?, not_before = CASE status WHEN 'IN_QUEUE' THEN ? ELSE not_before END WHERE seq = ?`
  )
  const running = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_running WHERE endpoint = ? AND worker = ? AND status = 'IN_PROGRESS' ORDER BY seq`
  )
  const waitingOf = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_of_batch WHERE batch = ? AND status = 'IN_QUEUE' ORDER BY seq LIMIT ? + 0`
  )
  const ofBatch = heads(`SELECT ${HEAD} FROM jobs INDEXED BY jobs_of_batch WHERE batch = ? LIMIT ? + 0`)
  const allRunning = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_running WHERE status = 'IN_PROGRESS' AND worker IS NOT NULL ORDER BY seq`
  )
  const delayed = heads(
    `SELECT ${HEAD} FROM jobs INDEXED BY jobs_delayed WHERE not_before IS NOT NULL AND status = 'IN_QUEUE' ORDER BY seq`
  )
  const isHolding = db.statement(
    `SELECT 1 FROM jobs INDEXED BY jobs_running WHERE endpoint = ? AND worker = ? AND status = 'IN_PROGRESS' LIMIT 1`
  )
  const due = heads(`SELECT ${HEAD} FROM jobs INDEXED BY jobs_due WHERE due_at <= ? ORDER BY due_at, seq LIMIT ? + 0`)
  const isDue = db.statement(`SELECT 1 FROM jobs INDEXED BY jobs_due WHERE due_at <= ? LIMIT 1`)
  const oldest = db.statement(
    `SELECT min(queued_at) AS time FROM jobs INDEXED BY jobs_oldest
     WHERE endpoint = ? AND status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL AND low_priority = 0`
  )
  const lastSeq = db.statement(`SELECT max(seq) AS time FROM jobs`)

  const insert = db.statement(
    `INSERT INTO jobs (seq, id, endpoint, status, low_priority, created_at, queued_at, expires_at, execution_timeout_ms, lease_ms,
       max_attempts, retention_ms, attempt, retries, worker, started_at, lease_expires_at, finished_at, chunks, drained, due_at,
       priority, ttl_ms, not_before, retry, webhook, tags, batch, idempotency_key, fingerprint, owner, isolated, release)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
  )
  const insertInput = db.statement(`INSERT INTO inputs (seq, input, s3_config, traceparent, tracestate) VALUES (?, ?, ?, ?, ?)`)
  // Used for a heartbeat or a chunk. Does not change the indexes of ready and running jobs.
  const touch = db.statement(`UPDATE jobs SET lease_expires_at = ?, chunks = ?, due_at = ? WHERE seq = ?`)
  const move = db.statement(
    `UPDATE jobs SET status = ?, queued_at = ?, not_before = ?, expires_at = ?, attempt = ?, retries = ?, worker = ?, started_at = ?,
       lease_expires_at = ?, finished_at = ?, chunks = ?, drained = ?, due_at = ?, isolated = ?, release = ? WHERE seq = ?`
  )
  const leave = db.statement(`UPDATE jobs SET batch = ?, due_at = ? WHERE seq = ?`)
  const putOutcome = db.statement(
    `INSERT OR REPLACE INTO outcomes (seq, progress, output, error, last_error) VALUES (?, ?, ?, ?, ?)`
  )
  const putProgress = db.statement(
    `INSERT INTO outcomes (seq, progress) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET progress = excluded.progress`
  )
  const clearProgress = db.statement(`UPDATE outcomes SET progress = NULL WHERE seq = ?`)
  const removeOutcome = db.statement(`DELETE FROM outcomes WHERE seq = ?`)
  // Every other write of an outcome replaces the row, and so removes the group.
  const setErrorGroup = db.statement(`UPDATE outcomes SET error_group = ? WHERE seq = ?`)
  const addTag = db.statement(`INSERT INTO tags (endpoint, tag, created_at, seq) VALUES (?, ?, ?, ?)`)
  const removeTag = db.statement(`DELETE FROM tags WHERE endpoint = ? AND tag = ? AND created_at = ? AND seq = ?`)
  const removeJob = db.statement(`DELETE FROM jobs WHERE seq = ?`)
  const removeInput = db.statement(`DELETE FROM inputs WHERE seq = ?`)
  const addChunk = db.statement(`INSERT INTO chunks (job, attempt, number, body) VALUES (?, ?, ?, ?)`)
  const chunks = db.statement(`SELECT body FROM chunks WHERE job = ? AND attempt = ? AND number >= ? ORDER BY number`)
  const removeChunks = db.statement(`DELETE FROM chunks WHERE job = ?`)
  const setDrained = db.statement(`UPDATE jobs SET drained = ? WHERE seq = ?`)
  const release = db.statement(`UPDATE jobs SET retention_ms = 0, due_at = finished_at WHERE id = ? AND finished_at IS NOT NULL`)

  /** A job without an outcome has no row in `outcomes`. */
  const saveOutcome = (seq: number, outcome: Partial<JobOutcome>) => {
    const { error, lastError, output, progress } = outcome
    if (error === undefined && output === undefined) {
      // The job has not ended, so only `progress` and `lastError` can be set.
      if (lastError !== undefined && lastError !== null) putOutcome.run(seq, progress ?? null, null, null, lastError)
      else if (progress === null) clearProgress.run(seq)
      else if (progress !== undefined) putProgress.run(seq, progress)
    } else if (error == null && output == null) {
      removeOutcome.run(seq)
    } else {
      putOutcome.run(seq, progress ?? null, output ?? null, error ?? null, lastError ?? null)
    }
  }

  /**
   * The running jobs, as of the current transaction. Their workers write to them all the time, and reading and decoding a row takes longer
   * than updating it. No other process can change the rows, because the file is locked.
   */
  const runningJobs = new Map<JobId, Row>()
  db.join({ beforeCommit: () => {}, committed: () => {}, rolledBack: () => runningJobs.clear() })

  const cache = (row: Row) => {
    const { id, status } = row.head
    if (status !== "IN_PROGRESS" || isParked(row.head)) runningJobs.delete(id)
    else if (runningJobs.size < MAX_CACHED || runningJobs.has(id)) runningJobs.set(id, row)
  }

  const read = (id: JobId): Row | undefined => {
    const found = find.get(id)
    return found === undefined ? undefined : toRow(found)
  }

  /** Row numbers of unreadable jobs that have been reported. */
  const reported = new Set<number>()
  let rowErrors: Array<string> = []

  /** Decodes rows. Calls `quarantined` for each unreadable row. */
  const readable = (found: ReadonlyArray<unknown>, quarantined: (seq: number) => void = () => {}): FoundRows => {
    const rows: Array<Row> = []
    for (const row of found) {
      try {
        rows.push(toRow(row))
      } catch (cause) {
        const seq = decodeSeq(valuesOf(row)[0])
        quarantined(seq)
        if (!reported.has(seq)) rowErrors.push(cause instanceof Error ? cause.message : String(cause))
        reported.add(seq)
      }
    }
    return { rows, unreadable: found.length - rows.length }
  }

  const quarantineUntil = (now: number) => (seq: number) => {
    quarantine.run(now + QUARANTINE_MILLIS, now + QUARANTINE_MILLIS, seq)
  }

  return {
    find: (endpoint, id) => {
      const row = runningJobs.get(id) ?? read(id)
      return row?.head.endpoint === endpoint ? row : undefined
    },
    report: (endpoint, id) => {
      const found = report.get(id)
      const job = found === undefined ? undefined : toReport(found)
      return job?.endpoint === endpoint ? job : undefined
    },
    payload: (seq) => decodePayload(payload.get(seq)),
    traceOf: (endpoint, id) => {
      const row = traceOf.get(id, endpoint)
      return row === undefined ? undefined : decodeTrace(row)
    },
    ofKey: (endpoint, { key, owner }) => {
      const row = ofKey.get(endpoint, key, owner)
      return row === undefined ? undefined : { row: toRow(row), fingerprint: decodeFingerprint(valuesOf(row).at(-1)) }
    },
    isEndpointRemoved: (endpoint) => isEndpointRemoved.get(endpoint) !== undefined,
    ready: (endpoint, limit, now) => readable(ready.all(endpoint, limit), quarantineUntil(now)),
    readyShared: (endpoint, limit, now) => readable(readyShared.all(endpoint, limit), quarantineUntil(now)),
    held: (endpoint, key, limit, now) => readable(held.all(endpoint, key, limit), quarantineUntil(now)),
    busyWorkers: (endpoint) => busyWorkers.all(endpoint).map(decodeBusyWorker),
    ahead: ({ head, seq }, limit) => {
      const higher = decodeTime(above.get(head.endpoint, head.priority, limit)).time ?? 0
      if (higher === limit) return limit
      const turn = decodeTime(turnOf.get(seq)).time ?? 0
      const same = higher + (decodeTime(before.get(head.endpoint, head.priority, turn, seq, limit - higher)).time ?? 0)
      if (turn === 0 || same === limit) return same
      return same + (decodeTime(earlier.get(head.endpoint, head.priority, turn, limit - same)).time ?? 0)
    },
    queued: (endpoint, limit) => readable(queued.all(endpoint, limit)).rows,
    listed: (endpoint, status, { after, from, to }, limit) =>
      listed.all(endpoint, status, from, to, after.createdAt, after.id, limit).map((row) => ({ ...decodeCursor(row), row })),
    tagged: (endpoint, tag, { after, from, to }, limit) =>
      tagged.all(endpoint, tag, from, to, after.createdAt, after.id, limit).map(decodeTagged),
    summary: (seq) => {
      const row = summary.get(seq)
      return row === undefined ? undefined : toSummary(row)
    },
    running: (filter) =>
      filter === "timed"
        ? [...readable(allRunning.all()).rows, ...readable(delayed.all()).rows].sort((a, b) => a.seq - b.seq)
        : readable(running.all(filter.endpoint, filter.worker)).rows,
    waitingOf: (batch, limit) => readable(waitingOf.all(batch, limit)).rows,
    ofBatch: (batch, limit) => readable(ofBatch.all(batch, limit)).rows,
    isHolding: (endpoint, worker) => isHolding.get(endpoint, worker) !== undefined,
    due: (now, limit) => readable(due.all(now, limit), quarantineUntil(now)),
    takeRowErrors: () => {
      const taken = rowErrors
      rowErrors = []
      return taken
    },
    isDue: (now) => isDue.get(now) !== undefined,
    oldestQueuedAt: (endpoint) => decodeTime(oldest.get(endpoint)).time,
    lastSeq: () => decodeTime(lastSeq.get()).time ?? 0,
    insert: (seq, job, key) => {
      const { changes } = insert.run(
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
        dueAt(job),
        job.priority,
        job.ttlMs,
        job.notBefore,
        jsonOrNull(job.retry),
        jsonOrNull(job.webhook),
        job.tags.length === 0 ? null : JSON.stringify(job.tags),
        job.batchId,
        key?.key ?? null,
        key?.fingerprint ?? null,
        key?.owner ?? job.owner,
        job.isolated ? 1 : 0,
        job.release
      )
      if (changes === 0) return false
      insertInput.run(seq, job.input, job.s3Config, job.traceparent, job.tracestate)
      for (const tag of job.tags) addTag.run(job.endpoint, tag, job.createdAt, seq)
      if (job.error !== null || job.output !== null || job.progress !== null || job.lastError !== null) {
        putOutcome.run(seq, job.progress, job.output, job.error, job.lastError)
      }
      return true
    },
    save: ({ head: before, seq }, after, outcome, discardChunks) => {
      if (before.batchId !== after.batchId) {
        leave.run(after.batchId, dueAt(after), seq)
      } else if (
        before.status === after.status && before.notBefore === after.notBefore && before.expiresAt === after.expiresAt &&
        before.worker === after.worker && before.retries === after.retries && before.isolated === after.isolated
      ) {
        touch.run(after.leaseExpiresAt, after.chunks, dueAt(after), seq)
      } else {
        move.run(
          after.status,
          after.queuedAt,
          after.notBefore,
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
          after.isolated ? 1 : 0,
          after.release,
          seq
        )
      }
      cache({ seq, head: after })
      saveOutcome(seq, outcome)
      if (discardChunks && before.chunks > 0) removeChunks.run(seq)
    },
    remove: ({ head, seq }) => {
      removeJob.run(seq)
      runningJobs.delete(head.id)
      removeInput.run(seq)
      removeOutcome.run(seq)
      for (const tag of head.tags) removeTag.run(head.endpoint, tag, head.createdAt, seq)
      if (head.chunks > 0) removeChunks.run(seq)
    },
    addChunk: (seq, attempt, number, body) => {
      addChunk.run(seq, attempt, number, body)
    },
    chunks: function*(seq, attempt, from) {
      for (const row of chunks.iterate(seq, attempt, from)) yield decodeChunk(row).body
    },
    release: (id) => {
      release.run(id)
    },
    setErrorGroup: (seq, fingerprint) => {
      setErrorGroup.run(fingerprint, seq)
    },
    setDrained: ({ head, seq }, drained) => {
      setDrained.run(drained, seq)
      cache({ seq, head: { ...head, drained } })
    }
  }
}
