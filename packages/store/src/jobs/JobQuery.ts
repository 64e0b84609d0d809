/**
 * Lists of jobs: what can be asked for, and how a reader goes on where the page before ended.
 *
 * Newest first by the time of submission; jobs of one instant by their place in line. Both never change, so a reader who follows the cursor
 * sees every job that was there when it began, and none twice, whatever is submitted, ends or is removed meanwhile.
 */
import type { JobStatus } from "@stint/contract/Job"
import type { JobSummary } from "./JobRecord.ts"

/** Where a page ended: the time of its last job's submission, and that job's place in line. */
export interface ListCursor {
  readonly createdAt: number
  readonly seq: number
}

/** Which jobs of an endpoint. */
export interface JobQuery {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
  /** Submitted at this time or later. Milliseconds since 1970. */
  readonly createdAfter?: number | undefined
  /** Submitted before this time. */
  readonly createdBefore?: number | undefined
  readonly limit: number
  /** Only what comes after this place. */
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

/** A place as callers carry it. They need not look into it. */
export const encodeListCursor = ({ createdAt, seq }: ListCursor): string => `${createdAt.toString(36)}.${seq.toString(36)}`

/** The place that a cursor stands for; undefined where it is none. */
export const decodeListCursor = (cursor: string): ListCursor | undefined => {
  const [, createdAt, seq] = /^([0-9a-z]{1,11})\.([0-9a-z]{1,11})$/.exec(cursor) ?? []
  if (createdAt === undefined || seq === undefined) return undefined
  const place = { createdAt: Number.parseInt(createdAt, 36), seq: Number.parseInt(seq, 36) }
  return Number.isSafeInteger(place.createdAt) && Number.isSafeInteger(place.seq) ? place : undefined
}
