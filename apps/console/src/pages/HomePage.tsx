/**
 * Home: what needs attention, then every endpoint with its rates of the last minute and its last half hour.
 */
import type { EndpointRates } from "@stint/contract/HistoryApi"
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Alerts } from "../alerts/Alerts.tsx"
import * as Api from "../api/Api.ts"
import { rates } from "../api/History.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { Sparkline } from "../charts/Sparkline.tsx"
import { oldestWait, type RankedEndpoint, rankEndpoints } from "../endpoints/EndpointHealth.ts"
import { forecastOf, rateText } from "../endpoints/Forecast.ts"
import { count, counted, duration, percent } from "../format/Format.ts"
import { useNow } from "../live/Clock.ts"
import { useListPoll, usePoll } from "../live/Connection.ts"
import { Loaded } from "../ui/Loaded.tsx"
import { EndpointState } from "../ui/Status.tsx"
import { Code } from "../ui/Text.tsx"

const Attention = ({ ranked }: { readonly ranked: ReadonlyArray<RankedEndpoint> }) => {
  const urgent = ranked.filter(({ health }) => health.level !== "ok")
  if (urgent.length === 0) {
    const total = (of: (one: RankedEndpoint) => number) => ranked.reduce((sum, one) => sum + of(one), 0)
    return (
      <p className="calm">
        Nothing needs attention: {counted(total(({ endpoint }) => endpoint.jobs.waiting), "job waits", "jobs wait")},{" "}
        {counted(total(({ endpoint }) => endpoint.jobs.running), "job runs", "jobs run")}.
      </p>
    )
  }
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <ul className="attention">
        {urgent.map(({ endpoint, health }) => (
          <li key={endpoint.id} className={health.level}>
            <Link to="/console/endpoints/$endpoint" params={{ endpoint: endpoint.id }} className="name">{endpoint.id}</Link>
            <EndpointState level={health.level} word={health.word} />
            <span className="reason">{health.reason}</span>
            <Link
              to="/console/jobs"
              search={{ endpoint: endpoint.id, status: endpoint.jobs.waiting > 0 ? "IN_QUEUE" : "FAILED" }}
              className="button"
            >
              {endpoint.jobs.waiting > 0 ? "Waiting jobs" : "Failed jobs"}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** A number that links to the jobs that it counts. */
const JobCount = ({ endpoint, label, status, value }: {
  readonly endpoint: string
  readonly status: string
  readonly value: number
  readonly label: string
}) =>
  value === 0 ?
    <span className="zero">0</span> :
    (
      <Link to="/console/jobs" search={{ endpoint, status }} aria-label={`${count(value)} ${label} jobs of ${endpoint}`}>
        {count(value)}
      </Link>
    )

/** A rate per second; a dash when the platform has not measured the endpoint, because it has been idle since its start. */
const Rate = ({ value }: { readonly value: number | undefined }) =>
  value === undefined || value === 0 ? <span className="zero">{value ?? "-"}</span> : <>{rateText(value)}</>

const Row = ({ now, ranked: { endpoint, health }, rates }: {
  readonly ranked: RankedEndpoint
  readonly now: number
  readonly rates: EndpointRates | undefined
}) => {
  const { id, jobs, workers } = endpoint
  const oldest = oldestWait(endpoint, now)
  const forecast = rates === undefined ? undefined : forecastOf(jobs.waiting, rates)
  const live = workers.idle + workers.running + workers.initializing + workers.draining
  const states = (["running", "idle", "initializing", "draining", "unhealthy", "throttled"] as const).filter((state) =>
    workers[state] > 0
  )
  return (
    <tr>
      <th scope="row">
        <Link to="/console/endpoints/$endpoint" params={{ endpoint: id }}>{id}</Link>
      </th>
      <td>
        <EndpointState level={health.level} word={health.word} />
      </td>
      <td className="number" data-label="Waiting">
        <JobCount endpoint={id} status="IN_QUEUE" value={jobs.waiting + jobs.delayed} label="waiting" />
        {forecast === undefined ? null : <span className="eta">{forecast}</span>}
      </td>
      <td className="number" data-label="Oldest">{oldest === 0 ? <span className="zero">-</span> : duration(oldest)}</td>
      <td className="number" data-label="In/s">
        <Rate value={rates?.arrivals} />
      </td>
      <td className="number" data-label="Out/s">
        <Rate value={rates?.ended} />
      </td>
      <td className="number" data-label="Running">
        <JobCount endpoint={id} status="IN_PROGRESS" value={jobs.running} label="running" />
      </td>
      <td data-label="Workers" title={states.map((state) => `${workers[state]} ${state}`).join(", ") || "no workers"}>
        {live === 0
          ? 0
          : <Link to="/console/workers" search={{ endpoint: id }} aria-label={`${live} workers of ${id}`}>{live}</Link>}
        <span className="muted">{workers.max === null ? " external" : ` of ${workers.max}`}</span>
      </td>
      <td className="number" data-label="Completed">
        <JobCount endpoint={id} status="COMPLETED" value={jobs.completed} label="completed" />
      </td>
      <td className="number" data-label="Failed">
        <JobCount endpoint={id} status="FAILED" value={jobs.failed} label="failed" />
        {jobs.failed === 0 ? null : <span className="muted">{` ${percent(jobs.failed, jobs.failed + jobs.completed)}`}</span>}
      </td>
      <td className="line" data-label="30 min">
        {rates === undefined ? <span className="zero">-</span> : <Sparkline rates={rates} />}
      </td>
    </tr>
  )
}

const Empty = () => {
  const session = useSession()
  return permits(session, "deploy")
    ? (
      <section className="empty">
        <h2>No endpoint yet</h2>
        <p>An endpoint runs a handler: a file that exports a function. Paste this into a terminal on the platform's machine:</p>
        <Code label="the command">
          npx -y @stint/cli init hello && npx -y @stint/cli endpoints create hello --handler hello/handler.ts
        </Code>
        <p>It then appears here, and the playground can run its first job.</p>
        <p>
          The code is in a Git repository? <Link to="/console/builds/new">Build an endpoint from it.</Link>
        </p>
      </section>
    )
    : (
      <section className="empty">
        <h2>No endpoint yet</h2>
        <p>This key permits no endpoints. An operator creates endpoints, or adds them to the key.</p>
      </section>
    )
}

const HomePage = () => {
  const session = useSession()
  const query = useQuery({
    queryKey: ["overview"],
    queryFn: ({ signal }) => Api.overview(signal),
    refetchInterval: useListPoll(2_000)
  })
  // Without it, the page shows everything else.
  const { data: history } = useQuery({
    queryKey: ["history"],
    queryFn: ({ signal }) => rates(signal),
    refetchInterval: usePoll(5_000)
  })
  const ratesOf = new Map(history?.endpoints.map((one) => [one.id, one]))
  const now = useNow()
  return (
    <>
      <h1 className="sr">Home</h1>
      <Alerts />
      <Loaded query={query} rows={8}>
        {({ endpoints }) => {
          if (endpoints.length === 0) return <Empty />
          const ranked = rankEndpoints(endpoints, now)
          return (
            <>
              <Attention ranked={ranked} />
              <section aria-labelledby="endpoints">
                <h2 id="endpoints">Endpoints</h2>
                <table className="stacks">
                  <thead>
                    <tr>
                      <th scope="col">Endpoint</th>
                      <th scope="col">State</th>
                      <th scope="col" className="number">Waiting</th>
                      <th scope="col" className="number">Oldest</th>
                      <th scope="col" className="number" title="Jobs per second that arrived in the last minute">In/s</th>
                      <th scope="col" className="number" title="Jobs per second that ended in the last minute">Out/s</th>
                      <th scope="col" className="number">Running</th>
                      <th scope="col">Workers</th>
                      <th
                        scope="col"
                        className="number"
                        title="Stored jobs: ended jobs are removed after the endpoint's retention"
                      >
                        Completed
                      </th>
                      <th scope="col" className="number" title="Stored jobs that failed or timed out">Failed</th>
                      <th scope="col" className="line" title="Ended jobs per minute; the failed ones in red">30 min</th>
                    </tr>
                  </thead>
                  <tbody>
                    {ranked.map((one) => (
                      <Row
                        key={one.endpoint.id}
                        ranked={one}
                        now={now}
                        rates={ratesOf.get(one.endpoint.id)}
                      />
                    ))}
                  </tbody>
                </table>
                {permits(session, "deploy")
                  ? <Link to="/console/builds/new" className="more">New endpoint from a repository</Link>
                  : null}
              </section>
            </>
          )
        }}
      </Loaded>
    </>
  )
}

export default HomePage
