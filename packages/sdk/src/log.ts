/**
 * The logger for handler functions. It writes lines in the same format as the runtime (docs/spec/logging.md#line-format).
 *
 * On a platform, each line contains the id of the job in which it is written, so that the platform can attribute it to the job. Pass
 * `jobId` when the code does not run within the job, for example in a library's callback.
 *
 * `PLATFORM_LOG_LEVEL` (or `RUNPOD_LOG_LEVEL`, or `--rp_log_level`) sets the lowest level that is written. Default: `DEBUG`. The
 * variables are read once, when the first line is written. {@link set_level} changes the level of this logger.
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import { CurrentStep } from "@stint/worker/CurrentStep"
import * as LogLine from "@stint/worker/LogLine"
import * as RunningJob from "@stint/worker/RunningJob"
import { didYouMean } from "@stint/worker/Suggestion"
import { messageOf } from "@stint/worker/ThrownValue"
import { previewValue } from "@stint/worker/ValuePreview"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Redacted from "effect/Redacted"

/** The format, and the level, which `set_level` changes. */
interface Style {
  level: LogLine.Level
  readonly json: boolean
}

const current: { style: Style | undefined } = { style: undefined }

/** Made for the first line, because a standby process loads this module before it has the worker's variables. */
const style = (): Style => current.style ??= { ...WorkerConfig.logStyle(process.env, process.argv.slice(2)) }

const textOf = (message: unknown): string => message instanceof Error ? message.stack ?? message.message : messageOf(message)

const write = (level: LogLine.LineLevel, message: unknown, jobId: string | undefined): void =>
  LogLine.write(style(), level, textOf(message), jobId ?? RunningJob.service(CurrentJob)?.id, RunningJob.service(CurrentStep))

/**
 * Sets the lowest level that this logger writes: `TRACE`, `DEBUG`, `INFO`, `WARN` or `ERROR`, in any case, or `NOTSET` to write none. The worker's
 * own lines keep the level that the variables set.
 *
 * @throws TypeError when the level is unknown
 */
export const set_level = (level: string): void => {
  const known = typeof level === "string" ? LogLine.parseLevel(level) : undefined
  if (known === undefined) {
    const suggestion = typeof level === "string" ? didYouMean(level.toUpperCase(), LogLine.LEVELS) : ""
    throw new TypeError(`log.set_level needs one of ${LogLine.LEVELS.join(", ")}, not ${previewValue(level)}.${suggestion}`)
  }
  style().level = known
  info(`The log level is ${known} now.`)
}

/** Writes a line at level TRACE. `jobId` defaults to the job in which the line is written. */
export const trace = (message: unknown, jobId?: string): void => write("TRACE", message, jobId)

/** Writes a line at level DEBUG. `jobId` defaults to the job in which the line is written. */
export const debug = (message: unknown, jobId?: string): void => write("DEBUG", message, jobId)

/** Writes a line at level INFO. `jobId` defaults to the job in which the line is written. */
export const info = (message: unknown, jobId?: string): void => write("INFO", message, jobId)

/** Writes advice for the handler's developer: an INFO line that is written at every level except NOTSET. */
export const tip = (message: unknown): void => {
  if (style().level === "NOTSET") return
  const [job, step] = [RunningJob.service(CurrentJob)?.id, RunningJob.service(CurrentStep)]
  LogLine.write({ ...style(), level: "TRACE" }, "INFO", textOf(message), job, step)
}

/** Writes a line at level WARN. `jobId` defaults to the job in which the line is written. */
export const warn = (message: unknown, jobId?: string): void => write("WARN", message, jobId)

/** Writes a line at level ERROR. `jobId` defaults to the job in which the line is written. */
export const error = (message: unknown, jobId?: string): void => write("ERROR", message, jobId)

/**
 * Masks a value: returns its first and last character with `*` for each character between them (docs/spec/handler.md#secrets-in-logs). A
 * `Redacted` value becomes eight `*`, regardless of its length. A value that is not a string is converted to one first: 12345 becomes `1***5`.
 *
 * Values of one or two characters are not hidden: `ab` stays `ab`, and `a` becomes `aa`. Use `Redacted.make` for such values.
 */
export const mask = (value: unknown): string => {
  if (Redacted.isRedacted(value)) return "********"
  const characters = Array.from(messageOf(value))
  return `${characters[0] ?? ""}${"*".repeat(Math.max(0, characters.length - 2))}${characters.at(-1) ?? ""}`
}

/**
 * Logs a secret at level INFO, masked: `name: k****d` (docs/spec/handler.md#secrets-in-logs).
 *
 * The line reveals the length of the value, and does not hide a value of one or two characters. A `Redacted` value is hidden completely.
 */
export const secret = (name: string, value: unknown): void => write("INFO", `${name}: ${mask(value)}`, undefined)
