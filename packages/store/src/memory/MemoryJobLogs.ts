/**
 * Job logs in memory: part of the memory store.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import {
  bytesOf,
  type JobLogStore,
  type LogBatch,
  type LogLine,
  type LogPage,
  type LogQuotas,
  type LogScan,
  piecesOf,
  READ_BYTES,
  SCAN_PIECES,
  SCAN_WINDOW
} from "../jobs/JobLogStore.ts"
import type { JobHead } from "../jobs/JobRecord.ts"

interface Piece {
  readonly piece: number
  readonly job: JobId
  readonly lines: ReadonlyArray<LogLine>
  readonly bytes: number
}

/** The lines of one job. */
interface Log {
  last: number
  lines: number
  bytes: number
  /** Oldest first. */
  readonly pieces: Set<Piece>
}

const NOTHING: LogPage = { lines: [], more: false, last: 0 }

/** The log store, and a function that the job store calls when it removes a job. */
export const make = (headOf: (endpoint: EndpointId, job: JobId) => JobHead | undefined, quotas: LogQuotas) => {
  const logs = new Map<JobId, Log>()
  /** All pieces, oldest first. */
  const all = new Set<Piece>()
  let total = 0
  let lastPiece = 0

  const drop = (piece: Piece) => {
    all.delete(piece)
    total -= piece.bytes
    const log = logs.get(piece.job)
    if (log === undefined) return
    log.pieces.delete(piece)
    log.lines -= piece.lines.length
    log.bytes -= piece.bytes
  }

  const append = ({ endpoint, job, lines, missed }: LogBatch) => {
    const head = headOf(endpoint, job)
    if (head === undefined) return
    const log = logs.get(job) ?? { last: 0, lines: 0, bytes: 0, pieces: new Set<Piece>() }
    logs.set(job, log)
    log.last += missed
    for (const piece of piecesOf(lines, quotas)) {
      const kept: Piece = {
        piece: ++lastPiece,
        job,
        bytes: piece.bytes,
        lines: piece.lines.map((line) => ({
          ...line,
          number: ++log.last,
          chunk: line.attempt === head.attempt ? head.chunks : 0
        }))
      }
      log.pieces.add(kept)
      log.lines += kept.lines.length
      log.bytes += kept.bytes
      all.add(kept)
      total += kept.bytes
      for (const old of log.pieces) {
        if (old === kept || (log.lines <= quotas.lines && log.bytes <= quotas.bytes)) break
        drop(old)
      }
      for (const old of all) {
        if (total <= quotas.totalBytes) break
        drop(old)
      }
    }
  }

  const read = (endpoint: EndpointId, job: JobId, after: number, limit: number): LogPage => {
    const log = headOf(endpoint, job) === undefined ? undefined : logs.get(job)
    if (log === undefined) return NOTHING
    const lines: Array<LogLine> = []
    let bytes = 0
    for (const piece of log.pieces) {
      if ((piece.lines.at(-1)?.number ?? 0) <= after) continue
      for (const line of piece.lines) {
        if (line.number <= after) continue
        if (lines.length === limit || bytes >= READ_BYTES) return { lines, more: true, last: log.last }
        lines.push(line)
        bytes += bytesOf(line)
      }
    }
    return { lines, more: false, last: log.last }
  }

  const scan = (endpoint: EndpointId, before = Infinity): LogScan => {
    const found: Array<Piece> = []
    let passed = 0
    for (const piece of [...all].reverse()) {
      if (piece.piece >= before) continue
      passed += 1
      if (headOf(endpoint, piece.job) !== undefined) found.push(piece)
      if (found.length === SCAN_PIECES || passed === SCAN_WINDOW) return { pieces: found, next: piece.piece }
    }
    return { pieces: found, next: null }
  }

  const service: JobLogStore["Service"] = {
    append: (batches) => Effect.sync(() => batches.forEach(append)),
    read: (endpoint, job, after, limit) => Effect.sync(() => read(endpoint, job, after, limit)),
    scan: (endpoint, before) => Effect.sync(() => scan(endpoint, before))
  }

  return {
    service,
    /** The size of a job's stored lines. */
    bytesOf: (job: JobId): number => logs.get(job)?.bytes ?? 0,
    /** Removes the lines of a removed job. */
    remove: (job: JobId) => {
      for (const piece of logs.get(job)?.pieces ?? []) drop(piece)
      logs.delete(job)
    }
  }
}
