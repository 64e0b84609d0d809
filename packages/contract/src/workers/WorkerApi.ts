/**
 * The worker API (docs/spec/worker-protocol.md#overview). `WorkerProtocol.ts` defines its messages.
 *
 * Existing SDKs append `&key=value` to the configured URLs. If a URL has no `?`, the appended text becomes part of the last path segment,
 * so the values of `:worker` and `:id` may end with it. The server splits the segment at its first `&`
 * (docs/spec/worker-protocol.md#appended-queries).
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { WorkerAuthorization } from "../Authorization.ts"
import { Audited } from "../control/Audit.ts"
import { HandlerSchema } from "../jobs/HandlerSchema.ts"
import { type ExtraParameter, operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, EndpointNotFound, InvalidRequest, JobNotFound, Unavailable } from "../Problem.ts"
import { RunJournalRequest, RunJournalResponse } from "./RunJournal.ts"
import { DeliveredResult, DeliveryStatus, JobChunk, JobDone, JobsToStop, Ping, TakenJob } from "./WorkerProtocol.ts"

const worker = {
  endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
  worker: Schema.String.annotate({ description: "The worker's id: any string of 1 to 256 characters." })
}
const job = { ...worker, id: Schema.String.annotate({ description: "The job's id, as returned by job-take." }) }

const errors = [EndpointNotFound, InvalidRequest, Unavailable] as const
const deliverErrors = [EndpointNotFound, JobNotFound, InvalidRequest, ...bodyErrors, Conflict, Unavailable] as const

const inProgress: ExtraParameter = {
  name: "job_in_progress",
  in: "query",
  description:
    "`0`: the worker runs no jobs. A job that was sent to it but never arrived then loses its lease at once, not when the lease expires.",
  schema: { type: "string" },
  example: "0"
}
const attempt: ExtraParameter = {
  name: "attempt",
  in: "query",
  description: "The `attempt` of the taken job. If present, writes from an earlier attempt return 409.",
  schema: { type: "integer", minimum: 1 },
  example: 1
}
const leaseToken: ExtraParameter = {
  name: "lease_token",
  in: "query",
  description:
    "The `leaseToken` of the taken job. Writes with the token of another take return 409, and so do writes without a token if the worker took " +
    "the job with the header `stint-lease-token`, or if the endpoint requires tokens.",
  schema: { type: "string" },
  example: "1.Zm9vYmFyYmF6cXV4cXV1eA"
}
const taken = { id: "0f8fad5b-d9cb-469f-a165-70867728950e", input: { name: "Ada" }, delayTime: 41, attempt: 1 }

const pingDescription =
  "Renews the leases of the listed jobs. A worker that sends no heartbeats loses its jobs when their leases expire, by default after 30 " +
  "s. `status=unhealthy` reports why the worker cannot run jobs; `status=exiting` announces its exit. " +
  "The members may also be query parameters, with GET or POST."

/** The operations of workers. */
export class WorkerApi extends HttpApiGroup.make("workers")
  .add(
    HttpApiEndpoint.get("jobTake", "/:endpoint/job-take/:worker", {
      params: worker,
      success: [TakenJob, HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Take a job",
      description:
        "Waits up to 60 s for a job and leases it to the worker; heartbeats renew the lease. Returns 204 if there is no job: call again.",
      parameters: [inProgress],
      responses: { 200: taken }
    })),
    HttpApiEndpoint.get("jobTakeBatch", "/:endpoint/job-take-batch/:worker", {
      params: worker,
      success: [Schema.Array(TakenJob), HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Take several jobs",
      description:
        "Like job-take, for up to `batch_size` jobs. Returns the available jobs at once, and waits only if there are none.",
      parameters: [inProgress, {
        name: "batch_size",
        in: "query",
        description: "The maximum number of jobs: 1 to 1000. Default: 1.",
        schema: { type: "integer", minimum: 1 },
        example: 8
      }],
      responses: { 200: [taken] }
    })),
    HttpApiEndpoint.post("jobDone", "/:endpoint/job-done/:worker/:id", {
      params: job,
      payload: JobDone,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }).annotateMerge(operationDocs({
      summary: "Deliver a result or progress",
      description:
        "A body with `error` fails the job; any other body completes it. With `status: \"IN_PROGRESS\"`, the body is progress, and the " +
        "job continues. A repeated result returns 200 and changes nothing. Returns 409 if the worker no longer holds the job. The body " +
        "is parsed as JSON, whatever its content type. Bodies up to 20 MiB.",
      parameters: [attempt, leaseToken],
      request: { output: { greeting: "Hello, Ada" } }
    })),
    HttpApiEndpoint.post("jobDoneBatch", "/:endpoint/job-done-batch/:worker", {
      params: worker,
      payload: Schema.Array(DeliveredResult),
      success: Schema.Array(DeliveryStatus),
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Deliver several results",
      description:
        "Like job-done for each of up to 1,000 results, which are stored together. Returns a status for each result, in the same order: the " +
        "status with which job-done would have responded. A result that is refused does not affect the others. Bodies up to 20 MiB.",
      request: [{ id: taken.id, attempt: 1, output: { greeting: "Hello, Ada" } }],
      responses: { 200: [{ status: 200 }] }
    })),
    HttpApiEndpoint.post("jobStream", "/:endpoint/job-stream/:worker/:id", {
      params: job,
      payload: JobChunk,
      success: HttpApiSchema.Empty(200),
      error: deliverErrors
    }).annotateMerge(operationDocs({
      summary: "Deliver a chunk",
      description:
        "Appends a chunk to the job's stream. With a chunk number in `chunk`, a repeated chunk returns 200 and is stored once, and a " +
        "chunk that arrives before its predecessor returns 409. The body is parsed as JSON, whatever its content type. Bodies up to 1 MiB.",
      parameters: [attempt, leaseToken, {
        name: "chunk",
        in: "query",
        description: "The number of the chunk in this attempt, starting at 1.",
        schema: { type: "integer", minimum: 1 },
        example: 1
      }],
      request: { output: "Hel" }
    })),
    HttpApiEndpoint.post("runJournal", "/:endpoint/run-journal/:worker", {
      params: worker,
      payload: RunJournalRequest,
      success: RunJournalResponse,
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Record the progress of pipeline runs",
      description:
        "Stores what a pipeline's worker recorded, for up to 1,000 runs in one commit, and lets runs park or end. Entries are stored once, so a " +
        "repeated request changes nothing. With `waitMs`, the response is held for an entry before the runs with `park` park. Each run has its " +
        "own result: a run whose lease the worker does not hold is `lost`.",
      request: {
        runs: [{ run: taken.id, attempt: 1, records: [{ path: "list", kind: "step", body: ["a.jpg"] }] }]
      },
      responses: {
        200: {
          now: 1_790_000_000_000,
          runs: [{ run: taken.id, state: "running", n: 1, entries: [], phase: "doing", chunks: 0 }]
        }
      }
    })),
    HttpApiEndpoint.post("handlerSchema", "/:endpoint/handler-schema/:worker", {
      params: worker,
      payload: HandlerSchema,
      success: HttpApiSchema.Empty(200),
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Report the schema of the handler",
      description:
        "Stores what the handler takes and returns, as JSON Schemas, for callers. Ignored from workers of a release that the endpoint does not run: " +
        "an outdated one, or a canary. Bodies up to 64 KiB.",
      request: {
        input: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
        output: { type: "object", properties: { greeting: { type: "string" } }, required: ["greeting"] },
        streams: false
      }
    })),
    HttpApiEndpoint.get("jobStop", "/:endpoint/job-stop/:worker", {
      params: worker,
      success: [JobsToStop, HttpApiSchema.NoContent],
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Wait for jobs to stop",
      description:
        "Waits up to 60 s for jobs that the worker should stop: cancelled, timed out, or leased to another worker. Returns 204 if there are none.",
      responses: { 200: { jobsToStop: [taken.id] } }
    })),
    HttpApiEndpoint.get("ping", "/:endpoint/ping/:worker", {
      params: worker,
      success: HttpApiSchema.Empty(200),
      error: errors
    }).annotateMerge(operationDocs({
      summary: "Send a heartbeat",
      description: pingDescription,
      parameters: [{
        name: "job_id",
        in: "query",
        description: "The ids of the jobs that the worker runs, separated by commas. Absent if there are none.",
        schema: { type: "string" },
        example: taken.id
      }]
    })),
    HttpApiEndpoint.post("pingByPost", "/:endpoint/ping/:worker", {
      params: worker,
      payload: Ping,
      success: HttpApiSchema.Empty(200),
      error: [...errors, ...bodyErrors]
    }).annotateMerge(operationDocs({
      summary: "Send a heartbeat",
      description: pingDescription,
      bodyOptional: true,
      request: { job_id: [taken.id] }
    }))
  )
  .middleware(WorkerAuthorization)
  .prefix("/v2")
  .annotate(Audited, false)
  .annotateMerge(OpenApi.annotations({ title: "Workers", description: "Take jobs and deliver their results" }))
{}
