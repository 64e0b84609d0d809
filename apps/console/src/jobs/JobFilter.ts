/**
 * The job list's query in the page's address: `?q=status:failed endpoint:resize`. Links from other pages have `?endpoint=`, `?status=` and
 * `?tag=` instead.
 */
import type { JobStatus } from "@stint/contract/Job"
import {
  EVERYTHING,
  type JobSearch,
  parseSearch,
  printSearch,
  printTerms,
  searchOf,
  type SearchTerms,
  type SearchValues
} from "@stint/contract/JobSearch"
import { textAt } from "../format/AddressQuery.ts"

/** Reads the query from the address. The router parses `tag=7` as a number. An unknown status is ignored. */
export const queryAt = (address: unknown): string => {
  const query = textAt(address, "q")
  if (query !== "") return query
  const [endpoint, status, tag] = [textAt(address, "endpoint"), textAt(address, "status"), textAt(address, "tag")]
  const { search = EVERYTHING } = parseSearch(status === "" ? "" : `status:${status}`)
  return printSearch(searchOf({
    endpoint: endpoint === "" ? [] : [endpoint],
    status: search.any[0]?.status ?? [],
    tag: tag === "" ? [] : [tag]
  }))
}

/** The terms that the filters show; undefined for a query with OR, which they cannot show. */
export const drawnTerms = ({ any }: JobSearch): SearchTerms | undefined => any.length === 1 ? any[0] : undefined

/** What the filters do not show, as text; empty if they show everything. */
export const undrawnText = (search: JobSearch): string => {
  const terms = drawnTerms(search)
  if (terms === undefined) return printSearch(search)
  const { since, ...rest } = terms
  return printTerms({
    ...rest,
    endpoint: terms.endpoint.length > 1 ? terms.endpoint : [],
    status: [],
    ...(since === undefined || "ago" in since ? {} : { since })
  })
}

/** The terms restricted to a status. Undefined: any status. */
export const withStatus = (terms: SearchTerms, status: JobStatus | undefined): string =>
  printTerms({ ...terms, status: status === undefined ? [] : [status], not: { ...terms.not, status: [] } })

/** The terms restricted to an endpoint. Empty: all endpoints. */
export const withEndpoint = (terms: SearchTerms, endpoint: string): string =>
  printTerms({ ...terms, endpoint: endpoint === "" ? [] : [endpoint], not: { ...terms.not, endpoint: [] } })

/** The terms restricted to jobs of the last `millis` milliseconds, or of any time for 0. */
export const withinLast = (terms: SearchTerms, millis: number): string => {
  const { since: _, ...rest } = terms
  return printTerms(millis === 0 ? rest : { ...rest, since: { ago: millis } })
}

const isCompared = ({ batch, error, "error-group": group, input, output, release, text, worker }: SearchValues): boolean =>
  [batch, error, group, input, output, release, text, worker].some((values) => values.length > 0)

/** Whether the platform must compare jobs one by one. If so, the list is read less often. */
export const isScan = ({ any }: JobSearch): boolean =>
  any.some((terms) => isCompared(terms) || isCompared(terms.not) || terms.not.tag.length > 0)
