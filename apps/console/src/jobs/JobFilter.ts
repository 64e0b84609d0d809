/**
 * The job list's query in the page's address: `?q=status:failed endpoint:resize`. Links from other pages have `?endpoint=`, `?status=` and
 * `?tag=` instead.
 */
import type { JobStatus } from "@stint/contract/Job"
import { EVERYTHING, type JobSearch, parseSearch, printSearch } from "@stint/contract/JobSearch"
import { textAt } from "../format/AddressQuery.ts"

/** Reads the query from the address. The router parses `tag=7` as a number. An unknown status is ignored. */
export const queryAt = (address: unknown): string => {
  const query = textAt(address, "q")
  if (query !== "") return query
  const [endpoint, status, tag] = [textAt(address, "endpoint"), textAt(address, "status"), textAt(address, "tag")]
  return printSearch({
    ...EVERYTHING,
    endpoint: endpoint === "" ? [] : [endpoint],
    status: parseSearch(`status:${status}`).search?.status ?? [],
    tag: tag === "" ? [] : [tag]
  })
}

/** The query restricted to a status. Undefined: any status. */
export const withStatus = (search: JobSearch, status: JobStatus | undefined): string =>
  printSearch({ ...search, status: status === undefined ? [] : [status] })

/** The query restricted to an endpoint. Empty: all endpoints. */
export const withEndpoint = (search: JobSearch, endpoint: string): string =>
  printSearch({ ...search, endpoint: endpoint === "" ? [] : [endpoint] })

/** The query restricted to jobs of the last `millis` milliseconds, or of any time for 0. */
export const withinLast = (search: JobSearch, millis: number): string => {
  const { since: _, ...rest } = search
  return printSearch(millis === 0 ? rest : { ...rest, since: { ago: millis } })
}

/** Whether the platform must compare jobs one by one. If so, the list is read less often. */
export const isScan = ({ batch, error, "error-group": group, release, worker }: JobSearch): boolean =>
  [batch, error, group, release, worker].some((values) => values.length > 0)
