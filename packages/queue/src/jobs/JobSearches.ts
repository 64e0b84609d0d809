/**
 * Searches: the jobs of several endpoints that match a text query, newest first.
 *
 * ```
 *   endpoint a, FAILED     --index range--\
 *   endpoint a, TIMED_OUT  --index range----> merged by time --> match? --> page, cursor
 *   endpoint b, FAILED     --index range--/        at most SCAN_LIMIT jobs
 * ```
 *
 * The stores use indexes to find jobs by endpoint, status, time, tag and words (SearchPlan.ts). The other terms are compared here, on
 * the rows of the list, so that every store finds the same jobs. The texts of a job are read only if the rest of its row matches. A page examines at most
 * {@link SCAN_LIMIT} jobs and {@link MAX_TEXT} characters. At that limit it ends early, and its cursor continues after the last examined job.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { hasWords } from "@stint/contract/JobSearch"
import { matchesSearch, mayMatch } from "@stint/contract/SearchMatch"
import { type JobWords, TEXT_FIELDS } from "@stint/contract/SearchText"
import { SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
import { type JobStore, TEXTS_LIMIT } from "@stint/store/JobStore"
import { compareNewestFirst, decodeListCursor, encodeListCursor, type ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import { type JobTexts, jobWords, NO_INDEX, type TextIndex, type TextIndexState } from "@stint/store/TextIndex"
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
  /** For a query that searches for words. */
  readonly text?: SearchedTexts
}

/** How a query was compared with the texts of jobs. */
export interface SearchedTexts extends TextIndexState {
  /**
   * The number of jobs on this page of which it is unknown whether they match, because a text is too long or outside the database. The page does not
   * contain them.
   */
  readonly undecided: number
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

/** The maximum number of characters of texts that a page compares, and a count. */
const MAX_TEXT = 8 * 1024 * 1024
const MAX_COUNTED_TEXT = 64 * 1024 * 1024

/** The number of characters that are compared before other work runs: about 3 ms. */
const TEXT_STEP = 256 * 1024

/** An index range that is read in steps. */
interface Source extends PlannedRange {
  jobs: ReadonlyArray<JobSummary>
  /** The texts of some of `jobs`. */
  texts: ReadonlyMap<JobId, JobTexts>
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

const sizeOf = ({ error, input, output }: JobTexts): number =>
  (input.text?.length ?? 0) + (output.text?.length ?? 0) + (error.text?.length ?? 0)

/** Whether the words of a job are incomplete. */
const isCut = (words: JobWords): boolean => TEXT_FIELDS.some((field) => words[field].isCut)

/** What `walk` found out about a job. */
interface Examined {
  readonly isMatch: boolean
  /** It is unknown whether the job matches. */
  readonly isUndecided: boolean
  /** The number of compared characters. */
  readonly characters: number
}

/** The searches of a store. */
export const make = (
  store: Pick<JobStore["Service"], "list" | "texts">,
  index: Pick<TextIndex["Service"], "state"> = { state: Effect.succeed(NO_INDEX) }
) => {
  /** Examines jobs, newest first, until `visit` returns false. Returns the last examined job, or null at the end. */
  const walk = Effect.fnUntraced(function*(
    scope: SearchScope,
    after: ListCursor | undefined,
    step: number,
    visit: (job: JobSummary, examined: Examined) => boolean
  ): Effect.fn.Return<ListCursor | null, StoreError> {
    const sources = planOf(scope).map((planned): Source => ({
      ...planned,
      jobs: [],
      texts: new Map(),
      at: 0,
      after,
      isRead: false
    }))
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
        other.texts = new Map()
        other.at = 0
        other.after = last
        other.isRead = false
      }
    }
    const read = Effect.fnUntraced(function*(source: Source) {
      while (source.at === source.jobs.length && !source.isRead) {
        const page = yield* store.list(source.endpoint, { ...source.range, after: source.after, limit })
        source.jobs = page.jobs
        source.texts = new Map()
        source.at = 0
        source.after = page.next ?? undefined
        source.isRead = page.next === null
        // A search must not delay the jobs of others.
        yield* Effect.yieldNow
      }
      readLaterAgain(source)
    })
    const isForWords = hasWords(scope.search)
    let sinceYield = 0
    const mayDependOnText = (job: JobSummary) =>
      isForWords && !matchesSearch(scope.search, job, scope.now) && mayMatch(scope.search, job, scope.now)
    /** Compares a job, which is the next one of its source before `at`. */
    const examine = Effect.fnUntraced(function*(source: Source, job: JobSummary): Effect.fn.Return<Examined, StoreError> {
      if (!mayDependOnText(job)) {
        return { isMatch: matchesSearch(scope.search, job, scope.now), isUndecided: false, characters: 0 }
      }
      if (!source.texts.has(job.id)) {
        const ids = source.jobs.slice(source.at - 1).filter(mayDependOnText).slice(0, TEXTS_LIMIT).map(({ id }) => id)
        source.texts = yield* store.texts(source.endpoint, ids)
      }
      const texts = source.texts.get(job.id)
      // The job was removed meanwhile.
      if (texts === undefined) return { isMatch: false, isUndecided: false, characters: 0 }
      const characters = sizeOf(texts)
      sinceYield += characters
      if (sinceYield > TEXT_STEP) {
        sinceYield = 0
        yield* Effect.yieldNow
      }
      const words = jobWords(texts)
      const isMatch = matchesSearch(scope.search, job, scope.now, words)
      return { isMatch, isUndecided: !isMatch && isCut(words), characters }
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
      const examined = yield* examine(newest.source, newest.job)
      const { isMatch } = examined
      // The job is in two ranges. It may have changed between their reads, so that only the second row matches.
      if (id === last?.id && (wasMatch || !isMatch)) continue
      last = { createdAt, id }
      wasMatch = isMatch
      if (!visit(newest.job, examined)) {
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
    let compared = 0
    let undecided = 0
    // Read first: the jobs that the index does not cover then are compared below.
    const state = hasWords(options.search) ? yield* index.state : undefined
    const next = yield* walk(options, after ?? undefined, MAX_LIMIT, (job, { characters, isMatch, isUndecided }) => {
      scanned += 1
      compared += characters
      if (isMatch) jobs.push(job)
      if (isUndecided) undecided += 1
      return jobs.length < wanted && scanned < SCAN_LIMIT && compared < MAX_TEXT
    })
    return { jobs, next, ...(state === undefined ? {} : { text: { ...state, undecided } }) }
  })

  const count = Effect.fnUntraced(function*(scope: SearchScope, limit: number): Effect.fn.Return<Counted, StoreError> {
    let counted = 0
    let scanned = 0
    let compared = 0
    const next = yield* walk(scope, undefined, MAX_LIMIT, (_, { characters, isMatch }) => {
      scanned += 1
      compared += characters
      if (isMatch) counted += 1
      return counted < limit && scanned < COUNT_SCAN_LIMIT && compared < MAX_COUNTED_TEXT
    })
    return { count: counted, more: next !== null }
  })

  /** The words of a job as it is now; undefined for an unknown job. */
  const wordsOf = (endpoint: EndpointId, id: JobId): Effect.Effect<JobWords | undefined, StoreError> =>
    Effect.map(store.texts(endpoint, [id]), (texts) => {
      const found = texts.get(id)
      return found === undefined ? undefined : jobWords(found)
    })

  return { search, count, wordsOf }
}
