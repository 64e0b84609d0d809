/**
 * A list of jobs. Only the visible rows exist, so that a list of any length scrolls smoothly.
 */
import type { FoundJob } from "@stint/contract/BulkApi"
import { useNavigate } from "@tanstack/react-router"
import { useWindowVirtualizer } from "@tanstack/react-virtual"
import { memo, type MouseEvent, useEffect, useRef, useState } from "react"
import { duration, shortId } from "../format/Format.ts"
import { JobStatus } from "../ui/Status.tsx"
import { Growing, Time } from "../ui/Text.tsx"
import { errorLine } from "./JobError.ts"

const NARROW = "(max-width: 700px)"

const useNarrow = (): boolean => {
  const [isNarrow, setNarrow] = useState(() => window.matchMedia(NARROW).matches)
  useEffect(() => {
    const media = window.matchMedia(NARROW)
    const update = () => setNarrow(media.matches)
    media.addEventListener("change", update)
    return () => media.removeEventListener("change", update)
  }, [])
  return isNarrow
}

const Times = ({ job }: { readonly job: FoundJob }) => {
  if (job.status === "IN_QUEUE") {
    return job.startAt === undefined
      ? (
        <>
          waits <Growing since={job.createdAt} />
        </>
      )
      : (
        <>
          starts <Time at={job.startAt} />
        </>
      )
  }
  if (job.status === "IN_PROGRESS" && job.startedAt !== undefined) {
    return (
      <>
        runs <Growing since={job.startedAt} />
      </>
    )
  }
  return job.executionTime === undefined ? null : <>{duration(job.executionTime)}</>
}

/** A link of the router costs more than the rest of its row, because it compares itself with the address. The list navigates instead. */
const Row = memo(({ job, namesEndpoint }: { readonly job: FoundJob; readonly namesEndpoint: boolean }) => (
  <a
    href={`/console/jobs/${encodeURIComponent(job.endpoint)}/${encodeURIComponent(job.id)}`}
    data-endpoint={job.endpoint}
    data-job={job.id}
    className="job-row"
  >
    <span>
      <JobStatus status={job.status} />
    </span>
    <span className="mono" title={job.id}>{shortId(job.id)}</span>
    <span className="muted">
      <Time at={job.createdAt} />
    </span>
    <span className="number">
      <Times job={job} />
    </span>
    <span className="muted">{job.attempt > 1 ? `attempt ${job.attempt}` : ""}</span>
    <span className="job-note">
      {namesEndpoint ? <span className="tag">{job.endpoint}</span> : null}
      {job.error === undefined ? job.tags.map((tag) => <span key={tag} className="tag">{tag}</span>) : errorLine(job.error)}
    </span>
  </a>
))
Row.displayName = "Row"

/** The rows. `onEnd` is called when the last rows become visible. */
export const JobTable = ({ jobs, namesEndpoint = false, onEnd }: {
  readonly jobs: ReadonlyArray<FoundJob>
  /** Whether each row names its endpoint. */
  readonly namesEndpoint?: boolean
  readonly onEnd?: (() => void) | undefined
}) => {
  const list = useRef<HTMLDivElement>(null)
  const isNarrow = useNarrow()
  const rowHeight = isNarrow ? 76 : 40
  const virtualizer = useWindowVirtualizer({
    count: jobs.length,
    estimateSize: () => rowHeight,
    overscan: 8,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: (index) => jobs[index]?.id ?? index
  })
  useEffect(() => virtualizer.measure(), [rowHeight, virtualizer])
  const navigate = useNavigate()
  const open = (event: MouseEvent) => {
    const { altKey, button, ctrlKey, metaKey, shiftKey, target } = event
    if (button !== 0 || altKey || ctrlKey || metaKey || shiftKey || !(target instanceof Element)) return
    const { endpoint, job } = target.closest<HTMLElement>("a[data-job]")?.dataset ?? {}
    if (endpoint === undefined || job === undefined) return
    event.preventDefault()
    void navigate({ to: "/console/jobs/$endpoint/$id", params: { endpoint, id: job } })
  }
  const rows = virtualizer.getVirtualItems()
  const last = rows.at(-1)?.index ?? 0
  useEffect(() => {
    if (jobs.length > 0 && last >= jobs.length - 10) onEnd?.()
  }, [jobs.length, last, onEnd])
  return (
    <>
      <div className="job-head" aria-hidden="true">
        {["Status", "Job", "Submitted", "Duration", "", "Error or tags"].map((name) => (
          <span key={name} className={name === "Duration" ? "number" : undefined}>{name}</span>
        ))}
      </div>
      <div
        ref={list}
        className="job-list"
        role="list"
        aria-label="Jobs"
        style={{ height: virtualizer.getTotalSize() }}
        onClick={open}
      >
        {rows.map(({ index, key, start }) => {
          const job = jobs[index]
          return job === undefined ? null : (
            <div
              key={key}
              role="listitem"
              aria-posinset={index + 1}
              aria-setsize={jobs.length}
              className="job-item"
              style={{ height: rowHeight, transform: `translateY(${start - virtualizer.options.scrollMargin}px)` }}
            >
              <Row job={job} namesEndpoint={namesEndpoint} />
            </div>
          )
        })}
      </div>
    </>
  )
}
