/**
 * The events of a job after a reader's cursor. Pure: {@link diff} compares a cursor with the current state of the job.
 *
 * ```
 *   Status IN_QUEUE --> Status IN_PROGRESS (attempt 1) --> Chunk 1, 2, 3 ... --> End
 *         ^                     |   Progress now and then         |
 *         +---- lost, retried --+--------------------------------+
 *         the next Status IN_PROGRESS names its attempt, and its chunks start again at 1
 * ```
 *
 * The attempts of a pipeline's run continue each other, so its chunks continue after a status. The status' cursor has the number of the chunk before.
 *
 * Log lines come in between. Each line follows the chunk that was the latest when the line was stored, and the lines of an attempt
 * precede the next attempt.
 *
 * Each event's cursor covers it and everything before it. A reader that resumes from its last cursor receives every later chunk and line
 * exactly once and in order (R9, docs/spec/figures.md#reliability). A status event reports a state, not a transition: a status that begins
 * and ends between two reads is omitted, but an attempt's status always precedes its first chunk and its end. Only the latest progress is
 * sent, and a reader that resumes receives it again. A line that is stored after the job's end is sent only to readers that resume.
 *
 * ```
 *   attempt.chunk.phase[.line]        1.7.r      1.7.r.12      1.7.e1790000000000.12
 * ```
 */
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { LogLine } from "@stint/store/JobLogStore"
import type { JobReport } from "@stint/store/JobRecord"
import type { ChunkCursor, PeekResult } from "@stint/store/JobStore"

/** A job event. `cursor` covers this event and everything before it. */
export type JobEvent =
  | {
    readonly _tag: "Status"
    readonly cursor: JobEventCursor
    readonly attempt: number
    readonly job: JobReport
    readonly status: "IN_QUEUE" | "IN_PROGRESS"
  }
  | { readonly _tag: "Progress"; readonly cursor: JobEventCursor; readonly attempt: number; readonly output: JsonText }
  | {
    readonly _tag: "Chunk"
    readonly cursor: JobEventCursor
    readonly attempt: number
    readonly number: number
    readonly output: JsonText
  }
  | { readonly _tag: "Log"; readonly cursor: JobEventCursor; readonly attempt: number; readonly line: LogLine }
  /** The job has ended. This is the last event, except for log lines that are stored later. */
  | { readonly _tag: "End"; readonly cursor: JobEventCursor; readonly attempt: number; readonly job: JobReport }

/** What a reader has received so far: the status of an attempt, its chunks, and the job's log lines up to a line number. */
export interface JobEventCursor extends ChunkCursor {
  readonly phase: "start" | "queued" | "running" | "ended"
  /** The time of the job end that the reader has received, in milliseconds since the epoch; 0: none. A retried job ends more than once. */
  readonly endedAt: number
  /** Number of the last received log line; 0: none. */
  readonly line: number
}

/** Log lines after a cursor. */
export interface LogSlice {
  readonly lines: ReadonlyArray<LogLine>
  readonly more: boolean
}

/** For readers without log lines. */
export const NO_LOGS: LogSlice = { lines: [], more: false }

/** The cursor of a reader that has received nothing. */
export const START_CURSOR: JobEventCursor = { attempt: 0, chunk: 0, phase: "start", endedAt: 0, line: 0 }

const PHASE_CODES = { start: "s", queued: "q", running: "r", ended: "e" } as const

const PHASES: Readonly<Record<string, JobEventCursor["phase"]>> = { s: "start", q: "queued", r: "running", e: "ended" }

/** The cursor as text: opaque to readers and safe in an HTTP header. */
export const encodeEventCursor = ({ attempt, chunk, endedAt, line, phase }: JobEventCursor): string =>
  `${attempt}.${chunk}.${PHASE_CODES[phase]}${phase === "ended" ? endedAt : ""}${line === 0 ? "" : `.${line}`}`

/** Decodes a cursor. Undefined when the text is not a cursor. */
export const decodeEventCursor = (text: string): JobEventCursor | undefined => {
  const [, attempt, chunk, letter = "", endedAt, line = "0"] =
    /^(\d{1,9})\.(\d{1,9})\.([sqre])(\d{0,15})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  const phase = PHASES[letter]
  return phase === undefined
    ? undefined
    : { attempt: Number(attempt), chunk: Number(chunk), phase, endedAt: Number(endedAt), line: Number(line) }
}

/** What a reader has not received yet. */
interface JobEventDiff {
  readonly events: ReadonlyArray<JobEvent>
  /** The reader's cursor after these events. */
  readonly cursor: JobEventCursor
  readonly progress: JsonText | null
  /** The reader has received the job's end. */
  readonly done: boolean
}

/** The events after a cursor, and the cursor after these events. `progress` is the last value that the reader received. */
export const diff = (
  cursor: JobEventCursor,
  progress: JsonText | null,
  peeked: PeekResult,
  logs: LogSlice = NO_LOGS
): JobEventDiff => {
  const { chunks, from, job, more } = peeked
  const { attempt } = job
  const events: Array<JobEvent> = []
  let at = cursor
  const status = (phase: "queued" | "running") => {
    // A job that waits for its next attempt has no chunks, unless it is a run.
    at = { ...at, attempt, chunk: Math.min(from - 1, job.chunks), phase, endedAt: 0 }
    events.push({ _tag: "Status", cursor: at, attempt, job, status: phase === "queued" ? "IN_QUEUE" : "IN_PROGRESS" })
  }
  const log = (line: LogLine) => {
    at = { ...at, line: line.number }
    events.push({ _tag: "Log", cursor: at, attempt: line.attempt, line })
  }
  let next = 0
  /** Emits chunks up to a number. False when `peeked` does not contain all of them. */
  const emitChunks = (upTo: number): boolean => {
    while (next < chunks.length && from + next <= upTo) {
      const output = chunks[next]
      if (output === undefined) break
      at = { ...at, chunk: from + next }
      events.push({ _tag: "Chunk", cursor: at, attempt, number: from + next, output })
      next += 1
    }
    return !more || upTo < from + chunks.length
  }

  const endedAt = job.finishedAt
  if (at.phase === "ended" && endedAt === at.endedAt) {
    logs.lines.forEach(log)
    return { events, cursor: at, progress, done: !logs.more }
  }
  // Lines of earlier attempts precede the next status, as they do for a reader that has followed the job from the start.
  const isQueued = job.status === "IN_QUEUE"
  const own = logs.lines.findIndex((line) => line.attempt >= attempt)
  const earlier = isQueued || own === -1 ? logs.lines.length : own
  logs.lines.slice(0, earlier).forEach(log)
  if (logs.more && earlier === logs.lines.length) return { events, cursor: at, progress, done: false }
  if (isQueued) {
    if (at.phase !== "queued" || at.attempt !== attempt) status("queued")
    return { events, cursor: at, progress: null, done: false }
  }
  if (job.startedAt !== null && (at.phase !== "running" || at.attempt !== attempt)) status("running")
  for (const line of logs.lines.slice(earlier)) {
    if (line.attempt === attempt && !emitChunks(line.chunk)) return { events, cursor: at, progress, done: false }
    log(line)
  }
  if (logs.more || !emitChunks(Number.MAX_SAFE_INTEGER)) return { events, cursor: at, progress, done: false }
  if (isTerminal(job.status) && endedAt !== null) {
    at = { ...at, attempt, phase: "ended", endedAt }
    events.push({ _tag: "End", cursor: at, attempt, job })
    return { events, cursor: at, progress: null, done: true }
  }
  if (job.progress !== null && job.progress !== progress) {
    events.push({ _tag: "Progress", cursor: at, attempt, output: job.progress })
  }
  return { events, cursor: at, progress: job.progress, done: false }
}
