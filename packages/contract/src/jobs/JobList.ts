/**
 * Lists of an endpoint's jobs: `GET /v2/{endpoint}/requests`.
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobStatus, Tag } from "./Job.ts"

/** The most jobs of one page. */
const LIST_LIMIT = 200

const millisOf = (text: string): number => {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  return /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/.test(text)
    ? Date.parse(text)
    : Number.NaN
}

/** Milliseconds since 1970, as digits or as an ISO 8601 time with its zone: `1790000000000`, `2026-11-21T08:00:00Z`. */
const timeText = (description: string) =>
  Schema.String.annotate({ description: `${description} Milliseconds since 1970, or ISO 8601 with its zone.` }).check(
    Schema.makeFilter((text) =>
      !Number.isNaN(millisOf(text)) ||
      "expected a time: milliseconds since 1970, or ISO 8601 with its zone, like 2026-11-21T08:00:00Z"
    )
  ).pipe(
    Schema.decodeTo(Schema.Int, { decode: SchemaGetter.transform((text) => millisOf(text)), encode: SchemaGetter.String() })
  )

/** Which jobs to list. All of it may be left out. */
export const ListQuery = {
  status: Schema.optionalKey(JobStatus.annotate({ description: "Only jobs of this status." })),
  /** One of the job's tags. */
  tag: Schema.optionalKey(Tag.annotate({ description: "Only jobs with this tag." })),
  /** Submitted at this time or later. */
  createdAfter: Schema.optionalKey(timeText("Only jobs that were submitted at this time or later.")),
  /** Submitted before this time. */
  createdBefore: Schema.optionalKey(timeText("Only jobs that were submitted before this time.")),
  /** How many at a time: 1 to 200. Default: 50. */
  limit: Schema.optionalKey(
    Schema.String.annotate({ description: "How many at a time: 1 to 200. Default: 50." }).pipe(
      Schema.decodeTo(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: LIST_LIMIT })),
        SchemaTransformation.numberFromString
      )
    )
  ),
  /** The `cursor` of the page before. */
  cursor: Schema.optionalKey(Schema.String.annotate({ description: "The `cursor` of the page before." }))
}

/** A job in a list: no payloads. Keys that do not apply are absent; times are milliseconds since 1970, durations milliseconds. */
export const ListedJob = Schema.Struct({
  id: Schema.String,
  status: JobStatus,
  createdAt: Schema.Int,
  /** When the last attempt was handed out. */
  startedAt: Schema.optionalKey(Schema.Int),
  finishedAt: Schema.optionalKey(Schema.Int),
  delayTime: Schema.optionalKey(Schema.Int),
  executionTime: Schema.optionalKey(Schema.Int),
  /** How often it was handed to a worker. */
  attempt: Schema.Int,
  retries: Schema.optionalKey(Schema.Int),
  workerId: Schema.optionalKey(Schema.String),
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  /** The batch that it is a request of. */
  batchId: Schema.optionalKey(Schema.String),
  /** The first 500 characters of the error. */
  error: Schema.optionalKey(Schema.String)
})
export type ListedJob = typeof ListedJob.Type

/** One page, newest first. */
export const JobPage = Schema.Struct({
  /** May be fewer than `limit`, and none at all, although there are more: what counts is the cursor. */
  requests: Schema.Array(ListedJob),
  /** Where to go on; null at the end of the list. */
  cursor: Schema.NullOr(Schema.String)
})
export type JobPage = typeof JobPage.Type
