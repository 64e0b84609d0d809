/**
 * Playground: runs a job with an input, and shows its output as it arrives.
 */
import type { Json } from "@stint/client"
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, useNavigate, useSearch } from "@tanstack/react-router"
import { type KeyboardEvent, useCallback, useEffect, useId, useMemo, useState } from "react"
import * as Api from "../api/Api.ts"
import { jobsClient } from "../api/JobsClient.ts"
import { permits } from "../api/Permissions.ts"
import { refetchNow } from "../api/Refetch.ts"
import { useSession } from "../api/useSession.ts"
import { inputFields } from "../endpoints/InputSchema.ts"
import { checkJson, parseJson } from "../endpoints/JsonCheck.ts"
import { playgroundOf } from "../endpoints/PlaygroundSearch.ts"
import { SchemaForm } from "../endpoints/SchemaForm.tsx"
import { relative, shortId } from "../format/Format.ts"
import { Chunks } from "../jobs/Chunks.tsx"
import { ErrorView } from "../jobs/ErrorView.tsx"
import { hasEnded, statusText } from "../jobs/JobStates.ts"
import { LogView } from "../jobs/LogView.tsx"
import { OutputView } from "../jobs/OutputView.tsx"
import { useJobFeed } from "../jobs/useJobFeed.ts"
import { useNow } from "../live/Clock.ts"
import { Loaded, Problem } from "../ui/Loaded.tsx"
import { SavedTexts } from "../ui/SavedTexts.tsx"
import { Snippet } from "../ui/Snippet.tsx"
import { JobStatus } from "../ui/Status.tsx"
import { Growing, Id, JsonView } from "../ui/Text.tsx"

/** How many recent inputs can be chosen. */
const RECENT = 10

interface Run {
  readonly endpoint: string
  readonly id: string
  readonly at: number
}

const Result = ({ run: { at, endpoint, id } }: { readonly run: Run }) => {
  const client = useQueryClient()
  const query = useQuery({ queryKey: ["job", endpoint, id], queryFn: ({ signal }) => Api.explained(endpoint, id, signal) })
  // A short job may end before its first response has arrived.
  const refresh = useCallback(() => void refetchNow(client, ["job", endpoint, id]), [client, endpoint, id])
  const { error, feed } = useJobFeed(endpoint, id, 0, refresh)
  return (
    <section className="result" aria-labelledby="result">
      <div className="heading">
        <h2 id="result">Result</h2>
        <Link to="/console/jobs/$endpoint/$id" params={{ endpoint, id }} className="button">Open the job</Link>
      </div>
      <p className="muted">
        <Id id={id} />
      </p>
      {error === undefined ? null : <Problem error={error} />}
      <Loaded query={query} rows={3}>
        {(job) => {
          const status = hasEnded(job.status) ? job.status : feed.status ?? job.status
          const isOver = hasEnded(job.status)
          return (
            <>
              <p aria-live="polite">
                <JobStatus status={status} /> {isOver ? null : (
                  <span className="muted">
                    for <Growing since={at} />
                  </span>
                )}
              </p>
              {!isOver && job.explain !== undefined && status === "IN_QUEUE"
                ? <p className="notice">{job.explain.words}</p>
                : null}
              {!isOver && feed.progress !== undefined ? <JsonView value={feed.progress} label="the progress" /> : null}
              {feed.chunks.length === 0 ? null : <Chunks chunks={feed.chunks} />}
              {job.error === undefined ? null : <ErrorView error={job.error} title="Error" />}
              {isOver && job.output !== undefined ? <OutputView output={job.output} /> : null}
              {isOver && job.status === "COMPLETED" && job.output === undefined && feed.chunks.length === 0
                ? <p className="empty">The handler returned nothing.</p>
                : null}
              {feed.lines.length === 0 ? null : <LogView lines={feed.lines} isLive={!isOver} />}
            </>
          )
        }}
      </Loaded>
    </section>
  )
}

/** The input of the job that the address names, for "Edit and run again". */
const useInputOf = (endpoint: string, from: string) =>
  useQuery({
    queryKey: ["input", endpoint, from],
    queryFn: ({ signal }) => Api.withInput(endpoint, from, signal),
    enabled: endpoint !== "" && from !== "",
    staleTime: Infinity
  })

/** The newest jobs of the endpoint, whose inputs can be taken over. Keys without `jobs:read` see none. */
const RecentInputs = ({ endpoint, from, onChoose }: {
  readonly endpoint: string
  readonly from: string
  readonly onChoose: (id: string) => void
}) => {
  const field = useId()
  const now = useNow()
  const { data } = useQuery({
    queryKey: ["recent", endpoint],
    queryFn: ({ signal }) => Api.jobs(endpoint, RECENT, signal),
    enabled: permits(useSession(), "read", endpoint),
    staleTime: 10_000
  })
  const jobs = data?.requests ?? []
  return jobs.length === 0 ? null : (
    <>
      <label htmlFor={field}>Input of a recent job</label>
      <select
        id={field}
        value={jobs.some(({ id }) => id === from) ? from : ""}
        onChange={(event) => onChoose(event.target.value)}
      >
        <option value="">Choose a job</option>
        {jobs.map(({ createdAt, id, status }) => (
          <option key={id} value={id}>
            {`${shortId(id)}, ${statusText(status).word.toLowerCase()}, ${relative(createdAt, now)}`}
          </option>
        ))}
      </select>
    </>
  )
}

/** The form for the input, if a worker has reported the schema of the handler. */
const InputForm = ({ endpoint, input, onChange }: {
  readonly endpoint: string
  readonly input: string
  readonly onChange: (input: string) => void
}) => {
  const query = useQuery({
    queryKey: ["schema", endpoint],
    queryFn: ({ signal }) => Api.handlerSchema(endpoint, signal),
    // A worker may report it at any time, for example after the first job.
    refetchInterval: ({ state }) => state.data === null ? 5_000 : false
  })
  const fields = useMemo(() => query.data == null ? undefined : inputFields(query.data.input), [query.data])
  if (query.error !== null) return <Problem error={query.error} onRetry={() => void query.refetch()} />
  if (fields === undefined) return null
  const parsed = parseJson(input)
  return (
    <section className="form" aria-label="Input as a form">
      {parsed === undefined
        ? <p className="notice">The form shows the input again when its JSON is valid.</p>
        : <SchemaForm fields={fields} input={parsed.value} onChange={(value) => onChange(JSON.stringify(value, null, 2))} />}
    </section>
  )
}

const PlaygroundPage = () => {
  const { endpoint, from } = playgroundOf(useSearch({ strict: false }))
  const navigate = useNavigate()
  const session = useSession()
  const endpointField = useId()
  const inputField = useId()
  const problemField = useId()
  const [input, setInput] = useState("{}")
  const [run, setRun] = useState<Run | undefined>(undefined)
  const overview = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal), staleTime: 60_000 })
  const names = (overview.data?.endpoints ?? []).map(({ id }) => id).filter((id) => permits(session, "submit", id))
  const chosen = endpoint || names[0]
  const earlier = useInputOf(endpoint, from)
  const given = earlier.data?.input
  useEffect(() => {
    if (given !== undefined) setInput(JSON.stringify(given, null, 2))
  }, [given])
  const checked = checkJson(input)
  const submit = useMutation({
    mutationFn: async (to: string) => {
      const value: Json = JSON.parse(input)
      const { id } = await jobsClient.endpoint(to).run(value)
      return { endpoint: to, id, at: Date.now() }
    },
    onSuccess: setRun
  })
  const start = () => {
    if (chosen !== undefined && checked.isValid && !submit.isPending) submit.mutate(chosen)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      start()
    }
  }
  return (
    <>
      <h1>Playground</h1>
      <Loaded query={overview} rows={8}>
        {() =>
          chosen === undefined ?
            <p className="empty">This key may not run jobs on any endpoint.</p> :
            (
              <div className="playground">
                <section aria-label="Request">
                  <label htmlFor={endpointField}>Endpoint</label>
                  <select
                    id={endpointField}
                    value={chosen}
                    onChange={(event) =>
                      void navigate({ to: "/console/playground", search: { endpoint: event.target.value }, replace: true })}
                  >
                    {names.includes(chosen) ? null : <option value={chosen}>{chosen}</option>}
                    {names.map((name) => <option key={name} value={name}>{name}</option>)}
                  </select>
                  <RecentInputs
                    endpoint={chosen}
                    from={from}
                    onChoose={(id) =>
                      void navigate({
                        to: "/console/playground",
                        search: { endpoint: chosen, ...(id === "" ? {} : { from: id }) },
                        replace: true
                      })}
                  />
                  <SavedTexts
                    key={`saved ${chosen}`}
                    kind="input"
                    storageKey={`stint.inputs.${chosen}`}
                    text={checked.isValid ? input : ""}
                    onOpen={setInput}
                  />
                  <InputForm key={chosen} endpoint={chosen} input={input} onChange={setInput} />
                  <label htmlFor={inputField}>Input</label>
                  {earlier.error === null ? null : <Problem error={earlier.error} onRetry={() => void earlier.refetch()} />}
                  <textarea
                    id={inputField}
                    value={input}
                    rows={12}
                    spellCheck={false}
                    aria-invalid={!checked.isValid}
                    aria-describedby={problemField}
                    onChange={(event) => setInput(event.target.value)}
                    onKeyDown={onKey}
                  />
                  <p id={problemField} className={checked.isValid ? "muted" : "invalid"}>
                    {checked.isValid ? "Valid JSON. Ctrl or ⌘ and Enter runs it." : checked.reason}
                  </p>
                  <button
                    type="button"
                    className="button primary"
                    disabled={!checked.isValid || submit.isPending}
                    onClick={start}
                  >
                    Run
                  </button>
                  {submit.error === null ? null : <Problem error={submit.error} />}
                  <h2>The same call as a program</h2>
                  <Snippet endpoint={chosen} input={checked.isValid ? input : "{}"} />
                </section>
                {run === undefined ? <p className="empty">The result appears here.</p> : <Result key={run.id} run={run} />}
              </div>
            )}
      </Loaded>
    </>
  )
}

export default PlaygroundPage
