/**
 * The current state of the endpoints: their queues and workers. For dashboards, which read it every few seconds.
 *
 * ```
 *   /api/v1/overview              GET    every endpoint that the key permits
 *   /api/v1/overview/{endpoint}   GET    one endpoint, with its workers
 * ```
 */
import * as Context from "effect/Context"
import { HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { security } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, Forbidden, InvalidRequest, Unauthorized, Unavailable } from "../Problem.ts"
import type { KeyEndpoints } from "./AccessKey.ts"

/** The endpoints that the key of a request permits. */
export class CurrentViewer extends Context.Service<CurrentViewer, {
  readonly endpoints: KeyEndpoints | ReadonlyArray<string>
  /** The id of the key. */
  readonly key: string
  readonly isAdmin: boolean
}>()("@stint/contract/CurrentViewer") {}

/** Needs a key that can read jobs (`jobs:read`, `jobs`), or a key of an operator (`deploy`, `admin`). */
export class ViewerAuthorization extends HttpApiMiddleware.Service<ViewerAuthorization, { provides: CurrentViewer }>()(
  "@stint/contract/ViewerAuthorization",
  { security, error: [Unauthorized, Forbidden] }
) {}

/** A worker's state. `unhealthy`: it fails to start or does not work. `throttled`: there is no capacity for it. */
const WorkerState = Schema.Literals(["initializing", "idle", "running", "draining", "unhealthy", "throttled"])

const Count = Schema.Natural

/** An endpoint's queue and workers. Times are in milliseconds since 1970. */
export const EndpointOverview = Schema.Struct({
  id: Schema.String,
  source: Schema.Literals(["handler", "command", "container", "external"]),
  jobs: Schema.Struct({
    /** Jobs that are ready for a worker. */
    waiting: Count,
    /** Jobs that wait for their start time or for their next attempt. */
    delayed: Count,
    running: Count,
    /** Ended jobs whose retention has not ended. `failed`: FAILED and TIMED_OUT. */
    completed: Count,
    failed: Count
  }),
  /** When the oldest ready job began to wait. Absent if there is none. */
  oldestQueuedAt: Schema.optionalKey(Schema.Int),
  workers: Schema.Struct({
    /** The maximum number of workers; null if the platform does not start them. */
    max: Schema.NullOr(Count),
    idle: Count,
    initializing: Count,
    running: Count,
    draining: Count,
    throttled: Count,
    unhealthy: Count
  }),
  /** Why a worker could not be started or cannot work, or why the endpoint's model cannot be downloaded. */
  problem: Schema.optionalKey(Schema.String)
})
export type EndpointOverview = typeof EndpointOverview.Type

/** A worker as the platform knows it. Times are in milliseconds since 1970. */
export const WorkerOverview = Schema.Struct({
  id: Schema.String,
  state: WorkerState,
  /** The ids of the jobs that it runs. */
  jobs: Schema.Array(Schema.String),
  /**
   * How many jobs it can run at once. Learned from its takes, so it is absent before the first one, and a change while the worker is busy is seen later. A
   * job whose result is on its way still counts in `jobs`, so `jobs` may be longer for a moment.
   */
  slots: Schema.optionalKey(Count),
  /** Why it is unhealthy or throttled. */
  reason: Schema.optionalKey(Schema.String),
  /** When its replacement will be started. */
  retryAt: Schema.optionalKey(Schema.Int),
  firstSeenAt: Schema.Int,
  /** Its last heartbeat or other call. */
  lastSeenAt: Schema.Int,
  idleSince: Schema.optionalKey(Schema.Int),
  /** Its last heartbeat. Absent before the first one. */
  heartbeatAt: Schema.optionalKey(Schema.Int),
  /**
   * Present when an operator has drained or stopped it. `drain`: it takes no more jobs, and exits after its current ones. `stop`: it has lost
   * its jobs, and is killed if the platform started it.
   */
  leaving: Schema.optionalKey(Schema.Literals(["drain", "stop"])),
  /** True when the platform did not start it, and therefore cannot end its process. */
  external: Schema.optionalKey(Schema.Literal(true)),
  /** The number of results that it has delivered. */
  results: Count,
  /** The id of the job that it ran last. Absent before the end of its first job. */
  lastJob: Schema.optionalKey(Schema.String),
  /** The release that it runs. Absent when it is unknown, and for an endpoint without releases. */
  release: Schema.optionalKey(Schema.Int),
  /** The version of its SDK, according to its heartbeats. */
  version: Schema.optionalKey(Schema.String),
  /** The memory that it and its children occupied at the last measurement, every ten seconds. Absent when its pool cannot measure it. */
  memoryBytes: Schema.optionalKey(Count)
})
export type WorkerOverview = typeof WorkerOverview.Type

/** The maximum number of workers in a response. Workers with a job or a problem come first. */
export const MAX_LISTED_WORKERS = 500

/** One endpoint with its workers. */
export const EndpointDetail = Schema.Struct({ ...EndpointOverview.fields, list: Schema.Array(WorkerOverview) })
export type EndpointDetail = typeof EndpointDetail.Type

/** The state of all endpoints. */
export const Overview = Schema.Struct({ endpoints: Schema.Array(EndpointOverview) })
export type Overview = typeof Overview.Type

/** The operations. */
export class OverviewApi extends HttpApiGroup.make("overview")
  .add(
    HttpApiEndpoint.get("overview", "/overview", { success: Overview, error: Unavailable }).annotateMerge(operationDocs({
      summary: "Get the state of all endpoints",
      description:
        "Returns the current queue and workers of every endpoint that the key permits. Requires the scope `jobs:read`, `deploy` " +
        "or `admin`. Reading it every few seconds is cheap."
    })),
    HttpApiEndpoint.get("overviewOfEndpoint", "/overview/:endpoint", {
      params: { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) },
      success: EndpointDetail,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get the state of an endpoint",
      description:
        `Returns the queue of an endpoint and its workers, with the jobs that they run. Lists at most ${MAX_LISTED_WORKERS} workers, those ` +
        "with a job or a problem first."
    }))
  )
  .middleware(ViewerAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Overview", description: "The current queues and workers" }))
{}
