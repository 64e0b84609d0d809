/**
 * Which jobs match a query (JobSearch.ts).
 *
 * The stores have indexes for endpoint, status, time, tag and, some of them, words. The other terms are compared job by job. An error matches if its first
 * 500 characters contain the text; case is ignored. SearchText.ts decides which words match. The module is plain TypeScript, because the console loads it into browsers.
 */
import type { JobStatus } from "./Job.ts"
import type { JobSearch, SearchTerms, SearchTime, SearchValues } from "./JobSearch.ts"
import {
  hasPhrase,
  type JobWords,
  phraseOf,
  TEXT_KEY_NAMES,
  TEXT_KEYS,
  type TextKey,
  type WantedWord,
  wantedWords
} from "./SearchText.ts"

const STATUSES: ReadonlyArray<JobStatus> = ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"]

/** The statuses of jobs with an error group. */
const FAILED: ReadonlyArray<JobStatus> = ["FAILED", "TIMED_OUT"]

const hasOf = <A>(values: ReadonlyArray<A>, value: A | null): boolean => value !== null && values.includes(value)

const anyOf = <A>(values: ReadonlyArray<A>, value: A | null): boolean => values.length === 0 || hasOf(values, value)

/** The statuses in which a job can match an alternative. */
export const searchedStatuses = ({ "error-group": groups, not, status }: SearchTerms): ReadonlyArray<JobStatus> => {
  const wanted = status.length > 0 ? status : groups.length > 0 ? FAILED : STATUSES
  return wanted.filter((one) => !not.status.includes(one))
}

/** The range of submission times that an alternative permits: `createdAfter` is inclusive, `createdBefore` is not. */
export const searchRange = (
  { before, since }: Pick<SearchTerms, "since" | "before">,
  now: number
): { readonly createdAfter: number | undefined; readonly createdBefore: number | undefined } => {
  const resolve = (time: SearchTime | undefined) => time === undefined ? undefined : "at" in time ? time.at : now - time.ago
  return { createdAfter: resolve(since), createdBefore: resolve(before) }
}

/** Whether jobs of an endpoint can match an alternative. */
export const coversEndpoint = ({ endpoint, not }: SearchTerms, id: string): boolean =>
  (endpoint.length === 0 || endpoint.includes(id)) && !not.endpoint.includes(id)

/** The endpoints whose jobs a query names; undefined when an alternative names no endpoint. */
export const namedEndpoints = ({ any }: JobSearch): ReadonlyArray<string> | undefined =>
  any.some(({ endpoint }) => endpoint.length === 0) ? undefined : [...new Set(any.flatMap(({ endpoint }) => endpoint))]

/** The statuses in which a bulk action changes a job (Bulk.ts). */
const ACTIONABLE: Readonly<Record<"retry" | "cancel" | "rerun", ReadonlyArray<JobStatus>>> = {
  retry: ["FAILED", "TIMED_OUT"],
  cancel: ["IN_QUEUE", "IN_PROGRESS"],
  rerun: ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"]
}

/** The query without the jobs that a bulk action cannot change; undefined when none is left. */
export const restrictedTo = ({ any }: JobSearch, action: keyof typeof ACTIONABLE): JobSearch | undefined => {
  const left = any.flatMap((terms) => {
    const status = ACTIONABLE[action].filter((one) => anyOf(terms.status, one) && !terms.not.status.includes(one))
    return status.length === 0 ? [] : [{ ...terms, status, not: { ...terms.not, status: [] } }]
  })
  return left.length === 0 ? undefined : { any: left }
}

/** The values that {@link matchesSearch} compares. */
export interface SearchedJob {
  readonly endpoint: string
  readonly status: JobStatus
  readonly createdAt: number
  readonly release: number | null
  readonly worker: string | null
  readonly batchId: string | null
  readonly tags: ReadonlyArray<string>
  /** Its first 500 characters. */
  readonly error: string | null
  /** The fingerprint of its error. */
  readonly errorGroup: string | null
}

/** Whether a term matches. `isNegated`: whether its negation does. */
type WordRule = (key: TextKey, value: string, isNegated: boolean) => boolean

const isExcluded = (not: SearchValues, job: SearchedJob, error: string): boolean =>
  hasOf(not.endpoint, job.endpoint) || hasOf(not.status, job.status) || hasOf(not.release, job.release) ||
  hasOf(not.worker, job.worker) || hasOf(not.batch, job.batchId) || hasOf(not["error-group"], job.errorGroup) ||
  not.tag.some((tag) => job.tags.includes(tag)) || not.error.some((text) => error.includes(text.toLowerCase()))

const matchesTerms = (terms: SearchTerms, job: SearchedJob, now: number, error: string, words: WordRule): boolean => {
  const { createdAfter = -Infinity, createdBefore = Infinity } = searchRange(terms, now)
  return job.createdAt >= createdAfter && job.createdAt < createdBefore &&
    anyOf(terms.endpoint, job.endpoint) && anyOf(terms.status, job.status) && anyOf(terms.release, job.release) &&
    anyOf(terms.worker, job.worker) && anyOf(terms.batch, job.batchId) && anyOf(terms["error-group"], job.errorGroup) &&
    terms.tag.every((tag) => job.tags.includes(tag)) && terms.error.every((text) => error.includes(text.toLowerCase())) &&
    !isExcluded(terms.not, job, error) &&
    TEXT_KEY_NAMES.every((key) =>
      terms[key].every((value) => words(key, value, false)) && terms.not[key].every((value) => words(key, value, true))
    )
}

const matches = ({ any }: JobSearch, job: SearchedJob, now: number, words: WordRule): boolean => {
  const error = (job.error ?? "").toLowerCase()
  return any.some((terms) => matchesTerms(terms, job, now, error, words))
}

/**
 * Whether a job matches a query. `now`: the time from which its durations are measured. `words`: the words of the job; without them, no term for words
 * matches, and no negated one.
 */
export const matchesSearch = (search: JobSearch, job: SearchedJob, now: number, words?: JobWords): boolean =>
  matches(search, job, now, (key, value, isNegated) => {
    const phrase = phraseOf(value)
    return words !== undefined && phrase !== undefined && hasPhrase(phrase, TEXT_KEYS[key], words) === !isNegated
  })

/** Whether a job can match a query, depending on its words. True if it matches in any case. */
export const mayMatch = (search: JobSearch, job: SearchedJob, now: number): boolean => matches(search, job, now, () => true)

/** The words that every job has that matches an alternative. */
export const searchedWords = (terms: SearchTerms): ReadonlyArray<WantedWord> =>
  TEXT_KEY_NAMES.flatMap((key) =>
    terms[key].flatMap((value) => {
      const phrase = phraseOf(value)
      return phrase === undefined ? [] : wantedWords(phrase, TEXT_KEYS[key])
    })
  )
