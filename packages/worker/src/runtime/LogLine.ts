/**
 * How a line of a worker's log looks (docs/spec/logging.md#line-format).
 *
 * On the platform, which is recognised by the endpoint's id among the variables, a line is JSON, so that the platform can file it
 * under its job; elsewhere it is for a human:
 *
 * ```
 *   {"requestId":"6090...","message":"Finished in 12 ms.","level":"INFO"}
 *   INFO | Finished in 12 ms.
 * ```
 */
import { truncateMessage } from "@stint/contract/LogMessage"

/** The levels, least important first. `NOTSET` shows everything. */
export const LEVELS = ["NOTSET", "TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const
/** One of the levels, as a threshold. */
export type Level = (typeof LEVELS)[number]

/** The level of a line; `NOTSET` is a threshold only. */
export type LineLevel = Exclude<Level, "NOTSET">

/** What is shown, and how. */
export interface Style {
  /** Lines below it are dropped. Default: `DEBUG`. */
  readonly level: Level
  /** JSON lines. Default: whether the endpoint's id is among the variables. */
  readonly json: boolean
}

/** The level of that name, in any case; undefined when there is none. */
export const parseLevel = (name: string): Level | undefined => LEVELS.find((level) => level === name.trim().toUpperCase())

/** Whether a line of that level is shown. */
export const isLevelEnabled = (style: Style, level: LineLevel): boolean => LEVELS.indexOf(level) >= LEVELS.indexOf(style.level)

/** One line, without its line feed. `requestId` is the job that it is about; the form for humans has no place for it. */
export const format = (style: Style, level: LineLevel, message: string, requestId?: string): string =>
  style.json
    ? JSON.stringify({ requestId: requestId ?? null, message: truncateMessage(message), level })
    : `${level} | ${truncateMessage(message)}`

/** Writes one line to standard output, unless its level is below the style's. */
export const write = (style: Style, level: LineLevel, message: string, requestId?: string): void => {
  if (isLevelEnabled(style, level)) process.stdout.write(`${format(style, level, message, requestId)}\n`)
}
