/**
 * Batches over the queue (docs/spec/batches.md#operations).
 *
 * Payloads cross as text, as those of `/run` do: a call's requests are cut out of its body, and results are spliced in as they are kept.
 */
import { Api } from "@stint/contract/Api"
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
import { endpointFinder, mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, readJson } from "../http/RequestBody.ts"
import { webhookOf } from "../jobs/SubmitRequest.ts"
import { mapBatchChangeErrors, mapBatchLookupErrors, mapBatchStartErrors, tooManyRequests } from "./BatchProblems.ts"

/** How many of a list where the caller does not say. */
const PAGE = 50

const draftHint =
  "Send the requests as an array, [{\"input\": {\"name\": \"Ada\"}}], or an object with \"requests\" and a \"name\"."
const requestsHint = "Send {\"requests\": [{\"input\": {\"name\": \"Ada\"}}]}."
const changesHint = "Send {\"name\": \"nightly\"}, {\"webhook\": \"https://example.com/done\"}, or both."

/** `input` came out of `JSON.parse`, so that it is JSON needs no second look. */
const Requests = Schema.Array(Schema.Struct({ ...BatchRequestBody.fields, input: Schema.Unknown }))

const decodeDraft = decoder(Schema.Struct({ ...BatchDraft.fields, requests: Schema.optionalKey(Requests) }), draftHint)
const decodeRequests = decoder(Schema.Struct({ ...BatchRequests.fields, requests: Requests }), requestsHint)
const decodeChanges = decoder(BatchChanges, changesHint)

const ownRemedy = "Add the requests in several calls: POST /v2/{endpoint}/batch/{id}/requests."

/** The requests of a body as they were sent, each as text. An array alone is the requests. */
const textsOf = (value: unknown, text: string): ReadonlyArray<JsonText> =>
  elementTexts(Array.isArray(value) ? text : memberText(text, "requests") ?? "[]")

const rawRequests = (value: unknown): ReadonlyArray<unknown> => {
  const requests = Predicate.hasProperty(value, "requests") ? value.requests : value
  return Array.isArray(requests) ? requests : []
}

/** A key of its own would stand for one job, and a request is one already. */
const refuseKeys = (requests: ReadonlyArray<unknown>): Effect.Effect<void, InvalidRequest> => {
  const at = requests.findIndex((request) => Predicate.hasProperty(request, "idempotencyKey"))
  return at === -1 ? Effect.void : new InvalidRequest({
    ...problemMembers(
      `requests[${at}].idempotencyKey: a request of a batch has no idempotency key`,
      "Leave it out: each request of a batch is one job, and finalizing a batch twice runs nothing twice."
    ),
    errors: [{ path: ["requests", at, "idempotencyKey"], message: "a request of a batch has no idempotency key" }]
  })
}

/** A request and its result. Before it is a job it waits, as it does at first when it is one. */
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
    const findEndpoint = yield* endpointFinder
    const remedy = remedyFor(ownRemedy, "STINT_LIMIT_BATCH", false, limits)
    const most = { requests: limits.batchRequests, open: limits.openBatches, queued: limits.batchQueued }

    /** The body of a call and the requests in it; all are looked at before any is kept. */
    const read = Effect.fnUntraced(function*<A extends { readonly requests?: (typeof Requests)["Type"] }>(
      request: HttpServerRequest.HttpServerRequest,
      decode: (value: unknown) => Effect.Effect<A, InvalidRequest>,
      hint: string
    ) {
      const { text, value } = yield* readJson(request, limits.batchBytes, remedy, hint)
      const raw = rawRequests(value)
      if (raw.length > limits.batchRequests) return yield* tooManyRequests(limits.batchRequests)
      const body = yield* decode(Array.isArray(value) ? { requests: value } : value)
      yield* refuseKeys(raw)
      const texts = textsOf(value, text)
      const trace = traceContextOf(request.headers)
      const requests = (body.requests ?? []).map(({ policy, priority, tags, webhook }, at): BatchRequest => {
        const own = texts[at] ?? "{}"
        const told = webhookOf(webhook)
        return {
          id: JobId.make(uuidV7At(Date.now())),
          input: memberText(own, "input") ?? jsonNull,
          s3Config: memberText(own, "s3Config") ?? null,
          options: {
            ...(policy === undefined ? {} : { policy }),
            ...(priority === undefined ? {} : { priority }),
            ...(tags === undefined ? {} : { tags }),
            ...(told === undefined ? {} : { webhook: told }),
            ...trace
          }
        }
      })
      return { body, requests }
    })

    /** One job is read at a time, while the ones before are on their way: a page of large results never is in memory as a whole. */
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
          Effect.logError(`The results of batch ${batch.id} were cut off. Whoever read them asks again.`, error)
        ),
        Stream.map((text) => encoder.encode(text))
      )
    }

    return handlers
      .handleRaw(
        "createBatch",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* findEndpoint(params.endpoint)
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
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const found = yield* mapStoreErrors(batches.list(endpoint.id, query.offset ?? 0, query.limit ?? PAGE))
          return found.map(toWireBatch)
        })
      )
      .handle(
        "getBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return toWireBatch(yield* mapBatchLookupErrors(batches.get(endpoint.id, params.id)))
        })
      )
      .handleRaw(
        "changeBatch",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const { value } = yield* readJson(request, limits.controlBytes, "A name and an address are short.", changesHint)
          return toWireBatch(yield* mapBatchChangeErrors(batches.edit(endpoint.id, params.id, yield* decodeChanges(value))))
        })
      )
      .handleRaw(
        "addRequests",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const { requests } = yield* read(request, decodeRequests, requestsHint)
          return toWireBatch(yield* mapBatchChangeErrors(batches.add(endpoint.id, params.id, requests, most)))
        })
      )
      .handleRaw(
        "batchRequests",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          const { limit = PAGE, offset = 0 } = query
          const { batch, ids } = yield* mapBatchLookupErrors(batches.requests(endpoint.id, params.id, offset, limit))
          return HttpServerResponse.stream(results(endpoint, batch, ids, offset, limit), { contentType: "application/json" })
        })
      )
      .handle(
        "dropRequest",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return toWireBatch(yield* mapBatchChangeErrors(batches.drop(endpoint.id, params.id, params.request)))
        })
      )
      .handle(
        "finalizeBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return toWireBatch(yield* mapBatchStartErrors(batches.finalize(endpoint, params.id, most)))
        })
      )
      .handle(
        "cancelBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint)
          return toWireBatch(yield* mapBatchLookupErrors(batches.cancel(endpoint.id, params.id)))
        })
      )
  })
)
