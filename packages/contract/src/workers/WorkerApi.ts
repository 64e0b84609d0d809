/**
 * The worker API: what workers use (docs/spec/worker-protocol.md#overview). The messages are in `WorkerProtocol.ts`.
 *
 * Existing SDKs append `&key=value` to the addresses that they were given; where an address has no `?`, those land in the last path
 * segment. The server splits that segment at its first `&`
 * (docs/spec/worker-protocol.md#appended-queries), so `:worker` and `:id` here may carry such a tail.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { WorkerAuthorization } from "../Authorization.ts"
import { type ExtraParameter, operationDocs } from "../OpenApiOperation.ts"
import { Conflict, EndpointNotFound, InvalidRequest, JobNotFound, PayloadTooLarge, Unavailable } from "../Problem.ts"
import { JobChunk, JobDone, JobsToStop, Ping, TakenJob } from "./WorkerProtocol.ts"

const worker = {
  endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
  worker: Schema.String.annotate({ description: "What the worker calls itself: any string of up to 256 characters." })
}
const job = { ...worker, id: Schema.String.annotate({ description: "The job's id, as job-take gave it." }) }

const errors = [EndpointNotFound, InvalidRequest, Unavailable] as const
const deliverErrors = [EndpointNotFound, JobNotFound, InvalidRequest, PayloadTooLarge, Conflict, Unavailable] as const

const inProgress: ExtraParameter = {
  name: "job_in_progress",
  in: "query",
  description:
    "`0`: the worker holds no job, so one that it was handed and never got is lost at once instead of at the end of its lease.",
  schema: { type: "string" },
  example: "0"
}
const attempt: ExtraParameter = {
  name: "attempt",
  in: "query",
  description: "The `attempt` that came with the job. Where it is there, a write of an earlier attempt is refused with 409.",
  schema: { type: "integer", minimum: 1 },
  example: 1
}
const taken = { id: "0f8fad5b-d9cb-469f-a165-70867728950e", input: { name: "Ada" }, delayTime: 41, attempt: 1 }

const pingDescription =
  "The leases of the jobs that it names start anew. A silent worker loses its jobs when their lease is over (30 s unless " +
  "the endpoint says otherwise). With `status=unhealthy` it says why it cannot work, with `status=exiting` it says goodbye. " +
  "SDKs may say the same in a query, by GET or by POST."

export class WorkerApi extends HttpApiGroup.make("workers")
  .add(
    HttpApiEndpoint.get("jobTake", "/:endpoint/job-take/:worker", {
      params: worker,
      success: [TakenJob, HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Take a job",
      description:
        "Waits up to 60 s for a job. 204: none came, ask again. The job is the worker's until its lease is over; heartbeats extend it.",
      parameters: [inProgress],
      answers: { 200: taken }
    })),
    HttpApiEndpoint.get("jobTakeBatch", "/:endpoint/job-take-batch/:worker", {
      params: worker,
      success: [Schema.Array(TakenJob), HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Take several jobs",
      description:
        "The same for up to `batch_size` jobs at once. It answers with those that are there and waits only where there is none.",
      parameters: [inProgress, {
        name: "batch_size",
        in: "query",
        description: "How many at the most: 1 to 1000. Default: 1.",
        schema: { type: "integer", minimum: 1 },
        example: 8
      }],
      answers: { 200: [taken] }
    })),
    HttpApiEndpoint.post("jobDone", "/:endpoint/job-done/:worker/:id", {
      params: job,
      payload: JobDone,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }).annotateMerge(operationDocs({
      summary: "Deliver a result, or progress",
      description:
        "A body with `error` fails the job, any other completes it; with `status: \"IN_PROGRESS\"` it is progress and the job goes on. " +
        "Repeating a result is answered 200 and changes nothing. 409: the job is no longer this worker's. The body is read as JSON whatever its " +
        "content type says. Up to 20 MiB.",
      parameters: [attempt],
      request: { output: { greeting: "Hello, Ada" } }
    })),
    HttpApiEndpoint.post("jobStream", "/:endpoint/job-stream/:worker/:id", {
      params: job,
      payload: JobChunk,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }).annotateMerge(operationDocs({
      summary: "Deliver a chunk",
      description:
        "Adds a chunk to the job's stream. With `chunk`, its number, a repeated chunk is answered 200 and kept once, and one that comes " +
        "before its predecessor is refused with 409. The body is read as JSON whatever its content type says. Up to 1 MiB.",
      parameters: [attempt, {
        name: "chunk",
        in: "query",
        description: "The number of the chunk in this attempt, from 1.",
        schema: { type: "integer", minimum: 1 },
        example: 1
      }],
      request: { output: "Hel" }
    })),
    HttpApiEndpoint.get("jobStop", "/:endpoint/job-stop/:worker", {
      params: worker,
      success: [JobsToStop, HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Wait for jobs to stop",
      description:
        "Waits up to 60 s for ids of jobs that the worker is to stop: cancelled, timed out, or somebody else's by now. 204: none.",
      answers: { 200: { jobsToStop: [taken.id] } }
    })),
    HttpApiEndpoint.get("ping", "/:endpoint/ping/:worker", {
      params: worker,
      success: HttpApiSchema.Empty(200),
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Heartbeat",
      description: pingDescription,
      parameters: [{
        name: "job_id",
        in: "query",
        description: "The jobs that the worker runs, with commas between them. Absent: none.",
        schema: { type: "string" },
        example: taken.id
      }]
    })),
    HttpApiEndpoint.post("pingByPost", "/:endpoint/ping/:worker", {
      params: worker,
      payload: Ping,
      success: HttpApiSchema.Empty(200),
      error: [...errors, PayloadTooLarge]
    }).annotateMerge(operationDocs({
      summary: "Heartbeat",
      description: pingDescription,
      bodyOptional: true,
      request: { job_id: [taken.id] }
    }))
  )
  .middleware(WorkerAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Workers", description: "Take jobs and deliver their results" }))
{}
