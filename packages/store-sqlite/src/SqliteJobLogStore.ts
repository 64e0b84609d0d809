/**
 * Job logs in SQLite.
 *
 * ```
 *   job_logs     one row per job with lines: its last line number and its stored lines and bytes
 *   log_pieces   pieces of lines as JSON text, dropped in the order in which they were written
 *   log_total    stored bytes of all jobs, maintained by triggers
 * ```
 *
 * A piece is one row, so storing ten lines of a job takes one insert instead of ten. A trigger deletes these rows when their job is
 * removed.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import {
  bytesOf,
  type FoundPiece,
  JobLogStore,
  type LogBatch,
  LogLimits,
  type LogLine,
  type LogPage,
  type LogPiece,
  type LogScan,
  piecesOf,
  READ_BYTES,
  SCAN_PIECES,
  SCAN_WINDOW,
  scanOf
} from "@stint/store/JobLogStore"
import { linesOf, pieceText } from "@stint/store/LogPieceText"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"
import * as UsageCounters from "./UsageCounters.ts"

const decodeJob = Schema.decodeUnknownSync(
  Schema.Struct({ seq: Schema.Int, attempt: Schema.Int, chunks: Schema.Int, owner: Schema.String })
)
const decodeOwner = Schema.decodeUnknownSync(Schema.Struct({ endpoint: Schema.String, owner: Schema.String }))
const decodeLog = Schema.decodeUnknownSync(Schema.Struct({ last: Schema.Int, lines: Schema.Int, bytes: Schema.Int }))
const decodePiece = Schema.decodeUnknownSync(
  Schema.Struct({ seq: Schema.Int, job: Schema.Int, last: Schema.Int, lines: Schema.Int, bytes: Schema.Int })
)
const decodeBody = Schema.decodeUnknownSync(Schema.Struct({ last: Schema.Int, body: Schema.String }))
const decodeFound = Schema.decodeUnknownSync(
  Schema.Struct({ piece: Schema.Int, id: JobId, last: Schema.Int, body: Schema.String })
)
const decodeWindow = Schema.decodeUnknownSync(Schema.Struct({ passed: Schema.Int, first: Schema.NullOr(Schema.Int) }))
const decodeTotal = Schema.decodeUnknownSync(Schema.Struct({ bytes: Schema.Int }))

/**
 * The number of pieces that one query for the oldest pieces returns, and the maximum number of pieces (of all jobs) that are dropped per
 * added piece.
 */
const DROP_LIMIT = 64

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const quotas = yield* LogLimits
  const usage = yield* db.read("open job logs", () => UsageCounters.make(db))
  const statements = yield* db.read("open job logs", () => ({
    job: db.statement(`SELECT seq, attempt, chunks, owner FROM jobs WHERE id = ? AND endpoint = ?`),
    owner: db.statement(`SELECT endpoint, owner FROM jobs WHERE seq = ?`),
    log: db.statement(
      `SELECT coalesce(last, 0) AS last, coalesce(lines, 0) AS lines, coalesce(bytes, 0) AS bytes
       FROM (SELECT ? AS wanted) LEFT JOIN job_logs ON job = wanted`
    ),
    putLog: db.statement(
      `INSERT INTO job_logs (job, last, lines, bytes) VALUES (?, ?, ?, ?)
       ON CONFLICT (job) DO UPDATE SET last = excluded.last, lines = excluded.lines, bytes = excluded.bytes`
    ),
    shrinkLog: db.statement(`UPDATE job_logs SET lines = lines - ?, bytes = bytes - ? WHERE job = ?`),
    addPiece: db.statement(`INSERT INTO log_pieces (job, last, lines, bytes, body) VALUES (?, ?, ?, ?, ?)`),
    removePiece: db.statement(`DELETE FROM log_pieces WHERE seq = ?`),
    pieces: db.statement(
      `SELECT seq, job, last, lines, bytes FROM log_pieces INDEXED BY log_pieces_of WHERE job = ? ORDER BY last LIMIT ? + 0`
    ),
    oldest: db.statement(`SELECT seq, job, last, lines, bytes FROM log_pieces ORDER BY seq LIMIT ? + 0`),
    bodies: db.statement(
      `SELECT last, body FROM log_pieces INDEXED BY log_pieces_of WHERE job = ? AND last > ? ORDER BY last`
    ),
    found: db.statement(
      `SELECT p.seq AS piece, j.id AS id, p.last AS last, p.body AS body
       FROM log_pieces p CROSS JOIN jobs j ON j.seq = p.job
       WHERE p.seq >= ? AND p.seq < ? AND j.endpoint = ? ORDER BY p.seq DESC LIMIT ${SCAN_PIECES}`
    ),
    window: db.statement(
      `SELECT count(*) AS passed, min(seq) AS first
       FROM (SELECT seq FROM log_pieces WHERE seq < ? ORDER BY seq DESC LIMIT ${SCAN_WINDOW})`
    ),
    total: db.statement(`SELECT bytes FROM log_total`)
  }))

  /** Within a transaction: drops the oldest pieces of a job until it is within its quota. */
  const makeRoom = (job: number, kept: { lines: number; bytes: number }) => {
    const isFull = () => kept.lines > quotas.lines || kept.bytes > quotas.bytes
    while (isFull()) {
      const pieces = statements.pieces.all(job, DROP_LIMIT)
      if (pieces.length === 0) return
      for (const row of pieces) {
        if (!isFull()) return
        const piece = decodePiece(row)
        statements.removePiece.run(piece.seq)
        kept.lines -= piece.lines
        kept.bytes -= piece.bytes
      }
    }
  }

  /** Within a transaction: drops the oldest pieces of all jobs until the total is within its quota. */
  const makeRoomForAll = () => {
    let total = decodeTotal(statements.total.get()).bytes
    if (total <= quotas.totalBytes) return
    for (const row of statements.oldest.all(DROP_LIMIT)) {
      if (total <= quotas.totalBytes) return
      const piece = decodePiece(row)
      statements.removePiece.run(piece.seq)
      statements.shrinkLog.run(piece.lines, piece.bytes, piece.job)
      const owner = usage.isActive() ? statements.owner.get(piece.job) : undefined
      if (owner !== undefined) {
        const { endpoint, owner: key } = decodeOwner(owner)
        usage.logged(piece.job, endpoint, key, -piece.bytes)
      }
      total -= piece.bytes
    }
  }

  /** Within a transaction. */
  const append = ({ endpoint, job: id, lines, missed }: LogBatch) => {
    const row = statements.job.get(id, endpoint)
    if (row === undefined) return
    const job = decodeJob(row)
    const log = decodeLog(statements.log.get(job.seq))
    const kept = { lines: log.lines, bytes: log.bytes }
    let last = log.last + missed
    const add = ({ bytes, lines }: LogPiece) => {
      kept.lines += lines.length
      kept.bytes += bytes
      makeRoom(job.seq, kept)
      last += lines.length
      const text = pieceText(lines, (attempt) => attempt === job.attempt ? job.chunks : 0)
      statements.addPiece.run(job.seq, last, lines.length, bytes, text)
    }
    for (const piece of piecesOf(lines, quotas)) add(piece)
    statements.putLog.run(job.seq, last, kept.lines, kept.bytes)
    usage.logged(job.seq, endpoint, job.owner, kept.bytes - log.bytes)
    makeRoomForAll()
  }

  const read = (endpoint: EndpointId, id: JobId, after: number, limit: number): LogPage => {
    const row = statements.job.get(id, endpoint)
    const log = row === undefined ? undefined : decodeLog(statements.log.get(decodeJob(row).seq))
    if (row === undefined || log === undefined || log.last <= after) return { lines: [], more: false, last: log?.last ?? 0 }
    const lines: Array<LogLine> = []
    let bytes = 0
    for (const found of statements.bodies.iterate(decodeJob(row).seq, after)) {
      const piece = decodeBody(found)
      for (const line of linesOf(piece.body, piece.last)) {
        if (line.number <= after) continue
        if (lines.length === limit || bytes >= READ_BYTES) return { lines, more: true, last: log.last }
        lines.push(line)
        bytes += bytesOf(line)
      }
    }
    return { lines, more: false, last: log.last }
  }

  const scan = (endpoint: EndpointId, before = Number.MAX_SAFE_INTEGER): LogScan => {
    const { first, passed } = decodeWindow(statements.window.get(before))
    if (first === null) return { pieces: [], next: null }
    const pieces = statements.found.all(first, before, endpoint).map((row): FoundPiece => {
      const { body, id, last, piece } = decodeFound(row)
      return { piece, job: id, lines: linesOf(body, last) }
    })
    return scanOf(pieces, passed, first)
  }

  return JobLogStore.of({
    append: (batches) => db.writeNew("append log lines", () => batches.forEach(append)),
    read: (endpoint, job, after, limit) => db.read("read log lines", () => read(endpoint, job, after, limit)),
    scan: (endpoint, before) => db.read("search log lines", () => scan(endpoint, before))
  })
})

/** The job logs of a database file. */
export const layer: Layer.Layer<JobLogStore, StoreError, SqliteDatabase> = Layer.effect(JobLogStore, make)
