/**
 * A job: its status with an explanation, its timeline, output, error, log, and actions.
 */
import type { Explanation } from "@stint/contract/Explanation"
import type { ExplainedJob } from "@stint/contract/JobsApi"
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, useParams, useSearch } from "@tanstack/react-router"
import { useCallback, useState } from "react"
import * as Api from "../api/Api.ts"
import { jobsClient } from "../api/JobsClient.ts"
import { permits } from "../api/Permissions.ts"
import { refetchNow } from "../api/Refetch.ts"
import { definitions } from "../api/Runs.ts"
import { useSession } from "../api/useSession.ts"
import { statusSnippet } from "../endpoints/Snippets.ts"
import { textAt } from "../format/AddressQuery.ts"
import { counted, duration } from "../format/Format.ts"
import { type AttemptedJob, attemptsOf } from "../jobs/Attempts.ts"
import { AttemptsView } from "../jobs/AttemptsView.tsx"
import { Chunks } from "../jobs/Chunks.tsx"
import { ErrorView } from "../jobs/ErrorView.tsx"
import { errorParts } from "../jobs/JobError.ts"
import type { JobFeed } from "../jobs/JobFeed.ts"
import { hasEnded, mayRetry, statusText } from "../jobs/JobStates.ts"
import { timelineOf } from "../jobs/JobTimeline.ts"
import { LogView } from "../jobs/LogView.tsx"
import { OutputView } from "../jobs/OutputView.tsx"
import { Timeline } from "../jobs/Timeline.tsx"
import { useJobFeed } from "../jobs/useJobFeed.ts"
import { useNow } from "../live/Clock.ts"
import { usePoll } from "../live/Connection.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Download } from "../ui/Download.tsx"
import { Loaded, Problem } from "../ui/Loaded.tsx"
import { JobStatus } from "../ui/Status.tsx"
import { Tabs } from "../ui/Tabs.tsx"
import { Code, Id, JsonView, Time } from "../ui/Text.tsx"
import { DeliveryTable } from "../webhooks/DeliveryTable.tsx"

const Why = ({ explain, status }: { readonly explain: Explanation; readonly status: string }) => {
  if (explain.reason === "ended") return null
  const { attempts, cause, expiresAt, lease, nextRetryAt, position, startAt } = explain
  const isBad = ["failing", "paused", "external", "throttled"].includes(explain.reason)
  return (
    <section className={`notice ${isBad ? "bad" : ""}`} aria-labelledby="why">
      <h2 id="why">{status === "IN_QUEUE" ? "Why it waits" : "What it does"}</h2>
      <p>{explain.words}</p>
      <dl className="facts">
        {position === undefined ? null : (
          <div>
            <dt>Position</dt>
            <dd>{position.place} of {position.of}{position.more ? " or more" : ""}</dd>
          </div>
        )}
        <div>
          <dt>{attempts.most === null ? "Activations" : "Attempts"}</dt>
          <dd>{attempts.most === null ? attempts.made : `${attempts.made} of ${attempts.most}`}</dd>
        </div>
        {startAt === undefined ? null : (
          <div>
            <dt>Starts</dt>
            <dd>
              <Time at={startAt} />
            </dd>
          </div>
        )}
        {nextRetryAt === undefined ? null : (
          <div>
            <dt>Next attempt</dt>
            <dd>
              <Time at={nextRetryAt} />
            </dd>
          </div>
        )}
        {lease === undefined ? null : (
          <div>
            <dt>Worker</dt>
            <dd>
              <Id id={lease.worker} short />
            </dd>
          </div>
        )}
        {lease === undefined ? null : (
          <div>
            <dt>Lease ends</dt>
            <dd>
              <Time at={lease.expiresAt} />
            </dd>
          </div>
        )}
        {expiresAt === undefined ? null : (
          <div>
            <dt>Times out</dt>
            <dd>
              <Time at={expiresAt} />
            </dd>
          </div>
        )}
      </dl>
      {cause === undefined ? null : <ErrorView error={cause} title="The last attempt failed" />}
    </section>
  )
}

const inputQuery = (endpoint: string, id: string) =>
  queryOptions({
    queryKey: ["input", endpoint, id],
    queryFn: ({ signal }) => Api.withInput(endpoint, id, signal),
    staleTime: Infinity
  })

const Input = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => {
  const query = useQuery(inputQuery(endpoint, id))
  return (
    <Loaded query={query}>
      {({ input }) => (
        <>
          <JsonView value={input} label="the input" />
        </>
      )}
    </Loaded>
  )
}

const Deliveries = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => {
  const query = useQuery({
    queryKey: ["deliveries", endpoint, id],
    queryFn: ({ signal }) => Api.deliveries(endpoint, { job: id }, signal),
    // A sent delivery is pending until its receiver has answered.
    refetchInterval: usePoll(4_000)
  })
  const refresh = () => void query.refetch()
  return (
    <Loaded query={query}>
      {({ deliveries }) =>
        deliveries.length === 0 ?
          <p className="empty">No webhook was sent for this job. A job names its webhook when it is submitted.</p> :
          <DeliveryTable deliveries={deliveries} endpoint={endpoint} onChange={refresh} />}
    </Loaded>
  )
}

/** A common form of progress: a fraction. */
const shareOf = (progress: unknown): number | undefined => {
  const found: unknown = typeof progress === "object" && progress !== null
    ? Reflect.get(progress, "progress") ?? Reflect.get(progress, "percent")
    : progress
  if (typeof found !== "number" || found < 0 || found > 100) return undefined
  return found <= 1 ? found * 100 : found
}

const Progress = ({ feed: { progress, status } }: { readonly feed: JobFeed }) => {
  if (progress === undefined || status !== "IN_PROGRESS") return null
  const share = shareOf(progress)
  return (
    <section aria-labelledby="progress">
      <h2 id="progress">Progress</h2>
      {share === undefined ? null : <progress max={100} value={share} aria-labelledby="progress" />}
      <JsonView value={progress} label="the progress" />
    </section>
  )
}

const Output = ({ feed, job }: { readonly job: ExplainedJob; readonly feed: JobFeed }) => {
  const isOver = hasEnded(job.status)
  return (
    <>
      {feed.chunks.length === 0 ? null : (
        <section aria-labelledby="stream">
          <h2 id="stream">Stream</h2>
          <Chunks chunks={feed.chunks} />
        </section>
      )}
      {isOver && job.output !== undefined ? <OutputView output={job.output} /> : null}
      {isOver && job.output === undefined && feed.chunks.length === 0
        ? (
          <p className="empty">
            {job.status === "COMPLETED" ? "The handler returned nothing." : "The job ended without an output."}
          </p>
        )
        : null}
      {!isOver && feed.chunks.length === 0
        ? <p className="empty">The output appears here when the job ends. Streamed output appears as it arrives.</p>
        : null}
    </>
  )
}

const Head = ({ endpoint, id, job, onChange }: {
  readonly endpoint: string
  readonly id: string
  readonly job: ExplainedJob
  readonly onChange: () => void
}) => {
  const session = useSession()
  const mayManage = permits(session, "manage", endpoint)
  const client = useQueryClient()
  const exported = async () => {
    const { input } = await client.query(inputQuery(endpoint, id))
    return `${JSON.stringify({ endpoint, ...job, input }, null, 2)}\n`
  }
  const handle = jobsClient.endpoint(endpoint).job(id)
  const { data: pipeline } = useQuery({
    queryKey: ["definitions", endpoint, "page"],
    queryFn: ({ signal }) => definitions(endpoint, signal),
    staleTime: 60_000
  })
  return (
    <div className="heading">
      <h1 className="job-title">
        <span className="sr">Job</span>
        <Id id={id} />
      </h1>
      <JobStatus status={job.status} />
      <Link to="/console/endpoints/$endpoint" params={{ endpoint }}>{endpoint}</Link>
      <div className="actions">
        {pipeline === undefined || pipeline.definitions.length === 0
          ? null
          : <Link to="/console/pipelines/$endpoint/$id" params={{ endpoint, id }} className="button">Graph of the run</Link>}
        {job.explain?.trace === undefined
          ? null
          : <a href={job.explain.trace.url} target="_blank" rel="noreferrer" className="button">Open the trace</a>}
        <Download name={`${id}.json`} type="application/json" text={exported}>Export</Download>
        {permits(session, "submit", endpoint)
          ? <Link to="/console/playground" search={{ endpoint, from: id }} className="button">Edit and run again</Link>
          : null}
        {mayManage && !hasEnded(job.status)
          ? (
            <Confirm
              label="Cancel"
              title="Cancel 1 job?"
              body={job.status === "IN_PROGRESS"
                ? "The worker stops the handler. Work that it has already done is not undone."
                : "The job leaves the queue and does not run."}
              verb="Cancel the job"
              danger
              action={() => handle.cancel()}
              onDone={onChange}
            />
          )
          : null}
        {mayManage && mayRetry(job.status)
          ? (
            <Confirm
              label="Retry"
              title="Retry 1 job?"
              body="The job returns to the queue with its id and its input. Its output and its error so far are replaced."
              verb="Retry the job"
              action={() => handle.retry()}
              onDone={onChange}
            />
          )
          : null}
      </div>
    </div>
  )
}

const summaryOf = (job: ExplainedJob): string => {
  const { made, most } = job.explain?.attempts ?? { made: 0, most: 0 }
  const parts = [
    ...(hasEnded(job.status)
      ? [`${statusText(job.status).word} after ${counted(made, most === null ? "activation" : "attempt")}`]
      : []),
    ...(job.delayTime === undefined ? [] : [`waited ${duration(job.delayTime)}`]),
    ...(job.executionTime === undefined ? [] : [`ran ${duration(job.executionTime)}`])
  ]
  return parts.join(" · ")
}

/** The last attempt of a job. */
const attemptedOf = ({ error, explain, status, workerId }: ExplainedJob): AttemptedJob => {
  const { message, type } = error === undefined ? { message: undefined, type: undefined } : errorParts(error)
  return {
    status,
    attempts: explain?.attempts.made ?? 0,
    startedAt: explain?.startedAt,
    finishedAt: explain?.finishedAt,
    worker: workerId,
    release: explain?.release,
    error: type === undefined ? message : `${type}: ${message}`
  }
}

const JobView = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => {
  // A link may open a tab.
  const tab = textAt(useSearch({ strict: false }), "tab")
  const session = useSession()
  const client = useQueryClient()
  const now = useNow()
  const [again, setAgain] = useState(0)
  const poll = usePoll(2_000)
  const query = useQuery({
    queryKey: ["job", endpoint, id],
    queryFn: ({ signal }) => Api.explained(endpoint, id, signal),
    // The events report progress, chunks and lines, but the explanation must be polled. An ended job does not change.
    refetchInterval: (state) => {
      const status = state.state.data?.status
      return poll === false || (status !== undefined && hasEnded(status)) ? false : poll
    }
  })
  const refresh = useCallback(() => void refetchNow(client, ["job", endpoint, id]), [client, endpoint, id])
  const { error: feedError, feed } = useJobFeed(endpoint, id, again, refresh)
  return (
    <Loaded query={query} rows={8}>
      {(job) => {
        const { explain } = job
        const isOver = hasEnded(job.status)
        const attempts = attemptsOf(attemptedOf(job), feed.lines)
        const isRun = explain?.attempts.most === null
        return (
          <>
            <Head
              endpoint={endpoint}
              id={id}
              job={job}
              onChange={() => {
                refresh()
                setAgain(again + 1)
              }}
            />
            <p className="muted">
              {explain === undefined ? null : (
                <>
                  Submitted <Time at={explain.createdAt} />
                </>
              )}
              {summaryOf(job) === "" ? "" : ` · ${summaryOf(job)}`}
              {job.workerId === undefined ? null : (
                <span>
                  {" · worker "}
                  <Id id={job.workerId} short />
                </span>
              )}
            </p>
            {explain === undefined ? null : <Why explain={explain} status={job.status} />}
            {job.error === undefined ? null : <ErrorView error={job.error} title="Error" />}
            {explain === undefined
              ? null
              : (
                <Timeline
                  bars={timelineOf(
                    {
                      ...explain,
                      status: job.status,
                      attempts: explain.attempts.made,
                      isRun,
                      waitParts: explain.wait?.parts
                    },
                    attempts,
                    now
                  )}
                />
              )}
            <Progress feed={feed} />
            {feedError === undefined ? null : <Problem error={feedError} onRetry={() => setAgain(again + 1)} />}
            <Tabs
              label="Job"
              initial={tab === "" ? (job.error === undefined ? "Output" : "Logs") : tab}
              tabs={[
                { name: "Output", content: <Output job={job} feed={feed} /> },
                { name: "Input", content: <Input endpoint={endpoint} id={id} /> },
                ...(attempts.length > 1 && !isRun
                  ? [{
                    name: "Attempts",
                    count: explain?.attempts.made,
                    content: <AttemptsView attempts={attempts} total={explain?.attempts.made ?? attempts.length} />
                  }]
                  : []),
                { name: "Logs", count: feed.lines.length, content: <LogView lines={feed.lines} isLive={!isOver} /> },
                ...(permits(session, "deploy")
                  ? [{ name: "Webhooks", content: <Deliveries endpoint={endpoint} id={id} /> }]
                  : []),
                {
                  name: "curl",
                  content: <Code label="the curl command">{statusSnippet(window.location.origin, endpoint, id)}</Code>
                }
              ]}
            />
          </>
        )
      }}
    </Loaded>
  )
}

const JobPage = () => {
  const { endpoint = "", id = "" } = useParams({ strict: false })
  return <JobView key={`${endpoint} ${id}`} endpoint={endpoint} id={id} />
}

export default JobPage
