/**
 * What workers deliver for their jobs: results and progress, one at a time or several in a request, and chunks
 * (docs/spec/worker-protocol.md#delivering-a-result).
 *
 * ```
 *   job-done        holder --> read --> scan -----------------------> finish --> 200 | problem
 *   job-done-batch             read --> scan --> each: holder ------> finish --> 200 with a status for each result
 *   job-stream      holder --> read --> scan --> split ------------> append --> 200 | problem
 * ```
 *
 * The results of a batch are stored together: the store collects writes that wait at the same time into one commit.
 */
import { jsonNull } from "@stint/contract/Json"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import { DeliveredResult, JobChunk, JobDone, MAX_DELIVERED_RESULTS } from "@stint/contract/WorkerProtocol"
import { JobQueue, type LeaseHolder } from "@stint/queue/JobQueue"
import { Secrets } from "@stint/secrets/Secrets"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { discardBody } from "../http/BodyReader.ts"
import { json } from "../http/JsonResponse.ts"
import type { JsonPart } from "../http/JsonScanner.ts"
import { Limits, remedyFor } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, mapJobErrors } from "../http/QueueProblems.ts"
import {
  decoder,
  invalidValues,
  type JsonBody,
  mayBeLarge,
  memberValues,
  parsePart,
  readJson,
  readText,
  scanJson,
  tooLarge
} from "../http/RequestBody.ts"
import { splitText } from "./ChunkSplit.ts"
import * as LeaseProof from "./LeaseProof.ts"
import { accepted, type WorkerCall, workerEndpointFinder, workerOf } from "./WorkerCall.ts"
import { parseWorkerUrl, type WorkerUrl } from "./WorkerUrl.ts"

const resultHint =
  "A result is a JSON object like {\"output\": ...} or {\"error\": \"...\"}. NaN and Infinity are not JSON: send null instead."

/** The members of a job-done body. Each may be any JSON value, or absent. */
const RESULT = { members: new Set(Object.keys(JobDone.fields)) }

const batchHint = "Several results are a list like [{\"id\": \"...\", \"attempt\": 1, \"output\": ...}]."

/** The members of one result in a job-done-batch body. */
const BATCHED_RESULT = { members: new Set(Object.keys(DeliveredResult.fields)) }

/** What a result in a job-done-batch body adds to a job-done body. */
const decodeNamedJob = decoder(Schema.Struct(Struct.pick(DeliveredResult.fields, ["id", "attempt", "leaseToken"])), batchHint)

/** Before the server reads a result or chunk that is larger than this, it checks that the job exists. Most are smaller and skip the check. */
const LARGE_RESULT_BYTES = 256 * 1024

const chunkHint = "A chunk is a JSON object like {\"output\": ...}. NaN and Infinity are not JSON: send null instead."

const CHUNK = { members: new Set(Object.keys(JobChunk.fields)) }

const decodeChunk = decoder(Schema.Struct({ output: Schema.Unknown }), chunkHint)

/** Whether an invalid body was meant as progress rather than as a result. Texts longer than any valid progress are not searched to their end. */
const looksLikeProgress = (text: string, limit: number): boolean => /"status"\s*:\s*"IN_PROGRESS"/.test(text.slice(0, limit))

/** `error` is a string on the wire. Some SDKs send `null` if there is no error (docs/spec/rulings.md#error-on-the-wire). */
const errorText = (error: JsonPart | undefined): string | null => {
  if (error === undefined || error.text === "null") return null
  if (!error.text.startsWith("\"")) return error.text
  return error.text.includes("\\") ? String(parsePart(error)) : error.text.slice(1, -1)
}

const attemptOf = (address: WorkerUrl): number | undefined => {
  const attempt = Number(address.get("attempt"))
  return Number.isInteger(attempt) && attempt > 0 ? attempt : undefined
}

/** The chunk's number, if the worker sends one. An invalid number is rejected, because it would lose or duplicate a chunk. */
const chunkOf = (address: WorkerUrl): Effect.Effect<number | undefined, InvalidRequest> => {
  const text = address.get("chunk")
  if (text === undefined) return Effect.succeed(undefined)
  if (/^[1-9]\d{0,8}$/.test(text)) return Effect.succeed(Number(text))
  return new InvalidRequest({
    ...problemMembers(`Invalid chunk number "${excerpt(text)}".`, "Number the chunks of an attempt from 1, or omit `chunk`."),
    errors: [{ path: ["chunk"], message: "expected a whole number from 1" }]
  })
}

/** A request about one job. */
export interface JobCall extends WorkerCall {
  readonly params: WorkerCall["params"] & { readonly id: string }
}

const STORED = "{\"status\":200}"

/** The operations, on top of the queue. */
export const make = Effect.gen(function*() {
  const queue = yield* JobQueue
  const secrets = yield* Secrets
  const limits = yield* Limits
  const findEndpointNow = yield* endpointFinder
  const findEndpoint = yield* workerEndpointFinder
  const proof = yield* LeaseProof.make
  const resultRemedy = remedyFor(
    "Upload the result to an object store and return its URL.",
    "STINT_LIMIT_RESULT",
    true,
    limits
  )
  const batchRemedy = remedyFor("Send fewer results in a request.", "STINT_LIMIT_RESULT", true, limits)
  const chunkRemedy = remedyFor("Yield smaller chunks.", "STINT_LIMIT_CHUNK", false, limits)
  const splitRemedy = remedyFor(
    "Only a string is split into several chunks. Yield smaller values.",
    "STINT_LIMIT_CHUNK",
    false,
    limits
  )
  const progressRemedy = remedyFor(
    "Send less data per progress update.",
    "STINT_LIMIT_CHUNK",
    false,
    limits
  )

  const holderOf = Effect.fnUntraced(function*({ identity, params, request }: JobCall) {
    const address = parseWorkerUrl(request.url)
    const endpoint = yield* findEndpoint(params.endpoint)
    const named = { id: address.last, attempt: attemptOf(address), token: address.get("lease_token") }
    return yield* proof.holderOf({ endpoint, worker: params.worker, identity }, named)
  })

  /** Masks the endpoint's secrets in a worker's error. Outputs and results without an error are not searched. */
  const maskError = Effect.fnUntraced(function*(endpointId: string, text: string) {
    const endpoint = yield* findEndpointNow(endpointId)
    return secrets.maskOf(endpoint)?.(text) ?? text
  })

  /**
   * Fails a job whose result cannot be stored, so that callers stop waiting and no worker runs the job again only to produce another such
   * result (docs/spec/rulings.md#large-results).
   */
  const failResult = (holder: LeaseHolder, problem: { readonly error: string; readonly hint: string }) =>
    maskError(holder.endpoint, `The worker delivered a result that cannot be stored. ${problem.error} ${problem.hint}`).pipe(
      Effect.flatMap((error) => queue.finish(holder, { output: null, error })),
      Effect.ignore
    )

  /** Checks that the job of a large body exists, before the body is read. */
  const expectJob = ({ request }: JobCall, holder: LeaseHolder) =>
    mapJobErrors(queue.renewLease(holder)).pipe(
      Effect.tapErrorTag("JobNotFound", () => discardBody(request, limits.resultBytes))
    )

  /** Stores a result or progress. */
  const store = Effect.fnUntraced(function*(holder: LeaseHolder, { members, text }: JsonBody) {
    const output = members.get("output")?.text ?? null
    if (members.get("status")?.text === "\"IN_PROGRESS\"") {
      if (Buffer.byteLength(text) > limits.chunkBytes) {
        return yield* tooLarge(limits.chunkBytes, progressRemedy)
      }
      // Late progress is not an error: a progress update may overtake the result, or arrive after it
      // (docs/spec/worker-protocol.md#delivering-progress).
      return yield* queue.progress(holder, output ?? jsonNull).pipe(
        Effect.catchTag("LeaseLost", () => Effect.void),
        mapJobErrors
      )
    }
    // Mark the worker as draining before the result ends the job, so that it gets no other job in between.
    if (members.get("stopPod")?.text === "true") yield* queue.drainWorker(holder.endpoint, holder.worker)
    const error = errorText(members.get("error"))
    const masked = error === null ? null : yield* maskError(holder.endpoint, error)
    yield* mapJobErrors(queue.finish(holder, { output, error: masked }))
  })

  const done = Effect.fnUntraced(function*(call: JobCall) {
    const holder = yield* holderOf(call)
    if (mayBeLarge(call.request, LARGE_RESULT_BYTES)) yield* expectJob(call, holder)
    const text = yield* readText(call.request, limits.resultBytes, resultRemedy).pipe(
      Effect.tapErrorTag("PayloadTooLarge", (problem) => failResult(holder, problem))
    )
    const body = yield* scanJson(text, resultHint, RESULT).pipe(
      Effect.filterOrFail(
        ({ kind }) => kind === "object",
        () => new InvalidRequest(problemMembers("A result must be a JSON object.", resultHint))
      ),
      Effect.tapError((problem) => looksLikeProgress(text, limits.chunkBytes) ? Effect.void : failResult(holder, problem))
    )
    yield* store(holder, body)
    return accepted
  })

  /** Stores one result of a batch. Returns its part of the response. */
  const storeOne = (caller: LeaseProof.Caller, { text }: JsonPart): Effect.Effect<string> =>
    Effect.gen(function*() {
      const body = yield* scanJson(text, batchHint, BATCHED_RESULT)
      const { attempt, id, leaseToken } = yield* Effect.flatMap(memberValues(body, batchHint, RESULT.members), decodeNamedJob)
      yield* store(yield* proof.holderOf(caller, { id, attempt, token: leaseToken }), body)
      return STORED
    }).pipe(Effect.catch(({ error, hint, status }) => Effect.succeed(JSON.stringify({ status, error, hint }))))

  const doneBatch = Effect.fnUntraced(function*({ identity, params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    const worker = yield* workerOf(parseWorkerUrl(request.url))
    const { elements, kind } = yield* readJson(request, limits.resultBytes, batchRemedy, batchHint, {
      elements: MAX_DELIVERED_RESULTS + 1
    })
    if (kind !== "array") return yield* new InvalidRequest(problemMembers("The results must be a list.", batchHint))
    if (elements.length > MAX_DELIVERED_RESULTS) {
      const message = `Expected at most ${MAX_DELIVERED_RESULTS} results`
      return yield* invalidValues([{ path: [], message }], "Send them in several requests.")
    }
    const caller = { endpoint, worker, identity }
    const answers = yield* Effect.forEach(elements, (element) => storeOne(caller, element), { concurrency: "unbounded" })
    return json(`[${answers.join(",")}]`)
  })

  /**
   * Fails a job whose chunk cannot be stored, and stops it. Other SDKs log the rejection and continue, so the job would be COMPLETED without the
   * chunk (docs/spec/streaming.md#chunks). Workers that number their chunks handle the rejection themselves.
   */
  const failStream = (holder: LeaseHolder, problem: { readonly error: string; readonly hint: string }) =>
    maskError(holder.endpoint, `The worker streamed a chunk that cannot be stored. ${problem.error} ${problem.hint}`).pipe(
      Effect.flatMap((error) => queue.finish(holder, { output: null, error })),
      Effect.andThen(queue.requeueStopSignals(holder.endpoint, holder.worker, [holder.job])),
      Effect.ignore
    )

  /** The JSON texts to store for one chunk: several if it is a large text without a number. */
  const chunkTexts = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, numbered: boolean) {
    const limit = numbered ? limits.chunkBytes : Math.max(limits.chunkBytes, limits.resultBytes)
    const body = yield* readJson(request, limit, chunkRemedy, chunkHint, CHUNK)
    yield* decodeChunk(yield* memberValues(body, chunkHint, CHUNK.members))
    const output = body.members.get("output")?.text ?? jsonNull
    if (numbered || Buffer.byteLength(body.text) <= limits.chunkBytes) return [output]
    if (!output.startsWith("\"")) return yield* tooLarge(limits.chunkBytes, splitRemedy)
    return splitText(output, limits.chunkBytes)
  })

  const chunk = Effect.fnUntraced(function*(call: JobCall) {
    const holder = yield* holderOf(call)
    const number = yield* chunkOf(parseWorkerUrl(call.request.url))
    if (number === undefined && mayBeLarge(call.request, LARGE_RESULT_BYTES)) yield* expectJob(call, holder)
    const texts = yield* chunkTexts(call.request, number !== undefined).pipe(
      Effect.tapError((problem) =>
        number === undefined && problem._tag !== "Unavailable" ? failStream(holder, problem) : Effect.void
      )
    )
    for (const text of texts) yield* mapJobErrors(queue.append(holder, text, number))
    return accepted
  })

  return { done, doneBatch, chunk }
})
