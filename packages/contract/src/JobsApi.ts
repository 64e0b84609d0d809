/**
 * The jobs API: what callers use (wire-facts 1.1).
 *
 * ```
 *   /v2/{endpoint}/run            POST   submit, answer at once
 *   /v2/{endpoint}/runsync        POST   submit, wait for the result
 *   /v2/{endpoint}/status/{id}    GET    also POST
 *   /v2/{endpoint}/status-sync/{id}      GET, POST; waits
 *   /v2/{endpoint}/stream/{id}    GET    also POST; what nobody has read yet
 *   /v2/{endpoint}/cancel/{id}    POST
 *   /v2/{endpoint}/retry/{id}     POST
 *   /v2/{endpoint}/purge-queue    POST
 *   /v2/{endpoint}/health         GET
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { JobsAuthorization } from "./Authorization.ts"
import { Health } from "./Health.ts"
import { Job, JobReceipt, Purged, RunRequest, StreamPage } from "./Job.ts"
import { Conflict, EndpointNotFound, InvalidRequest, JobNotFound, PayloadTooLarge, Unavailable } from "./Problem.ts"

/** Path of an endpoint. Any string: an id that cannot exist is an endpoint that does not exist. */
const endpoint = { endpoint: Schema.String }
const job = { endpoint: Schema.String, id: Schema.String }

/** How long a waiting call may wait: 1 s to 300 s, in milliseconds, whole, out-of-range values pulled into the range. */
const wait = { wait: Schema.optionalKey(Schema.String) }

const submitErrors = [EndpointNotFound, InvalidRequest, PayloadTooLarge, Unavailable] as const
const jobErrors = [EndpointNotFound, JobNotFound, InvalidRequest, Unavailable] as const

export class JobsApi extends HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("run", "/:endpoint/run", {
      params: endpoint,
      payload: RunRequest,
      success: JobReceipt,
      error: submitErrors
    }),
    HttpApiEndpoint.post("runsync", "/:endpoint/runsync", {
      params: endpoint,
      query: wait,
      payload: RunRequest,
      success: Job,
      error: submitErrors
    }),
    HttpApiEndpoint.get("status", "/:endpoint/status/:id", { params: job, success: Job, error: jobErrors }),
    HttpApiEndpoint.post("statusByPost", "/:endpoint/status/:id", { params: job, success: Job, error: jobErrors }),
    HttpApiEndpoint.get("statusSync", "/:endpoint/status-sync/:id", {
      params: job,
      query: wait,
      success: Job,
      error: jobErrors
    }),
    HttpApiEndpoint.post("statusSyncByPost", "/:endpoint/status-sync/:id", {
      params: job,
      query: wait,
      success: Job,
      error: jobErrors
    }),
    HttpApiEndpoint.get("stream", "/:endpoint/stream/:id", {
      params: job,
      query: wait,
      success: StreamPage,
      error: jobErrors
    }),
    HttpApiEndpoint.post("streamByPost", "/:endpoint/stream/:id", {
      params: job,
      query: wait,
      success: StreamPage,
      error: jobErrors
    }),
    HttpApiEndpoint.post("cancel", "/:endpoint/cancel/:id", { params: job, success: JobReceipt, error: jobErrors }),
    HttpApiEndpoint.post("retry", "/:endpoint/retry/:id", {
      params: job,
      success: JobReceipt,
      error: [...jobErrors, Conflict]
    }),
    HttpApiEndpoint.post("purgeQueue", "/:endpoint/purge-queue", {
      params: endpoint,
      success: Purged,
      error: [EndpointNotFound, Unavailable]
    }),
    HttpApiEndpoint.get("health", "/:endpoint/health", {
      params: endpoint,
      success: Health,
      error: [EndpointNotFound, Unavailable]
    })
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Jobs", description: "Submit jobs and follow them" }))
{}
