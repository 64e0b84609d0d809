/**
 * Batches on top of the queue (docs/spec/batches.md#operations).
 *
 * Payloads stay text, as in `/run`: requests are cut out of the call's body, and results are spliced into the response exactly as they are
 * stored.
 */
import { Api } from "@stint/contract/Api"
import { CurrentEndpoint } from "@stint/contract/Authorization"
import { BatchChanges, BatchDraft, BatchRequest as BatchRequestBody, BatchRequests } from "@stint/contract/Batch"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { jsonNull, type JsonText } from "@stint/contract/Json"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import { traceContextOf } from "@stint/contract/TraceContext"
import { BatchQueue } from "@stint/queue/BatchQueue"
import { toWireBatch } from "@stint/store/BatchJson"
import type { BatchRecord } from "@stint/store/BatchMachine"
import type { BatchRequest } from "@stint/store/BatchStore"
import { jobMembers } from "@stint/store/JobJson"
import type { JobReport } from "@stint/store/JobRecord"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { elementTexts, memberText } from "../http/JsonMember.ts"
import { Limits, remedyFor } from "../http/Limits.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, readJson } from "../http/RequestBody.ts"
import { webhookOf } from "../jobs/SubmitRequest.ts"
import { mapBatchChangeErrors, mapBatchLookupErrors, mapBatchStartErrors, tooManyRequests } from "./BatchProblems.ts"

/** Default page size of a list. */
const PAGE = 50

const draftHint =
  "Send the requests as an array, [{\"input\": {\"name\": \"Ada\"}}], or an object with \"requests\" and a \"name\"."
const requestsHint = "Send {\"requests\": [{\"input\": {\"name\": \"Ada\"}}]}."
const changesHint = "Send {\"name\": \"nightly\"}, {\"webhook\": \"https://example.com/done\"}, or both."

/** `input` came out of `JSON.parse`, so it needs no further validation. */
const Requests = Schema.Array(Schema.Struct({ ...BatchRequestBody.fields, input: Schema.Unknown }))

const decodeDraft = decoder(Schema.Struct({ ...BatchDraft.fields, requests: Schema.optionalKey(Requests) }), draftHint)
const decodeRequests = decoder(Schema.Struct({ ...BatchRequests.fields, requests: Requests }), requestsHint)
const decodeChanges = decoder(BatchChanges, changesHint)

const ownRemedy = "Add the requests in several calls: POST /v2/{endpoint}/batch/{id}/requests."

/** The requests in a body, each as the text that was sent. If the body is an array, it is the list of requests. */
const textsOf = (value: unknown, text: string): ReadonlyArray<JsonText> =>
  elementTexts(Array.isArray(value) ? text : memberText(text, "requests") ?? "[]")

const rawRequests = (value: unknown): ReadonlyArray<unknown> => {
  const requests = Predicate.hasProperty(value, "requests") ? value.requests : value
  return Array.isArray(requests) ? requests : []
}

/** Rejects idempotency keys, because each request in a batch is already exactly one job. */
const rejectKeys = (requests: ReadonlyArray<unknown>): Effect.Effect<void, InvalidRequest> => {
  const at = requests.findIndex((request) => Predicate.hasProperty(request, "idempotencyKey"))
  return at === -1 ? Effect.void : new InvalidRequest({
    ...problemMembers(
      `requests[${at}].idempotencyKey: not allowed in a request of a batch`,
      "Omit the key: each request of a batch is one job, and finalizing a batch twice runs no request twice."
    ),
    errors: [{ path: ["requests", at, "idempotencyKey"], message: "not allowed in a request of a batch" }]
  })
}

/** A request with its result. A request that has not become a job yet is reported as IN_QUEUE. */
const resultText = (id: string, job: JobReport | undefined, batch: BatchRecord, endpoint: Endpoint): string => {
  if (job === undefined) {
    return `{"id":${JSON.stringify(id)},"status":"${batch.status === "CANCELLED" ? "CANCELLED" : "IN_QUEUE"}"}`
  }
  const parts = jobMembers(job, endpoint)
  if (job.startedAt !== null) parts.push(`"startedAt":${job.startedAt}`)
  if (job.finishedAt !== null) parts.push(`"completedAt":${job.finishedAt}`)
  return `{${parts.join(",")}}`
}

const encoder = new TextEncoder()

/** The handlers of batches. */
export const layer = HttpApiBuilder.group(
  Api,
  "batches",
  Effect.fnUntraced(function*(handlers) {
    const batches = yield* BatchQueue
    const limits = yield* Limits
    const remedy = remedyFor(ownRemedy, "STINT_LIMIT_BATCH", false, limits)
    const most = { requests: limits.batchRequests, open: limits.openBatches, queued: limits.batchQueued }

    /** Reads the body of a call and its requests. Validates all requests before any is stored. */
    const read = Effect.fnUntraced(function*<A extends { readonly requests?: (typeof Requests)["Type"] }>(
      request: HttpServerRequest.HttpServerRequest,
      decode: (value: unknown) => Effect.Effect<A, InvalidRequest>,
      hint: string
    ) {
      const { text, value } = yield* readJson(request, limits.batchBytes, remedy, hint)
      const raw = rawRequests(value)
      if (raw.length > limits.batchRequests) return yield* tooManyRequests(limits.batchRequests)
      const body = yield* decode(Array.isArray(value) ? { requests: value } : value)
      yield* rejectKeys(raw)
      const texts = textsOf(value, text)
      const trace = traceContextOf(request.headers)
      const requests = (body.requests ?? []).map(({ policy, priority, tags, webhook }, at): BatchRequest => {
        const own = texts[at] ?? "{}"
        const longForm = webhookOf(webhook)
        return {
          id: JobId.make(uuidV7At(Date.now())),
          input: memberText(own, "input") ?? jsonNull,
          s3Config: memberText(own, "s3Config") ?? null,
          options: {
            ...(policy === undefined ? {} : { policy }),
            ...(priority === undefined ? {} : { priority }),
            ...(tags === undefined ? {} : { tags }),
            ...(longForm === undefined ? {} : { webhook: longForm }),
            ...trace
          }
        }
      })
      return { body, requests }
    })

    /** Reads one job at a time while the previous jobs are being sent, so a page of large results is never entirely in memory. */
    const results = (endpoint: Endpoint, batch: BatchRecord, ids: ReadonlyArray<JobId>, offset: number, limit: number) => {
      const requests = Stream.fromIterable(ids.entries()).pipe(
        Stream.mapEffect(([at, id]) =>
          Effect.map(batches.job(endpoint.id, id), (job) => `${at === 0 ? "" : ","}${resultText(id, job, batch, endpoint)}`)
        )
      )
      const rest = { total: batch.total, offset, limit, hasMore: offset + ids.length < batch.total }
      return Stream.make(`{"requests":[`).pipe(
        Stream.concat(requests),
        Stream.concat(Stream.make(`],${JSON.stringify(rest).slice(1)}`)),
        Stream.tapError((error) =>
          Effect.logError(
            `The response with the results of batch ${batch.id} was cut off. The caller must send its request again.`,
            error
          )
        ),
        Stream.map((text) => encoder.encode(text))
      )
    }

    return handlers
      .handleRaw(
        "createBatch",
        Effect.fnUntraced(function*({ request }) {
          const endpoint = yield* CurrentEndpoint
          const { body: { name, policy, webhook }, requests } = yield* read(request, decodeDraft, draftHint)
          const { id, status } = yield* mapBatchStartErrors(batches.create({ endpoint, name, policy, webhook, requests }, most))
            .pipe(
              Effect.catchTag("BatchNotFound", Effect.die)
            )
          return { id, status }
        })
      )
      .handle(
        "listBatches",
        Effect.fnUntraced(function*({ query }) {
          const endpoint = yield* CurrentEndpoint
          const found = yield* mapStoreErrors(batches.list(endpoint.id, query.offset ?? 0, query.limit ?? PAGE))
          return found.map(toWireBatch)
        })
      )
      .handle(
        "getBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchLookupErrors(batches.get(endpoint.id, params.id)))
        })
      )
      .handleRaw(
        "changeBatch",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* CurrentEndpoint
          const { value } = yield* readJson(
            request,
            limits.controlBytes,
            "A name and a URL are small. Check that the body contains only settings.",
            changesHint
          )
          return toWireBatch(yield* mapBatchChangeErrors(batches.edit(endpoint.id, params.id, yield* decodeChanges(value))))
        })
      )
      .handleRaw(
        "addRequests",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* CurrentEndpoint
          const { requests } = yield* read(request, decodeRequests, requestsHint)
          return toWireBatch(yield* mapBatchChangeErrors(batches.add(endpoint.id, params.id, requests, most)))
        })
      )
      .handleRaw(
        "batchRequests",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* CurrentEndpoint
          const { limit = PAGE, offset = 0 } = query
          const { batch, ids } = yield* mapBatchLookupErrors(batches.requests(endpoint.id, params.id, offset, limit))
          return HttpServerResponse.stream(results(endpoint, batch, ids, offset, limit), { contentType: "application/json" })
        })
      )
      .handle(
        "dropRequest",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchChangeErrors(batches.drop(endpoint.id, params.id, params.request)))
        })
      )
      .handle(
        "finalizeBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchStartErrors(batches.finalize(endpoint, params.id, most)))
        })
      )
      .handle(
        "cancelBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchLookupErrors(batches.cancel(endpoint.id, params.id)))
        })
      )
  })
)
