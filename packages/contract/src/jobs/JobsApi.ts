/**
 * The jobs API: what callers use (docs/spec/jobs-api.md#operations).
 *
 * ```
 *   /v2/{endpoint}/run            POST   submit, answer at once
 *   /v2/{endpoint}/runsync        POST   submit, wait for the result
 *   /v2/{endpoint}/status/{id}    GET    also POST; with `?explain` why it waits
 *   /v2/{endpoint}/status-sync/{id}      GET, POST; waits
 *   /v2/{endpoint}/stream/{id}    GET    also POST; what nobody has read yet
 *   /v2/{endpoint}/events/{id}    GET    everything that happens to a job, as Server-Sent Events
 *   /v2/{endpoint}/requests       GET    the endpoint's jobs
 *   /v2/{endpoint}/cancel/{id}    POST
 *   /v2/{endpoint}/retry/{id}     POST
 *   /v2/{endpoint}/purge-queue    POST
 *   /v2/{endpoint}/health         GET
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { JobsAuthorization } from "../Authorization.ts"
import { idempotencyKey, operationDocs } from "../OpenApiOperation.ts"
import { Conflict, EndpointNotFound, InvalidRequest, JobNotFound, PayloadTooLarge, Unavailable } from "../Problem.ts"
import { Explanation } from "./Explanation.ts"
import { Health } from "./Health.ts"
import { Job, JobReceipt, Purged, RunRequest, StreamPage } from "./Job.ts"
import { JobEvent, JobEventKinds } from "./JobEvents.ts"
import { JobPage, ListQuery } from "./JobList.ts"

/** Path of an endpoint. Any string: an id that cannot exist is an endpoint that does not exist. */
const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }
const job = { ...endpoint, id: Schema.String.annotate({ description: "The job's id, from run or runsync." }) }

/** How long a waiting call may wait: 1 s to 300 s, in milliseconds, whole, out-of-range values pulled into the range. */
const wait = {
  wait: Schema.optionalKey(Schema.String.annotate({
    description: "How long to wait: milliseconds, 1000 to 300000. What is outside is pulled in, what is no number is the default."
  }))
}

/** What `/status` answers: the job and, where it was asked for, why it is where it is. */
export const ExplainedJob = Schema.Struct({ ...Job.fields, explain: Schema.optionalKey(Explanation) })
export type ExplainedJob = typeof ExplainedJob.Type

const explain = {
  explain: Schema.optionalKey(Schema.String.annotate({
    description: "Say why the job is where it is. Any value but `false` and `0` asks for it, none included."
  }))
}

const submitErrors = [EndpointNotFound, InvalidRequest, PayloadTooLarge, Conflict, Unavailable] as const
const jobErrors = [EndpointNotFound, JobNotFound, InvalidRequest, Unavailable] as const

/** The header with the job's id, on every answer that a job was made for. */
export const JOB_ID_HEADER = "x-job-id"

const ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
const exampleRequest = {
  input: { name: "Ada" },
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
  summary: "A job as it stands",
  description:
    "The job object: its status, times, and output or error once it has ended. While it runs, `output` is its latest progress. " +
    "With `?explain` the answer says what the job waits for: its place in line, the workers, the lease, the next attempt.",
  answers: { 200: completed }
})
const statusSync = operationDocs({
  summary: "A job when it has ended",
  description:
    "The same as status, but waits for the job to end: 90 s unless asked otherwise. When the time is over it answers the job as " +
    "it stands.",
  answers: { 200: completed }
})
const stream = operationDocs({
  summary: "What a job has streamed and nobody has read",
  description:
    "Hands out the chunks that no call before has handed out; waits for one, 10 s unless asked otherwise. A terminal status comes " +
    "only with or after the last chunk. Each chunk goes to one reader: where several follow a job, use its events.",
  answers: { 200: { id: ID, status: "IN_PROGRESS", stream: [{ output: "Hel" }, { output: "lo" }] } }
})

export class JobsApi extends HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("run", "/:endpoint/run", {
      params: endpoint,
      payload: RunRequest,
      success: JobReceipt,
      error: submitErrors
    }).annotateMerge(operationDocs({
      summary: "Submit a job",
      description: "Keeps the job and answers at once. Ask for it with status, follow it with events, or let a webhook tell. " +
        "Only `input` is required; keys that are not known are ignored. Bodies up to 10 MiB.",
      parameters: [idempotencyKey],
      request: exampleRequest,
      answers: { 200: receipt },
      headers: jobId
    })),
    HttpApiEndpoint.post("runsync", "/:endpoint/runsync", {
      params: endpoint,
      query: wait,
      payload: RunRequest,
      success: Job,
      error: submitErrors
    }).annotateMerge(operationDocs({
      summary: "Submit a job and wait for its end",
      description:
        "Keeps the job, waits for it to end (90 s unless asked otherwise) and answers with it, ended or not. The header " +
        `\`${JOB_ID_HEADER}\` has its id; where the job takes longer than a moment, the head of the answer comes before the waiting, so that a ` +
        "caller whose connection breaks can go on with status-sync. Bodies up to 20 MiB.",
      parameters: [idempotencyKey],
      request: exampleRequest,
      answers: { 200: { ...completed, id: `sync-${ID}` } },
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
    }).annotateMerge(status),
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
    }).annotateMerge(statusSync),
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
    }).annotateMerge(stream),
    HttpApiEndpoint.get("events", "/:endpoint/events/:id", {
      params: job,
      query: {
        events: Schema.optionalKey(JobEventKinds),
        lastEventId: Schema.optionalKey(
          Schema.String.annotate({ description: "The same as the header `Last-Event-ID`, which counts where both are there." })
        )
      },
      success: [HttpApiSchema.StreamSse({ events: JobEvent }), HttpApiSchema.NoContent],
      error: jobErrors
    }).annotateMerge(operationDocs({
      summary: "Follow a job",
      description:
        "Everything that happens to the job, as Server-Sent Events: `status`, `progress`, `chunk`, `log`, and `end` with the job " +
        "object, after which the answer ends. Every event has an id; a reader that was cut off comes back with the last one in `Last-Event-ID` " +
        "and is told every chunk and every log line after it, none twice. Any number may follow a job; it takes nothing from stream. 204: the reader knows the end.",
      parameters: [{
        name: "Last-Event-ID",
        in: "header",
        description: "The `id` of the last event that the reader has seen. Browsers send it by themselves.",
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
      summary: "The endpoint's jobs",
      description:
        "Newest first, without payloads. Go on with the `cursor` of the answer until it is null: every job that was there at the " +
        "beginning is seen once, whatever is submitted or ends meanwhile.",
      answers: {
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
          "A waiting job is dropped, a running one is stopped. One that had ended before stays as it is: the answer says what it is.",
        answers: { 200: { id: ID, status: "CANCELLED" } }
      })
    ),
    HttpApiEndpoint.post("retry", "/:endpoint/retry/:id", {
      params: job,
      success: JobReceipt,
      error: [...jobErrors, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Run a job again",
      description: "Puts a FAILED or TIMED_OUT job back into the queue, under the same id. Others are refused with 409.",
      answers: { 200: receipt }
    })),
    HttpApiEndpoint.post("purgeQueue", "/:endpoint/purge-queue", {
      params: endpoint,
      success: Purged,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Cancel all waiting jobs",
      description: "Cancels every job of the endpoint that waits, and answers how many there were. Running jobs go on.",
      answers: { 200: { removed: 12, status: "completed" } }
    })),
    HttpApiEndpoint.get("health", "/:endpoint/health", {
      params: endpoint,
      success: Health,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Jobs and workers by state",
      description:
        "How many jobs wait, run, and ended well or badly (as long as they are kept), and how many workers are in which state. " +
        "Never rate-limited.",
      unlimited: true,
      answers: {
        200: {
          jobs: { completed: 12, failed: 1, inProgress: 2, inQueue: 5, retried: 0 },
          workers: { idle: 0, initializing: 1, ready: 0, running: 2, throttled: 0, unhealthy: 0 }
        }
      }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Jobs", description: "Submit jobs and follow them" }))
{}
