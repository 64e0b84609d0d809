/**
 * One node of a run: its input, output, attempts, log, times, the events that it waits for, and a retry from this node.
 */
import type { GraphNode, PipelineGraph } from "@stint/contract/RunJournal"
import type { NodeProgress } from "@stint/contract/RunProgress"
import type { RunStep, RunSteps } from "@stint/contract/RunSteps"
import { sourcesOf } from "@stint/contract/StepSources"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { retryFrom } from "../api/Runs.ts"
import { useSession } from "../api/useSession.ts"
import { duration } from "../format/Format.ts"
import { ErrorView } from "../jobs/ErrorView.tsx"
import { hasEnded, mayRetry } from "../jobs/JobStates.ts"
import { useNow } from "../live/Clock.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { JsonView, Time } from "../ui/Text.tsx"
import { EventForm } from "./EventForm.tsx"
import { inputOf, jobOf, logOf, openWaits, outputOf, recordedOf, stateOf, stepsOf, tookOf } from "./RunNodes.ts"
import { StepLog } from "./StepLog.tsx"
import { StepTable } from "./StepTable.tsx"

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
const JobOutput = ({ endpoint, id, label }: { readonly endpoint: string; readonly id: string; readonly label: string }) => {
  const query = useQuery({ queryKey: ["job", endpoint, id], queryFn: ({ signal }) => Api.explained(endpoint, id, signal) })
  return (
    <Loaded query={query} rows={2}>
      {({ output }) => output === undefined ? <p className="muted">None.</p> : <JsonView value={output} label={label} />}
    </Loaded>
  )
}

/** The output of a node: what it recorded, or the output of its job. */
const Output = ({ label, steps }: { readonly label: string; readonly steps: ReadonlyArray<RunStep> }) => {
  const session = useSession()
  const output = outputOf(steps)
  const job = jobOf(steps)
  if (output !== undefined) return <JsonView value={output} label={label} />
  if (job === undefined) return <p className="muted">None.</p>
  return permits(session, "read", job.endpoint)
    ? <JobOutput key={`${job.id} ${steps.at(-1)?.state ?? ""}`} {...job} label={label} />
    : <p className="muted">The output of a job that this key may not read.</p>
}

/** The input of a node: the input of its job, what was recorded, the outputs of earlier nodes, or the input of the run. */
const Given = ({ endpoint, graph, node, run, steps }: {
  readonly endpoint: string
  readonly graph: PipelineGraph
  readonly run: string
  readonly node: GraphNode
  readonly steps: ReadonlyArray<RunStep>
}) => {
  const session = useSession()
  const job = jobOf(stepsOf(steps, node.address))
  if (job !== undefined && permits(session, "read", job.endpoint)) return <JobInput {...job} />
  const computed = inputOf(stepsOf(steps, node.address))
  if (computed !== undefined) return <JsonView value={computed} label="the input" />
  const sources = sourcesOf(graph, recordedOf(steps), node.address)
  if (sources.length === 0) {
    return (
      <>
        <p className="muted">From the input of the run</p>
        <JobInput endpoint={endpoint} id={run} />
      </>
    )
  }
  return sources.map((address) => (
    <div key={address}>
      <p className="muted">From the output of {address}</p>
      <Output steps={stepsOf(steps, address)} label={`the output of ${address}`} />
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
          <dt>{node.startedAt === node.endedAt ? "Recorded" : "Began"}</dt>
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
export const NodeInspector = ({ endpoint, graph, node, progress, run }: {
  readonly endpoint: string
  readonly graph: PipelineGraph
  readonly run: RunSteps
  readonly node: GraphNode
  readonly progress: NodeProgress
}) => {
  const session = useSession()
  const client = useQueryClient()
  const steps = stepsOf(run.steps, node.address)
  const waits = openWaits(steps)
  const failure = steps.findLast(({ error }) => error !== undefined)?.error
  const hasOutput = outputOf(steps) !== undefined || jobOf(steps) !== undefined
  const hasInput = node.kind !== "waitFor" && node.kind !== "sleep"
  const [tone = "ended", word] = stateOf(progress)
  const log = logOf(node, steps, { endpoint, id: run.run })
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
                body="The platform discards what the run has recorded at this node and at all nodes after it, and runs them again. What they did outside the platform is not undone."
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
            {event.key === "" ? null : " with the key "}
            {event.key === "" ? null : <code>{event.key}</code>}
            {until === undefined ? "." : (
              <>
                . The wait times out <Time at={until} />.
              </>
            )}
          </p>
          {permits(session, "submit", endpoint) ? <EventForm endpoint={endpoint} run={run.run} event={event} /> : null}
        </div>
      ))}
      {steps.length === 0 && progress.state === "-" ? <p className="muted">The run has not reached this node.</p> : (
        <>
          {hasOutput
            ? (
              <>
                <h2>Output</h2>
                <Output steps={steps} label="the output" />
              </>
            )
            : null}
          {hasInput
            ? (
              <>
                <h2>Input</h2>
                <Given endpoint={endpoint} graph={graph} run={run.run} node={node} steps={run.steps} />
              </>
            )
            : null}
          {steps.length === 0 ? null : <StepTable steps={steps} />}
          {log === undefined || !permits(session, "read", log.endpoint)
            ? null
            : <StepLog {...log} isLive={!hasEnded(run.status)} />}
        </>
      )}
    </section>
  )
}
