/**
 * The operations on batches (docs/spec/batches.md#operations).
 *
 * ```
 *   /v2/{endpoint}/batch                          POST   create a draft, with or without requests
 *                                                 GET    the endpoint's batches, newest first
 *   /v2/{endpoint}/batch/{id}                     GET
 *                                                 PUT    change name and webhook
 *   /v2/{endpoint}/batch/{id}/requests            POST   add requests to a draft
 *                                                 GET    requests and their results
 *   /v2/{endpoint}/batch/{id}/requests/{request}  DELETE remove from a draft
 *   /v2/{endpoint}/batch/{id}/finalize            POST   start
 *   /v2/{endpoint}/batch/{id}/cancel              POST
 * ```
 */
import { HttpApiEndpoint, HttpApiError, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { JobsAuthorization } from "../Authorization.ts"
import { Audited } from "../control/Audit.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, BudgetReached, Conflict, EndpointNotFound, InvalidRequest, Unavailable } from "../Problem.ts"
import { Batch, BatchChanges, BatchDraft, BatchReceipt, BatchRequest, BatchRequests, BatchResults } from "./Batch.ts"

/** 404: the batch or the request does not exist, or the batch's retention has ended. */
export class BatchNotFound extends HttpApiError.Problem<BatchNotFound>()("BatchNotFound", {
  type: "/problems/batch-not-found",
  status: 404,
  title: "Batch not found"
}, { error: Schema.String, hint: Schema.String }) {}

/** The maximum number of batches or requests in a page. */
export const BATCH_PAGE_LIMIT = 200

const numberBetween = (minimum: number, maximum: number, description: string) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

/** Pagination. */
const BatchPageQuery = {
  offset: numberBetween(0, 1_000_000_000, "The number of entries to skip. Default: 0."),
  limit: numberBetween(1, BATCH_PAGE_LIMIT, `The maximum number of entries: 1 to ${BATCH_PAGE_LIMIT}. Default: 50.`)
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

/** The operations on batches. */
export class BatchApi extends HttpApiGroup.make("batches")
  .add(
    HttpApiEndpoint.post("createBatch", "/:endpoint/batch", {
      params: endpoint,
      payload: Schema.Union([Schema.Array(BatchRequest), BatchDraft]),
      success: BatchReceipt,
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create a batch",
      description:
        "Creates a draft, whose requests run after finalize. The body is an array of requests, which may be empty, or an object with " +
        "`requests`, `name`, `policy` (the default of the requests) and `webhook` (called once, when the batch has ended). Each request is a " +
        "body of run. Limits: 10 MiB per call, 5,000 requests per batch, 10 batches per endpoint that have not ended. If one request is invalid, " +
        "nothing is stored.",
      request: { name: "nightly", requests: exampleRequests, webhook: "https://example.com/done" },
      responses: { 200: { id: ID, status: "DRAFT" } }
    })),
    HttpApiEndpoint.get("listBatches", "/:endpoint/batch", {
      params: endpoint,
      query: BatchPageQuery,
      success: Schema.Array(Batch),
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List batches",
      description: "Lists the endpoint's batches, newest first. A page with fewer than `limit` entries is the last one.",
      responses: { 200: [example] }
    })),
    HttpApiEndpoint.get("getBatch", "/:endpoint/batch/:id", { params: batch, success: Batch, error: batchErrors }).annotateMerge(
      operationDocs({
        summary: "Get a batch",
        description:
          "Returns the batch's status and counts its requests. All requests have ended when `requestCompleted + requestFailed` equals " +
          "`requestTotal`. `requestFailed` includes timed-out and cancelled requests.",
        responses: { 200: completed }
      })
    ),
    HttpApiEndpoint.put("changeBatch", "/:endpoint/batch/:id", {
      params: batch,
      payload: BatchChanges,
      success: Batch,
      error: [...batchErrors, ...bodyErrors, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Change a batch",
      description:
        "Changes the name or the webhook. Missing keys stay unchanged; null removes a value. The webhook of an ended batch cannot be " +
        "changed.",
      request: { name: "nightly, again" },
      responses: { 200: example }
    })),
    HttpApiEndpoint.post("addRequests", "/:endpoint/batch/:id/requests", {
      params: batch,
      payload: Schema.Union([Schema.Array(BatchRequest), BatchRequests]),
      success: Batch,
      error: [...batchErrors, ...bodyErrors, Conflict]
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Add requests to a draft",
      description: "Adds requests to a draft. If one request is invalid, none is added. Bodies up to 10 MiB.",
      request: { requests: exampleRequests },
      responses: { 200: { ...example, status: "DRAFT" } }
    })),
    HttpApiEndpoint.get("batchRequests", "/:endpoint/batch/:id/requests", {
      params: batch,
      query: BatchPageQuery,
      success: BatchResults,
      error: batchErrors
    }).annotateMerge(operationDocs({
      summary: "List a batch's requests and results",
      description:
        "Lists the requests in the order in which they were added. The id of a request is the id of its job: after finalize, use it " +
        "with status, events, cancel and retry. Results are stored as long as the batch: for the endpoint's retention, starting at the " +
        "batch's end.",
      responses: {
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
      summary: "Remove a request from a draft",
      description: "Removes a request from a draft. After finalize, cancel the job with this id instead.",
      responses: { 200: { ...example, status: "DRAFT" } }
    })),
    HttpApiEndpoint.post("finalizeBatch", "/:endpoint/batch/:id/finalize", {
      params: batch,
      success: Batch,
      error: [...batchErrors, BudgetReached, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Start a batch",
      description:
        "Locks the batch and queues its requests, behind jobs submitted with run unless they set a priority. A repeated call changes " +
        "nothing.",
      responses: { 200: example }
    })),
    HttpApiEndpoint.post("cancelBatch", "/:endpoint/batch/:id/cancel", {
      params: batch,
      success: Batch,
      error: batchErrors
    }).annotateMerge(operationDocs({
      summary: "Cancel a batch",
      description:
        "Cancels waiting requests and lets running ones finish. The batch is CANCELLED at once; `completedAt` is set, and the webhook is called, " +
        "when the last running request has ended. Does not change a batch that has already ended, and returns its status.",
      responses: { 200: { ...example, status: "CANCELLED" } }
    }))
  )
  .middleware(JobsAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({ title: "Batches", description: "Submit many requests under one id" }))
{}
