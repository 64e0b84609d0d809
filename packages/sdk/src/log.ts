/**
 * The logger for handler functions. It writes lines in the same format as the runtime (docs/spec/logging.md#line-format).
 *
 * On a platform, each line contains the id of the job in which it is written, so that the platform can attribute it to the job. Pass
 * `jobId` when the code does not run within the job, for example in a library's callback.
 *
 * `PLATFORM_LOG_LEVEL` (or `RUNPOD_LOG_LEVEL`, or `--rp_log_level`) sets the lowest level that is written. Default: `DEBUG`. The
 * variables are read once, when this module is loaded.
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as LogLine from "@stint/worker/LogLine"
import * as RunningJob from "@stint/worker/RunningJob"
import { messageOf } from "@stint/worker/ThrownValue"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Redacted from "effect/Redacted"

const style = WorkerConfig.logStyle(process.env, process.argv.slice(2))

const textOf = (message: unknown): string => message instanceof Error ? message.stack ?? message.message : messageOf(message)

const write = (level: LogLine.LineLevel, message: unknown, jobId: string | undefined): void =>
  LogLine.write(style, level, textOf(message), jobId ?? RunningJob.service(CurrentJob)?.id)

/** Writes a line at level TRACE. `jobId` defaults to the job in which the line is written. */
export const trace = (message: unknown, jobId?: string): void => write("TRACE", message, jobId)

/** Writes a line at level DEBUG. `jobId` defaults to the job in which the line is written. */
export const debug = (message: unknown, jobId?: string): void => write("DEBUG", message, jobId)

/** Writes a line at level INFO. `jobId` defaults to the job in which the line is written. */
export const info = (message: unknown, jobId?: string): void => write("INFO", message, jobId)

/** Writes a line at level WARN. `jobId` defaults to the job in which the line is written. */
export const warn = (message: unknown, jobId?: string): void => write("WARN", message, jobId)

/** Writes a line at level ERROR. `jobId` defaults to the job in which the line is written. */
export const error = (message: unknown, jobId?: string): void => write("ERROR", message, jobId)

/**
 * Masks a value: returns its first and last character with `*` for each character between them (docs/spec/handler.md#secrets-in-logs). A
 * `Redacted` value becomes eight `*`, regardless of its length.
 *
 * Values of one or two characters are not hidden: `ab` stays `ab`, and `a` becomes `aa`. Use `Redacted.make` for such values.
 */
export const mask = (value: string | Redacted.Redacted<unknown>): string => {
  if (Redacted.isRedacted(value)) return "********"
  const characters = Array.from(value)
  return `${characters[0] ?? ""}${"*".repeat(Math.max(0, characters.length - 2))}${characters.at(-1) ?? ""}`
}

/**
 * Logs a secret at level INFO, masked: `name: k****d` (docs/spec/handler.md#secrets-in-logs).
 *
 * The line reveals the length of the value, and does not hide a value of one or two characters. A `Redacted` value is hidden completely.
 */
export const secret = (name: string, value: string | Redacted.Redacted<unknown>): void =>
  write("INFO", `${name}: ${mask(value)}`, undefined)
