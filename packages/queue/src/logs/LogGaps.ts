/**
 * Gaps between the lines of a job, told as lines. Lines are numbered without gaps when they are kept; what is missing between two numbers was
 * dropped.
 */
import type { LogLine, LogPage, LogQuotas } from "@stint/store/JobLogStore"

const MEBIBYTE = 1024 * 1024

const size = (bytes: number): string =>
  bytes >= MEBIBYTE ? `${Math.round((bytes / MEBIBYTE) * 10) / 10} MiB` : `${Math.ceil(bytes / 1024)} KiB`

const amount = (count: number, what: string): string => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`

/** One line for lines that are missing: it stands where the last of them stood. */
const gapLine = (
  missing: number,
  number: number,
  beside: LogLine | undefined,
  { now, quotas }: { readonly now: number; readonly quotas: LogQuotas }
): LogLine => ({
  number,
  time: beside?.time ?? now,
  level: "WARN",
  source: "platform",
  attempt: beside?.attempt ?? 0,
  worker: null,
  chunk: beside?.chunk ?? 0,
  message:
    `${amount(missing, "line")} dropped here: a job keeps its newest ${amount(quotas.lines, "line")} and ${size(quotas.bytes)} ` +
    `of them, and all jobs together ${size(quotas.totalBytes)}.`
})

/** The lines after a number, with a line for each gap. Where no line is left to stand beside a gap, it is of now. */
export const fillGaps = (
  { last, lines, more }: LogPage,
  after: number,
  circumstances: { readonly now: number; readonly quotas: LogQuotas }
): ReadonlyArray<LogLine> => {
  const filled: Array<LogLine> = []
  let at = after
  for (const line of lines) {
    if (line.number > at + 1) filled.push(gapLine(line.number - at - 1, line.number - 1, line, circumstances))
    filled.push(line)
    at = line.number
  }
  if (!more && last > at) filled.push(gapLine(last - at, last, lines.at(-1), circumstances))
  return filled
}
