/**
 * The steps of a node, one in each row. A step with several attempts unfolds into them.
 */
import type { RunStep, StepAttempt } from "@stint/contract/RunSteps"
import { Link } from "@tanstack/react-router"
import { useState } from "react"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { counted, duration, shortId } from "../format/Format.ts"
import type { Tone } from "../jobs/JobStates.ts"
import { Badge } from "../ui/Status.tsx"
import { Reason, Time } from "../ui/Text.tsx"

const STEP: Readonly<Record<RunStep["state"], readonly [Tone, string]>> = {
  open: ["running", "Open"],
  completed: ["done", "Completed"],
  failed: ["failed", "Failed"],
  "timed-out": ["failed", "Timed out"],
  cancelled: ["ended", "Cancelled"],
  undone: ["ended", "Undone"]
}

/** The maximum number of steps that are shown. */
const MOST_ROWS = 100

const JobLink = ({ endpoint, job }: { readonly endpoint: string | undefined; readonly job: string | undefined }) => {
  const session = useSession()
  if (job === undefined || endpoint === undefined) return <span className="zero">-</span>
  return permits(session, "read", endpoint)
    ? <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id: job }} className="mono" title={job}>{shortId(job)}</Link>
    : <span className="mono" title={job}>{shortId(job)}</span>
}

/** The cells of a step or of one of its attempts, after its name. `hasJobs`: there is a column for jobs. */
const Cells = ({ endpoint, hasJobs, one, nextAttemptAt }: {
  readonly one: RunStep | StepAttempt
  readonly endpoint: string | undefined
  readonly hasJobs: boolean
  readonly nextAttemptAt?: number | undefined
}) => {
  const { endedAt, error, job, startedAt, state } = one
  return (
    <>
      <td>
        <Badge tone={STEP[state][0]}>{STEP[state][1]}</Badge>
      </td>
      <td data-label="Time" className="breaks">
        {startedAt === undefined ? endedAt === undefined ? "" : <Time at={endedAt} /> : endedAt === undefined
          ? (
            <>
              since <Time at={startedAt} />
            </>
          )
          : duration(endedAt - startedAt)}
        {nextAttemptAt === undefined ? null : (
          <>
            , next attempt <Time at={nextAttemptAt} />
          </>
        )}
        {error === undefined ? null : <Reason>{error}</Reason>}
      </td>
      {hasJobs
        ? (
          <td data-label="Job">
            <JobLink endpoint={endpoint} job={job} />
          </td>
        )
        : null}
    </>
  )
}

const StepRows = ({ hasJobs, step }: { readonly step: RunStep; readonly hasJobs: boolean }) => {
  const { attempts, endpoint, kind, nextAttemptAt, path, state } = step
  // What a completed step went through before is of interest only on demand.
  const [isOpen, setOpen] = useState(state !== "completed" && state !== "undone")
  return (
    <>
      <tr>
        <th scope="row" className="mono breaks">
          {kind === "undo" ? `${path.replace(/~undo$/, "")} (undo)` : path}
          {attempts === undefined ?
            null :
            (
              <button type="button" className="unfold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                {counted(attempts.at(-1)?.attempt ?? attempts.length, "attempt")}
              </button>
            )}
        </th>
        <Cells one={step} endpoint={endpoint} hasJobs={hasJobs} nextAttemptAt={nextAttemptAt} />
      </tr>
      {isOpen
        ? attempts?.map((one) => (
          <tr key={one.attempt} className="sub">
            <th scope="row">Attempt {one.attempt}</th>
            <Cells one={one} endpoint={endpoint} hasJobs={hasJobs} />
          </tr>
        ))
        : null}
    </>
  )
}

/** The table. */
export const StepTable = ({ steps }: { readonly steps: ReadonlyArray<RunStep> }) => {
  const hasJobs = steps.some(({ job }) => job !== undefined)
  return (
    <section aria-labelledby="attempts">
      <h2 id="attempts">{steps.some(({ path }) => path.endsWith("]")) ? "Items and attempts" : "Attempts"}</h2>
      <table className="stacks attempts">
        <thead>
          <tr>
            {["Path", "State", "Time", ...(hasJobs ? ["Job"] : [])].map((name) => <th key={name} scope="col">{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {steps.slice(0, MOST_ROWS).map((step) => <StepRows key={step.path} step={step} hasJobs={hasJobs} />)}
        </tbody>
      </table>
      {steps.length > MOST_ROWS ? <p className="muted">The first {MOST_ROWS} of {steps.length}.</p> : null}
    </section>
  )
}
