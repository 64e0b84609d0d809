/**
 * Lists of jobs, newest first ({@link ListCursor}).
 */
import type { JobStatus } from "@stint/contract/Job"
import type { WantedWord } from "@stint/contract/SearchText"
import type { ListCursor } from "../ListCursor.ts"
import type { JobSummary } from "./JobRecord.ts"

/** Filters and page size of a job list. */
export interface JobQuery {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
  /**
   * Words that a job must have, all of them. The page contains every job with these words, and may contain others: a store without an index of words
   * ignores this filter, and an index also finds jobs whose texts have changed. The caller compares the texts (`JobStore.texts`).
   */
  readonly words?: ReadonlyArray<WantedWord> | undefined
  /** Submitted at this time or later. Milliseconds since 1970. */
  readonly createdAfter?: number | undefined
  /** Submitted before this time. */
  readonly createdBefore?: number | undefined
  readonly limit: number
  /** The `next` cursor of the previous page. */
  readonly after?: ListCursor | undefined
}

/** One page of a list. */
export interface JobPage {
  /**
   * May contain fewer than `limit` jobs even before the last page: for a query with both a status and a tag, or with words, a store scans up to {@link
   * SCAN_LIMIT} jobs with the tag or the words and returns those that also have the status.
   */
  readonly jobs: ReadonlyArray<JobSummary>
  /** Cursor of the next page; null at the end. */
  readonly next: ListCursor | null
}

/** The maximum number of jobs with a tag or words that the store scans for one page. */
export const SCAN_LIMIT = 2_000

/** Length of an error in lists, in characters. */
export const ERROR_PREVIEW_LENGTH = 500
