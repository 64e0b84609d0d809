/**
 * Lists of jobs, newest first ({@link ListCursor}).
 */
import type { JobStatus } from "@stint/contract/Job"
import type { ListCursor } from "../ListCursor.ts"
import type { JobSummary } from "./JobRecord.ts"

/** Which jobs of an endpoint. */
export interface JobQuery {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
  /** Submitted at this time or later. Milliseconds since 1970. */
  readonly createdAfter?: number | undefined
  /** Submitted before this time. */
  readonly createdBefore?: number | undefined
  readonly limit: number
  /** The `next` of the page before. */
  readonly after?: ListCursor | undefined
}

/** One page of a list. */
export interface JobPage {
  /**
   * May be fewer than were asked for although there are more: where both status and tag are asked for, a store looks at
   * {@link SCAN_LIMIT} jobs of the tag and shows those that have the status.
   */
  readonly jobs: ReadonlyArray<JobSummary>
  /** Where to go on; null at the end of the list. */
  readonly next: ListCursor | null
}

/** The most jobs of a tag that one page looks at. */
export const SCAN_LIMIT = 2_000

/** What is shown of an error, in characters. */
export const ERROR_PREVIEW_LENGTH = 500
