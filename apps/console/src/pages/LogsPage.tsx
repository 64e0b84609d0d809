/**
 * Logs: the lines of all jobs of an endpoint, newest first, filtered by the parameters in the address.
 */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { Link, useNavigate, useSearch } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { EndpointSelect } from "../endpoints/EndpointSelect.tsx"
import { queryOfFilter } from "../format/AddressQuery.ts"
import { absolute, shortId } from "../format/Format.ts"
import { LogRow } from "../jobs/LogRow.tsx"
import { addressOf, LEVEL_CHOICES, type LogFilter, logFilterOf, PERIODS, requestOf, searchedText } from "../logs/LogFilter.ts"
import { Select } from "../ui/Choices.tsx"
import { FilterText } from "../ui/Fields.tsx"
import { Loading, Problem } from "../ui/Loaded.tsx"
import { MoreButton } from "../ui/MoreButton.tsx"

const PAGE = 200

/** The maximum length of a searched text. */
const MAX_CONTAINS = 500

/** `11-22 08:00:00.123`: the lines may be of several days. */
const dayAndTime = (time: number): string => absolute(time).slice(5, 23)

const Lines = ({ filter }: { readonly filter: LogFilter }) => {
  const first: string | undefined = undefined
  const query = useInfiniteQuery({
    queryKey: ["logs", filter],
    initialPageParam: first,
    queryFn: ({ pageParam, signal }: { readonly pageParam: string | undefined; readonly signal: AbortSignal }) =>
      Api.searchLogs(filter.endpoint, requestOf(filter, Date.now(), PAGE, pageParam), signal),
    getNextPageParam: ({ cursor }) => cursor ?? undefined,
    // A search reads many lines, so it is repeated only when the reader asks.
    staleTime: Infinity
  })
  const { data, error, hasNextPage, isFetching, refetch } = query
  if (data === undefined) return error === null ? <Loading rows={8} /> : <Problem error={error} onRetry={() => void refetch()} />
  const lines = data.pages.flatMap((page) => page.lines)
  return (
    <>
      {error === null ? null : <Problem error={error} onRetry={() => void refetch()} />}
      <div className="found-lines" aria-busy={isFetching}>
        <p role="status">{searchedText(data.pages, filter)}</p>
        <button type="button" className="button" disabled={isFetching} onClick={() => void refetch()}>Search again</button>
      </div>
      {lines.length === 0
        ? <p className="empty">{hasNextPage ? "No line matches so far." : "No line matches."}</p>
        : (
          <div className="log of-endpoint" tabIndex={0} role="region" aria-label={`Log of ${filter.endpoint}, newest first`}>
            {lines.map((line, index) => (
              <LogRow
                key={`${line.job} ${line.number}`}
                line={line}
                time={dayAndTime(line.time)}
                step={line.step}
                beside={lines[index - 1]?.job === line.job
                  ? ""
                  : (
                    <Link
                      to="/console/jobs/$endpoint/$id"
                      params={{ endpoint: filter.endpoint, id: line.job }}
                      title={`Job ${line.job}`}
                    >
                      {shortId(line.job)}
                    </Link>
                  )}
              />
            ))}
          </div>
        )}
      <MoreButton query={query}>Search older lines</MoreButton>
    </>
  )
}

const LogsPage = () => {
  const navigate = useNavigate()
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const names = overview.data?.endpoints.map(({ id }) => id) ?? []
  const inAddress = logFilterOf(useSearch({ strict: false }))
  const filter = inAddress.endpoint === "" && names.length === 1 ? { ...inAddress, endpoint: names[0] ?? "" } : inAddress
  const set = (change: Partial<LogFilter>) => {
    void navigate({ to: "/console/logs", search: queryOfFilter(addressOf({ ...filter, ...change })), replace: true })
  }
  return (
    <>
      <h1>Logs</h1>
      <div className="filters">
        <EndpointSelect
          all="Choose an endpoint"
          names={names}
          value={filter.endpoint}
          onChoose={(endpoint) => set({ endpoint })}
        />
        <Select label="Level" choices={LEVEL_CHOICES} value={filter.level} onChoose={(level) => set({ level })} />
        <Select label="Written" choices={PERIODS} value={filter.period} onChoose={(period) => set({ period })} />
        <FilterText
          label="Contains"
          value={filter.contains}
          placeholder="timeout"
          maxLength={MAX_CONTAINS}
          onChange={(contains) => set({ contains })}
        />
      </div>
      {filter.endpoint === ""
        ? overview.error === null
          ? <p className="empty">Choose an endpoint to search the lines of all its jobs.</p>
          : <Problem error={overview.error} onRetry={() => void overview.refetch()} />
        : <Lines key={JSON.stringify(filter)} filter={filter} />}
    </>
  )
}

export default LogsPage
