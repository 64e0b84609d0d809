/**
 * Lists of an endpoint's jobs, newest first: by status, by tag or by words, each from its own index.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobStatus } from "@stint/contract/Job"
import { type JobPage, type JobQuery, SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
import { compareNewestFirst, type ListCursor } from "@stint/store/ListCursor"
import { toSummary } from "./JobColumns.ts"
import type * as JobRows from "./JobRows.ts"
import type * as SqliteTextIndex from "./SqliteTextIndex.ts"

const STATUSES: ReadonlyArray<JobStatus> = JobStatus.literals

/** Later than any time. */
const LAST = Number.MAX_SAFE_INTEGER

/** After any id. */
const LAST_ID = "\uffff"

/** Returns a function that reads a page, within a read or a transaction. */
export const make = (
  rows: Pick<ReturnType<typeof JobRows.make>, "listed" | "summary" | "tagged">,
  index: Pick<ReturnType<typeof SqliteTextIndex.make>, "found" | "start">
) => {
  /** Reads one index range per status and merges them. */
  const listByStatus = (
    endpoint: EndpointId,
    statuses: ReadonlyArray<JobStatus>,
    range: JobRows.TimeRange,
    limit: number
  ): JobPage => {
    const found = statuses.flatMap((status) => rows.listed(endpoint, status, range, limit + 1))
    if (statuses.length > 1) found.sort(compareNewestFirst)
    const page = found.slice(0, limit)
    const last = page.at(-1)
    return {
      jobs: page.map(({ row }) => toSummary(row)),
      next: last === undefined || found.length === page.length ? null : { createdAt: last.createdAt, id: last.id }
    }
  }

  const listByTag = (
    endpoint: EndpointId,
    tag: string,
    status: JobStatus | undefined,
    range: JobRows.TimeRange,
    limit: number
  ): JobPage => {
    const scanLimit = status === undefined ? limit : SCAN_LIMIT
    const found = rows.tagged(endpoint, tag, range, scanLimit + 1)
    const jobs: Array<JobSummary> = []
    let last: ListCursor | null = null
    let scanned = 0
    for (const place of found) {
      if (jobs.length === limit || scanned === scanLimit) break
      scanned += 1
      last = { createdAt: place.createdAt, id: place.id }
      const job = rows.summary(place.seq)
      if (job !== undefined && (status === undefined || job.status === status)) jobs.push(job)
    }
    return { jobs, next: scanned < found.length ? last : null }
  }

  /** Reads the jobs that may have the words from the index. `start`: the index contains the jobs submitted since then. */
  const listByWords = (endpoint: EndpointId, query: JobQuery, range: JobRows.TimeRange, start: number): JobPage => {
    const { limit, status, tag, words = [] } = query
    const scanLimit = status === undefined && tag === undefined ? limit : SCAN_LIMIT
    const indexed = { ...range, from: Math.max(range.from, start) }
    const found = index.found(endpoint, words, indexed, scanLimit + 1, rows.summary)
    const jobs: Array<JobSummary> = []
    let last: ListCursor | null = null
    let scanned = 0
    for (const { createdAt, id, seq } of found) {
      if (jobs.length === limit || scanned === scanLimit) break
      scanned += 1
      last = { createdAt, id }
      const job = rows.summary(seq)
      if (job === undefined || (status !== undefined && job.status !== status)) continue
      if (tag === undefined || job.tags.includes(tag)) jobs.push(job)
    }
    if (scanned < found.length) return { jobs, next: last }
    // Older jobs are listed without the index, from before its first millisecond.
    return { jobs, next: range.from < start ? { createdAt: start - 1, id: LAST_ID } : null }
  }

  const list = (endpoint: EndpointId, query: JobQuery): JobPage => {
    const { after, createdAfter, createdBefore, limit, status, tag } = query
    const range = {
      from: createdAfter ?? -LAST,
      to: Math.min(createdBefore === undefined ? LAST : createdBefore - 1, after?.createdAt ?? LAST),
      after: after ?? { createdAt: LAST, id: "" }
    }
    const start = query.words === undefined ? undefined : index.start()
    if (start !== undefined && range.to >= start) return listByWords(endpoint, query, range, start)
    return tag === undefined
      ? listByStatus(endpoint, status === undefined ? STATUSES : [status], range, limit)
      : listByTag(endpoint, tag, status, range, limit)
  }

  return list
}
