/**
 * Job logs in PostgreSQL.
 *
 * ```
 *   job_logs     one row per job with lines: its last line number and its stored lines and bytes
 *   log_pieces   pieces of lines as JSON text, dropped in the order in which they were written
 *   tallies      stored bytes of all jobs, one row per node
 * ```
 *
 * A piece is one row, so storing ten lines of a job takes one insert instead of ten.
 *
 * The lines of a job may arrive at several nodes. A transaction locks the jobs to which it adds lines by id. Then it drops lines of other jobs, and
 * waits for none of them, so that nodes do not deadlock.
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
  type LogScan,
  piecesOf,
  READ_BYTES,
  SCAN_PIECES,
  SCAN_WINDOW,
  scanOf
} from "@stint/store/JobLogStore"
import { linesOf, pieceText } from "@stint/store/LogPieceText"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { fromAllStateTables } from "./JobColumns.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import * as TallyRows from "./TallyRows.ts"
import type { Transaction } from "./Transaction.ts"

const decodeJob = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int, Schema.String]))
const decodeLog = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int, Schema.Int]))
const decodePiece = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.String, Schema.Int, Schema.Int]))
const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.String]))
const decodeFound = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, JobId, Schema.Int, Schema.String]))
const decodeWindow = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.NullOr(Schema.Int)]))
const decodeOwner = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Schema.String, Schema.String]))

/** The maximum number of pieces (of all jobs) that are dropped per added piece. */
const DROP_LIMIT = 64

/** The number of pieces that one read returns. A piece has up to 256 lines or 32 KiB. */
const READ_PIECES = 16

const PIECE = "p.seq, p.job, p.lines, p.bytes"

/** The oldest pieces, unless another transaction changes the lines of their jobs. */
const OLDEST = `SELECT ${PIECE} FROM stint.log_pieces p JOIN stint.job_logs l ON l.job = p.job
  ORDER BY p.seq LIMIT $1 FOR UPDATE SKIP LOCKED`

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  const quotas = yield* LogLimits

  /** Drops the oldest pieces of a job until it is within its quota. */
  const makeRoom = async (query: Query, job: string, kept: { lines: number; bytes: number }) => {
    const isFull = () => kept.lines > quotas.lines || kept.bytes > quotas.bytes
    while (isFull()) {
      const pieces = await query(`SELECT ${PIECE} FROM stint.log_pieces p WHERE p.job = $1 ORDER BY p.last LIMIT $2`, [
        job,
        DROP_LIMIT
      ])
      if (pieces.length === 0) return
      const dropped: Array<number> = []
      for (const row of pieces) {
        if (!isFull()) break
        const [seq, , lines, bytes] = decodePiece(row)
        dropped.push(seq)
        kept.lines -= lines
        kept.bytes -= bytes
      }
      await query(`DELETE FROM stint.log_pieces WHERE seq = ANY($1::bigint[])`, [dropped])
    }
  }

  /** Drops the oldest pieces of all jobs until the total is within its quota. */
  const makeRoomForAll = async ({ work: { query, tallies } }: Transaction, added: number) => {
    let total = (await TallyRows.read(query, "logs", "")).bytes + tallies.of("logs", "").bytes
    for (let round = 0; round < added && total > quotas.totalBytes; round++) {
      const pieces = await query(OLDEST, [DROP_LIMIT])
      if (pieces.length === 0) return
      for (const row of pieces) {
        if (total <= quotas.totalBytes) return
        const [seq, job, lines, bytes] = decodePiece(row)
        const [[owner]] = await Promise.all([
          query(`SELECT id, endpoint, owner FROM stint.jobs WHERE id = $1`, [job]),
          query(`DELETE FROM stint.log_pieces WHERE seq = $1`, [seq]),
          query(`UPDATE stint.job_logs SET lines = lines - $2, bytes = bytes - $3 WHERE job = $1`, [job, lines, bytes])
        ])
        if (owner !== undefined) {
          const [, endpoint, key] = decodeOwner(owner)
          tallies.logged(endpoint, key, -bytes)
        }
        total -= bytes
      }
    }
  }

  const append = async (transaction: Transaction, { endpoint, job: id, lines, missed }: LogBatch) => {
    const { query, tallies } = transaction.work
    // A removal of the job waits for this transaction, or the job is not found.
    const [row] = await query(
      `SELECT s.attempt, s.chunks, j.owner FROM ${fromAllStateTables("id = $1")} WHERE s.endpoint = $2 FOR KEY SHARE OF j`,
      [id, endpoint]
    )
    if (row === undefined) return
    const [current, chunks, owner] = decodeJob(row)
    // Creates the row that the transactions of other nodes wait for.
    const [stored] = await query(
      `INSERT INTO stint.job_logs (job, last, lines, bytes) VALUES ($1, 0, 0, 0)
       ON CONFLICT (job) DO UPDATE SET last = job_logs.last RETURNING last, lines, bytes`,
      [id]
    )
    const [lastBefore, linesBefore, bytesBefore] = decodeLog(stored)
    const kept = { lines: linesBefore, bytes: bytesBefore }
    let last = lastBefore + missed
    for (const piece of piecesOf(lines, quotas)) {
      kept.lines += piece.lines.length
      kept.bytes += piece.bytes
      await makeRoom(query, id, kept)
      last += piece.lines.length
      await query(`INSERT INTO stint.log_pieces (job, last, lines, bytes, body) VALUES ($1, $2, $3, $4, $5)`, [
        id,
        last,
        piece.lines.length,
        piece.bytes,
        pieceText(piece.lines, (attempt) => attempt === current ? chunks : 0)
      ])
    }
    await query(`UPDATE stint.job_logs SET last = $2, lines = $3, bytes = $4 WHERE job = $1`, [id, last, kept.lines, kept.bytes])
    tallies.logged(endpoint, owner, kept.bytes - bytesBefore)
  }

  const read = async (query: Query, endpoint: EndpointId, id: JobId, after: number, limit: number): Promise<LogPage> => {
    const [row] = await query(
      `SELECT l.last, l.lines, l.bytes FROM stint.job_logs l JOIN stint.jobs j ON j.id = l.job WHERE l.job = $1 AND j.endpoint = $2`,
      [id, endpoint]
    )
    const last = row === undefined ? 0 : decodeLog(row)[0]
    if (last <= after) return { lines: [], more: false, last }
    const lines: Array<LogLine> = []
    let bytes = 0
    let position = after
    while (true) {
      const pieces = await query(
        `SELECT last, body FROM stint.log_pieces WHERE job = $1 AND last > $2 AND last <= $3 ORDER BY last LIMIT ${READ_PIECES}`,
        [id, position, last]
      )
      for (const found of pieces) {
        const [end, body] = decodeBody(found)
        for (const line of linesOf(body, end)) {
          if (line.number <= after) continue
          if (lines.length === limit || bytes >= READ_BYTES) return { lines, more: true, last }
          lines.push(line)
          bytes += bytesOf(line)
        }
        position = end
      }
      if (pieces.length < READ_PIECES) return { lines, more: false, last }
    }
  }

  const scan = async (query: Query, endpoint: EndpointId, before = Number.MAX_SAFE_INTEGER): Promise<LogScan> => {
    const [window] = await query(
      `SELECT count(*), min(seq) FROM (SELECT seq FROM stint.log_pieces WHERE seq < $1 ORDER BY seq DESC LIMIT ${SCAN_WINDOW}) AS passed`,
      [before]
    )
    const [passed, first] = decodeWindow(window)
    if (first === null) return { pieces: [], next: null }
    const rows = await query(
      `SELECT p.seq, p.job, p.last, p.body FROM stint.log_pieces p JOIN stint.jobs j ON j.id = p.job
       WHERE p.seq >= $1 AND p.seq < $2 AND j.endpoint = $3 ORDER BY p.seq DESC LIMIT ${SCAN_PIECES}`,
      [first, before, endpoint]
    )
    const pieces = rows.map((row): FoundPiece => {
      const [piece, job, last, body] = decodeFound(row)
      return { piece, job, lines: linesOf(body, last) }
    })
    return scanOf(pieces, passed, first)
  }

  return JobLogStore.of({
    append: (batches) =>
      db.alone("append log lines", async (transaction) => {
        for (const batch of [...batches].sort((a, b) => (a.job < b.job ? -1 : a.job > b.job ? 1 : 0))) {
          await append(transaction, batch)
        }
        await makeRoomForAll(transaction, batches.length)
      }),
    read: (endpoint, job, after, limit) => db.read("read log lines", (query) => read(query, endpoint, job, after, limit)),
    scan: (endpoint, before) => db.read("search log lines", (query) => scan(query, endpoint, before))
  })
})

/** The job logs of a database. */
export const layer: Layer.Layer<JobLogStore, never, PostgresDatabase> = Layer.effect(JobLogStore, make)
