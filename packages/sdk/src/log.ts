/**
 * The logger for plain handlers (specification 6): the same lines as the runtime's own.
 *
 * `PLATFORM_LOG_LEVEL` (or `RUNPOD_LOG_LEVEL`, or `--rp_log_level`) sets the lowest level that is shown; default `DEBUG`. The
 * variables are read once, when this module is loaded.
 */
import * as LogLine from "@stint/worker/LogLine"
import { messageOf } from "@stint/worker/Outcome"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Redacted from "effect/Redacted"

const style = WorkerConfig.logStyle(process.env, process.argv.slice(2))

const textOf = (message: unknown): string => message instanceof Error ? message.stack ?? message.message : messageOf(message)

const write = (level: LogLine.LineLevel, message: unknown, jobId: string | undefined): void =>
  LogLine.write(style, level, textOf(message), jobId)

/** A line of level TRACE. `jobId` files it under that job. */
export const trace = (message: unknown, jobId?: string): void => write("TRACE", message, jobId)

/** A line of level DEBUG. `jobId` files it under that job. */
export const debug = (message: unknown, jobId?: string): void => write("DEBUG", message, jobId)

/** A line of level INFO. `jobId` files it under that job. */
export const info = (message: unknown, jobId?: string): void => write("INFO", message, jobId)

/** A line of level WARN. `jobId` files it under that job. */
export const warn = (message: unknown, jobId?: string): void => write("WARN", message, jobId)

/** A line of level ERROR. `jobId` files it under that job. */
export const error = (message: unknown, jobId?: string): void => write("ERROR", message, jobId)

/**
 * A value with all but its first and last character replaced by `*` (specification 4.3). A `Redacted` value is masked whole, and
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
 * Logs a secret at level INFO, masked: `name: k****d` (specification 4.3).
 *
 * Careful with short values: of one or two characters nothing is hidden, and the length always shows. A `Redacted` value is
 * masked whole.
 */
export const secret = (name: string, value: string | Redacted.Redacted<unknown>): void =>
  write("INFO", `${name}: ${mask(value)}`, undefined)
