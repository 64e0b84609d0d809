/**
 * Reads the log lines of a job (docs/spec/logging.md#reading-a-jobs-lines), and searches those of all jobs of an endpoint
 * (docs/spec/logging.md#searching-an-endpoints-lines). Job events deliver the lines live (`JobEvents.ts`).
 *
 * ```
 *   /v2/{endpoint}/logs           GET    the lines of all jobs of the endpoint, newest first
 *   /v2/{endpoint}/logs/{id}      GET    the job's log lines
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobsAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, InvalidRequest, JobNotFound, Unavailable } from "../Problem.ts"
import { MAX_PATH } from "../workers/RunJournal.ts"
import { timeText } from "./JobList.ts"
import { FoundLogPage, isLogLevel, JobLogPage, LOG_LEVELS, LogLevel } from "./JobLogLine.ts"

/** The maximum number of lines in a page. */
export const LOG_PAGE_LIMIT = 1_000

const integer = (description: string, minimum: number, maximum: number) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

/** The name of a log level, in upper or lower case. */
const level = Schema.String.annotate({
  description: `The lowest level to return: ${LOG_LEVELS.join(", ")}, in any case. Default: all levels.`
}).check(
  Schema.makeFilter((text) => isLogLevel(text.toUpperCase()) || `expected one of ${LOG_LEVELS.join(", ")}`)
).pipe(
  Schema.decodeTo(LogLevel, {
    decode: SchemaGetter.transform((text) => {
      const name = text.toUpperCase()
      return isLogLevel(name) ? name : "TRACE"
    }),
    encode: SchemaGetter.String()
  })
)

/** The maximum length of a searched text, in characters. */
const MAX_CONTAINS = 500

const contains = Schema.optionalKey(
  Schema.String.check(Schema.isMaxLength(MAX_CONTAINS)).annotate({
    description: `Only lines whose message contains this text, in upper or lower case. At most ${MAX_CONTAINS} characters.`
  })
)

/** Filters and pagination of lines. All keys are optional. */
const LogQuery = {
  after: integer("Only lines after this number: the `cursor` of the previous page.", 0, 999_999_999),
  level: Schema.optionalKey(level),
  contains,
  step: Schema.optionalKey(
    Schema.String.annotate({
      description: "Only lines of a step of a pipeline: its path, or the address of a node, for the lines of all its items."
    }).check(Schema.isMaxLength(MAX_PATH))
  ),
  limit: integer(`The maximum number of lines: 1 to ${LOG_PAGE_LIMIT}. Default: 200.`, 1, LOG_PAGE_LIMIT)
}

/** The maximum number of lines that one search of an endpoint's lines reads. */
export const LOG_SEARCH_LINES = 20_000

/** The maximum duration of one search of an endpoint's lines, in milliseconds. */
export const LOG_SEARCH_MILLIS = 1_000

/** Filters and pagination of the lines of an endpoint. All keys are optional. */
const LogSearchQuery = {
  contains,
  level: Schema.optionalKey(level),
  since: Schema.optionalKey(timeText("Only lines that the platform received at or after this time.")),
  limit: integer(`The maximum number of lines: 1 to ${LOG_PAGE_LIMIT}. Default: 100.`, 1, LOG_PAGE_LIMIT),
  cursor: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^\d{1,15}(?:\.\d{1,9})?$/, { message: "expected the cursor of the previous page" }))
      .annotate({
        description: "The `cursor` of the previous page."
      })
  )
}

export class LogsApi extends HttpApiGroup.make("logs")
  .add(
    HttpApiEndpoint.get("logs", "/:endpoint/logs/:id", {
      params: {
        endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
        id: Schema.String.annotate({ description: "The job's id, as returned by run or runsync." })
      },
      query: LogQuery,
      success: JobLogPage,
      error: [EndpointNotFound, JobNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Read a job's log",
      description:
        "Returns the lines of all attempts, oldest first. Pass the `cursor` of the response as `after` to read the next page; repeat while " +
        "`more` is true. By default, the newest 10,000 lines and 1 MiB of a job are stored; a line with source `platform` replaces " +
        "dropped lines, and such a line with `ended` reports the end of each attempt without a result. To receive lines live, follow the job's events. Every key that can read jobs can read their logs, which may " +
        "contain secrets.",
      responses: {
        200: {
          lines: [{
            number: 1,
            time: 1_790_000_000_000,
            level: "INFO",
            message: "loading the model",
            attempt: 1,
            source: "log",
            workerId: "w-1"
          }],
          cursor: 1,
          more: false
        }
      }
    })),
    HttpApiEndpoint.get("searchLogs", "/:endpoint/logs", {
      params: { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) },
      query: LogSearchQuery,
      success: FoundLogPage,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Search the logs of an endpoint",
      description:
        "Returns the stored lines of all jobs of an endpoint that match, newest first. Lines that were written within the same tenth of a " +
        `second are grouped by job. One call reads at most ${
          LOG_SEARCH_LINES.toLocaleString("en")
        } lines and takes about a second: \`stopped\` says ` +
        "that it ended at a limit, `oldest` how far it got. Pass `cursor` to continue. Every key that can read jobs can search their logs.",
      responses: {
        200: {
          lines: [{
            job: "0f8fad5b-d9cb-469f-a165-70867728950e",
            number: 7,
            time: 1_790_000_000_000,
            level: "ERROR",
            message: "the download timed out",
            attempt: 1,
            source: "log",
            workerId: "w-1"
          }],
          cursor: "1042",
          stopped: "lines",
          searched: 20_000,
          oldest: 1_789_996_400_000
        }
      }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Logs", description: "Read the log lines of jobs" }))
{}
