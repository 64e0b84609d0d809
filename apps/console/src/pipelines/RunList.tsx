/**
 * Runs of pipelines, newest first.
 */
import type { JobStatus as Status } from "@stint/contract/Job"
import { MAX_SEARCH_LENGTH, printSearch, searchOf } from "@stint/contract/JobSearch"
import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { shortId } from "../format/Format.ts"
import { errorLine } from "../jobs/JobError.ts"
import { usePoll } from "../live/Connection.ts"
import { Loaded } from "../ui/Loaded.tsx"
import { JobStatus } from "../ui/Status.tsx"
import { Growing, Time } from "../ui/Text.tsx"

/** The maximum number of runs that are shown. */
const MOST = 50

/** The query for the runs of endpoints. A query has a maximum length, so it names as many endpoints as fit. */
export const queryOfRuns = (endpoints: ReadonlyArray<string>, status: ReadonlyArray<Status>): string => {
  const named = [...endpoints]
  while (named.length > 1 && printSearch(searchOf({ endpoint: named, status })).length > MAX_SEARCH_LENGTH) named.pop()
  return printSearch(searchOf({ endpoint: named, status }))
}

/** The list. `status`: only runs with this status; default: all. */
export const RunList = ({ empty, endpoints, status }: {
  readonly endpoints: ReadonlyArray<string>
  readonly status: ReadonlyArray<Status>
  readonly empty: string
}) => {
  const text = queryOfRuns(endpoints, status)
  const query = useQuery({
    queryKey: ["runs", text],
    queryFn: ({ signal }) => Api.searchJobs(text, MOST, undefined, signal),
    refetchInterval: usePoll(4_000)
  })
  return (
    <Loaded query={query} rows={4}>
      {({ cursor, jobs }) =>
        jobs.length === 0 && cursor === null ? <p className="empty">{empty}</p> : (
          <>
            <table className="stacks">
              <thead>
                <tr>
                  {["Run", "Status", "Pipeline", "Started", "For", "Error or tags"].map((name) => (
                    <th key={name} scope="col">{name}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {jobs.map(({ createdAt, endpoint, error, finishedAt, id, status: is, tags }) => (
                  <tr key={id}>
                    <th scope="row">
                      <Link to="/console/pipelines/$endpoint/$id" params={{ endpoint, id }} className="mono" title={id}>
                        {shortId(id)}
                      </Link>
                    </th>
                    <td>
                      <JobStatus status={is} />
                    </td>
                    <td data-label="Pipeline">{endpoint}</td>
                    <td data-label="Started">
                      <Time at={createdAt} />
                    </td>
                    <td data-label="For">
                      {finishedAt === undefined ? <Growing since={createdAt} /> : <span className="zero">-</span>}
                    </td>
                    <td className="breaks">
                      {error === undefined
                        ? tags.map((tag) => <span key={tag} className="tag">{tag}</span>)
                        : <span className="job-note">{errorLine(error)}</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {cursor === null
              ? null
              : <Link to="/console/jobs" search={{ q: text }} className="more">More in the list of jobs</Link>}
          </>
        )}
    </Loaded>
  )
}
