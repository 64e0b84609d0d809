/**
 * The log of a job, filtered by level and text. It follows new lines.
 */
import type { JobLogLine } from "@stint/client"
import { useId, useState } from "react"
import { clockTime } from "../format/Format.ts"
import { LogBox } from "../ui/LogBox.tsx"

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const

/** Lines of an attempt, at a level or above, that contain a text. `attempt`: empty for all. */
const filterLines = (
  lines: ReadonlyArray<JobLogLine>,
  { attempt, level, text }: { readonly attempt: string; readonly level: string; readonly text: string }
): ReadonlyArray<JobLogLine> => {
  const lowest = LEVELS.findIndex((one) => one === level)
  const wanted = text.toLowerCase()
  return lines.filter((line) =>
    (attempt === "" || String(line.attempt) === attempt) && LEVELS.indexOf(line.level) >= lowest &&
    (wanted === "" || line.message.toLowerCase().includes(wanted))
  )
}

/** The maximum number of lines that are drawn. The filter and `stint logs` find older lines. */
const SHOWN = 1_000

/** The lines. */
export const LogView = ({ isLive, lines }: { readonly lines: ReadonlyArray<JobLogLine>; readonly isLive: boolean }) => {
  const [level, setLevel] = useState("TRACE")
  const [text, setText] = useState("")
  const [attempt, setAttempt] = useState("")
  const attempts = [...new Set(lines.map((line) => line.attempt))].sort((a, b) => a - b)
  const attemptField = useId()
  const levelField = useId()
  const textField = useId()
  const found = filterLines(lines, { attempt, level, text })
  const shown = found.slice(-SHOWN)
  return (
    <>
      <div className="filters">
        <label htmlFor={levelField}>Level</label>
        <select id={levelField} value={level} onChange={(event) => setLevel(event.target.value)}>
          {LEVELS.map((one) => <option key={one} value={one}>{one === "TRACE" ? "All" : one}</option>)}
        </select>
        {attempts.length < 2 ? null : (
          <>
            <label htmlFor={attemptField}>Attempt</label>
            <select id={attemptField} value={attempt} onChange={(event) => setAttempt(event.target.value)}>
              <option value="">All</option>
              {attempts.map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
          </>
        )}
        <label htmlFor={textField}>Contains</label>
        <input id={textField} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      {shown.length === 0
        ? (
          <p className="empty">
            {lines.length > 0
              ? "No line matches."
              : isLive
              ? "No lines yet. Lines appear here as the handler prints them."
              : "The handler printed nothing."}
          </p>
        )
        : (
          <LogBox count={shown.length} label="Log">
            {shown.map((line, index) => (
              <div key={line.number} className={`log-line level-${line.level}`}>
                <span className="log-time">{clockTime(line.time)}</span>
                <span className="log-level">{line.level}</span>
                <span className="log-attempt">{shown[index - 1]?.attempt === line.attempt ? "" : `attempt ${line.attempt}`}</span>
                <span className="log-text">{line.message}</span>
              </div>
            ))}
          </LogBox>
        )}
      {found.length > shown.length ? <p className="muted">The newest {SHOWN} of {found.length} lines.</p> : null}
    </>
  )
}
