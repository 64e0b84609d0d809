/**
 * Log lines as callers receive them.
 */
import type { JobLogLine } from "@stint/contract/JobLogLine"
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
