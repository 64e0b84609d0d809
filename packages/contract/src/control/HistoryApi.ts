/**
 * The last hour of the endpoints: their queues, waits, starts and workers, as samples. For charts.
 *
 * ```
 *   /api/v1/history              GET    the rates and a short line of every endpoint that the key permits
 *   /api/v1/history/{endpoint}   GET    the samples of one endpoint
 * ```
 *
 * The platform keeps the samples in memory, so a restart empties them. Each node has its own (docs/decisions/0082-history-of-endpoints.md).
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, InvalidRequest, Unavailable } from "../Problem.ts"
import { ViewerAuthorization } from "./OverviewApi.ts"

/** One number for each sample. */
const Numbers = Schema.Array(Schema.Number)

/** One number for each sample; null when nothing happened during it. */
const Measured = Schema.Array(Schema.NullOr(Schema.Number))

/** Percentiles in milliseconds, estimated within the buckets of the metrics' histograms. */
const Percentiles = Schema.Struct({ p50: Measured, p90: Measured, p99: Measured })

const Since = Schema.NullOr(Schema.Int)

/** The longest history, in minutes. */
const MAX_HISTORY_MINUTES = 60

/** The samples of an endpoint, oldest first. Every array has one element for each element of `at`. */
export const EndpointHistory = Schema.Struct({
  id: Schema.String,
  /** When this node took its first sample, in milliseconds since 1970; null before. There is nothing earlier, because samples are kept in memory. */
  since: Since,
  /** Whether other nodes share the jobs. Then the counts, waits and starts are those of this node. */
  shared: Schema.Boolean,
  /** When each sample was taken, in milliseconds since 1970. A sample covers the time since the previous one. */
  at: Schema.Array(Schema.Int),
  /** The most jobs during the sample that were ready for a worker, that were delayed, and that ran. */
  waiting: Numbers,
  delayed: Numbers,
  running: Numbers,
  /** How long the oldest ready job had waited, in milliseconds. */
  oldest: Numbers,
  /** Jobs per second that were stored, and that ended. `failed`: FAILED and TIMED_OUT. */
  submitted: Numbers,
  completed: Numbers,
  failed: Numbers,
  cancelled: Numbers,
  /** How long the jobs that a worker took had waited. */
  waits: Percentiles,
  /** From the last take of a job to its end. */
  executions: Percentiles,
  /** The workers that became ready, and the mean time of each part of their start, in milliseconds. */
  starts: Schema.Struct({
    count: Numbers,
    pull: Measured,
    create: Measured,
    start: Measured,
    setup: Measured,
    prepare: Measured
  }),
  workers: Schema.Struct({
    running: Numbers,
    idle: Numbers,
    initializing: Numbers,
    draining: Numbers,
    throttled: Numbers,
    unhealthy: Numbers
  })
})
export type EndpointHistory = typeof EndpointHistory.Type

/** The rates of an endpoint, and a line of its last half hour. */
export const EndpointRates = Schema.Struct({
  id: Schema.String,
  /** Jobs per second during the last minute that were stored, and that ended. */
  arrivals: Schema.Number,
  ended: Schema.Number,
  /** Percentiles of the last five minutes, in milliseconds; null without jobs. */
  waitP50: Schema.NullOr(Schema.Number),
  waitP99: Schema.NullOr(Schema.Number),
  /** The most waiting jobs, the ended jobs and the failed ones of each minute, oldest first. */
  waiting: Numbers,
  endedJobs: Numbers,
  failedJobs: Numbers
})
export type EndpointRates = typeof EndpointRates.Type

/** The rates of all endpoints. An endpoint that has been idle since the start of the platform is missing. */
export const History = Schema.Struct({ since: Since, shared: Schema.Boolean, endpoints: Schema.Array(EndpointRates) })
export type History = typeof History.Type

const line = [0, 0, 3, 8, 5, 0]

/** The operations. */
export class HistoryApi extends HttpApiGroup.make("history")
  .add(
    HttpApiEndpoint.get("history", "/history", { success: History }).annotateMerge(operationDocs({
      summary: "Get the rates of all endpoints",
      description:
        "Returns the arrivals and ended jobs per second of every endpoint that the key permits, and its last half hour minute by minute. The " +
        "platform keeps it in memory. Requires the scope `jobs:read`, `deploy` or `admin`.",
      responses: {
        200: {
          since: 1_790_000_000_000,
          shared: false,
          endpoints: [{
            id: "hello",
            arrivals: 4.1,
            ended: 4.2,
            waitP50: 3,
            waitP99: 210,
            waiting: line,
            endedJobs: [240, 251, 246, 238, 255, 249],
            failedJobs: [0, 0, 1, 0, 0, 0]
          }]
        }
      }
    })),
    HttpApiEndpoint.get("historyOfEndpoint", "/history/:endpoint", {
      params: { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) },
      query: {
        minutes: Schema.optionalKey(
          Schema.String.annotate({ description: `How far back, from 1 to ${MAX_HISTORY_MINUTES}. Default: 15.` }).pipe(
            Schema.decodeTo(
              Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_HISTORY_MINUTES })),
              SchemaTransformation.numberFromString
            )
          )
        )
      },
      success: EndpointHistory,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get the history of an endpoint",
      description:
        "Returns at most 120 samples of the endpoint's queue, throughput, waits, worker starts and workers, at least five seconds apart. The platform " +
        "keeps the last hour in memory, so a restart empties it. With several nodes, each node measures the jobs and workers that pass through it."
    }))
  )
  .middleware(ViewerAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "History", description: "The last hour of the endpoints" }))
{}
