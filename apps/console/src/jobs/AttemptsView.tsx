/**
 * The attempts of a job side by side, the newest first.
 */
import { duration } from "../format/Format.ts"
import { LogBox } from "../ui/LogBox.tsx"
import { Badge } from "../ui/Status.tsx"
import { Growing, Id, Time } from "../ui/Text.tsx"
import { type Attempt, type AttemptState, MAX_SHOWN } from "./Attempts.ts"
import type { Tone } from "./JobStates.ts"
import { LogRow } from "./LogRow.tsx"

const STATES: Readonly<Record<AttemptState, readonly [tone: Tone, word: string]>> = {
  completed: ["done", "Completed"],
  failed: ["failed", "Failed"],
  timed_out: ["failed", "Timed out"],
  lost: ["failed", "Worker lost"],
  returned: ["ended", "Returned"],
  cancelled: ["ended", "Cancelled"],
  running: ["running", "Running"],
  unknown: ["ended", "Unknown"]
}

/** The maximum number of lines that one attempt shows. The tab Logs has all. */
const SHOWN_LINES = 200

const AttemptColumn = ({ attempt }: { readonly attempt: Attempt }) => {
  const { endedAt, error, isEstimate, lines, number, release, startedAt, state, worker } = attempt
  const [tone, word] = STATES[state]
  const shown = lines.slice(-SHOWN_LINES)
  return (
    <li className="attempt">
      <div className="attempt-head">
        <h3>Attempt {number}</h3>
        <Badge tone={tone}>{word}</Badge>
      </div>
      <dl className="attempt-facts">
        <dt>Started</dt>
        <dd>{startedAt === undefined ? "unknown" : <Time at={startedAt} />}</dd>
        <dt>Ran for</dt>
        <dd>
          {startedAt === undefined
            ? "unknown"
            : state === "running"
            ? <Growing since={startedAt} />
            : `${isEstimate ? "at least " : ""}${duration((endedAt ?? startedAt) - startedAt)}`}
        </dd>
        <dt>Worker</dt>
        <dd>{worker === undefined ? "unknown" : <Id id={worker} short />}</dd>
        <dt>Release</dt>
        <dd>{release ?? "none"}</dd>
      </dl>
      {error === undefined ? null : <p className="reason attempt-error" tabIndex={0}>{error}</p>}
      {shown.length === 0 ?
        <p className="muted">It printed nothing.</p> :
        (
          <LogBox count={shown.length} label={`Log of attempt ${number}`}>
            {shown.map((line) => <LogRow key={line.number} line={line} />)}
          </LogBox>
        )}
      {lines.length > shown.length ? <p className="muted">The newest {shown.length} of {lines.length} lines.</p> : null}
    </li>
  )
}

/** The attempts. `total`: how many there were, with those that are not shown. */
export const AttemptsView = ({ attempts, total }: { readonly attempts: ReadonlyArray<Attempt>; readonly total: number }) => (
  <>
    <ol className="attempt-columns" reversed aria-label="Attempts, the newest first" tabIndex={0}>
      {attempts.toReversed().map((attempt) => <AttemptColumn key={attempt.number} attempt={attempt} />)}
    </ol>
    {total > attempts.length ? <p className="muted">The newest {MAX_SHOWN} of {total} attempts.</p> : null}
  </>
)
