/**
 * Workers with their jobs.
 */
import type { WorkerOverview } from "@stint/contract/OverviewApi"
import { Link } from "@tanstack/react-router"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { absolute, bytes, count, shortId } from "../format/Format.ts"
import { WorkerStateBadge } from "../ui/Status.tsx"
import { Id, Reason, Time } from "../ui/Text.tsx"
import { WorkerActions } from "./WorkerActions.tsx"
import { type EndpointWorker, removable, slotsText } from "./WorkerList.ts"

/** The maximum number of jobs shown per worker, which may run hundreds at a time. */
const SHOWN_JOBS = 6

const Job = ({ endpoint, id, mayRead }: { readonly endpoint: string; readonly id: string; readonly mayRead: boolean }) =>
  mayRead
    ? (
      <span className="worker-job">
        <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id }} className="mono" title={id}>{shortId(id)}</Link>
        <Link
          to="/console/jobs/$endpoint/$id"
          params={{ endpoint, id }}
          search={{ tab: "Logs" }}
          aria-label={`Log of ${shortId(id)}`}
        >
          log
        </Link>
      </span>
    )
    : <span className="mono" title={id}>{shortId(id)}</span>

const Jobs = ({ endpoint, mayRead, worker }: {
  readonly endpoint: string
  readonly worker: WorkerOverview
  readonly mayRead: boolean
}) => {
  const { jobs, reason, retryAt } = worker
  const slots = slotsText(worker)
  return (
    <>
      {slots === undefined ? null : <span className={jobs.length === 0 ? "zero" : "worker-slots"}>{slots}</span>}
      {slots === undefined && jobs.length === 0 ? <span className="zero">none</span> : null}
      {jobs.slice(0, SHOWN_JOBS).map((id) => <Job key={id} endpoint={endpoint} id={id} mayRead={mayRead} />)}
      {jobs.length > SHOWN_JOBS ? <span className="muted">{` and ${count(jobs.length - SHOWN_JOBS)} more`}</span> : null}
      {reason === undefined ? null : <Reason>{reason}</Reason>}
      {retryAt === undefined ? null : (
        <p className="muted">
          Next start <Time at={retryAt} />
        </p>
      )}
    </>
  )
}

const Row = ({ hasActions, isOfMany, one: { endpoint, worker } }: {
  readonly one: EndpointWorker
  readonly isOfMany: boolean
  readonly hasActions: boolean
}) => {
  const mayRead = permits(useSession(), "read", endpoint)
  const { firstSeenAt, heartbeatAt, id, lastJob, lastSeenAt, memoryBytes, release, results, state, version } = worker
  return (
    <tr>
      <th scope="row">
        <Id id={id} short />
      </th>
      <td>
        <WorkerStateBadge state={state} />
      </td>
      {isOfMany
        ? (
          <td data-label="Endpoint">
            <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>{endpoint}</Link>
          </td>
        )
        : null}
      <td data-label="Jobs">
        <Jobs endpoint={endpoint} worker={worker} mayRead={mayRead} />
      </td>
      <td data-label="Last job">
        {lastJob === undefined ? <span className="zero">none</span> : <Job endpoint={endpoint} id={lastJob} mayRead={mayRead} />}
      </td>
      <td className="number" data-label="Results">{results === 0 ? <span className="zero">0</span> : count(results)}</td>
      <td className="number" data-label="Release">{release ?? <span className="zero">-</span>}</td>
      <td data-label="SDK" className="version" title={version}>{version ?? <span className="zero">-</span>}</td>
      <td className="number" data-label="Memory">
        {memoryBytes === undefined
          ? <span className="zero" title="Its pool cannot measure it, or has not yet">unknown</span>
          : bytes(memoryBytes)}
      </td>
      <td data-label="Heartbeat" title={`Last call ${absolute(lastSeenAt)}`}>
        {heartbeatAt === undefined ? <span className="zero">-</span> : <Time at={heartbeatAt} />}
      </td>
      <td data-label="Since">
        <Time at={firstSeenAt} />
      </td>
      {hasActions
        ? <td>{removable(worker).length === 0 ? null : <WorkerActions endpoint={endpoint} worker={worker} />}</td>
        : null}
    </tr>
  )
}

/** The table. `isOfMany` adds a column with the endpoint, for workers of several endpoints. Keys that may not change workers see no buttons. */
export const WorkerTable = ({ isOfMany = false, workers }: {
  readonly workers: ReadonlyArray<EndpointWorker>
  readonly isOfMany?: boolean
}) => {
  const hasActions = permits(useSession(), "deploy")
  return (
    <table className="stacks">
      <thead>
        <tr>
          <th scope="col">Worker</th>
          <th scope="col">State</th>
          {isOfMany ? <th scope="col">Endpoint</th> : null}
          <th scope="col" title="How many jobs it runs, of those that it can run at once, and which">Current jobs</th>
          <th scope="col" title="The job that it ran last, with its output and its log">Last job</th>
          <th scope="col" className="number">Results</th>
          <th scope="col" className="number">Release</th>
          <th scope="col">SDK</th>
          <th scope="col" className="number" title="The worker and its children, measured every ten seconds">Memory</th>
          <th scope="col">Heartbeat</th>
          <th scope="col">Since</th>
          {hasActions ? <th scope="col">Actions</th> : null}
        </tr>
      </thead>
      <tbody>
        {workers.map((one) => (
          <Row key={`${one.endpoint} ${one.worker.id}`} one={one} isOfMany={isOfMany} hasActions={hasActions} />
        ))}
      </tbody>
    </table>
  )
}
