/**
 * The log of a job, filtered by level, text and, for a run of a pipeline, by node. It follows new lines.
 */
import type { JobLogLine } from "@stint/client"
import { isWithin, nodeOf } from "@stint/contract/NodeAddress"
import { useId, useState } from "react"
import { LEVEL_CHOICES, LEVELS } from "../logs/LogFilter.ts"
import { LogBox } from "../ui/LogBox.tsx"
import { LogRow } from "./LogRow.tsx"

/** Lines of an attempt and a node, at a level or above, that contain a text. `attempt`, `node`: empty for all. */
const filterLines = (
  lines: ReadonlyArray<JobLogLine>,
  { attempt, level, node, text }: {
    readonly attempt: string
    readonly level: string
    readonly node: string
    readonly text: string
  }
): ReadonlyArray<JobLogLine> => {
  const lowest = LEVELS.findIndex((one) => one === level)
  const wanted = text.toLowerCase()
  return lines.filter((line) =>
    (attempt === "" || String(line.attempt) === attempt) && LEVELS.indexOf(line.level) >= lowest &&
    (wanted === "" || line.message.toLowerCase().includes(wanted)) &&
    (node === "" || (line.step !== undefined && isWithin(line.step, node)))
  )
}

/** The nodes of a pipeline that have written lines. */
const nodesOf = (lines: ReadonlyArray<JobLogLine>): ReadonlyArray<string> => [
  ...new Set(lines.flatMap(({ step }) => step === undefined ? [] : [nodeOf(step)]))
]

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
  const [node, setNode] = useState("")
  const nodeField = useId()
  const nodes = nodesOf(lines)
  const found = filterLines(lines, { attempt, level, node, text })
  const shown = found.slice(-SHOWN)
  return (
    <>
      <div className="filters">
        <label htmlFor={levelField}>Level</label>
        <select id={levelField} value={level} onChange={(event) => setLevel(event.target.value)}>
          {LEVEL_CHOICES.map(([one, name]) => <option key={one} value={one}>{name}</option>)}
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
        {nodes.length < 2 ? null : (
          <>
            <label htmlFor={nodeField}>Step</label>
            <select id={nodeField} value={node} onChange={(event) => setNode(event.target.value)}>
              <option value="">All</option>
              {nodes.map((one) => <option key={one} value={one}>{one}</option>)}
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
              <LogRow
                key={line.number}
                line={line}
                beside={shown[index - 1]?.attempt === line.attempt ? "" : `attempt ${line.attempt}`}
                step={shown[index - 1]?.step === line.step ? undefined : line.step}
              />
            ))}
          </LogBox>
        )}
      {found.length > shown.length ? <p className="muted">The newest {SHOWN} of {found.length} lines.</p> : null}
    </>
  )
}
