/**
 * Jobs: the jobs of an endpoint, filtered by what the address says, newest first.
 */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { useNavigate, useSearch } from "@tanstack/react-router"
import { useCallback, useEffect, useId, useState } from "react"
import * as Api from "../api/Api.ts"
import { counted } from "../format/Format.ts"
import { jobFilterOf } from "../jobs/JobFilter.ts"
import { countNew, mergePages } from "../jobs/JobPages.ts"
import { JOB_STATUSES, statusText } from "../jobs/JobStates.ts"
import { JobTable } from "../jobs/JobTable.tsx"
import { usePoll } from "../live/Connection.ts"
import { Loaded, Loading, Problem } from "../ui/Loaded.tsx"

const PAGE = 100

const List = ({ endpoint, status, tag }: { readonly endpoint: string; readonly status: string; readonly tag: string }) => {
  const filter = { status: status || undefined, tag: tag || undefined, limit: PAGE }
  const [isAtTop, setAtTop] = useState(true)
  useEffect(() => {
    const update = () => setAtTop(window.scrollY < 40)
    update()
    window.addEventListener("scroll", update, { passive: true })
    return () => window.removeEventListener("scroll", update)
  }, [])
  const key = ["jobs", endpoint, status, tag]
  const newest = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => Api.jobs(endpoint, filter, signal),
    refetchInterval: usePoll(2_000)
  })
  // New rows are not pushed under the reader's cursor: while the reader has scrolled, they are counted above the list.
  const [shown, setShown] = useState(newest.data)
  const waiting = shown === undefined || newest.data === undefined ? 0 : countNew(shown.requests, newest.data.requests)
  const isFrozen = !isAtTop && shown !== undefined && waiting > 0
  useEffect(() => {
    if (!isFrozen && newest.data !== undefined) setShown(newest.data)
  }, [isFrozen, newest.data])
  const first = isFrozen ? shown : newest.data
  const older = useInfiniteQuery({
    queryKey: [...key, "older"],
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) =>
      Api.jobs(endpoint, { ...filter, cursor: pageParam || first?.cursor || undefined }, signal),
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
        const jobs = mergePages((first ?? data).requests, older.data?.pages ?? [])
        return (
          <>
            <p className="list-head" aria-live="polite">
              {isFrozen
                ? (
                  <button type="button" className="button" onClick={() => window.scrollTo({ top: 0 })}>
                    {counted(waiting, "new job", "new jobs")}
                  </button>
                )
                : <span className="muted">{counted(jobs.length, "job")}{hasOlder ? " so far: scroll for older ones" : ""}</span>}
            </p>
            {jobs.length === 0
              ? (
                <p className="empty">
                  {status === "" && tag === ""
                    ? `The endpoint ${endpoint} has no stored jobs. Run one in the playground.`
                    : `No job of ${endpoint} matches. Remove a filter to see the others.`}
                </p>
              )
              : <JobTable endpoint={endpoint} jobs={jobs} onEnd={onEnd} />}
            {older.isFetching ? <Loading rows={2} /> : null}
            {older.error === null ? null : <Problem error={older.error} onRetry={() => void fetchNextPage()} />}
          </>
        )
      }}
    </Loaded>
  )
}

const JobsPage = () => {
  const { endpoint, status, tag } = jobFilterOf(useSearch({ strict: false }))
  const navigate = useNavigate()
  const endpointField = useId()
  const tagField = useId()
  // Read once: the list polls, and one request every two seconds is enough.
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const names = overview.data?.endpoints.map(({ id }) => id) ?? []
  const busiest = overview.data?.endpoints.toSorted((a, b) => total(b.jobs) - total(a.jobs))[0]?.id
  const chosen = endpoint || busiest
  const set = (change: Readonly<Record<string, string>>) => {
    const next = { endpoint, status, tag, ...change }
    const search = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== ""))
    void navigate({ to: "/console/jobs", search, replace: true })
  }
  const [typed, setTyped] = useState(tag)
  useEffect(() => setTyped(tag), [tag])
  return (
    <>
      <h1>Jobs</h1>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault()
          set({ tag: typed.trim() })
        }}
      >
        <label htmlFor={endpointField}>Endpoint</label>
        <select id={endpointField} value={chosen ?? ""} onChange={(event) => set({ endpoint: event.target.value })}>
          {chosen === undefined || names.includes(chosen) ? null : <option value={chosen}>{chosen}</option>}
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
        <label htmlFor={tagField}>Tag</label>
        <input
          id={tagField}
          value={typed}
          maxLength={64}
          placeholder="any"
          onChange={(event) => setTyped(event.target.value)}
          onBlur={() => set({ tag: typed.trim() })}
        />
      </form>
      <div className="states" role="group" aria-label="Status">
        {["", ...JOB_STATUSES].map((one) => (
          <button
            key={one}
            type="button"
            className="chip"
            aria-pressed={status === one}
            onClick={() => set({ status: one })}
          >
            {one === "" ? "All" : statusText(one).word}
          </button>
        ))}
      </div>
      {chosen === undefined
        ? (
          <Loaded query={overview} rows={12}>
            {() => <p className="empty">There is no endpoint yet, so there are no jobs.</p>}
          </Loaded>
        )
        : <List key={`${chosen} ${status} ${tag}`} endpoint={chosen} status={status} tag={tag} />}
    </>
  )
}

const total = (
  { completed, delayed, failed, running, waiting }: Readonly<
    Record<"completed" | "delayed" | "failed" | "running" | "waiting", number>
  >
) => completed + delayed + failed + running + waiting

export default JobsPage
