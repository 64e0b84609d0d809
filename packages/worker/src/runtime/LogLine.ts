/**
 * The format of a worker's log lines (docs/spec/logging.md#line-format).
 *
 * On a platform, detected by the endpoint's id in the environment, a line is JSON, so that the platform can attribute it to its job.
 * Elsewhere it is plain text:
 *
 * ```
 *   {"requestId":"6090...","message":"Finished in 12 ms.","level":"INFO"}
 *   INFO | Finished in 12 ms.
 * ```
 */
import { truncateMessage } from "@stint/contract/LogMessage"
import { escapeUnprintable } from "@stint/contract/PrintableText"

/** The levels, lowest first. `NOTSET` shows nothing, as in the Python SDK. */
export const LEVELS = ["NOTSET", "TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const
/** A level, as a threshold. */
export type Level = (typeof LEVELS)[number]

/** The level of a line; `NOTSET` is only a threshold. */
export type LineLevel = Exclude<Level, "NOTSET">

/** The threshold and the format of the log. */
export interface Style {
  /** Lines below this level are dropped. Default: `DEBUG`. */
  readonly level: Level
  /** Whether lines are JSON. Default: true when the endpoint's id is in the environment. */
  readonly json: boolean
}

/** The level with this name, ignoring case; undefined when there is none. */
export const parseLevel = (name: string): Level | undefined => LEVELS.find((level) => level === name.trim().toUpperCase())

/** Whether lines of this level are shown. */
export const isLevelEnabled = (style: Style, level: LineLevel): boolean =>
  style.level !== "NOTSET" && LEVELS.indexOf(level) >= LEVELS.indexOf(style.level)

/**
 * One line without its line feed. `requestId` is the job's id; plain text omits it, and escapes control characters for the terminal. `step` is the path
 * of the pipeline's step.
 */
export const format = (style: Style, level: LineLevel, message: string, requestId?: string, step?: string): string =>
  style.json
    ? JSON.stringify({
      requestId: requestId ?? null,
      message: truncateMessage(message),
      level,
      ...(step === undefined ? {} : { step })
    })
    : `${level} | ${escapeUnprintable(truncateMessage(message))}${step === undefined ? "" : ` step=${step}`}`

/** Writes one line to standard output, unless its level is below the threshold. */
export const write = (style: Style, level: LineLevel, message: string, requestId?: string, step?: string): void => {
  if (isLevelEnabled(style, level)) process.stdout.write(`${format(style, level, message, requestId, step)}\n`)
}
