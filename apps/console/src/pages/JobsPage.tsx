/**
 * Jobs that match the query in the address, newest first. The filters write the query, so that every view has an address.
 */
import type { SearchedText } from "@stint/contract/BulkApi"
import { type JobSearch, parseSearch, printSearch, type SearchProblem, type SearchTerms } from "@stint/contract/JobSearch"
import { namedEndpoints } from "@stint/contract/SearchMatch"
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { useNavigate, useSearch } from "@tanstack/react-router"
import { useCallback, useEffect, useId, useState } from "react"
import * as Api from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { useSession } from "../api/useSession.ts"
import { EndpointSelect } from "../endpoints/EndpointSelect.tsx"
import { counted } from "../format/Format.ts"
import { BulkActions, BulkProgress } from "../jobs/BulkActions.tsx"
import { drawnTerms, isScan, queryAt, undrawnText, withEndpoint, withinLast, withStatus } from "../jobs/JobFilter.ts"
import { countNew, mergePages } from "../jobs/JobPages.ts"
import { JOB_STATUSES, statusText } from "../jobs/JobStates.ts"
import { JobTable } from "../jobs/JobTable.tsx"
import { useListPoll } from "../live/Connection.ts"
import { Loaded, Loading, Problem } from "../ui/Loaded.tsx"
import { SavedTexts } from "../ui/SavedTexts.tsx"

const PAGE = 100

/** The time between two reads of the newest page. A query that the platform must compare job by job is read less often. */
const POLL_MILLIS = 2_000
const SCAN_POLL_MILLIS = 15_000

/** The choices of the time filter. */
const PERIODS = [
  [0, "Any time"],
  [900_000, "Last 15 minutes"],
  [3_600_000, "Last hour"],
  [86_400_000, "Last 24 hours"],
  [604_800_000, "Last 7 days"]
] as const

const List = ({ query, search }: { readonly query: string; readonly search: JobSearch }) => {
  const session = useSession()
  const mayManage = permits(session, "manage")
  const [isAtTop, setAtTop] = useState(true)
  useEffect(() => {
    const update = () => setAtTop(window.scrollY < 40)
    update()
    window.addEventListener("scroll", update, { passive: true })
    return () => window.removeEventListener("scroll", update)
  }, [])
  // A query that compares the texts of many jobs is not repeated at each event.
  const key = [isScan(search) ? "scan" : "jobs", query]
  const newest = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => Api.searchJobs(query, PAGE, undefined, signal),
    refetchInterval: useListPoll(isScan(search) ? SCAN_POLL_MILLIS : POLL_MILLIS)
  })
  // New rows do not move the list while the reader has scrolled down. Instead, they are counted above it.
  const [shown, setShown] = useState(newest.data)
  const waiting = shown === undefined || newest.data === undefined ? 0 : countNew(shown.jobs, newest.data.jobs)
  const isFrozen = !isAtTop && shown !== undefined && waiting > 0
  useEffect(() => {
    if (!isFrozen && newest.data !== undefined) setShown(newest.data)
  }, [isFrozen, newest.data])
  const first = isFrozen ? shown : newest.data
  const older = useInfiniteQuery({
    queryKey: [...key, "older"],
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) => Api.searchJobs(query, PAGE, pageParam || first?.cursor || undefined, signal),
    getNextPageParam: ({ cursor }) => cursor ?? undefined,
    enabled: false,
    placeholderData: keepPreviousData
  })
  const { fetchNextPage, isFetching } = older
  const hasOlder = older.data === undefined ? first?.cursor != null : older.hasNextPage
  const onEnd = useCallback(() => {
    if (hasOlder && !isFetching) void fetchNextPage()
  }, [fetchNextPage, hasOlder, isFetching])
  return (
    <Loaded query={newest} rows={12}>
      {(data) => {
        const jobs = mergePages((first ?? data).jobs, older.data?.pages ?? [])
        return (
          <>
            <div className="list-head">
              <p aria-live="polite">
                {isFrozen
                  ? (
                    <button type="button" className="button" onClick={() => window.scrollTo({ top: 0 })}>
                      {counted(waiting, "new job", "new jobs")}
                    </button>
                  )
                  : (
                    <span className="muted">
                      {counted(jobs.length, "job")}
                      {hasOlder ? " so far" : ""}
                    </span>
                  )}
              </p>
              {mayManage && query !== "" && jobs.length > 0 ? <BulkActions query={query} search={search} /> : null}
            </div>
            {data.text === undefined ? null : <SearchedWords text={data.text} />}
            {jobs.length > 0
              ? <JobTable jobs={jobs} namesEndpoint={namedEndpoints(search)?.length !== 1} onEnd={onEnd} />
              : hasOlder
              ? null
              : (
                <p className="empty">
                  {query === ""
                    ? "There are no stored jobs. Run one in the playground."
                    : "No job matches. Remove a term of the query to see the others."}
                </p>
              )}
            {older.isFetching ? <Loading rows={2} /> : null}
            {older.error === null ? null : <Problem error={older.error} onRetry={() => void fetchNextPage()} />}
            {hasOlder && !older.isFetching && older.error === null
              ? (
                <button type="button" className="button more" onClick={() => void fetchNextPage()}>
                  Show older jobs
                </button>
              )
              : null}
          </>
        )
      }}
    </Loaded>
  )
}

/** What a search for words did not find, and why it is slow. */
const SearchedWords = ({ text: { characters, from, index, undecided } }: { readonly text: SearchedText }) => (
  <p className="muted">
    Words are searched for in the first {characters.toLocaleString("en")} characters of inputs, outputs and errors, and in tags.
    {undecided === 0
      ? null
      : ` ${counted(undecided, "job is", "jobs are")} left out, whose texts are longer or in the payload store.`}
    {index === "building" ? " The index of words is being built, so the search is slower." : null}
    {index === "none" ? " There is no index of words, so the search is slower." : null}
    {index === "ready" && from !== null
      ? " The oldest jobs are not in the index of words, so the search for them is slower."
      : null}
  </p>
)

/** What is wrong with the query, with the position marked. */
const Mistake = ({ id, problem }: { readonly id: string; readonly problem: SearchProblem }) => (
  <div className="problem" role="alert" id={id}>
    <p>
      <strong>{problem.message}</strong> At character {problem.position + 1}.
    </p>
    <p>{problem.hint}</p>
  </div>
)

/** The filters, which change the query. */
const Filters = ({ names, onOpen, terms }: {
  readonly terms: SearchTerms
  readonly names: ReadonlyArray<string>
  readonly onOpen: (query: string) => void
}) => {
  const periodField = useId()
  const endpoint = terms.endpoint.length === 1 ? terms.endpoint[0] ?? "" : ""
  const since = terms.since !== undefined && "ago" in terms.since ? terms.since.ago : 0
  const isAll = terms.status.length === 0 && terms.not.status.length === 0
  return (
    <>
      <div className="filters">
        <EndpointSelect
          all={terms.endpoint.length > 1 ? "Several endpoints" : "All endpoints"}
          names={names}
          value={endpoint}
          onChoose={(next) => onOpen(withEndpoint(terms, next))}
        />
        <label htmlFor={periodField}>Submitted</label>
        <select
          id={periodField}
          value={since}
          onChange={(event) => onOpen(withinLast(terms, Number(event.target.value)))}
        >
          {PERIODS.some(([millis]) => millis === since) ? null : <option value={since}>As in the query</option>}
          {PERIODS.map(([millis, name]) => <option key={millis} value={millis}>{name}</option>)}
        </select>
      </div>
      <div className="states" role="group" aria-label="Status">
        {[undefined, ...JOB_STATUSES].map((one) => (
          <button
            key={one ?? ""}
            type="button"
            className="chip"
            aria-pressed={one === undefined ? isAll : terms.status.includes(one)}
            onClick={() => onOpen(withStatus(terms, one))}
          >
            {one === undefined ? "All" : statusText(one).word}
          </button>
        ))}
      </div>
    </>
  )
}

/** The part of the query that the filters cannot show. */
const Undrawn = ({ search }: { readonly search: JobSearch }) => {
  const text = undrawnText(search)
  return text === "" ? null : (
    <p className="muted">
      {drawnTerms(search) === undefined ? "The filters cannot show a query with OR: " : "Also in the query: "}
      <span className="mono query-text">{text}</span>
    </p>
  )
}

const JobsPage = () => {
  const query = queryAt(useSearch({ strict: false }))
  const navigate = useNavigate()
  const session = useSession()
  const queryField = useId()
  const mistake = useId()
  const [typed, setTyped] = useState(query)
  useEffect(() => setTyped(query), [query])
  const { problem, search } = parseSearch(typed)
  const applied = parseSearch(query)
  // Read once, because the list already polls every two seconds.
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const names = overview.data?.endpoints.map(({ id }) => id) ?? []
  const open = (text: string) => void navigate({ to: "/console/jobs", search: text === "" ? {} : { q: text }, replace: true })
  const apply = () => {
    if (search !== undefined) open(printSearch(search))
  }
  const current = applied.search
  const drawn = current === undefined ? undefined : drawnTerms(current)
  return (
    <>
      <h1>Jobs</h1>
      <BulkProgress mayChange={permits(session, "manage")} />
      <form
        className="query"
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          apply()
        }}
      >
        <label htmlFor={queryField} className="sr">Query</label>
        <input
          id={queryField}
          value={typed}
          maxLength={1_000}
          spellCheck={false}
          autoComplete="off"
          placeholder={"status:failed endpoint:NAME tag:nightly since:2h text:\"red shoes\" error:\"out of memory\""}
          aria-invalid={problem !== undefined}
          aria-describedby={problem === undefined ? undefined : mistake}
          onChange={(event) => setTyped(event.target.value)}
        />
        <button type="submit" className="button" disabled={problem !== undefined}>Find</button>
      </form>
      {problem === undefined ? null : <Mistake id={mistake} problem={problem} />}
      {current === undefined
        ? null
        : (
          <>
            {drawn === undefined ? null : <Filters terms={drawn} names={names} onOpen={open} />}
            <Undrawn search={current} />
            <SavedTexts kind="view" storageKey="stint.views" text={query} onOpen={open} />
            <List key={query} query={query} search={current} />
          </>
        )}
    </>
  )
}

export default JobsPage
