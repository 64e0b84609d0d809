/**
 * Log lines as callers see them.
 */
import type { JobLogLine } from "@stint/contract/JobLogLine"
import type { LogLine } from "@stint/store/JobLogStore"

/** A line of the wire. */
export const logLineForCaller = ({ attempt, level, message, number, source, time, worker }: LogLine): JobLogLine => ({
  number,
  time,
  level,
  message,
  attempt,
  source,
  ...(worker === null ? {} : { workerId: worker })
})
