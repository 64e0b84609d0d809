/**
 * The jobs API's part for log lines. They come as events, too, as they are logged (`JobEvents.ts`).
 *
 * ```
 *   /v2/{endpoint}/logs/{id}      GET    what the job logged
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobsAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, InvalidRequest, JobNotFound, Unavailable } from "../Problem.ts"
import { isLogLevel, JobLogPage, LOG_LEVELS, LogLevel } from "./JobLogLine.ts"

/** The most lines of one page. */
export const LOG_PAGE_LIMIT = 1_000

const whole = (description: string, minimum: number, maximum: number) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

/** A level by its name, in any case. */
const level = Schema.String.annotate({
  description: `The least level that is shown: ${LOG_LEVELS.join(", ")}, in any case. Default: all.`
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

/** Which lines. All of it may be left out. */
export const LogQuery = {
  after: whole("Only lines after this number: the `cursor` of the page before.", 0, 999_999_999),
  level: Schema.optionalKey(level),
  limit: whole(`How many at a time: 1 to ${LOG_PAGE_LIMIT}. Default: 200.`, 1, LOG_PAGE_LIMIT)
}

export class LogsApi extends HttpApiGroup.make("logs")
  .add(
    HttpApiEndpoint.get("logs", "/:endpoint/logs/:id", {
      params: {
        endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
        id: Schema.String.annotate({ description: "The job's id, from run or runsync." })
      },
      query: LogQuery,
      success: JobLogPage,
      error: [EndpointNotFound, JobNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "What a job logged",
      description:
        "The lines of all attempts, oldest first. Go on with the `cursor` of the answer as `after`, at once while `more` is true. A job keeps " +
        "its newest 10,000 lines and 1 MiB of them, unless the platform is told otherwise; what was dropped is told by a line of its own, from " +
        "`platform`. To be told lines as they are logged, follow the job's events. Handlers may log secrets: whoever may read jobs may read this.",
      answers: {
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
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Logs", description: "What jobs logged" }))
{}
