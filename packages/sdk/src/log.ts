/**
 * The logger for plain handlers (docs/spec/logging.md#line-format): the same lines as the runtime's own.
 *
 * A line belongs to the job that the caller runs for, and carries its id on a platform; `jobId` says which where that cannot be known.
 *
 * `PLATFORM_LOG_LEVEL` (or `RUNPOD_LOG_LEVEL`, or `--rp_log_level`) sets the lowest level that is shown; default `DEBUG`. The
 * variables are read once, when this module is loaded.
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as LogLine from "@stint/worker/LogLine"
import { messageOf } from "@stint/worker/Outcome"
import * as RunningJob from "@stint/worker/RunningJob"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Redacted from "effect/Redacted"

const style = WorkerConfig.logStyle(process.env, process.argv.slice(2))

const textOf = (message: unknown): string => message instanceof Error ? message.stack ?? message.message : messageOf(message)

const write = (level: LogLine.LineLevel, message: unknown, jobId: string | undefined): void =>
  LogLine.write(style, level, textOf(message), jobId ?? RunningJob.service(CurrentJob)?.id)

/** A line of level TRACE. Filed under the job that it is written in, or under `jobId`. */
export const trace = (message: unknown, jobId?: string): void => write("TRACE", message, jobId)

/** A line of level DEBUG. Filed under the job that it is written in, or under `jobId`. */
export const debug = (message: unknown, jobId?: string): void => write("DEBUG", message, jobId)

/** A line of level INFO. Filed under the job that it is written in, or under `jobId`. */
export const info = (message: unknown, jobId?: string): void => write("INFO", message, jobId)

/** A line of level WARN. Filed under the job that it is written in, or under `jobId`. */
export const warn = (message: unknown, jobId?: string): void => write("WARN", message, jobId)

/** A line of level ERROR. Filed under the job that it is written in, or under `jobId`. */
export const error = (message: unknown, jobId?: string): void => write("ERROR", message, jobId)

/**
 * A value with all but its first and last character replaced by `*` (docs/spec/handler.md#secrets-in-logs). A `Redacted` value is masked whole, and
 * its length does not show.
 *
 * Short values are hardly masked: `ab` stays `ab`, and `a` becomes `aa`. Wrap what must not be seen in `Redacted.make`.
 */
export const mask = (value: string | Redacted.Redacted<unknown>): string => {
  if (Redacted.isRedacted(value)) return "********"
  const characters = Array.from(value)
  return `${characters[0] ?? ""}${"*".repeat(Math.max(0, characters.length - 2))}${characters.at(-1) ?? ""}`
}

/**
 * Logs a secret at level INFO, masked: `name: k****d` (docs/spec/handler.md#secrets-in-logs).
 *
 * Careful with short values: of one or two characters nothing is hidden, and the length always shows. A `Redacted` value is
 * masked whole.
 */
export const secret = (name: string, value: string | Redacted.Redacted<unknown>): void =>
  write("INFO", `${name}: ${mask(value)}`, undefined)
