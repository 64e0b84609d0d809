/**
 * Errors: failures grouped by error, most recently seen first.
 */
import type { ErrorGroup } from "@stint/contract/ErrorGroup"
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, useNavigate, useSearch } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { EndpointSelect } from "../endpoints/EndpointSelect.tsx"
import {
  ERROR_STATES,
  type ErrorFilter,
  errorFilterOf,
  jobsQuery,
  PERIODS,
  releasesOf,
  requestOf,
  titleOf
} from "../errors/ErrorFilter.ts"
import { queryOfFilter } from "../format/AddressQuery.ts"
import { counted } from "../format/Format.ts"
import { BulkAction, BulkProgress } from "../jobs/BulkActions.tsx"
import { useListPoll } from "../live/Connection.ts"
import { Chips, Select } from "../ui/Choices.tsx"
import { Loaded, Problem } from "../ui/Loaded.tsx"
import { Badge } from "../ui/Status.tsx"
import { Id, Time } from "../ui/Text.tsx"

const POLL_MILLIS = 5_000

const WORDS = { open: "Open", resolved: "Resolved" } as const

/** The buttons that change a group, or its jobs. */
const Actions = ({ group }: { readonly group: ErrorGroup }) => {
  const client = useQueryClient()
  const isOpen = group.state === "open"
  const { error, isPending, mutate } = useMutation({
    mutationFn: () => isOpen ? Api.resolveError(group) : Api.reopenError(group),
    onSettled: () => client.invalidateQueries({ queryKey: ["errors"] })
  })
  return (
    <>
      <div className="actions">
        <BulkAction action="retry" query={jobsQuery(group)} />
        <button type="button" className="button" disabled={isPending} onClick={() => mutate()}>
          {isOpen ? "Resolve" : "Open again"}
        </button>
      </div>
      {error === null ? null : <Problem error={error} />}
    </>
  )
}

const Row = ({ group, mayManage }: { readonly group: ErrorGroup; readonly mayManage: boolean }) => (
  <tr>
    <th scope="row" className="breaks">
      <Link to="/console/jobs" search={{ q: jobsQuery(group) }}>{titleOf(group)}</Link>
      {group.frames[0] === undefined ? null : <div className="muted mono">{group.frames[0]}</div>}
    </th>
    <td>
      <Badge tone={group.state === "open" ? "failed" : "done"}>
        {group.state === "open" && group.reopenedAt !== undefined ? "Open again" : WORDS[group.state]}
      </Badge>
    </td>
    <td data-label="Endpoint">{group.endpoint}</td>
    <td data-label="Failures">{group.count}</td>
    <td data-label="First seen">
      <Time at={group.firstSeen} />
    </td>
    <td data-label="Last seen">
      <Time at={group.lastSeen} />
    </td>
    <td data-label="Releases">{releasesOf(group)}</td>
    <td data-label="Group">
      <Id id={group.fingerprint} short />
    </td>
    <td>{mayManage ? <Actions group={group} /> : null}</td>
  </tr>
)

const COLUMNS = ["Error", "State", "Endpoint", "Failures", "First seen", "Last seen", "Releases", "Group", "Change"]

const List = ({ filter }: { readonly filter: ErrorFilter }) => {
  const session = useSession()
  const mayManage = permits(session, "manage")
  const query = useQuery({
    queryKey: ["errors", filter],
    queryFn: ({ signal }) => Api.errors(requestOf(filter, Date.now()), signal),
    refetchInterval: useListPoll(POLL_MILLIS)
  })
  return (
    <Loaded query={query} rows={8}>
      {({ groups, more, removed }) => (
        <>
          {groups.length === 0
            ? (
              <p className="empty">
                {filter.endpoint === "" && filter.state === "" && filter.period === ""
                  ? "No job has failed."
                  : "No error matches. Remove a filter to see the others."}
              </p>
            )
            : (
              <table className="stacks">
                <thead>
                  <tr>{COLUMNS.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
                </thead>
                <tbody>
                  {groups.map((group) => (
                    <Row key={`${group.endpoint} ${group.fingerprint}`} group={group} mayManage={mayManage} />
                  ))}
                </tbody>
              </table>
            )}
          {more ? <p className="muted">More errors match. Choose an endpoint to see them.</p> : null}
          {removed.map(({ endpoint, groups }) => (
            <p key={endpoint} className="muted">
              {endpoint}: {counted(groups, "older error")} removed, because an endpoint keeps 200.
            </p>
          ))}
        </>
      )}
    </Loaded>
  )
}

const ErrorsPage = () => {
  const filter = errorFilterOf(useSearch({ strict: false }))
  const session = useSession()
  const navigate = useNavigate()
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const names = overview.data?.endpoints.map(({ id }) => id) ?? []
  const set = (change: Partial<ErrorFilter>) => {
    void navigate({ to: "/console/errors", search: queryOfFilter({ ...filter, ...change }), replace: true })
  }
  return (
    <>
      <h1>Errors</h1>
      <BulkProgress mayChange={permits(session, "manage")} />
      <div className="filters">
        <EndpointSelect names={names} value={filter.endpoint} onChoose={(endpoint) => set({ endpoint })} />
        <Select label="Seen" choices={PERIODS} value={filter.period} onChoose={(period) => set({ period })} />
      </div>
      <Chips
        label="State"
        choices={[["", "All"], ...ERROR_STATES.map((one) => [one, WORDS[one]] as const)]}
        value={filter.state}
        onChoose={(state) => set({ state })}
      />
      <List key={JSON.stringify(filter)} filter={filter} />
    </>
  )
}

export default ErrorsPage
