/**
 * Fills gaps in a job's line numbers with lines that report them. The store numbers lines consecutively, so the size of a gap is the number
 * of dropped lines.
 */
import type { LogLine, LogPage, LogQuotas } from "@stint/store/JobLogStore"

const MEBIBYTE = 1024 * 1024

const formatBytes = (bytes: number): string =>
  bytes >= MEBIBYTE ? `${Math.round((bytes / MEBIBYTE) * 10) / 10} MiB` : `${Math.ceil(bytes / 1024)} KiB`

const plural = (count: number, noun: string): string => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`

/** The line that reports dropped lines. Its number is that of the last dropped line. */
const gapLine = (
  dropped: number,
  number: number,
  neighbour: LogLine | undefined,
  { now, quotas }: { readonly now: number; readonly quotas: LogQuotas }
): LogLine => ({
  number,
  time: neighbour?.time ?? now,
  level: "WARN",
  source: "platform",
  attempt: neighbour?.attempt ?? 0,
  worker: null,
  chunk: neighbour?.chunk ?? 0,
  message:
    `${plural(dropped, "line")} dropped here: a job keeps its newest ${plural(quotas.lines, "line")} and ${
      formatBytes(quotas.bytes)
    } ` +
    `of them, and all jobs together ${formatBytes(quotas.totalBytes)}.`
})

/** The lines after a given number, plus one line for each gap. A gap at the end, with no stored line after it, gets the time `now`. */
export const fillGaps = (
  { last, lines, more }: LogPage,
  after: number,
  context: { readonly now: number; readonly quotas: LogQuotas }
): ReadonlyArray<LogLine> => {
  const filled: Array<LogLine> = []
  let at = after
  for (const line of lines) {
    if (line.number > at + 1) filled.push(gapLine(line.number - at - 1, line.number - 1, line, context))
    filled.push(line)
    at = line.number
  }
  if (!more && last > at) filled.push(gapLine(last - at, last, lines.at(-1), context))
  return filled
}
