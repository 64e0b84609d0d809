/**
 * The store of job logs.
 *
 * Lines are removed with their job. Each job has a quota of lines and bytes, and all jobs share a quota of bytes. When a quota is full, the
 * oldest lines are dropped. Lines are numbered from 1 within their job and numbers are never reused, so dropped lines are visible as gaps.
 *
 * A new backend implements this service and passes `jobLogStoreSuite` of `@stint/store-testing`.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { AttemptEnd, LogLevel, LogSource } from "@stint/contract/JobLogLine"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** A new line. */
export const LogEntry = Schema.Struct({
  /** When the platform received it. Milliseconds since 1970. */
  time: Schema.Int,
  level: LogLevel,
  source: LogSource,
  attempt: Schema.Int,
  worker: Schema.NullOr(Schema.String),
  /** The release that the worker runs, if it is known. */
  release: Schema.optionalKey(Schema.Int),
  message: Schema.String,
  /** The path of the pipeline's step that wrote it. */
  step: Schema.optionalKey(Schema.String),
  /** The attempt that has ended, in a line that the platform writes. */
  ended: Schema.optionalKey(AttemptEnd)
})
export type LogEntry = typeof LogEntry.Type

/** A stored line. */
export interface LogLine extends LogEntry {
  readonly number: number
  /** Number of chunks that its attempt had streamed when the line was stored; 0 for an earlier attempt. Orders lines and chunks. */
  readonly chunk: number
}

/** New lines of one job. */
export interface LogBatch {
  readonly endpoint: EndpointId
  readonly job: JobId
  /** Number of preceding lines that could not be stored. Their line numbers stay unused. */
  readonly missed: number
  readonly lines: ReadonlyArray<LogEntry>
}

/** A page of a job's lines. */
export interface LogPage {
  /** Ordered by number. */
  readonly lines: ReadonlyArray<LogLine>
  /** There are more lines. */
  readonly more: boolean
  /** The highest number in use; 0 when there are no lines. */
  readonly last: number
}

/** Lines of one job that were stored together. */
export interface FoundPiece {
  /** Higher for pieces that were stored later. Two nodes that store at the same time may order their pieces either way. */
  readonly piece: number
  readonly job: JobId
  /** Ordered by number. */
  readonly lines: ReadonlyArray<LogLine>
}

/** Pieces of all jobs of an endpoint. */
export interface LogScan {
  /** The latest first. */
  readonly pieces: ReadonlyArray<FoundPiece>
  /** The next scan finds the pieces before this one. Null when there are no earlier ones. */
  readonly next: number | null
}

/** The maximum number of pieces that one scan returns. */
export const SCAN_PIECES = 16

/** The maximum number of pieces that one scan passes over, because most may belong to other endpoints. */
export const SCAN_WINDOW = 1_000

/** The scan that passed over this many pieces, back to the piece `first`, and found these. */
export const scanOf = (pieces: ReadonlyArray<FoundPiece>, passed: number, first: number): LogScan => {
  const last = pieces.at(-1)
  if (pieces.length === SCAN_PIECES && last !== undefined) return { pieces, next: last.piece }
  return { pieces, next: passed === SCAN_WINDOW ? first : null }
}

/** Quotas of stored lines. */
export interface LogQuotas {
  /** Lines per job. Default: 10,000. */
  readonly lines: number
  /** Bytes per job. Default: 1 MiB. A larger quota stores more output of verbose jobs and fills the total quota sooner. */
  readonly bytes: number
  /** Bytes of all jobs. Default: 256 MiB. Beyond it, the oldest lines of any job are dropped. */
  readonly totalBytes: number
}

const MEBIBYTE = 1024 * 1024

/** The defaults. */
export const defaultLogQuotas: LogQuotas = { lines: 10_000, bytes: MEBIBYTE, totalBytes: 256 * MEBIBYTE }

/** The quotas in use. */
export const LogLimits: Context.Reference<LogQuotas> = Context.Reference<LogQuotas>("@stint/store/LogLimits", {
  defaultValue: () => defaultLogQuotas
})

/** One read stops after this number of bytes. */
export const READ_BYTES = 256 * 1024

/** Overhead of a line in the quotas. */
const LINE_BYTES = 64

/** Size of a line in the quotas. */
export const bytesOf = ({ ended, message, step = "" }: LogEntry): number =>
  LINE_BYTES + Buffer.byteLength(message) + Buffer.byteLength(step) +
  (ended === undefined ? 0 : LINE_BYTES + Buffer.byteLength(ended.error ?? ""))

/** Lines are stored and dropped in pieces. Large pieces are cheaper to write; small pieces use the quota better. */
const PIECE_LINES = 256
const PIECE_BYTES = 32 * 1024

/** Lines that are stored and dropped together. */
export interface LogPiece {
  readonly lines: ReadonlyArray<LogEntry>
  readonly bytes: number
}

/** Splits lines into pieces. No piece exceeds the line quota of a job. */
export const piecesOf = (lines: ReadonlyArray<LogEntry>, quotas: LogQuotas): ReadonlyArray<LogPiece> => {
  const pieces: Array<LogPiece> = []
  let piece: Array<LogEntry> = []
  let bytes = 0
  const most = Math.max(1, Math.min(PIECE_LINES, quotas.lines))
  for (const line of lines) {
    const more = bytesOf(line)
    if (piece.length === most || (piece.length > 0 && bytes + more > PIECE_BYTES)) {
      pieces.push({ lines: piece, bytes })
      piece = []
      bytes = 0
    }
    piece.push(line)
    bytes += more
  }
  if (piece.length > 0) pieces.push({ lines: piece, bytes })
  return pieces
}

export class JobLogStore extends Context.Service<JobLogStore, {
  /** Stores lines in order. Ignores lines of unknown jobs. Drops the oldest lines beyond the quotas. */
  readonly append: (batches: ReadonlyArray<LogBatch>) => Effect.Effect<void, StoreError>
  /** Up to `limit` lines after a number. Stops after {@link READ_BYTES}. */
  readonly read: (
    endpoint: EndpointId,
    job: JobId,
    after: number,
    limit: number
  ) => Effect.Effect<LogPage, StoreError>
  /**
   * The latest pieces of an endpoint's jobs before the piece `before`; undefined: the latest of all. Ends after {@link SCAN_PIECES}, and after passing over
   * {@link SCAN_WINDOW} pieces of any endpoint, so it may return none although there are more.
   */
  readonly scan: (endpoint: EndpointId, before: number | undefined) => Effect.Effect<LogScan, StoreError>
}>()("@stint/store/JobLogStore") {}
