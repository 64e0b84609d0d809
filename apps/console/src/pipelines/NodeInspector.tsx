/**
 * One node of a run: its input, output, attempts, times, the events that it waits for, and a retry from here.
 */
import type { GraphNode } from "@stint/contract/RunJournal"
import type { RunStep, RunSteps } from "@stint/contract/RunSteps"
import type { NodeProgress } from "@stint/pipelines/Progress"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { retryFrom } from "../api/Runs.ts"
import { useSession } from "../api/useSession.ts"
import { duration, shortId } from "../format/Format.ts"
import { ErrorView } from "../jobs/ErrorView.tsx"
import { mayRetry, type Tone } from "../jobs/JobStates.ts"
import { useNow } from "../live/Clock.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { JsonView, Time } from "../ui/Text.tsx"
import { EventForm } from "./EventForm.tsx"
import { openWaits, outputOf, stateOf, stepsOf, tookOf } from "./RunNodes.ts"

const STEP: Readonly<Record<RunStep["state"], readonly [Tone, string]>> = {
  open: ["running", "Open"],
  completed: ["done", "Completed"],
  failed: ["failed", "Failed"],
  "timed-out": ["failed", "Timed out"],
  cancelled: ["ended", "Cancelled"],
  undone: ["ended", "Undone"]
}

/** The most attempts and items that are shown. */
const MOST_ROWS = 100

const Attempts = ({ steps }: { readonly steps: ReadonlyArray<RunStep> }) => {
  const session = useSession()
  return (
    <section aria-labelledby="attempts">
      <h2 id="attempts">Attempts and items</h2>
      <table className="stacks attempts">
        <thead>
          <tr>
            {["Path", "State", "Time", "Job"].map((name) => <th key={name} scope="col">{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {steps.slice(0, MOST_ROWS).map(({ endedAt, endpoint, error, job, kind, path, startedAt, state }) => (
            <tr key={`${path} ${kind}`}>
              <th scope="row" className="mono breaks">{path}{kind === "undo" ? " (undo)" : ""}</th>
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
                {error === undefined ? null : <p className="reason">{error}</p>}
              </td>
              <td data-label="Job">
                {job === undefined || endpoint === undefined
                  ? <span className="zero">-</span>
                  : permits(session, "read", endpoint)
                  ? (
                    <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id: job }} className="mono" title={job}>
                      {shortId(job)}
                    </Link>
                  )
                  : <span className="mono" title={job}>{shortId(job)}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {steps.length > MOST_ROWS ? <p className="muted">The first {MOST_ROWS} of {steps.length}.</p> : null}
    </section>
  )
}

/** The input of the job that a node runs. */
const JobInput = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => {
  const query = useQuery({
    queryKey: ["input", endpoint, id],
    queryFn: ({ signal }) => Api.withInput(endpoint, id, signal),
    staleTime: Infinity
  })
  return <Loaded query={query} rows={2}>{({ input }) => <JsonView value={input} label="the input" />}</Loaded>
}

/** The output of the job that a node ran, which its steps do not contain. */
const JobOutput = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => {
  const query = useQuery({ queryKey: ["job", endpoint, id], queryFn: ({ signal }) => Api.explained(endpoint, id, signal) })
  return (
    <Loaded query={query} rows={2}>
      {({ output }) => output === undefined ? <p className="muted">None.</p> : <JsonView value={output} label="the output" />}
    </Loaded>
  )
}

/** What a node that runs no job of its own was given: the recorded outputs of the nodes before it, or the input of the run. */
const Given = ({ endpoint, node, run, steps }: {
  readonly endpoint: string
  readonly run: string
  readonly node: GraphNode
  readonly steps: ReadonlyArray<RunStep>
}) => {
  const before = (node.needs ?? []).flatMap((address) => {
    const output = outputOf(stepsOf(steps, address))
    return output === undefined ? [] : [{ address, output }]
  })
  if (before.length === 0) {
    return (
      <>
        <p className="muted">The input of the run.</p>
        <JobInput endpoint={endpoint} id={run} />
      </>
    )
  }
  return before.map(({ address, output }) => (
    <div key={address}>
      <p className="muted">From the output of {address}</p>
      <JsonView value={output} label={`the output of ${address}`} />
    </div>
  ))
}

const Facts = ({ node }: { readonly node: NodeProgress }) => {
  const now = useNow()
  const took = tookOf(node, now)
  return (
    <dl className="facts">
      <div>
        <dt>Kind</dt>
        <dd>{node.kind}</dd>
      </div>
      {node.startedAt === undefined ? null : (
        <div>
          <dt>Began</dt>
          <dd>
            <Time at={node.startedAt} />
          </dd>
        </div>
      )}
      {took === undefined ? null : (
        <div>
          <dt>{node.state === "open" ? "For" : "Took"}</dt>
          <dd>{duration(took)}</dd>
        </div>
      )}
    </dl>
  )
}

/** The inspector. */
export const NodeInspector = ({ endpoint, node, progress, run }: {
  readonly endpoint: string
  readonly run: RunSteps
  readonly node: GraphNode
  readonly progress: NodeProgress
}) => {
  const session = useSession()
  const client = useQueryClient()
  const steps = stepsOf(run.steps, node.address)
  const waits = openWaits(steps)
  const job = steps.findLast((step) => step.job !== undefined && !step.path.includes("["))
  const [childEndpoint, child] = [job?.endpoint, job?.job]
  const mayReadChild = childEndpoint !== undefined && permits(session, "read", childEndpoint)
  const failure = steps.findLast(({ error }) => error !== undefined)?.error
  const output = outputOf(steps)
  const [tone = "ended", word] = stateOf(progress)
  const mayRetryHere = permits(session, "manage", endpoint) && steps.length > 0 &&
    (mayRetry(run.status) || run.held !== undefined)
  return (
    <section className="inspector" aria-label={`The node ${node.address}`}>
      <div className="heading">
        <h2>{node.address}</h2>
        <Badge tone={tone}>{word}</Badge>
        {mayRetryHere
          ? (
            <div className="actions">
              <Confirm
                label="Retry from here"
                title={`Retry the run from ${node.address}?`}
                body="The platform forgets what the run has recorded at this node and at all nodes after it, and runs them again. What they did outside of the platform stays done."
                verb="Retry the run"
                action={() => retryFrom(endpoint, run.run, node.address)}
                onDone={() => void client.invalidateQueries({ queryKey: ["run", endpoint] })}
              />
            </div>
          )
          : null}
      </div>
      <Facts node={progress} />
      {failure === undefined || progress.state !== "failed" ? null : <ErrorView error={failure} title="Error" />}
      {waits.map(({ event, path, until }) => (
        <div key={path} className="notice">
          <p>
            Waits for the event <code>{event.name}</code>
            {event.key === "" ? null : (
              <>
                with the key <code>{event.key}</code>
              </>
            )}
            {until === undefined ? "." : (
              <>
                , which must come <Time at={until} />.
              </>
            )}
          </p>
          {permits(session, "submit", endpoint) ? <EventForm endpoint={endpoint} run={run.run} event={event} /> : null}
        </div>
      ))}
      {steps.length === 0 && progress.state === "-" ? <p className="muted">The run has not come to this node.</p> : (
        <>
          {output === undefined && child === undefined ? null : (
            <>
              <h2>Output</h2>
              {output !== undefined
                ? <JsonView value={output} label="the output" />
                : childEndpoint === undefined || child === undefined || !mayReadChild
                ? <p className="muted">The output of its job.</p>
                : <JobOutput key={`${child} ${progress.state}`} endpoint={childEndpoint} id={child} />}
            </>
          )}
          <h2>Input</h2>
          {childEndpoint !== undefined && child !== undefined && mayReadChild
            ? <JobInput endpoint={childEndpoint} id={child} />
            : <Given endpoint={endpoint} run={run.run} node={node} steps={run.steps} />}
          {steps.length === 0 ? null : <Attempts steps={steps} />}
        </>
      )}
    </section>
  )
}
