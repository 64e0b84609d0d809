/**
 * The workers of all endpoints, failing ones first.
 */
import { useQuery } from "@tanstack/react-query"
import { Link, useNavigate, useSearch } from "@tanstack/react-router"
import { EndpointSelect } from "../endpoints/EndpointSelect.tsx"
import { queryOfFilter } from "../format/AddressQuery.ts"
import { count, counted } from "../format/Format.ts"
import { useListPoll } from "../live/Connection.ts"
import { Chips } from "../ui/Choices.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Code } from "../ui/Text.tsx"
import {
  countWorkers,
  MOST_ENDPOINTS,
  MOST_WORKERS,
  mostWorkers,
  readWorkers,
  WORKER_STATES,
  type WorkerFilter,
  workerFilterOf,
  type WorkerList
} from "../workers/WorkerList.ts"
import { WorkerTable } from "../workers/WorkerTable.tsx"

/** With many endpoints, a read is up to 25 requests. */
const POLL_MILLIS = 5_000

const Filters = ({ filter, list: { overview } }: { readonly filter: WorkerFilter; readonly list: WorkerList }) => {
  const navigate = useNavigate()
  const names = overview.endpoints.map(({ id }) => id)
  const set = (change: Partial<WorkerFilter>) => {
    void navigate({ to: "/console/workers", search: queryOfFilter({ ...filter, ...change }), replace: true })
  }
  return (
    <>
      <div className="filters">
        <EndpointSelect names={names} value={filter.endpoint} onChoose={(endpoint) => set({ endpoint })} />
      </div>
      <Chips
        label="State"
        choices={([["", "All"], ...WORKER_STATES] as const).map(([state, name]) =>
          [
            state,
            <>
              {name} <span className="muted">{count(countWorkers(overview, filter.endpoint, state))}</span>
            </>
          ] as const
        )}
        value={filter.state}
        onChoose={(state) => set({ state })}
      />
    </>
  )
}

const Empty = ({ filter, list: { overview } }: { readonly filter: WorkerFilter; readonly list: WorkerList }) => {
  if (filter.state !== "" && countWorkers(overview, filter.endpoint, "") > 0) {
    return <p className="empty">No worker is in this state. Choose "All" to see the others.</p>
  }
  const endpoint = overview.endpoints.find(({ id }) => id === filter.endpoint)
  if (filter.endpoint !== "" && endpoint === undefined) {
    return <p className="empty">There is no endpoint {filter.endpoint} that this key permits. Choose another one.</p>
  }
  return (
    <section className="empty">
      <h2>No worker runs</h2>
      <p>
        {endpoint?.source === "external"
          ? "The workers of this endpoint run elsewhere. This prints what such a worker needs:"
          : "The platform starts a worker for the next job:"}
      </p>
      <Code label="the command">
        {endpoint?.source === "external"
          ? `stint worker-env ${endpoint.id}`
          : `stint run ${endpoint?.id ?? "hello"} --input '{}'`}
      </Code>
    </section>
  )
}

const Shown = ({ filter, list }: { readonly filter: WorkerFilter; readonly list: WorkerList }) => {
  const { left, overview, workers } = list
  // An endpoint lists at most 500 workers.
  const all = countWorkers(overview, filter.endpoint, filter.state)
  const most = mostWorkers(overview, filter.endpoint)
  const shown = workers.slice(0, MOST_WORKERS)
  return (
    <>
      <Filters filter={filter} list={list} />
      {shown.length === 0 ? <Empty filter={filter} list={list} /> : <WorkerTable workers={shown} isOfMany />}
      {most === 0 ? null : <p className="muted more">The platform starts at most {counted(most, "worker")} here.</p>}
      {left > 0
        ? (
          <p className="muted">
            Shown are the workers of {MOST_ENDPOINTS} endpoints. {counted(left, "further endpoint")} {left === 1 ? "has" : "have"}
            {" "}
            workers: choose one, or a state.
          </p>
        )
        : all > shown.length && shown.length >= MOST_WORKERS
        ? <p className="muted">The first {count(MOST_WORKERS)} of {count(all)} workers. Choose an endpoint or a state.</p>
        : null}
    </>
  )
}

const List = ({ filter }: { readonly filter: WorkerFilter }) => {
  const query = useQuery({
    queryKey: ["workers", filter],
    queryFn: ({ signal }) => readWorkers(filter, signal),
    refetchInterval: useListPoll(POLL_MILLIS)
  })
  return <Loaded query={query} rows={8}>{(list) => <Shown filter={filter} list={list} />}</Loaded>
}

const WorkersPage = () => {
  const filter = workerFilterOf(useSearch({ strict: false }))
  return (
    <>
      <div className="heading">
        <h1>Workers</h1>
        {filter.endpoint === ""
          ? null
          : (
            <div className="actions">
              <Link to="/console/endpoints/$endpoint" params={{ endpoint: filter.endpoint }} className="button">
                Open the endpoint
              </Link>
            </div>
          )}
      </div>
      <List filter={filter} />
    </>
  )
}

export default WorkersPage
