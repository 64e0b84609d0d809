/**
 * An endpoint: its current queue and workers, charts of the last minutes, recent jobs, releases, builds, settings, and programs that call it.
 */
import type { EndpointDetail } from "@stint/contract/OverviewApi"
import { useQuery } from "@tanstack/react-query"
import { Link, useParams } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { EndpointCharts } from "../charts/EndpointCharts.tsx"
import { Builds } from "../endpoints/Builds.tsx"
import { healthOf, oldestWait } from "../endpoints/EndpointHealth.ts"
import { Releases } from "../endpoints/Releases.tsx"
import { SettingsTab } from "../endpoints/SettingsForm.tsx"
import { count, duration, percent } from "../format/Format.ts"
import { JobTable } from "../jobs/JobTable.tsx"
import { EndpointKeys } from "../keys/EndpointKeys.tsx"
import { useNow } from "../live/Clock.ts"
import { useListPoll } from "../live/Connection.ts"
import { Loaded } from "../ui/Loaded.tsx"
import { Snippet } from "../ui/Snippet.tsx"
import { EndpointState } from "../ui/Status.tsx"
import { Tabs } from "../ui/Tabs.tsx"
import { Code } from "../ui/Text.tsx"
import { EndpointDeliveries } from "../webhooks/EndpointDeliveries.tsx"
import { WorkerTable } from "../workers/WorkerTable.tsx"

const Figure = ({ label, note, status, endpoint, value }: {
  readonly label: string
  readonly value: string
  readonly note?: string | undefined
  readonly endpoint?: string
  readonly status?: string
}) => (
  <div className="figure">
    <dt>{label}</dt>
    <dd>
      {status === undefined || endpoint === undefined
        ? value
        : <Link to="/console/jobs" search={{ endpoint, status }}>{value}</Link>}
      <span className="muted">{note ?? "\u00a0"}</span>
    </dd>
  </div>
)

const Figures = ({ detail, now }: { readonly detail: EndpointDetail; readonly now: number }) => {
  const { id, jobs, workers } = detail
  const oldest = oldestWait(detail, now)
  const ended = jobs.completed + jobs.failed
  return (
    <dl className="figures">
      <Figure
        label="Waiting"
        value={count(jobs.waiting)}
        endpoint={id}
        status="IN_QUEUE"
        note={jobs.delayed === 0 ? undefined : `and ${count(jobs.delayed)} delayed`}
      />
      <Figure label="Oldest wait" value={oldest === 0 ? "-" : duration(oldest)} />
      <Figure label="Running" value={count(jobs.running)} endpoint={id} status="IN_PROGRESS" />
      <Figure
        label="Workers"
        value={count(workers.idle + workers.running + workers.initializing + workers.draining)}
        note={workers.max === null ? "external" : `of at most ${workers.max}`}
      />
      <Figure label="Completed" value={count(jobs.completed)} endpoint={id} status="COMPLETED" note="stored" />
      <Figure
        label="Failed"
        value={count(jobs.failed)}
        endpoint={id}
        status="FAILED"
        note={ended === 0 ? undefined : percent(jobs.failed, ended)}
      />
    </dl>
  )
}

const Workers = ({ detail: { id, list, source } }: { readonly detail: EndpointDetail }) =>
  list.length === 0
    ? source === "external"
      ? (
        <div className="empty">
          <p>No worker is connected. This command prints what an external worker needs:</p>
          <Code label="the command">{`stint worker-env ${id}`}</Code>
        </div>
      )
      : <p className="empty">No worker is running. The platform starts one for the next job.</p>
    : <WorkerTable workers={list.map((worker) => ({ endpoint: id, worker }))} />

const RecentJobs = ({ endpoint }: { readonly endpoint: string }) => {
  const query = useQuery({
    queryKey: ["recent", endpoint],
    queryFn: ({ signal }) => Api.jobs(endpoint, 20, signal),
    refetchInterval: useListPoll(4_000)
  })
  return (
    <Loaded query={query} rows={8}>
      {({ cursor, requests }) =>
        requests.length === 0
          ? <p className="empty">No jobs yet. Run one in the playground, or with the program under "Call it".</p>
          : (
            <>
              <JobTable jobs={requests.map((job) => ({ endpoint, ...job }))} />
              {cursor === null
                ? null
                : <Link to="/console/jobs" search={{ endpoint }} className="more">All jobs of {endpoint}</Link>}
            </>
          )}
    </Loaded>
  )
}

const EndpointPage = () => {
  const { endpoint = "" } = useParams({ strict: false })
  const session = useSession()
  const now = useNow()
  const query = useQuery({
    queryKey: ["endpoint", endpoint],
    queryFn: ({ signal }) => Api.endpointDetail(endpoint, signal),
    // Together with the poll of the recent jobs, this is one request every two seconds.
    refetchInterval: useListPoll(4_000)
  })
  const health = query.data === undefined ? undefined : healthOf(query.data, now)
  const mayRead = permits(session, "read", endpoint)
  return (
    <>
      <div className="heading">
        <h1>{endpoint}</h1>
        {health === undefined ? null : <EndpointState level={health.level} word={health.word} />}
        <div className="actions">
          {mayRead ? <Link to="/console/logs" search={{ endpoint }} className="button">Logs</Link> : null}
          <Link to="/console/usage" search={{ endpoint, by: "release" }} className="button">Usage</Link>
          {permits(session, "submit", endpoint)
            ? <Link to="/console/playground" search={{ endpoint }} className="button primary">Run a job</Link>
            : null}
        </div>
      </div>
      {health?.reason === undefined ? null : <p className={`notice ${health.level}`}>{health.reason}</p>}
      <Loaded query={query} rows={6}>
        {(detail) => (
          <>
            <Figures detail={detail} now={now} />
            <EndpointCharts endpoint={endpoint} />
            <Tabs
              label="Endpoint"
              tabs={[
                ...(mayRead ? [{ name: "Recent jobs", content: <RecentJobs endpoint={endpoint} /> }] : []),
                { name: "Workers", count: detail.list.length, content: <Workers detail={detail} /> },
                ...(permits(session, "deploy")
                  ? [
                    { name: "Releases", content: <Releases endpoint={endpoint} /> },
                    { name: "Builds", content: <Builds endpoint={endpoint} /> },
                    { name: "Webhooks", content: <EndpointDeliveries endpoint={endpoint} /> },
                    { name: "Settings", content: <SettingsTab endpoint={endpoint} /> }
                  ]
                  : []),
                ...(permits(session, "keys") ? [{ name: "Keys", content: <EndpointKeys endpoint={endpoint} /> }] : []),
                { name: "Call it", content: <Snippet endpoint={endpoint} input="{}" /> }
              ]}
            />
          </>
        )}
      </Loaded>
    </>
  )
}

export default EndpointPage
