/**
 * A run of a pipeline: its graph with live state, and the selected node.
 */
import type { PipelineGraph } from "@stint/contract/RunJournal"
import { progressOf } from "@stint/contract/RunProgress"
import type { RunSteps } from "@stint/contract/RunSteps"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { jobsClient } from "../api/JobsClient.ts"
import { permits } from "../api/Permissions.ts"
import * as Runs from "../api/Runs.ts"
import { useSession } from "../api/useSession.ts"
import { textAt } from "../format/AddressQuery.ts"
import { hasEnded } from "../jobs/JobStates.ts"
import { usePoll } from "../live/Connection.ts"
import { GraphView } from "../pipelines/GraphView.tsx"
import { NodeInspector } from "../pipelines/NodeInspector.tsx"
import { mostUrgent } from "../pipelines/RunNodes.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Loaded, Loading, Problem } from "../ui/Loaded.tsx"
import { JobStatus } from "../ui/Status.tsx"
import { Id, Time } from "../ui/Text.tsx"

/** Runs with many steps are read less often. */
const MANY_STEPS = 500

const useRun = (endpoint: string, id: string) => {
  const [often, seldom] = [usePoll(2_000), usePoll(10_000)]
  const run = useQuery({
    queryKey: ["run", endpoint, id, "steps"],
    queryFn: ({ signal }) => Runs.runSteps(endpoint, id, signal),
    refetchInterval: ({ state: { data } }) =>
      data === undefined ? often : hasEnded(data.status) ? false : data.steps.length > MANY_STEPS ? seldom : often
  })
  const job = useQuery({
    queryKey: ["run", endpoint, id, "job"],
    queryFn: ({ signal }) => Api.explained(endpoint, id, signal),
    refetchInterval: ({ state: { data } }) => data !== undefined && hasEnded(data.status) ? false : often
  })
  const hash = run.data?.definition
  const graph = useQuery({
    queryKey: ["definition", endpoint, hash],
    queryFn: ({ signal }) => Runs.definition(endpoint, hash ?? "", signal),
    enabled: hash !== undefined,
    staleTime: Infinity
  })
  return { run, job, graph }
}

const Picture = ({ endpoint, graph, run }: {
  readonly endpoint: string
  readonly graph: PipelineGraph
  readonly run: RunSteps
}) => {
  const navigate = useNavigate()
  const nodes = progressOf(graph, run.steps, { isEnded: hasEnded(run.status) })
  const asked = textAt(useSearch({ strict: false }), "node")
  const selected = graph.nodes.some(({ address }) => address === asked) ? asked : mostUrgent(nodes)
  const node = graph.nodes.find(({ address }) => address === selected)
  const progress = nodes.find((one) => one.node === selected)
  return (
    <div className="run">
      <GraphView
        graph={graph}
        nodes={nodes}
        selected={selected}
        onSelect={(address) =>
          void navigate({
            to: "/console/pipelines/$endpoint/$id",
            params: { endpoint, id: run.run },
            search: { node: address },
            replace: true,
            resetScroll: false
          })}
      />
      {node === undefined || progress === undefined
        ? <p className="empty">Click a node to see its input, its output and its attempts.</p>
        : <NodeInspector key={node.address} endpoint={endpoint} graph={graph} run={run} node={node} progress={progress} />}
    </div>
  )
}

const Head = ({ endpoint, id, run }: { readonly endpoint: string; readonly id: string; readonly run: RunSteps }) => {
  const session = useSession()
  const client = useQueryClient()
  return (
    <div className="heading">
      <h1 className="job-title">
        <span className="sr">Run</span>
        <Id id={id} />
      </h1>
      <JobStatus status={run.status} />
      {run.phase === "undoing" ? <span className="muted">undoes what it did</span> : null}
      <Link to="/console/pipelines/$endpoint" params={{ endpoint }}>{endpoint}</Link>
      <div className="actions">
        <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id }} className="button">Job and logs</Link>
        {permits(session, "manage", endpoint) && !hasEnded(run.status)
          ? (
            <Confirm
              label="Cancel"
              title="Cancel 1 run?"
              body="Its open jobs are cancelled. If the pipeline has compensations, they run."
              verb="Cancel the run"
              danger
              action={() => jobsClient.endpoint(endpoint).job(id).cancel()}
              onDone={() => void client.invalidateQueries({ queryKey: ["run", endpoint] })}
            />
          )
          : null}
      </div>
    </div>
  )
}

const RunPage = () => {
  const { endpoint = "", id = "" } = useParams({ strict: false })
  const { graph, job, run } = useRun(endpoint, id)
  const explain = job.data?.explain
  return (
    <Loaded query={run} rows={8}>
      {(found) => (
        <>
          <Head endpoint={endpoint} id={id} run={found} />
          {explain === undefined ? null : (
            <p className="muted">
              Started <Time at={explain.createdAt} />
              {explain.finishedAt === undefined ? null : (
                <>
                  , ended <Time at={explain.finishedAt} />
                </>
              )}
            </p>
          )}
          {found.held === undefined ? null : <p className="notice warn">{found.held}</p>}
          {found.held !== undefined || explain === undefined || hasEnded(found.status)
            ? null
            : <p className="notice">{explain.words}</p>}
          {found.next === undefined
            ? null
            : <p className="notice">The graph shows the first {found.steps.length} steps of this run.</p>}
          {graph.data === undefined
            ? graph.error === null ? <Loading rows={6} /> : <Problem error={graph.error} onRetry={() => void graph.refetch()} />
            : <Picture endpoint={endpoint} graph={graph.data} run={found} />}
        </>
      )}
    </Loaded>
  )
}

export default RunPage
