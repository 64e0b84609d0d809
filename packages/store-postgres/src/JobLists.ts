/**
 * Lists of jobs, newest first: one index range for each table or status, merged.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JobStatus } from "@stint/contract/Job"
import { type JobPage, type JobQuery, SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
import type { ListCursor } from "@stint/store/ListCursor"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { ALL, fromAllStateTables, type StateTable, SUMMARY, toStateRow } from "./JobColumns.ts"
import * as TextIndexRows from "./TextIndexRows.ts"

/** Later than any time. */
const LAST = Number.MAX_SAFE_INTEGER

/** After any id. */
const LAST_ID = "\uffff"

/** The statuses of jobs that the index of words does not contain. */
const OPEN: ReadonlySet<JobStatus | undefined> = new Set(["IN_QUEUE", "IN_PROGRESS"])

/** A time range with inclusive bounds, and the position of the previous page's last job in it. */
interface TimeRange {
  readonly from: number
  readonly to: number
  readonly after: ListCursor
}

const decodeGroup = Schema.decodeUnknownSync(Schema.NullOr(Schema.String))
const decodeTagged = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.String]))

const COLUMNS = Object.keys(ALL).join(", ")

const RANGE = `endpoint = $1 AND created_at BETWEEN $2 AND $3 AND (created_at, id) < ($4, $5)`

const rangeOf = (place: StateTable, status?: JobStatus) =>
  `(SELECT ${COLUMNS}, ${place === "ended" ? "error_group" : "NULL::text AS error_group"} FROM stint.${place} WHERE ${RANGE}${
    status === undefined ? "" : ` AND status = '${status}'`
  }
    ORDER BY created_at DESC, id DESC LIMIT $6)`

const ENDED = ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"] as const

/** The ranges that contain the jobs with a status; undefined: all jobs. */
const rangesOf = (status: JobStatus | undefined): ReadonlyArray<string> => {
  const queued = [rangeOf("ready"), rangeOf("delayed")]
  switch (status) {
    case undefined:
      return [...queued, rangeOf("running"), ...ENDED.map((one) => rangeOf("ended", one))]
    case "IN_QUEUE":
      return queued
    case "IN_PROGRESS":
      return [rangeOf("running")]
    default:
      return [rangeOf("ended", status)]
  }
}

/** Decodes the columns of `SUMMARY` and the error group after them. */
const toSummary = (row: ReadonlyArray<unknown>): JobSummary => {
  const { head, outcome: { error } } = toStateRow(row)
  return { ...head, error, errorGroup: decodeGroup(row.at(-1)) }
}

const listByStatus = async (
  query: Query,
  endpoint: EndpointId,
  status: JobStatus | undefined,
  { after, from, to }: TimeRange,
  limit: number
): Promise<JobPage> => {
  const rows = await query(
    `SELECT ${SUMMARY}, s.error_group FROM (${rangesOf(status).join(" UNION ALL ")}) s JOIN stint.jobs j ON j.id = s.id
     ORDER BY s.created_at DESC, s.id DESC LIMIT $6`,
    [endpoint, from, to, after.createdAt, after.id, limit + 1]
  )
  const jobs = rows.slice(0, limit).map(toSummary)
  const last = jobs.at(-1)
  return { jobs, next: last === undefined || rows.length === jobs.length ? null : { createdAt: last.createdAt, id: last.id } }
}

/**
 * The first jobs among the found places that match, at most `limit`, examining at most `scanLimit` places. One more place shows that there is a next
 * page.
 */
const pageOf = async (
  query: Query,
  found: ReadonlyArray<ListCursor>,
  scanLimit: number,
  limit: number,
  matches: (job: JobSummary) => boolean
): Promise<JobPage> => {
  const summaries = await query(
    `SELECT ${SUMMARY}, e.error_group FROM ${fromAllStateTables("id = ANY($1::text[])")} LEFT JOIN stint.ended e ON e.id = s.id`,
    [found.slice(0, scanLimit).map(({ id }) => id)]
  )
  const byId = new Map(summaries.map((row) => {
    const job = toSummary(row)
    return [String(job.id), job]
  }))
  const jobs: Array<JobSummary> = []
  let last: ListCursor | null = null
  let scanned = 0
  for (const place of found) {
    if (jobs.length === limit || scanned === scanLimit) break
    scanned += 1
    last = place
    const job = byId.get(place.id)
    if (job !== undefined && matches(job)) jobs.push(job)
  }
  return { jobs, next: scanned < found.length ? last : null }
}

const listByTag = async (
  query: Query,
  endpoint: EndpointId,
  tag: string,
  status: JobStatus | undefined,
  { after, from, to }: TimeRange,
  limit: number
): Promise<JobPage> => {
  const scanLimit = status === undefined ? limit : SCAN_LIMIT
  const rows = await query(
    `SELECT created_at, id FROM stint.tags WHERE ${RANGE} AND tag = $6 ORDER BY created_at DESC, id DESC LIMIT $7`,
    [endpoint, from, to, after.createdAt, after.id, tag, scanLimit + 1]
  )
  const found = rows.map((row) => {
    const [createdAt, id] = decodeTagged(row)
    return { createdAt, id }
  })
  return pageOf(query, found, scanLimit, limit, (job) => status === undefined || job.status === status)
}

/** Reads the jobs that may have the words from the index; undefined if it cannot be used. */
const listByWords = async (
  query: Query,
  endpoint: EndpointId,
  { limit, status, tag, words = [] }: JobQuery,
  range: TimeRange,
  now: number
): Promise<JobPage | undefined> => {
  const scanLimit = status === undefined && tag === undefined ? limit : SCAN_LIMIT
  const found = await TextIndexRows.found(query, { ...range, endpoint, words, status }, scanLimit + 1, now)
  if (found === undefined || range.to < found.start) return undefined
  const { places, start } = found
  const page = await pageOf(
    query,
    places,
    scanLimit,
    limit,
    (job) => (status === undefined || job.status === status) && (tag === undefined || job.tags.includes(tag))
  )
  // Older jobs are listed without the index, from before its first millisecond.
  return page.next === null && range.from < start ? { ...page, next: { createdAt: start - 1, id: LAST_ID } } : page
}

/** A page of the jobs of an endpoint. `now`: decides whether the index of words is too old to be used. */
export const listJobs = async (
  query: Query,
  endpoint: EndpointId,
  jobQuery: JobQuery,
  now: number
): Promise<JobPage> => {
  const { after, createdAfter, createdBefore, limit, status, tag, words } = jobQuery
  // PostgreSQL refuses this character, so no tag and no id contains it. A caller may ask for it.
  if (tag?.includes("\0") === true || after?.id.includes("\0") === true) return { jobs: [], next: null }
  const range = {
    from: createdAfter ?? -LAST,
    to: Math.min(createdBefore === undefined ? LAST : createdBefore - 1, after?.createdAt ?? LAST),
    after: after ?? { createdAt: LAST, id: "" }
  }
  if (words !== undefined && !OPEN.has(status)) {
    const page = await listByWords(query, endpoint, jobQuery, range, now)
    if (page !== undefined) return page
  }
  return tag === undefined
    ? listByStatus(query, endpoint, status, range, limit)
    : listByTag(query, endpoint, tag, status, range, limit)
}
