/**
 * Batches, as a part of the jobs API (docs/spec/batches.md#operations).
 *
 * ```
 *   /v2/{endpoint}/batch                          POST   a draft, with or without requests
 *                                                 GET    the endpoint's batches, newest first
 *   /v2/{endpoint}/batch/{id}                     GET
 *                                                 PUT    another name or webhook
 *   /v2/{endpoint}/batch/{id}/requests            POST   add to a draft
 *                                                 GET    the requests with their results
 *   /v2/{endpoint}/batch/{id}/requests/{request}  DELETE from a draft
 *   /v2/{endpoint}/batch/{id}/finalize            POST   lock it and start
 *   /v2/{endpoint}/batch/{id}/cancel              POST
 * ```
 */
import { HttpApiEndpoint, HttpApiError, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobsAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { Conflict, EndpointNotFound, InvalidRequest, PayloadTooLarge, Unavailable } from "../Problem.ts"
import { Batch, BatchChanges, BatchDraft, BatchReceipt, BatchRequest, BatchRequests, BatchResults } from "./Batch.ts"

/** 404: no such batch on this endpoint, no such request in it, or it is no longer kept. */
export class BatchNotFound extends HttpApiError.Problem<BatchNotFound>()("BatchNotFound", {
  type: "/problems/batch-not-found",
  status: 404,
  title: "Batch not found"
}, { error: Schema.String, hint: Schema.String }) {}

/** The most batches or requests of one page. */
export const BATCH_PAGE_LIMIT = 200

const numberBetween = (minimum: number, maximum: number, description: string) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

/** Which stretch of a list. */
export const BatchPageQuery = {
  /** Default: 0. */
  offset: numberBetween(0, 1_000_000_000, "How many to pass over. Default: 0."),
  /** 1 to {@link BATCH_PAGE_LIMIT}. Default: 50. */
  limit: numberBetween(1, BATCH_PAGE_LIMIT, `How many at a time: 1 to ${BATCH_PAGE_LIMIT}. Default: 50.`)
}

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }
const batch = { ...endpoint, id: Schema.String.annotate({ description: "The batch's id." }) }

const ID = "batch_0f8fad5b-d9cb-469f-a165-70867728950e"
const example = {
  id: ID,
  endpointId: "letters",
  status: "FINALIZED",
  requestTotal: 1_000,
  requestInProgress: 4,
  requestCompleted: 620,
  requestFailed: 3,
  requestCancelled: 0,
  createdAt: 1_790_000_000_000,
  finalizedAt: 1_790_000_004_000,
  name: "nightly"
}
const completed = {
  ...example,
  status: "COMPLETED",
  requestInProgress: 0,
  requestCompleted: 997,
  completedAt: 1_790_000_900_000
}
const exampleRequests = [{ input: { name: "Ada" } }, { input: { name: "Grace" }, policy: { executionTimeout: 60_000 } }]

const batchErrors = [EndpointNotFound, BatchNotFound, InvalidRequest, Unavailable] as const

export class BatchApi extends HttpApiGroup.make("batches")
  .add(
    HttpApiEndpoint.post("createBatch", "/:endpoint/batch", {
      params: endpoint,
      payload: Schema.Union([Schema.Array(BatchRequest), BatchDraft]),
      success: BatchReceipt,
      error: [EndpointNotFound, InvalidRequest, PayloadTooLarge, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Begin a batch",
      description:
        "Makes a draft: nothing runs before it is finalized. The body is an array of requests, which may be empty, or an object with " +
        "`requests`, `name`, `policy` (for requests without one of their own) and `webhook` (told once, when the batch has ended). Each " +
        "request is what run takes. Up to 10 MiB a call, 5,000 requests a batch, 10 batches of an endpoint that have not ended. Where " +
        "one request is wrong nothing is kept.",
      request: { name: "nightly", requests: exampleRequests, webhook: "https://example.com/done" },
      answers: { 200: { id: ID, status: "DRAFT" } }
    })),
    HttpApiEndpoint.get("listBatches", "/:endpoint/batch", {
      params: endpoint,
      query: BatchPageQuery,
      success: Schema.Array(Batch),
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "The endpoint's batches",
      description: "Newest first. A page that is not full is the last.",
      answers: { 200: [example] }
    })),
    HttpApiEndpoint.get("getBatch", "/:endpoint/batch/:id", { params: batch, success: Batch, error: batchErrors }).annotateMerge(
      operationDocs({
        summary: "A batch",
        description:
          "Its status and how many of its requests are where. All have ended when `requestCompleted + requestFailed` is `requestTotal`; " +
          "`requestFailed` counts those that timed out or were cancelled too.",
        answers: { 200: completed }
      })
    ),
    HttpApiEndpoint.put("changeBatch", "/:endpoint/batch/:id", {
      params: batch,
      payload: BatchChanges,
      success: Batch,
      error: [...batchErrors, PayloadTooLarge, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Name a batch, or change its webhook",
      description: "What is left out stays; null takes it away. The webhook cannot be changed once the batch has ended.",
      request: { name: "nightly, again" },
      answers: { 200: example }
    })),
    HttpApiEndpoint.post("addRequests", "/:endpoint/batch/:id/requests", {
      params: batch,
      payload: Schema.Union([Schema.Array(BatchRequest), BatchRequests]),
      success: Batch,
      error: [...batchErrors, PayloadTooLarge, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Add requests to a draft",
      description: "All of them or, where one is wrong, none. Up to 10 MiB a call.",
      request: { requests: exampleRequests },
      answers: { 200: { ...example, status: "DRAFT" } }
    })),
    HttpApiEndpoint.get("batchRequests", "/:endpoint/batch/:id/requests", {
      params: batch,
      query: BatchPageQuery,
      success: BatchResults,
      error: batchErrors
    }).annotateMerge(operationDocs({
      summary: "The requests of a batch, with their results",
      description:
        "In the order in which they were added. The id of a request is the id of its job: from finalize on, status, events, cancel and " +
        "retry know it. Results stay as long as the batch does: the endpoint's retention, counted from the end of the batch.",
      answers: {
        200: {
          requests: [{
            id: "0f8fad5b-d9cb-469f-a165-70867728950e",
            status: "COMPLETED",
            delayTime: 41,
            executionTime: 812,
            output: { greeting: "Hello, Ada" },
            workerId: "w-1",
            startedAt: 1_790_000_004_041,
            completedAt: 1_790_000_004_853
          }],
          total: 1_000,
          offset: 0,
          limit: 50,
          hasMore: true
        }
      }
    })),
    HttpApiEndpoint.delete("dropRequest", "/:endpoint/batch/:id/requests/:request", {
      params: { ...batch, request: Schema.String.annotate({ description: "The request's id." }) },
      success: Batch,
      error: [...batchErrors, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Take a request out of a draft",
      description: "Once the batch is finalized, cancel the job of that id instead.",
      answers: { 200: { ...example, status: "DRAFT" } }
    })),
    HttpApiEndpoint.post("finalizeBatch", "/:endpoint/batch/:id/finalize", {
      params: batch,
      success: Batch,
      error: [...batchErrors, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Start a batch",
      description:
        "Locks the batch and puts its requests into the queue, behind the jobs of run unless they have a priority of their own. Doing it " +
        "again changes nothing.",
      answers: { 200: example }
    })),
    HttpApiEndpoint.post("cancelBatch", "/:endpoint/batch/:id/cancel", {
      params: batch,
      success: Batch,
      error: batchErrors
    }).annotateMerge(operationDocs({
      summary: "Cancel a batch",
      description:
        "Requests that wait are cancelled, those that run may finish. The batch is CANCELLED at once; `completedAt` and the webhook come " +
        "when the last running request has ended. A batch that had ended before stays as it is: the answer says what it is.",
      answers: { 200: { ...example, status: "CANCELLED" } }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Batches", description: "Submit many requests as one" }))
{}
