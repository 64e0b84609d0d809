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

/** Later than any time. */
const LAST = Number.MAX_SAFE_INTEGER

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
    if (job !== undefined && (status === undefined || job.status === status)) jobs.push(job)
  }
  return { jobs, next: scanned < found.length ? last : null }
}

/** A page of the jobs of an endpoint. */
export const listJobs = async (
  query: Query,
  endpoint: EndpointId,
  { after, createdAfter, createdBefore, limit, status, tag }: JobQuery
): Promise<JobPage> => {
  // PostgreSQL refuses this character, so no tag and no id contains it. A caller may ask for it.
  if (tag?.includes("\0") === true || after?.id.includes("\0") === true) return { jobs: [], next: null }
  const range = {
    from: createdAfter ?? -LAST,
    to: Math.min(createdBefore === undefined ? LAST : createdBefore - 1, after?.createdAt ?? LAST),
    after: after ?? { createdAt: LAST, id: "" }
  }
  return tag === undefined
    ? listByStatus(query, endpoint, status, range, limit)
    : listByTag(query, endpoint, tag, status, range, limit)
}
