/**
 * The log lines of a job: what its handler logged and printed (docs/spec/logging.md#a-jobs-lines, docs/spec/logging.md#lines-of-other-programs).
 *
 * ```
 *   worker --stdout, stderr--> platform --by job--> kept with the job --> GET events/{id}, as they come
 *                                                                     --> GET logs/{id}, page by page
 * ```
 *
 * A line is numbered within its job, from 1, over all attempts. What is beyond a job's share is dropped, the oldest first, and the gap is a
 * line of its own: `source: "platform"`.
 */
import * as Schema from "effect/Schema"

/** The levels of lines, least important first. */
export const LOG_LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const

/** How important a line is. */
export const LogLevel = Schema.Literals(LOG_LEVELS)
export type LogLevel = typeof LogLevel.Type

/** Whether a word is a level. */
export const isLogLevel = Schema.is(LogLevel)

/**
 * Where a line comes from. `log`: the worker SDK's logger, or the handler's by it. `stdout`, `stderr`: the handler printed it. `platform`: it
 * stands for lines that were dropped.
 */
export const LogSource = Schema.Literals(["log", "stdout", "stderr", "platform"])
export type LogSource = typeof LogSource.Type

/** One line. */
export const JobLogLine = Schema.Struct({
  /** Its number within the job, from 1. */
  number: Schema.Int,
  /** When the platform heard it. Milliseconds since 1970. */
  time: Schema.Int,
  level: LogLevel,
  /** At most `MAX_LOG_MESSAGE` characters. */
  message: Schema.String,
  /** The attempt that it was logged in. */
  attempt: Schema.Int,
  source: LogSource,
  /** The worker that logged it; absent where the platform did. */
  workerId: Schema.optionalKey(Schema.String)
})
export type JobLogLine = typeof JobLogLine.Type

/** One page of a job's lines, oldest first. */
export const JobLogPage = Schema.Struct({
  lines: Schema.Array(JobLogLine),
  /** Number of the last line that was looked at: where to go on, now or when there is more. */
  cursor: Schema.Int,
  /** There are more by now. */
  more: Schema.Boolean
})
export type JobLogPage = typeof JobLogPage.Type

const MESSAGE_LEVELS: Readonly<Record<string, LogLevel>> = {
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

/** The level that a program means by a word; `INFO` where nobody knows. */
export const parseLogLevel = (word: string): LogLevel => MESSAGE_LEVELS[word.trim().toUpperCase()] ?? "INFO"

/** Whether a line of a level is shown where `least` is the least that is. */
export const isLevelEnabled = (level: LogLevel, least: LogLevel): boolean =>
  LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least)
