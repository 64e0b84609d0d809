/**
 * One line of a job's log.
 */
import type { JobLogLine } from "@stint/client"
import type { ReactNode } from "react"
import { clockTime } from "../format/Format.ts"

/** The line. `beside`: what is shown before its text. `step`: the name of the step that is shown. `time`: default, the time of day. */
export const LogRow = ({ beside, line, step, time = clockTime(line.time) }: {
  readonly line: JobLogLine
  readonly beside?: ReactNode
  readonly step?: string | undefined
  readonly time?: string
}) => (
  <div className={`log-line level-${line.level}`}>
    <span className="log-time">{time}</span>
    <span className="log-level">{line.level}</span>
    {beside === undefined ? null : <span className="log-attempt">{beside}</span>}
    <span className={line.message.includes("\n") ? "log-text lines" : "log-text"}>
      {step === undefined ? null : <span className="log-step">{step}</span>}
      {line.message}
    </span>
  </div>
)
