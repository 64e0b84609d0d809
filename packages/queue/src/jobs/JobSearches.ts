/**
 * Searches: the jobs of several endpoints that match a text query, newest first.
 *
 * ```
 *   endpoint a, FAILED     --index range--\
 *   endpoint a, TIMED_OUT  --index range----> merged by time --> match? --> page, cursor
 *   endpoint b, FAILED     --index range--/        at most SCAN_LIMIT jobs
 * ```
 *
 * The stores use indexes to find jobs by endpoint, status, time and tag (SearchPlan.ts). The other terms are compared here, on
 * the rows of the list, so that every store finds the same jobs. A page examines at most {@link SCAN_LIMIT} jobs. At that limit it ends early, and its
 * cursor continues after the last examined job.
 */
import { matchesSearch } from "@stint/contract/SearchMatch"
import { SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import { compareNewestFirst, decodeListCursor, encodeListCursor, type ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { InvalidCursor } from "./JobErrors.ts"
import { CHANGING, type PlannedRange, planOf, type SearchScope } from "./SearchPlan.ts"

export type { SearchScope } from "./SearchPlan.ts"

/** A page of a search. */
export interface SearchOptions extends SearchScope {
  /** Page size, from 1 to 200. Default: 50. */
  readonly limit?: number | undefined
  /** The `next` of the previous page. */
  readonly after?: ListCursor | null | undefined
}

/** Jobs that match, and where the next page begins; null: at the end. */
export interface Found {
  readonly jobs: ReadonlyArray<JobSummary>
  readonly next: ListCursor | null
}

/** A number of matching jobs. `more`: counting stopped there. */
export interface Counted {
  readonly count: number
  readonly more: boolean
}

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200

/** The maximum number of jobs that a count examines. */
const COUNT_SCAN_LIMIT = 50_000

/** An index range that is read in steps. */
interface Source extends PlannedRange {
  jobs: ReadonlyArray<JobSummary>
  /** The next of `jobs`. */
  at: number
  after: ListCursor | undefined
  isRead: boolean
}

/** Decodes the cursor of a page; undefined for the first page. */
export const cursorOf = (cursor: string | undefined): Effect.Effect<ListCursor | undefined, InvalidCursor> => {
  const after = cursor === undefined ? undefined : decodeListCursor(cursor)
  return cursor !== undefined && after === undefined
    ? Effect.fail(new InvalidCursor({ value: cursor }))
    : Effect.succeed(after)
}

/** The text of a page's `next`. */
export const cursorText = (next: ListCursor | null): string | null => next === null ? null : encodeListCursor(next)

/** The searches of a store. */
export const make = (store: Pick<JobStore["Service"], "list">) => {
  /** Examines jobs, newest first, until `visit` returns false. Returns the last examined job, or null at the end. */
  const walk = Effect.fnUntraced(function*(
    scope: SearchScope,
    after: ListCursor | undefined,
    step: number,
    visit: (job: JobSummary, isMatch: boolean) => boolean
  ): Effect.fn.Return<ListCursor | null, StoreError> {
    const sources = planOf(scope).map((planned): Source => ({ ...planned, jobs: [], at: 0, after, isRead: false }))
    const limit = Math.max(10, Math.ceil(step / Math.max(1, sources.length)))
    /** The last examined job. */
    let last = after
    let wasMatch = false
    /** Reads the later statuses of an endpoint again: a job may have left the status of this source after they were read. */
    const readLaterAgain = (source: Source) => {
      if (source.range.status === undefined || !CHANGING.includes(source.range.status)) return
      const newest = last?.createdAt ?? Infinity
      const oldest = source.isRead ? -Infinity : source.after?.createdAt ?? -Infinity
      for (const other of sources.slice(sources.indexOf(source) + 1)) {
        if (other.endpoint !== source.endpoint) break
        const { createdAfter = -Infinity, createdBefore = Infinity } = other.range
        // None of its jobs is in the page that was read.
        if (createdAfter > newest || createdBefore <= oldest) continue
        other.jobs = []
        other.at = 0
        other.after = last
        other.isRead = false
      }
    }
    const read = Effect.fnUntraced(function*(source: Source) {
      while (source.at === source.jobs.length && !source.isRead) {
        const page = yield* store.list(source.endpoint, { ...source.range, after: source.after, limit })
        source.jobs = page.jobs
        source.at = 0
        source.after = page.next ?? undefined
        source.isRead = page.next === null
        // A search must not delay the jobs of others.
        yield* Effect.yieldNow
      }
      readLaterAgain(source)
    })
    while (true) {
      let newest: { readonly source: Source; readonly job: JobSummary } | undefined
      for (const source of sources) {
        if (source.at === source.jobs.length && !source.isRead) yield* read(source)
        const job = source.jobs[source.at]
        if (job !== undefined && (newest === undefined || compareNewestFirst(job, newest.job) < 0)) newest = { source, job }
      }
      if (newest === undefined) return null
      newest.source.at += 1
      const { createdAt, id } = newest.job
      const isMatch = matchesSearch(scope.search, newest.job, scope.now)
      // The job is in two ranges. It may have changed between their reads, so that only the second row matches.
      if (id === last?.id && (wasMatch || !isMatch)) continue
      last = { createdAt, id }
      wasMatch = isMatch
      if (!visit(newest.job, isMatch)) {
        const isLast = sources.every(({ at, isRead, jobs }) => isRead && at === jobs.length)
        return isLast ? null : last
      }
    }
  })

  const search = Effect.fnUntraced(function*(options: SearchOptions): Effect.fn.Return<Found, StoreError> {
    const { after, limit = DEFAULT_LIMIT } = options
    const wanted = Math.min(MAX_LIMIT, Math.max(1, limit))
    const jobs: Array<JobSummary> = []
    let scanned = 0
    const next = yield* walk(options, after ?? undefined, MAX_LIMIT, (job, isMatch) => {
      scanned += 1
      if (isMatch) jobs.push(job)
      return jobs.length < wanted && scanned < SCAN_LIMIT
    })
    return { jobs, next }
  })

  const count = Effect.fnUntraced(function*(scope: SearchScope, limit: number): Effect.fn.Return<Counted, StoreError> {
    let counted = 0
    let scanned = 0
    const next = yield* walk(scope, undefined, MAX_LIMIT, (_, isMatch) => {
      scanned += 1
      if (isMatch) counted += 1
      return counted < limit && scanned < COUNT_SCAN_LIMIT
    })
    return { count: counted, more: next !== null }
  })

  return { search, count }
}
