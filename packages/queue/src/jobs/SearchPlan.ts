/**
 * Which index ranges a search reads.
 *
 * ```
 *   status:failed status:timed_out OR tag:nightly since:2h
 *
 *   for each endpoint:   FAILED | TIMED_OUT | tag nightly, since 2h          each is an index range of the store
 *   input:shoes:         the jobs with these words, in a store with an index of words
 *   -status:completed:   the five other statuses
 *   ranges that overlap become one, and one that another one contains is left out; too many ranges become one for each endpoint, without status and tag
 * ```
 *
 * The ranges contain every job that can match. Its row decides whether it does (SearchMatch.ts).
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JobStatus } from "@stint/contract/Job"
import type { JobSearch, SearchTerms } from "@stint/contract/JobSearch"
import { coversEndpoint, searchedStatuses, searchedWords, searchRange } from "@stint/contract/SearchMatch"
import type { WantedWord } from "@stint/contract/SearchText"

/** Jobs of an endpoint that one of the store's indexes finds, newest first. Undefined: any status, any tags, any words, any time. */
export interface SearchRange {
  readonly words?: ReadonlyArray<WantedWord> | undefined
  readonly status: JobStatus | undefined
  readonly tag: string | undefined
  readonly createdAfter: number | undefined
  readonly createdBefore: number | undefined
}

/** A range of an endpoint. */
export interface PlannedRange {
  readonly endpoint: EndpointId
  readonly range: SearchRange
}

/** What to search. */
export interface SearchScope {
  readonly endpoints: ReadonlyArray<EndpointId>
  readonly search: JobSearch
  /** The time from which the durations in the query are measured. */
  readonly now: number
  /** Only jobs submitted before this time. */
  readonly createdBefore?: number | undefined
}

/** The maximum number of ranges that a search reads at a time: six statuses of 100 endpoints. */
const MAX_RANGES = 600

const STATUS_COUNT = 6

/** The statuses that may change during a search, in the order in which a job passes through them. */
export const CHANGING: ReadonlyArray<JobStatus> = ["IN_QUEUE", "IN_PROGRESS"]

/** Puts earlier statuses first, so that a job whose status changes between two reads is found by the second read. */
const rankOf = ({ status }: SearchRange): number => {
  const rank = status === undefined ? -1 : CHANGING.indexOf(status)
  return rank === -1 ? CHANGING.length : rank
}

const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b)

const rangesOf = (terms: SearchTerms, { createdBefore, now }: SearchScope): ReadonlyArray<SearchRange> => {
  const times = searchRange(terms, now)
  const range = { createdAfter: times.createdAfter, createdBefore: earlier(times.createdBefore, createdBefore) }
  const [tag] = terms.tag
  const statuses = searchedStatuses(terms)
  if (statuses.length === 0) return []
  const words = searchedWords(terms)
  // The index of words contains neither the status nor the tag.
  if (words.length > 0) return [{ ...range, status: statuses.length === 1 ? statuses[0] : undefined, tag, words }]
  // The index of tags does not contain the status.
  return tag !== undefined || statuses.length === STATUS_COUNT
    ? [{ ...range, status: undefined, tag }]
    : statuses.map((status) => ({ ...range, status, tag }))
}

/** Whether two ranges name the same words. */
const hasSameWords = (a: SearchRange, b: SearchRange): boolean => JSON.stringify(a.words) === JSON.stringify(b.words)

/** Whether every job of `inner` is in `outer`. */
const contains = (outer: SearchRange, inner: SearchRange): boolean =>
  (outer.words === undefined || hasSameWords(outer, inner)) &&
  (outer.status === undefined || outer.status === inner.status) && (outer.tag === undefined || outer.tag === inner.tag) &&
  (outer.createdAfter ?? -Infinity) <= (inner.createdAfter ?? -Infinity) &&
  (outer.createdBefore ?? Infinity) >= (inner.createdBefore ?? Infinity)

/** The ranges that no other one contains. Of equal ranges, the first one remains. */
const withoutContained = (ranges: ReadonlyArray<SearchRange>): ReadonlyArray<SearchRange> =>
  ranges.filter((one, index) => !ranges.some((other, at) => contains(other, one) && (at < index || !contains(one, other))))

/** One range that contains all of them. */
const union = (ranges: ReadonlyArray<SearchRange>): SearchRange => ({
  status: undefined,
  tag: undefined,
  createdAfter: ranges.some(({ createdAfter }) => createdAfter === undefined)
    ? undefined
    : Math.min(...ranges.map(({ createdAfter = -Infinity }) => createdAfter)),
  createdBefore: ranges.some(({ createdBefore }) => createdBefore === undefined)
    ? undefined
    : Math.max(...ranges.map(({ createdBefore = Infinity }) => createdBefore))
})

/** Joins ranges of the same status and tag whose times overlap, so that none of their jobs is read twice. */
const joined = (ranges: ReadonlyArray<SearchRange>): ReadonlyArray<SearchRange> =>
  ranges.reduce<ReadonlyArray<SearchRange>>((apart, one) => {
    const meets = (other: SearchRange) =>
      other.status === one.status && other.tag === one.tag && hasSameWords(other, one) &&
      (other.createdAfter ?? -Infinity) <= (one.createdBefore ?? Infinity) &&
      (one.createdAfter ?? -Infinity) <= (other.createdBefore ?? Infinity)
    const { status, tag, words } = one
    const all = union([...apart.filter(meets), one])
    return [...apart.filter((other) => !meets(other)), { ...all, status, tag, ...(words === undefined ? {} : { words }) }]
  }, [])

/** The ranges of each endpoint, in the order in which a job passes through their statuses. */
export const planOf = (scope: SearchScope): ReadonlyArray<PlannedRange> => {
  const alternatives = scope.search.any.map((terms) => ({ terms, ranges: rangesOf(terms, scope) }))
  const known = new Map<string, ReadonlyArray<SearchRange>>()
  const planned = scope.endpoints.map((endpoint) => {
    const covering = alternatives.map(({ terms }) => coversEndpoint(terms, endpoint))
    // Most endpoints are covered by the same alternatives.
    const key = covering.join()
    const ranges = known.get(key) ??
      withoutContained(joined(alternatives.flatMap(({ ranges }, index) => covering[index] === true ? ranges : [])))
        .toSorted((a, b) => rankOf(a) - rankOf(b))
    known.set(key, ranges)
    return { endpoint, ranges }
  })
  const isTooMany = planned.reduce((sum, { ranges }) => sum + ranges.length, 0) > MAX_RANGES
  return planned.flatMap(({ endpoint, ranges }) =>
    (isTooMany && ranges.length > 0 ? [union(ranges)] : ranges).map((range) => ({ endpoint, range }))
  )
}
