/**
 * Stores the last lines of a worker's output, for job errors and health reports.
 *
 * A line that reports that memory ran out is kept even when the stack trace that follows it is longer than the limits, as in Node, because it
 * is the cause of the exit.
 *
 * The number of lines, the length of each line and the total length are bounded, because the lines are stored in job records.
 */

import { reportsOutOfMemory } from "./OutOfMemory.ts"

/** The limits. */
export interface Options {
  /** Maximum number of lines. Default: 20. */
  readonly lines?: number
  /** Maximum total length. Characters; default: 2,000. */
  readonly characters?: number
  /**
   * Maximum length of a line. A longer one loses its middle: a logger in JSON writes a whole stack trace in a line, whose end is the message.
   * Characters; default: 500.
   */
  readonly lineCharacters?: number
}

/** How many lines may follow the report for it to be the cause of the exit: more than any runtime's stack trace. */
const REPORT_LINES = 100

export interface LogTail {
  readonly add: (line: string) => void
  /** Oldest first. */
  readonly lines: () => ReadonlyArray<string>
}

const GAP = "..."

/** A line without its middle if it is longer than the limit: its first quarter and the rest from its end. */
const withoutMiddle = (line: string, limit: number): string => {
  if (line.length <= limit) return line
  const start = Math.floor((limit - GAP.length) / 4)
  return `${line.slice(0, start)}${GAP}${line.slice(line.length - (limit - GAP.length - start))}`
}

export const make = (options: Options = {}): LogTail => {
  const maxLines = options.lines ?? 20
  const maxCharacters = options.characters ?? 2_000
  const maxLine = Math.min(options.lineCharacters ?? 500, maxCharacters)
  const kept: Array<string> = []
  let characters = 0
  let added = 0
  /** The last line that reports that memory ran out, and its number. */
  let report: { readonly line: string; readonly number: number } | undefined

  /** The report and the lines after it, within the limits. */
  const withReport = (line: string): ReadonlyArray<string> => {
    let from = Math.max(0, kept.length - maxLines + 1)
    let left = maxCharacters - line.length - kept.slice(from).reduce((sum, one) => sum + one.length, 0)
    for (; left < 0; from++) left += kept[from]?.length ?? 0
    return [line, ...kept.slice(from)]
  }

  return {
    add: (line) => {
      const cut = withoutMiddle(line, maxLine)
      added += 1
      if (reportsOutOfMemory(line)) report = { line: cut, number: added }
      kept.push(cut)
      characters += cut.length
      while (kept.length > maxLines || characters > maxCharacters) characters -= kept.shift()?.length ?? 0
    },
    lines: () =>
      report === undefined || report.number > added - kept.length || report.number <= added - REPORT_LINES
        ? [...kept]
        : withReport(report.line)
  }
}
