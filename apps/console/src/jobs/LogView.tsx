/**
 * The log of a job, filtered by level and text. It follows new lines.
 */
import type { JobLogLine } from "@stint/client"
import { useId, useState } from "react"
import { clockTime } from "../format/Format.ts"
import { LogBox } from "../ui/LogBox.tsx"

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const

/** Lines at a level or above that contain a text. */
const filterLines = (lines: ReadonlyArray<JobLogLine>, level: string, text: string): ReadonlyArray<JobLogLine> => {
  const lowest = LEVELS.findIndex((one) => one === level)
  const wanted = text.toLowerCase()
  return lines.filter((line) =>
    LEVELS.indexOf(line.level) >= lowest && (wanted === "" || line.message.toLowerCase().includes(wanted))
  )
}

/** The maximum number of lines that are drawn. The filter and `stint logs` find older lines. */
const SHOWN = 1_000

/** The lines. */
export const LogView = ({ isLive, lines }: { readonly lines: ReadonlyArray<JobLogLine>; readonly isLive: boolean }) => {
  const [level, setLevel] = useState("TRACE")
  const [text, setText] = useState("")
  const levelField = useId()
  const textField = useId()
  const found = filterLines(lines, level, text)
  const shown = found.slice(-SHOWN)
  return (
    <>
      <div className="filters">
        <label htmlFor={levelField}>Level</label>
        <select id={levelField} value={level} onChange={(event) => setLevel(event.target.value)}>
          {LEVELS.map((one) => <option key={one} value={one}>{one === "TRACE" ? "All" : one}</option>)}
        </select>
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
