/**
 * The seam for log lines: where those of jobs are kept.
 *
 * Lines belong to their job and go with it. A job has a share of lines and of bytes, all jobs together have one of bytes, and where a share
 * is full the oldest lines go. Lines are numbered within their job, from 1, and a number is never used twice, so what is missing shows as a
 * gap between the numbers.
 *
 * A new backend implements this service and passes `jobLogStoreSuite` of `@stint/queue/testing`.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { LogLevel, LogSource } from "@stint/contract/JobLogLine"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** A line as it is given to a store. */
export const LogEntry = Schema.Struct({
  /** When the platform heard it. Milliseconds since 1970. */
  time: Schema.Int,
  level: LogLevel,
  source: LogSource,
  attempt: Schema.Int,
  worker: Schema.NullOr(Schema.String),
  message: Schema.String
})
export type LogEntry = typeof LogEntry.Type

/** A line as it is kept. */
export interface LogLine extends LogEntry {
  readonly number: number
  /** How many chunks its attempt had streamed when it was kept; 0 where that was over. Tells where it stands among them. */
  readonly chunk: number
}

/** What is to be kept of one job. */
export interface LogBatch {
  readonly endpoint: EndpointId
  readonly job: JobId
  /** Lines that came before these and could not be kept. Their numbers stay unused. */
  readonly missed: number
  readonly lines: ReadonlyArray<LogEntry>
}

/** Some of a job's lines. */
export interface LogPage {
  /** In order of their numbers. */
  readonly lines: ReadonlyArray<LogLine>
  /** There are more after these. */
  readonly more: boolean
  /** The highest number that was given; 0: none. */
  readonly last: number
}

/** How much is kept. */
export interface LogQuotas {
  /** Lines of one job. Default: 10,000. */
  readonly lines: number
  /** Bytes of one job's lines. Default: 1 MiB. More shows more of a chatty job and fills the share of all sooner. */
  readonly bytes: number
  /** Bytes of all lines. Default: 256 MiB. It is what logs may take of the disk; beyond it the oldest lines go, whosever they are. */
  readonly totalBytes: number
}

const MEBIBYTE = 1024 * 1024

/** What is in force where nobody says otherwise. */
export const defaultLogQuotas: LogQuotas = { lines: 10_000, bytes: MEBIBYTE, totalBytes: 256 * MEBIBYTE }

/** The shares in force. */
export const LogLimits: Context.Reference<LogQuotas> = Context.Reference<LogQuotas>("@stint/store/LogLimits", {
  defaultValue: () => defaultLogQuotas
})

/** After so many bytes one reading takes no more lines. */
export const READ_BYTES = 256 * 1024

/** What a line counts for beside its message. */
const LINE_BYTES = 64

/** What a line counts for. */
export const bytesOf = ({ message }: LogEntry): number => LINE_BYTES + Buffer.byteLength(message)

/** Lines are kept and dropped in pieces: large ones are cheaper to keep, small ones leave more of the share in use. */
const PIECE_LINES = 256
const PIECE_BYTES = 32 * 1024

/** Lines that are kept, and dropped, together. */
export interface LogPiece {
  readonly lines: ReadonlyArray<LogEntry>
  readonly bytes: number
}

/** Cuts lines into pieces. No piece has more lines than one job may. */
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
  /** Keeps lines, in order. Those of jobs that are gone are left out. Drops what is beyond the shares. */
  readonly append: (batches: ReadonlyArray<LogBatch>) => Effect.Effect<void, StoreError>
  /** Up to `limit` lines after a number, and no more once they are {@link READ_BYTES}. */
  readonly read: (
    endpoint: EndpointId,
    job: JobId,
    after: number,
    limit: number
  ) => Effect.Effect<LogPage, StoreError>
}>()("@stint/store/JobLogStore") {}
