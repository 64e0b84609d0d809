/**
 * The worker API: what workers use (wire-facts 5). The messages are in `WorkerProtocol.ts`.
 *
 * Existing SDKs append `&key=value` to the addresses that they were given; where an address has no `?`, those land in the last path
 * segment. The server splits that segment at its first `&` (wire-facts 5.1), so `:worker` and `:id` here may carry such a tail.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { WorkerAuthorization } from "./Authorization.ts"
import { Conflict, EndpointNotFound, InvalidRequest, JobNotFound, PayloadTooLarge, Unavailable } from "./Problem.ts"
import { JobsToStop, TakenJob } from "./WorkerProtocol.ts"

const worker = { endpoint: Schema.String, worker: Schema.String }
const job = { endpoint: Schema.String, worker: Schema.String, id: Schema.String }

const errors = [EndpointNotFound, InvalidRequest, Unavailable] as const
const deliverErrors = [EndpointNotFound, JobNotFound, InvalidRequest, PayloadTooLarge, Conflict, Unavailable] as const

export class WorkerApi extends HttpApiGroup.make("workers")
  .add(
    HttpApiEndpoint.get("jobTake", "/:endpoint/job-take/:worker", {
      params: worker,
      success: [TakenJob, HttpApiSchema.NoContent],
      error: errors
    }),
    HttpApiEndpoint.get("jobTakeBatch", "/:endpoint/job-take-batch/:worker", {
      params: worker,
      success: [Schema.Array(TakenJob), HttpApiSchema.NoContent],
      error: errors
    }),
    HttpApiEndpoint.post("jobDone", "/:endpoint/job-done/:worker/:id", {
      params: job,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }),
    HttpApiEndpoint.post("jobStream", "/:endpoint/job-stream/:worker/:id", {
      params: job,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }),
    HttpApiEndpoint.get("jobStop", "/:endpoint/job-stop/:worker", {
      params: worker,
      success: [JobsToStop, HttpApiSchema.NoContent],
      error: errors
    }),
    HttpApiEndpoint.get("ping", "/:endpoint/ping/:worker", {
      params: worker,
      success: HttpApiSchema.Empty(200),
      error: errors
    }),
    HttpApiEndpoint.post("pingByPost", "/:endpoint/ping/:worker", {
      params: worker,
      success: HttpApiSchema.Empty(200),
      error: [...errors, PayloadTooLarge]
    })
  )
  .middleware(WorkerAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Workers", description: "Take jobs and deliver their results" }))
{}
