/**
 * Log lines as callers receive them.
 */
import type { FoundLogLine, JobLogLine } from "@stint/contract/JobLogLine"
import type { FoundLine, LogCursor } from "@stint/queue/JobLogs"
import type { LogLine } from "@stint/store/JobLogStore"

/** A line in its wire format. */
export const logLineForCaller = (
  { attempt, ended, level, message, number, release, source, step, time, worker }: LogLine
): JobLogLine => ({
  number,
  time,
  level,
  message,
  attempt,
  source,
  ...(step === undefined ? {} : { step }),
  ...(worker === null ? {} : { workerId: worker }),
  ...(release === undefined ? {} : { release }),
  ...(ended === undefined ? {} : { ended })
})

/** A line of an endpoint in its wire format. */
export const foundLineForCaller = ({ job, ...line }: FoundLine): FoundLogLine => ({ job, ...logLineForCaller(line) })

/** The cursor of a search in its wire format: `1042`, or `1042.7` within a piece. */
export const cursorText = ({ line, piece }: LogCursor): string => line === 0 ? `${piece}` : `${piece}.${line}`

/** Reads a cursor, whose format the contract has checked. */
export const cursorOf = (text: string): LogCursor => {
  const [piece, line = 0] = text.split(".").map(Number)
  return { piece: piece ?? 0, line }
}
