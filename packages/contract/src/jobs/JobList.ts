/**
 * Lists the jobs of an endpoint: `GET /v2/{endpoint}/requests` (docs/spec/jobs-api.md#listing-jobs).
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobStatus, parseIsoTime, Tag } from "./Job.ts"
import { MAX_SEARCH_LENGTH } from "./JobSearch.ts"

/** The maximum number of jobs in a page. */
const LIST_LIMIT = 200

const parseTime = (text: string): number => /^\d{1,15}$/.test(text) ? Number(text) : parseIsoTime(text)

/** A time in milliseconds since 1970 or in ISO 8601 with a time zone: `1790000000000`, `2026-11-21T08:00:00Z`. */
export const timeText = (description: string) =>
  Schema.String.annotate({ description: `${description} Milliseconds since 1970, or ISO 8601 with a time zone.` }).check(
    Schema.makeFilter((text) =>
      !Number.isNaN(parseTime(text)) ||
      "expected a time: milliseconds since 1970, or ISO 8601 with a time zone, like 2026-11-21T08:00:00Z"
    )
  ).pipe(
    Schema.decodeTo(Schema.Int, { decode: SchemaGetter.transform((text) => parseTime(text)), encode: SchemaGetter.String() })
  )

/** A text query (JobSearch.ts). The server parses it, so that its errors name the position. */
export const SearchText = Schema.String.annotate({
  description:
    "Only jobs that match this text query, such as `status:failed -tag:nightly since:2h error:\"out of memory\" OR status:timed_out`."
}).check(Schema.isMaxLength(MAX_SEARCH_LENGTH))

/** Filters and pagination of jobs. All keys are optional. */
export const ListQuery = {
  status: Schema.optionalKey(JobStatus.annotate({ description: "Only jobs with this status." })),
  tag: Schema.optionalKey(Tag.annotate({ description: "Only jobs with this tag." })),
  createdAfter: Schema.optionalKey(timeText("Only jobs submitted at or after this time.")),
  createdBefore: Schema.optionalKey(timeText("Only jobs submitted before this time.")),
  query: Schema.optionalKey(SearchText),
  limit: Schema.optionalKey(
    Schema.String.annotate({ description: "The maximum number of jobs: 1 to 200. Default: 50." }).pipe(
      Schema.decodeTo(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: LIST_LIMIT })),
        SchemaTransformation.numberFromString
      )
    )
  ),
  cursor: Schema.optionalKey(Schema.String.annotate({ description: "The `cursor` of the previous page." }))
}

/**
 * A job in a list, without payloads. Times are in milliseconds since 1970, durations in milliseconds. Keys that do not apply are absent.
 */
export const ListedJob = Schema.Struct({
  id: Schema.String,
  status: JobStatus,
  createdAt: Schema.Int,
  /** When the job may start. Only until that time. */
  startAt: Schema.optionalKey(Schema.Int),
  /** When the last attempt started. */
  startedAt: Schema.optionalKey(Schema.Int),
  finishedAt: Schema.optionalKey(Schema.Int),
  delayTime: Schema.optionalKey(Schema.Int),
  executionTime: Schema.optionalKey(Schema.Int),
  /** The number of times a worker has received the job. */
  attempt: Schema.Int,
  retries: Schema.optionalKey(Schema.Int),
  workerId: Schema.optionalKey(Schema.String),
  /** The release that this worker runs, if the platform started it. */
  release: Schema.optionalKey(Schema.Int),
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  /** The job's batch. */
  batchId: Schema.optionalKey(Schema.String),
  /** The first 500 characters of the error. */
  error: Schema.optionalKey(Schema.String)
})
export type ListedJob = typeof ListedJob.Type

/** One page of jobs, newest first. */
export const JobPage = Schema.Struct({
  /** May contain fewer jobs than `limit`, or none, even though more pages follow: check `cursor`. */
  requests: Schema.Array(ListedJob),
  /** The cursor of the next page. Null at the end of the list. */
  cursor: Schema.NullOr(Schema.String)
})
export type JobPage = typeof JobPage.Type
