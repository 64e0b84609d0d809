/**
 * Batches on top of the queue (docs/spec/batches.md#operations).
 *
 * Payloads stay text, as in `/run`: requests are cut out of the call's body, and results are spliced into the response exactly as they are
 * stored.
 */
import { Api } from "@stint/contract/Api"
import { CurrentCaller, CurrentEndpoint } from "@stint/contract/Authorization"
import { BatchChanges, BatchDraft, BatchRequest as BatchRequestBody, BatchRequests } from "@stint/contract/Batch"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { webhookOf } from "@stint/contract/Job"
import { jsonNull } from "@stint/contract/Json"
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
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Limits, remedyFor } from "../http/Limits.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import {
  type BodyIssue,
  checker,
  decoder,
  invalidValues,
  type JsonBody,
  MAX_ISSUES,
  parseJson,
  readJson,
  readText,
  scanJson
} from "../http/RequestBody.ts"
import { callerLimitIssues, LIMIT_HINT } from "../jobs/CallerLimits.ts"
import { isAbsentText, parseOptions, RUN_MEMBERS } from "../jobs/SubmitRequest.ts"
import { mapBatchChangeErrors, mapBatchLookupErrors, mapBatchStartErrors, tooManyRequests } from "./BatchProblems.ts"

/** Default page size of a list. */
const PAGE = 50

const draftHint =
  "Send the requests as an array, [{\"input\": {\"name\": \"Ada\"}}], or an object with \"requests\" and a \"name\"."
const requestsHint = "Send {\"requests\": [{\"input\": {\"name\": \"Ada\"}}]}."
const changesHint = "Send {\"name\": \"nightly\"}, {\"webhook\": \"https://example.com/done\"}, or both."

/** Each request is checked on its own. */
const checkDraft = checker(Schema.Struct({ ...BatchDraft.fields, requests: Schema.optionalKey(Schema.Unknown) }))
const checkRequests = checker(Schema.Struct({ ...BatchRequests.fields, requests: Schema.Unknown }))
const checkRequest = checker(Schema.Struct({ ...BatchRequestBody.fields, input: Schema.Unknown }))
const decodeChanges = decoder(BatchChanges, changesHint)

const ownRemedy = "Add the requests in several calls: POST /v2/{endpoint}/batch/{id}/requests."

const DRAFT_MEMBERS: ReadonlySet<string> = new Set(Object.keys(BatchDraft.fields))

const REQUESTS: ReadonlySet<string> = new Set(["requests"])

/** The server pauses to serve other requests after about this many characters of a batch's requests. */
const SLICE = 65_536

/** Rejects an idempotency key, because each request in a batch already becomes exactly one job. */
const keyNotAllowed = (at: number): InvalidRequest =>
  new InvalidRequest({
    ...problemMembers(
      `requests[${at}].idempotencyKey: not allowed in a request of a batch`,
      "Omit the key: each request of a batch is one job, and finalizing a batch twice runs no request twice."
    ),
    errors: [{ path: ["requests", at, "idempotencyKey"], message: "not allowed in a request of a batch" }]
  })

/** A checked request as it is stored. */
const toRequest = (
  { members }: JsonBody,
  { policy, priority, s3Config, startAfterMs, startAt, tags, webhook }: Effect.Success<ReturnType<typeof checkRequest>>,
  trace: ReturnType<typeof traceContextOf>
): BatchRequest => {
  const longForm = webhookOf(webhook)
  return {
    id: JobId.make(uuidV7At(Date.now())),
    input: members.get("input")?.text ?? jsonNull,
    s3Config: s3Config === undefined ? null : members.get("s3Config")?.text ?? null,
    options: {
      ...(policy === undefined ? {} : { policy }),
      ...(priority === undefined ? {} : { priority }),
      ...(tags === undefined ? {} : { tags }),
      ...(startAt === undefined ? {} : { startAt }),
      ...(startAfterMs === undefined ? {} : { startAfterMs }),
      ...(longForm === undefined ? {} : { webhook: longForm }),
      ...trace
    }
  }
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
    /** The platform's limits, or the endpoint's if those are lower. */
    const limitsOf = ({ limits: { batchRequests = Infinity, openBatches = Infinity, waitingJobs = Infinity } }: Endpoint) => ({
      requests: Math.min(limits.batchRequests, batchRequests),
      open: Math.min(limits.openBatches, openBatches),
      queued: Math.min(limits.batchQueued, waitingJobs)
    })

    /** The key whose batches a caller sees: its own. Undefined for an admin key, which sees all batches. */
    const visibleOwner = Effect.map(CurrentCaller, ({ isAdmin, key }) => isAdmin ? undefined : key)

    /** The requests in a body, each as the text that was sent. */
    const requestTexts = Effect.fnUntraced(function*(body: JsonBody, hint: string, most: number) {
      // One more than allowed, to find out whether there are too many.
      const wanted = { elements: most + 1 }
      const part = body.members.get("requests")
      const list = body.kind === "array" || part === undefined ? body : yield* scanJson(part.text, hint, wanted)
      if (list.kind !== "array" && !isAbsentText(part?.text)) {
        return yield* invalidValues([{ path: ["requests"], message: "Expected array" }], hint)
      }
      if (list.elements.length > most) return yield* tooManyRequests(most)
      return list.elements
    })

    /** Reads the body of a call and its requests. Checks all requests before any is stored. */
    const read = Effect.fnUntraced(function*<A>(
      endpoint: Endpoint,
      request: HttpServerRequest.HttpServerRequest,
      check: (value: unknown) => Effect.Effect<A, ReadonlyArray<BodyIssue>>,
      hint: string
    ) {
      const most = limitsOf(endpoint)
      const body = yield* readJson(request, limits.batchBytes, remedy, hint, {
        members: DRAFT_MEMBERS,
        elements: most.requests + 1
      })
      const elements = yield* requestTexts(body, hint, most.requests)
      const draft = yield* Effect.mapError(
        body.kind === "array" ? check({ requests: null }) : Effect.flatMap(parseOptions(body, REQUESTS), check),
        (issues) => invalidValues(issues, hint)
      )
      const trace = traceContextOf(request.headers)
      const requests: Array<BatchRequest> = []
      const issues: Array<BodyIssue> = []
      const refused: Array<BodyIssue> = []
      let characters = 0
      for (const [at, { text }] of elements.entries()) {
        const element = yield* scanJson(text, hint, { members: RUN_MEMBERS })
        const own = (path: BodyIssue["path"]) => ["requests", at, ...path]
        if (!isAbsentText(element.members.get("idempotencyKey")?.text)) return yield* keyNotAllowed(at)
        const options = yield* Effect.match(Effect.flatMap(parseOptions(element), checkRequest), {
          onFailure: (found) => {
            for (const { message, path } of found) issues.push({ message, path: own(path) })
            return undefined
          },
          onSuccess: (value) => value
        })
        if (issues.length + refused.length > MAX_ISSUES) break
        if (options !== undefined) {
          for (const { message, path } of callerLimitIssues(endpoint, options)) refused.push({ message, path: own(path) })
          requests.push(toRequest(element, options, trace))
        }
        characters += text.length
        if (characters > SLICE) {
          characters = 0
          yield* Effect.yieldNow
        }
      }
      if (issues.length > 0) return yield* invalidValues(issues, hint)
      if (refused.length > 0) return yield* invalidValues(refused, LIMIT_HINT)
      return { draft, requests, most }
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
          const { key: owner } = yield* CurrentCaller
          const { draft: { name, policy, webhook }, most, requests } = yield* read(endpoint, request, checkDraft, draftHint)
          const refused = callerLimitIssues(endpoint, { policy })
          if (refused.length > 0) return yield* invalidValues(refused, LIMIT_HINT)
          const { id, status } = yield* mapBatchStartErrors(
            batches.create({ endpoint, owner, name, policy, webhook, requests }, most)
          ).pipe(
            Effect.catchTags({ BatchNotFound: Effect.die, BudgetReached: Effect.die })
          )
          return { id, status }
        })
      )
      .handle(
        "listBatches",
        Effect.fnUntraced(function*({ query }) {
          const endpoint = yield* CurrentEndpoint
          const found = yield* mapStoreErrors(
            batches.list(endpoint.id, query.offset ?? 0, query.limit ?? PAGE, yield* visibleOwner)
          )
          return found.map(toWireBatch)
        })
      )
      .handle(
        "getBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchLookupErrors(batches.get(endpoint.id, params.id, yield* visibleOwner)))
        })
      )
      .handleRaw(
        "changeBatch",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* CurrentEndpoint
          const remedy = "A name and a URL are small. Check that the body contains only settings."
          const text = yield* readText(request, limits.controlBytes, remedy)
          const changes = yield* Effect.flatMap(parseJson(text, changesHint), decodeChanges)
          return toWireBatch(
            yield* mapBatchChangeErrors(batches.edit(endpoint.id, params.id, changes, yield* visibleOwner))
          )
        })
      )
      .handleRaw(
        "addRequests",
        Effect.fnUntraced(function*({ params, request }) {
          const endpoint = yield* CurrentEndpoint
          const { most, requests } = yield* read(endpoint, request, checkRequests, requestsHint)
          return toWireBatch(
            yield* mapBatchChangeErrors(
              batches.add(endpoint.id, params.id, requests, most, yield* visibleOwner)
            )
          )
        })
      )
      .handleRaw(
        "batchRequests",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* CurrentEndpoint
          const { limit = PAGE, offset = 0 } = query
          const { batch, ids } = yield* mapBatchLookupErrors(
            batches.requests(endpoint.id, params.id, offset, limit, yield* visibleOwner)
          )
          return HttpServerResponse.stream(results(endpoint, batch, ids, offset, limit), { contentType: "application/json" })
        })
      )
      .handle(
        "dropRequest",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(
            yield* mapBatchChangeErrors(
              batches.drop(endpoint.id, params.id, params.request, yield* visibleOwner)
            )
          )
        })
      )
      .handle(
        "finalizeBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(
            yield* mapBatchStartErrors(batches.finalize(endpoint, params.id, limitsOf(endpoint), yield* visibleOwner))
          )
        })
      )
      .handle(
        "cancelBatch",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* CurrentEndpoint
          return toWireBatch(yield* mapBatchLookupErrors(batches.cancel(endpoint.id, params.id, yield* visibleOwner)))
        })
      )
  })
)
