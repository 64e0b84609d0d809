/**
 * A pipeline: the graph of one of its definitions, and its runs.
 */
import { useQuery } from "@tanstack/react-query"
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router"
import { useId, useState } from "react"
import { permits } from "../api/Permissions.ts"
import * as Runs from "../api/Runs.ts"
import { useSession } from "../api/useSession.ts"
import { textAt } from "../format/AddressQuery.ts"
import { absolute, counted } from "../format/Format.ts"
import { usePoll } from "../live/Connection.ts"
import { GraphView } from "../pipelines/GraphView.tsx"
import { RunList } from "../pipelines/RunList.tsx"
import { Loaded } from "../ui/Loaded.tsx"

const Graph = ({ endpoint, hash }: { readonly endpoint: string; readonly hash: string }) => {
  const [selected, setSelected] = useState<string>()
  const query = useQuery({
    queryKey: ["definition", endpoint, hash],
    queryFn: ({ signal }) => Runs.definition(endpoint, hash, signal),
    staleTime: Infinity
  })
  return (
    <Loaded query={query} rows={6}>
      {(graph) => {
        const node = graph.nodes.find(({ address }) => address === selected)
        return (
          <>
            <GraphView graph={graph} nodes={[]} selected={selected} onSelect={setSelected} />
            <p className="muted" aria-live="polite">
              {node === undefined
                ? `${counted(graph.nodes.length, "node")}. Open a run to see its state.`
                : `${node.address}: ${node.kind}${node.endpoint === undefined ? "" : ` of ${node.endpoint}`}${
                  node.needs === undefined || node.needs.length === 0 ? "" : `, after ${node.needs.join(", ")}`
                }`}
            </p>
          </>
        )
      }}
    </Loaded>
  )
}

const PipelinePage = () => {
  const { endpoint = "" } = useParams({ strict: false })
  const session = useSession()
  const navigate = useNavigate()
  const field = useId()
  const asked = textAt(useSearch({ strict: false }), "definition")
  const query = useQuery({
    queryKey: ["definitions", endpoint, "page"],
    queryFn: ({ signal }) => Runs.definitions(endpoint, signal),
    refetchInterval: usePoll(5_000)
  })
  return (
    <>
      <div className="heading">
        <h1>{endpoint}</h1>
        <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>Endpoint</Link>
        <div className="actions">
          {permits(session, "submit", endpoint)
            ? <Link to="/console/playground" search={{ endpoint }} className="button primary">Start a run</Link>
            : null}
        </div>
      </div>
      <Loaded query={query} rows={6}>
        {({ definitions }) => {
          const shown = definitions.find(({ hash }) => hash === asked) ?? definitions[0]
          if (shown === undefined) {
            return <p className="empty">This endpoint is not a pipeline, or no worker of it has started.</p>
          }
          return (
            <>
              <div className="filters">
                <label htmlFor={field}>Definition</label>
                <select
                  id={field}
                  value={shown.hash}
                  onChange={({ target }) =>
                    void navigate({
                      to: "/console/pipelines/$endpoint",
                      params: { endpoint },
                      search: { definition: target.value },
                      replace: true
                    })}
                >
                  {definitions.map(({ definedAt, hash, held, open }) => (
                    <option key={hash} value={hash}>
                      {`${hash.slice(0, 8)}, since ${absolute(definedAt).slice(0, 16)}, ${counted(open, "open run")}${
                        held === 0 ? "" : `, ${held} held`
                      }`}
                    </option>
                  ))}
                </select>
              </div>
              <Graph key={shown.hash} endpoint={endpoint} hash={shown.hash} />
            </>
          )
        }}
      </Loaded>
      <h2>Runs</h2>
      <RunList endpoints={[endpoint]} status={[]} empty="No runs yet. Start one in the playground." />
    </>
  )
}

export default PipelinePage
