/**
 * The jobs API, for callers (docs/spec/jobs-api.md#operations).
 *
 * ```
 *   /v2/{endpoint}/run            POST   submit, without waiting
 *   /v2/{endpoint}/runsync        POST   submit, wait for the result
 *   /v2/{endpoint}/status/{id}    GET    also POST; with `?explain`, why it waits
 *   /v2/{endpoint}/status-sync/{id}      GET, POST; waits for the end
 *   /v2/{endpoint}/stream/{id}    GET    also POST; unread chunks
 *   /v2/{endpoint}/events/{id}    GET    the job's events, as Server-Sent Events
 *   /v2/{endpoint}/requests       GET    the endpoint's jobs
 *   /v2/{endpoint}/cancel/{id}    POST
 *   /v2/{endpoint}/retry/{id}     POST   with `?from=`, a run of a pipeline from that node on
 *   /v2/{endpoint}/purge-queue    POST
 *   /v2/{endpoint}/health         GET
 *   /v2/{endpoint}/schema         GET    what the handler takes and returns
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { JobsAuthorization } from "../Authorization.ts"
import { Audited } from "../control/Audit.ts"
import { idempotencyKey, operationDocs } from "../OpenApiOperation.ts"
import {
  bodyErrors,
  BudgetReached,
  Conflict,
  EndpointNotFound,
  InsufficientStorage,
  InvalidRequest,
  JobNotFound,
  Unavailable
} from "../Problem.ts"
import { MAX_PATH } from "../workers/RunJournal.ts"
import { Explanation } from "./Explanation.ts"
import { EndpointSchema } from "./HandlerSchema.ts"
import { Health } from "./Health.ts"
import { Job, JobReceipt, Purged, RunRequest, StreamPage } from "./Job.ts"
import { JobEvent, JobEventKinds } from "./JobEvents.ts"
import { JobPage, ListQuery } from "./JobList.ts"

/** Not validated as an EndpointId: an invalid id returns 404 like any unknown endpoint. */
const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }
const job = { ...endpoint, id: Schema.String.annotate({ description: "The job's id, as returned by run or runsync." }) }

/** The duration of a long poll (docs/spec/jobs-api.md#the-wait-parameter). */
const wait = {
  wait: Schema.optionalKey(Schema.String.annotate({
    description: "How long to wait, in milliseconds: 1000 to 300000. Clamped; non-numeric values use the default."
  }))
}

/** The response of `/status`: the job and, on request, an explanation of its status and its input. */
export const ExplainedJob = Schema.Struct({
  ...Job.fields,
  explain: Schema.optionalKey(Explanation),
  input: Schema.optionalKey(Schema.Json)
})
export type ExplainedJob = typeof ExplainedJob.Type

const include = (what: string) =>
  Schema.optionalKey(Schema.String.annotate({
    description: `Include ${what}. Enabled by any value except \`false\` and \`0\`, and by an empty value.`
  }))

const explain = { explain: include("an explanation of the job's status"), input: include("the job's input") }

const submitErrors = [
  EndpointNotFound,
  InvalidRequest,
  ...bodyErrors,
  Conflict,
  BudgetReached,
  InsufficientStorage,
  Unavailable
] as const
const jobErrors = [EndpointNotFound, JobNotFound, InvalidRequest, Unavailable] as const

/** The header with the job's id. Every response to a request that created a job has it. */
export const JOB_ID_HEADER = "x-job-id"

const ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
const exampleRequest = { input: { name: "Ada" } }
const requestWithOptions = {
  ...exampleRequest,
  policy: { executionTimeout: 60_000, ttl: 3_600_000, retry: { maxAttempts: 3, backoff: { initialMs: 1_000 } } },
  priority: 10,
  tags: ["nightly"],
  webhook: "https://example.com/done"
}
const receipt = { id: ID, status: "IN_QUEUE" }
const completed = {
  id: ID,
  status: "COMPLETED",
  delayTime: 41,
  executionTime: 812,
  output: { greeting: "Hello, Ada" },
  workerId: "w-1"
}
const jobId = { [JOB_ID_HEADER]: "The job's id." }

const status = operationDocs({
  summary: "Get a job",
  description:
    "Returns the job: its status, times, and output or error once it has ended. While the job runs, `output` is its latest progress. " +
    "With `?explain`, the response also contains what the job waits for, with its queue position, workers, lease and next attempt; with `?input`, the job's " +
    "input.",
  responses: { 200: completed }
})
const statusSync = operationDocs({
  summary: "Wait for a job",
  description:
    "Like status, but waits until the job ends, by default for 90 s. If the job has not ended by then, returns it in its current status.",
  responses: { 200: completed }
})
const stream = operationDocs({
  summary: "Read a job's unread chunks",
  description:
    "Returns the unread chunks and marks them as read. Waits for a chunk, by default for 8 s. The status becomes terminal only with or " +
    "after the last chunk. Each chunk is returned only once: if a job has several readers, use its events.",
  responses: { 200: { id: ID, status: "IN_PROGRESS", stream: [{ output: "Hel" }, { output: "lo" }] } }
})

/** The operations on jobs. */
export class JobsApi extends HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("run", "/:endpoint/run", {
      params: endpoint,
      payload: RunRequest,
      success: JobReceipt,
      error: submitErrors
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Submit a job",
      description:
        "Stores the job and returns its id without waiting. Read the job with status, follow it with events, or receive its " +
        "result with a webhook. With `startAt` or `startAfterMs`, the job waits in the queue until then. Only `input` is required; unknown keys " +
        "are ignored. Bodies up to 10 MiB.",
      parameters: [idempotencyKey],
      request: exampleRequest,
      moreRequests: { "with options": requestWithOptions },
      responses: { 200: receipt },
      headers: jobId
    })),
    HttpApiEndpoint.post("runsync", "/:endpoint/runsync", {
      params: endpoint,
      query: wait,
      payload: RunRequest,
      success: Job,
      error: submitErrors
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Submit a job and wait for it",
      description:
        "Stores the job, waits until it ends, by default for 90 s, and returns it, ended or not. The response header " +
        `\`${JOB_ID_HEADER}\` contains its id. Unless the job ends at once, the server sends the headers before it waits, so that a ` +
        "caller can continue with status-sync after a lost connection. Bodies up to 20 MiB.",
      parameters: [idempotencyKey],
      request: exampleRequest,
      moreRequests: { "with options": requestWithOptions },
      responses: { 200: { ...completed, id: `sync-${ID}` } },
      headers: jobId
    })),
    HttpApiEndpoint.get("status", "/:endpoint/status/:id", {
      params: job,
      query: explain,
      success: ExplainedJob,
      error: jobErrors
    }).annotateMerge(status),
    HttpApiEndpoint.post("statusByPost", "/:endpoint/status/:id", {
      params: job,
      query: explain,
      success: ExplainedJob,
      error: jobErrors
    }).annotate(Audited, false).annotateMerge(status),
    HttpApiEndpoint.get("statusSync", "/:endpoint/status-sync/:id", {
      params: job,
      query: wait,
      success: Job,
      error: jobErrors
    }).annotateMerge(statusSync),
    HttpApiEndpoint.post("statusSyncByPost", "/:endpoint/status-sync/:id", {
      params: job,
      query: wait,
      success: Job,
      error: jobErrors
    }).annotate(Audited, false).annotateMerge(statusSync),
    HttpApiEndpoint.get("stream", "/:endpoint/stream/:id", {
      params: job,
      query: wait,
      success: StreamPage,
      error: jobErrors
    }).annotateMerge(stream),
    HttpApiEndpoint.post("streamByPost", "/:endpoint/stream/:id", {
      params: job,
      query: wait,
      success: StreamPage,
      error: jobErrors
    }).annotate(Audited, false).annotateMerge(stream),
    HttpApiEndpoint.get("events", "/:endpoint/events/:id", {
      params: job,
      query: {
        events: Schema.optionalKey(JobEventKinds),
        lastEventId: Schema.optionalKey(
          Schema.String.annotate({ description: "Has the same effect as the header `Last-Event-ID`, which takes precedence." })
        )
      },
      success: [HttpApiSchema.StreamSse({ events: JobEvent }), HttpApiSchema.NoContent],
      error: jobErrors
    }).annotateMerge(operationDocs({
      summary: "Follow a job",
      description:
        "Sends the job's events as Server-Sent Events: `status`, `progress`, `chunk`, `log`, and finally `end` with the job. Every event has " +
        "an id. To resume after a lost connection, send the last id as `Last-Event-ID`: every later chunk and log line is sent once. Any " +
        "number of readers may follow a job, independently of stream. Returns 204 if the reader has already received the end.",
      parameters: [{
        name: "Last-Event-ID",
        in: "header",
        description: "The `id` of the last received event. Browsers send it automatically.",
        schema: { type: "string" },
        example: "1.7.r"
      }]
    })),
    HttpApiEndpoint.get("requests", "/:endpoint/requests", {
      params: endpoint,
      query: ListQuery,
      success: JobPage,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List jobs",
      description:
        "Lists the endpoint's jobs, newest first, without payloads. Pass the `cursor` of the response to read the next page, until it is null. " +
        "Every job that existed when the first page was read is listed once, even if jobs are submitted or end in between.",
      responses: {
        200: {
          requests: [{ id: ID, status: "IN_QUEUE", createdAt: 1_790_000_000_000, attempt: 0, priority: 10, tags: ["nightly"] }],
          cursor: `v1.1790000000000.${ID}`
        }
      }
    })),
    HttpApiEndpoint.post("cancel", "/:endpoint/cancel/:id", { params: job, success: JobReceipt, error: jobErrors }).annotateMerge(
      operationDocs({
        summary: "Cancel a job",
        description:
          "Cancels a waiting or running job and stops its worker's handler. Does not change a job that has already ended, and returns " +
          "its status.",
        responses: { 200: { id: ID, status: "CANCELLED" } }
      })
    ),
    HttpApiEndpoint.post("retry", "/:endpoint/retry/:id", {
      params: job,
      query: {
        from: Schema.optionalKey(
          Schema.String.check(Schema.isMaxLength(MAX_PATH)).annotate({
            description: "Runs of pipelines only: the node of the pipeline to run again, with all nodes after it."
          })
        )
      },
      success: JobReceipt,
      error: [...jobErrors, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Retry a job",
      description:
        "Returns a FAILED or TIMED_OUT job to the queue, under the same id. Returns 409 for any other status. A run of a pipeline keeps what " +
        "its completed steps recorded; with `?from=NODE`, that node and all nodes after it run again.",
      responses: { 200: receipt }
    })),
    HttpApiEndpoint.post("purgeQueue", "/:endpoint/purge-queue", {
      params: endpoint,
      success: Purged,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Cancel all waiting jobs",
      description: "Cancels every waiting job of the endpoint and returns their number. Running jobs continue.",
      responses: { 200: { removed: 12, status: "completed" } }
    })),
    HttpApiEndpoint.get("health", "/:endpoint/health", {
      params: endpoint,
      success: Health,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Count jobs and workers",
      description:
        "Returns the number of waiting, running, completed and failed jobs (within their retention), and of workers by state. Never " +
        "rate-limited.",
      unlimited: true,
      responses: {
        200: {
          jobs: { completed: 12, failed: 1, inProgress: 2, inQueue: 5, retried: 0 },
          workers: { idle: 0, initializing: 1, ready: 0, running: 2, throttled: 0, unhealthy: 0 }
        }
      }
    })),
    HttpApiEndpoint.get("schema", "/:endpoint/schema", {
      params: endpoint,
      success: [EndpointSchema, HttpApiSchema.NoContent],
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get the schema of the handler",
      description:
        "Returns what the handler takes and returns, as JSON Schemas. Workers whose handler has Schemas report it after their start. Returns 204 " +
        "while none has reported one.",
      responses: {
        200: {
          input: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
          output: { type: "object", properties: { greeting: { type: "string" } }, required: ["greeting"] },
          streams: false,
          release: 3,
          reportedAt: 1_790_000_000_000
        }
      }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Jobs", description: "Submit jobs and follow them" }))
{}
