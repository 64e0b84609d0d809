/**
 * Lists of jobs, newest first ({@link ListCursor}).
 */
import type { JobStatus } from "@stint/contract/Job"
import type { ListCursor } from "../ListCursor.ts"
import type { JobSummary } from "./JobRecord.ts"

/** Filters and page size of a job list. */
export interface JobQuery {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
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
   * May contain fewer than `limit` jobs even before the last page: for a query with both a status and a tag, a store scans up to {@link
   * SCAN_LIMIT} jobs with the tag and returns those that also have the status.
   */
  readonly jobs: ReadonlyArray<JobSummary>
  /** Cursor of the next page; null at the end. */
  readonly next: ListCursor | null
}

/** The maximum number of tagged jobs that the store scans for one page. */
export const SCAN_LIMIT = 2_000

/** Length of an error in lists, in characters. */
export const ERROR_PREVIEW_LENGTH = 500
