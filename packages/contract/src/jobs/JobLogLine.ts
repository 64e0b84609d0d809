/**
 * The log lines of a job, logged or printed by its handler (docs/spec/logging.md#a-jobs-lines, docs/spec/logging.md#lines-of-other-programs).
 *
 * ```
 *   worker --stdout, stderr--> platform --by job--> stored with the job --> GET events/{id}, live
 *                                                                       --> GET logs/{id}, paginated
 * ```
 *
 * Lines are numbered within their job, from 1, across attempts. When a job exceeds its quota, the platform drops the oldest lines and inserts
 * a line with `source: "platform"` in their place. The platform also writes a line at the end of each attempt without a result.
 */
import * as Schema from "effect/Schema"

/** The log levels, in ascending order of severity. */
export const LOG_LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const

/** The level of a line. */
export const LogLevel = Schema.Literals(LOG_LEVELS)
export type LogLevel = typeof LogLevel.Type

/** Whether a value is a log level. */
export const isLogLevel = Schema.is(LogLevel)

/**
 * The source of a line. `log`: the worker SDK's logger. `stdout`, `stderr`: the handler printed the line. `platform`: the platform wrote the
 * line, in place of dropped lines or at the end of an attempt.
 */
export const LogSource = Schema.Literals(["log", "stdout", "stderr", "platform"])
export type LogSource = typeof LogSource.Type

/**
 * How an attempt ended without a result. `failed`: the handler failed. `timed_out`: the job's time was over. `lost`: its worker was lost or
 * stopped. `returned`: its worker returned the job without having started it.
 */
export const AttemptOutcome = Schema.Literals(["failed", "timed_out", "lost", "returned"])
export type AttemptOutcome = typeof AttemptOutcome.Type

/** The end of an attempt without a result. */
export const AttemptEnd = Schema.Struct({
  outcome: AttemptOutcome,
  /** When the worker took the job. Milliseconds since 1970. The line's `time` is the end. */
  startedAt: Schema.Int,
  /** Why, without a traceback. At most 500 characters. */
  error: Schema.optionalKey(Schema.String)
})
export type AttemptEnd = typeof AttemptEnd.Type

/** One line. */
export const JobLogLine = Schema.Struct({
  /** The line's number within the job, starting at 1. */
  number: Schema.Int,
  /** When the platform received it. Milliseconds since 1970. */
  time: Schema.Int,
  level: LogLevel,
  /** At most `MAX_LOG_MESSAGE` characters. */
  message: Schema.String,
  /** The attempt that logged it. */
  attempt: Schema.Int,
  source: LogSource,
  /** The path of the pipeline's step that logged it (docs/spec/pipelines.md#paths). */
  step: Schema.optionalKey(Schema.String),
  /** The worker that logged the line, or that held the ended attempt. Absent in place of dropped lines. */
  workerId: Schema.optionalKey(Schema.String),
  /** The release that this worker runs, if the platform started it. */
  release: Schema.optionalKey(Schema.Int),
  /** Only in a line with the source `platform`: the attempt that has ended. */
  ended: Schema.optionalKey(AttemptEnd)
})
export type JobLogLine = typeof JobLogLine.Type

/** A line of any job of an endpoint. */
export const FoundLogLine = Schema.Struct({
  /** The job that logged it. */
  job: Schema.String,
  ...JobLogLine.fields
})
export type FoundLogLine = typeof FoundLogLine.Type

/** One page of the lines of an endpoint's jobs that match a search, newest first. */
export const FoundLogPage = Schema.Struct({
  lines: Schema.Array(FoundLogLine),
  /** Pass it as `cursor` to continue with older lines. Null when all lines have been searched. */
  cursor: Schema.NullOr(Schema.String),
  /** Present when the search ended early, at a limit, with fewer lines than requested. `lines`: it had read as many as it may. `time`: it took too long. */
  stopped: Schema.optionalKey(Schema.Literals(["lines", "time"])),
  /** The number of lines that were read. */
  searched: Schema.Int,
  /** The time of the last line that was read. Milliseconds since 1970. Absent when none was read. */
  oldest: Schema.optionalKey(Schema.Int)
})
export type FoundLogPage = typeof FoundLogPage.Type

/** One page of a job's lines, oldest first. */
export const JobLogPage = Schema.Struct({
  lines: Schema.Array(JobLogLine),
  /** The number of the last line that was read. Pass it as `after` to read the next lines, now or later. */
  cursor: Schema.Int,
  /** Whether more lines are available now. */
  more: Schema.Boolean
})
export type JobLogPage = typeof JobLogPage.Type

const LEVELS_BY_NAME: Readonly<Record<string, LogLevel>> = {
  NOTSET: "TRACE",
  TRACE: "TRACE",
  DEBUG: "DEBUG",
  INFO: "INFO",
  TIP: "INFO",
  WARN: "WARN",
  WARNING: "WARN",
  ERROR: "ERROR",
  CRITICAL: "ERROR",
  FATAL: "ERROR"
}

/** Maps the level name of any logger to a log level. Unknown names map to `INFO`. */
export const parseLogLevel = (name: string): LogLevel => LEVELS_BY_NAME[name.trim().toUpperCase()] ?? "INFO"

/** Whether `level` is at least `minimum`. */
export const isLevelEnabled = (level: LogLevel, minimum: LogLevel): boolean =>
  LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(minimum)
