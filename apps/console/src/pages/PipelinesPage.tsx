/**
 * Pipelines: their definitions with the number of runs that follow each, and the open runs.
 */
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { count } from "../format/Format.ts"
import { RunList } from "../pipelines/RunList.tsx"
import { type PipelineEndpoint, useDefinitions } from "../pipelines/useDefinitions.ts"
import { Loaded, Loading, Problem } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { Code, Time } from "../ui/Text.tsx"

/** Older definitions are shown while they have open runs. */
const Rows = ({ pipeline: { endpoint, list } }: { readonly pipeline: PipelineEndpoint }) =>
  list.definitions.filter(({ open }, index) => index === 0 || open > 0).map(({ definedAt, hash, held, open }, index) => (
    <tr key={hash}>
      <th scope="row">
        <Link to="/console/pipelines/$endpoint" params={{ endpoint }} search={{ definition: hash }}>{endpoint}</Link>
        {index === 0 ? null : <span className="muted">{" "}(earlier)</span>}
      </th>
      <td>
        {held > 0
          ? <Badge tone="failed">{`${count(held)} held`}</Badge>
          : open > 0
          ? <Badge tone="running">Runs</Badge>
          : <Badge tone="ended">Idle</Badge>}
      </td>
      <td className="number" data-label="Open runs">{open === 0 ? <span className="zero">0</span> : count(open)}</td>
      <td data-label="Definition">
        <span className="mono" title={hash}>{hash.slice(0, 8)}</span>
      </td>
      <td data-label="Since">
        <Time at={definedAt} />
      </td>
    </tr>
  ))

const List = ({ endpoints }: { readonly endpoints: ReadonlyArray<string> }) => {
  const { error, isPending, pipelines, refetch } = useDefinitions(endpoints)
  if (pipelines.length === 0 && isPending) return <Loading rows={6} />
  return (
    <>
      {error === null ? null : <Problem error={error} onRetry={refetch} />}
      {pipelines.length === 0
        ? error === null
          ? (
            <section className="empty">
              <h2>No pipeline yet</h2>
              <p>A pipeline is a handler with named steps. It appears here when its first worker has started. Try the example:</p>
              <Code label="the command">stint serve --config examples/stint.config.ts</Code>
            </section>
          )
          : null
        : (
          <>
            <table className="stacks">
              <thead>
                <tr>
                  <th scope="col">Pipeline</th>
                  <th scope="col">State</th>
                  <th scope="col" className="number">Open runs</th>
                  <th scope="col">Definition</th>
                  <th scope="col">Since</th>
                </tr>
              </thead>
              <tbody>{pipelines.map((pipeline) => <Rows key={pipeline.endpoint} pipeline={pipeline} />)}</tbody>
            </table>
            <h2>Open runs</h2>
            <RunList
              endpoints={pipelines.map(({ endpoint }) => endpoint)}
              status={["IN_QUEUE", "IN_PROGRESS"]}
              empty="No run is open."
            />
          </>
        )}
    </>
  )
}

const PipelinesPage = () => {
  const session = useSession()
  const query = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  return (
    <>
      <h1>Pipelines</h1>
      <Loaded query={query} rows={6}>
        {({ endpoints }) => <List endpoints={endpoints.map(({ id }) => id).filter((id) => permits(session, "read", id))} />}
      </Loaded>
    </>
  )
}

export default PipelinesPage
