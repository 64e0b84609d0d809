/**
 * The worker API on top of the queue (docs/spec/worker-protocol.md#overview). It tolerates the irregular requests of existing SDKs and is
 * strict about leases.
 *
 * Each operation returns a response or fails with a problem. Callers of these operations check the key and match the route:
 * `WorkerHandlers` for the `HttpApi`, `FastPath` for the fast path.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId, MAX_WORKER_ID, WorkerId } from "@stint/contract/Ids"
import { jsonNull } from "@stint/contract/Json"
import { Conflict, InvalidRequest, type JobNotFound, problemMembers, type Unavailable } from "@stint/contract/Problem"
import {
  JobChunk,
  JobDone,
  LEASE_TOKEN_HEADER,
  Ping,
  pingBatch,
  pingJobs,
  pingTokens,
  SETUP_CHECK,
  setupMillis
} from "@stint/contract/WorkerProtocol"
import { JobQueue, type LeaseHolder } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Secrets } from "@stint/secrets/Secrets"
import type { JobRecord } from "@stint/store/JobRecord"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { AccessKeys, type WorkerIdentity } from "../auth/AccessKeys.ts"
import { discardBody } from "../http/BodyReader.ts"
import { json, NOSNIFF, trackedJson } from "../http/JsonResponse.ts"
import type { JsonPart } from "../http/JsonScanner.ts"
import { Limits, remedyFor } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, jobNotFound, mapJobErrors, mapStoreErrors } from "../http/QueueProblems.ts"
import {
  decoder,
  invalidValues,
  MAX_VALUES,
  mayBeLarge,
  memberValues,
  parsePart,
  readJson,
  readText,
  scanJson,
  tooLarge
} from "../http/RequestBody.ts"
import { claimedJobJson } from "../jobs/JobView.ts"
import * as JournalOperation from "../runs/JournalOperation.ts"
import { splitText } from "./ChunkSplit.ts"
import * as DeliveryWatch from "./DeliveryWatch.ts"
import * as SchemaOperation from "./SchemaOperation.ts"
import { parseWorkerUrl, type WorkerUrl } from "./WorkerUrl.ts"

const resultHint =
  "A result is a JSON object like {\"output\": ...} or {\"error\": \"...\"}. NaN and Infinity are not JSON: send null instead."

/** The members of a job-done body. Each may be any JSON value, or absent. */
const RESULT = { members: new Set(Object.keys(JobDone.fields)) }

/** Before the server reads a result or chunk that is larger than this, it checks that the job exists. Most are smaller and skip the check. */
const LARGE_RESULT_BYTES = 256 * 1024

/** Whether an invalid body was meant as progress rather than as a result. Texts longer than any valid progress are not searched to their end. */
const looksLikeProgress = (text: string, limit: number): boolean => /"status"\s*:\s*"IN_PROGRESS"/.test(text.slice(0, limit))

const chunkHint = "A chunk is a JSON object like {\"output\": ...}. NaN and Infinity are not JSON: send null instead."

const CHUNK = { members: new Set(Object.keys(JobChunk.fields)) }

const decodeChunk = decoder(Schema.Struct({ output: Schema.Unknown }), chunkHint)

const pingHint = "A heartbeat is a JSON object like {\"job_id\": [\"...\"], \"runpod_version\": \"...\"}."

const PING = { members: new Set(Object.keys(Ping.fields)) }

const decodePing = decoder(Ping, pingHint)

const isJobId = Schema.is(JobId)

/** Most worker ids. The schema allows more characters, but its check costs more than the rest of the URL. */
const PLAIN_WORKER_ID = /^[\w.-]{1,256}$/

const isWorkerIdSchema = Schema.is(WorkerId)

const isWorkerId = (text: string): boolean => PLAIN_WORKER_ID.test(text) || isWorkerIdSchema(text)

const noContent = HttpServerResponse.empty({ status: 204, headers: NOSNIFF })
/** Sets content-length, because otherwise Node sends an empty body with chunked encoding. */
const accepted = HttpServerResponse.empty({ status: 200, headers: { "content-length": "0", ...NOSNIFF } })

/** Maximum number of jobs in one batch take. */
const MAX_BATCH = 1_000

/** Maximum stored length of an unhealthy worker's reason, which is displayed and logged. */
const REASON_LENGTH = 1_000

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

/** The worker's id in a URL. */
const workerOf = (address: WorkerUrl): Effect.Effect<string, InvalidRequest> =>
  isWorkerId(address.last)
    ? Effect.succeed(address.last)
    : new InvalidRequest(problemMembers(
      address.last === ""
        ? "The URL contains no worker id."
        : address.last.length > MAX_WORKER_ID
        ? `The worker id has ${address.last.length} characters; at most ${MAX_WORKER_ID} are allowed.`
        : "The worker id contains control characters.",
      "A worker's URL ends with its id, such as .../job-take/my-worker. SDKs read the id from RUNPOD_POD_ID or PLATFORM_POD_ID."
    ))

/** The heartbeat in a query. Needs no decoding, because every member in a query may be a text. */
const pingOf = (address: WorkerUrl): Ping => {
  const jobs = address.all("job_id")
  const ping: { -readonly [name in Exclude<keyof Ping, "batch_max" | "batch_wait">]?: string } = jobs.length === 0
    ? {}
    : { job_id: jobs.join(",") }
  const tokens = address.all("lease_token")
  if (tokens.length > 0) ping.lease_token = tokens.join(",")
  for (const key of ["runpod_version", "status", "check", "reason", "setup_timeout"] as const) {
    const value = address.get(key)
    if (value !== undefined) ping[key] = value
  }
  return ping
}

const renderOne = (jobs: ReadonlyArray<string>) => jobs.join("")
const renderMany = (jobs: ReadonlyArray<string>) => `[${jobs.join(",")}]`

const batchSize = (address: WorkerUrl) => {
  const size = Math.trunc(Number(address.get("batch_size")))
  return Number.isNaN(size) ? 1 : Math.min(MAX_BATCH, Math.max(1, size))
}

/** A worker's request, and what its key proves. */
export interface WorkerCall {
  readonly params: { readonly endpoint: string; readonly worker: string }
  readonly request: HttpServerRequest.HttpServerRequest
  readonly identity: WorkerIdentity
}

const tokenMissing = ({ job, worker }: LeaseHolder) =>
  new Conflict(problemMembers(
    `The request contains no lease token, which is required to change job "${job}" as worker "${
      excerpt(worker)
    }". It was not stored.`,
    "Send the `leaseToken` of the taken job back as `&lease_token=`. Stint's current worker SDKs do. For workers that cannot, give each " +
      "worker its own key, or set the endpoint's `leaseToken` to \"optional\"."
  ))

const tokenInvalid = ({ job, worker }: LeaseHolder) =>
  new Conflict(problemMembers(
    `The lease token does not prove that worker "${
      excerpt(worker)
    }" took job "${job}" in this attempt. The request was not stored.`,
    "Send the `leaseToken` of the taken job unchanged, with the worker id that took the job. If the platform's worker secret was changed " +
      "since, drop the job and take another."
  ))

interface JobCall extends WorkerCall {
  readonly params: WorkerCall["params"] & { readonly id: string }
}

const make = Effect.gen(function*() {
  const queue = yield* JobQueue
  const registry = yield* WorkerRegistry
  const keys = yield* AccessKeys
  const secrets = yield* Secrets
  const limits = yield* Limits
  const findEndpointNow = yield* endpointFinder
  const watchDelivery = yield* DeliveryWatch.make
  const writeJournal = yield* JournalOperation.operation
  const storeSchema = yield* SchemaOperation.operation
  const resultRemedy = remedyFor(
    "Upload the result to an object store and return its URL.",
    "STINT_LIMIT_RESULT",
    true,
    limits
  )
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

  /**
   * Delays an error response, because existing SDKs retry a failed take immediately and indefinitely
   * (docs/spec/worker-protocol.md#taking-a-job).
   */
  const delayRefusal = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.tapError(effect, () => Effect.interruptible(Effect.sleep(limits.refusalWaitMs)))

  const findEndpoint = (id: string) => delayRefusal(findEndpointNow(id))

  /** Returns jobs that did not reach their worker to the queue, unless another attempt has started since. */
  const returnUnstarted = (endpoint: Endpoint, worker: string, jobs: ReadonlyArray<JobRecord>) =>
    Effect.forEach(
      jobs,
      ({ attempt, id }) =>
        Effect.flatMap(queue.get(endpoint.id, id), (job) =>
          job.attempt === attempt ? queue.returnJobs(endpoint.id, worker, [id]) : Effect.void).pipe(Effect.ignore),
      { discard: true }
    )

  const take = (
    limitOf: (address: WorkerUrl) => number,
    render: (jobs: ReadonlyArray<string>) => string
  ) =>
    Effect.fnUntraced(function*({ identity, params, request }: WorkerCall) {
      const address = parseWorkerUrl(request.url)
      const endpoint = yield* findEndpoint(params.endpoint)
      const worker = yield* delayRefusal(workerOf(address))
      const tokens = endpoint.leaseToken === "required" || request.headers[LEASE_TOKEN_HEADER] !== undefined
      const jobs = yield* delayRefusal(mapStoreErrors(queue.take({
        endpoint: endpoint.id,
        worker,
        limit: limitOf(address),
        waitMs: limits.workerWaitMs,
        keyLimit: endpoint.concurrency?.limit,
        holding: address.get("job_in_progress") !== "0" || !mayReleaseJobs(endpoint, worker, identity),
        tokens
      })))
      if (jobs.length === 0) return noContent
      yield* watchDelivery(request, returnUnstarted(endpoint, worker, jobs))
      return yield* trackedJson(
        render(jobs.map((job) =>
          claimedJobJson(
            job,
            tokens ? keys.leaseToken({ endpoint: endpoint.id, worker, job: job.id, attempt: job.attempt }) : undefined
          )
        ))
      )
    }, Effect.uninterruptible)

  /**
   * Whether a request may return or lose jobs that it does not name. With the key of the endpoint, which all its workers share, the request
   * may come from another worker. It must then not affect jobs that need a token.
   */
  const mayReleaseJobs = (endpoint: Endpoint, worker: string, identity: WorkerIdentity): boolean =>
    identity === "worker" || (endpoint.leaseToken !== "required" && registry.tokenJobs(endpoint.id, worker).size === 0)

  /** Whether a write to this job must have a token: the worker took the job with one, or the endpoint requires it. */
  const needsToken = (endpoint: Endpoint, worker: string, job: string, identity: WorkerIdentity): boolean =>
    identity !== "worker" && (endpoint.leaseToken === "required" || registry.tokenJobs(endpoint.id, worker).has(job))

  const holderOf = Effect.fnUntraced(function*({ identity, params, request }: JobCall): Effect.fn.Return<
    LeaseHolder,
    JobNotFound | Conflict | Effect.Error<ReturnType<typeof findEndpoint>>
  > {
    const address = parseWorkerUrl(request.url)
    const endpoint = yield* findEndpoint(params.endpoint)
    if (!isJobId(address.last)) return yield* jobNotFound(address.last)
    const holder = { endpoint: endpoint.id, worker: params.worker, job: address.last }
    const attempt = attemptOf(address)
    const token = address.get("lease_token")
    if (token === undefined) {
      if (needsToken(endpoint, params.worker, address.last, identity)) return yield* tokenMissing(holder)
      return { ...holder, attempt }
    }
    const proven = keys.attemptOfLeaseToken(token, holder)
    if (proven === undefined || (attempt !== undefined && attempt !== proven)) return yield* tokenInvalid(holder)
    return { ...holder, attempt: proven }
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

  const done = Effect.fnUntraced(function*(call: JobCall) {
    const holder = yield* holderOf(call)
    if (mayBeLarge(call.request, LARGE_RESULT_BYTES)) yield* expectJob(call, holder)
    const text = yield* readText(call.request, limits.resultBytes, resultRemedy).pipe(
      Effect.tapErrorTag("PayloadTooLarge", (problem) => failResult(holder, problem))
    )
    const { members } = yield* scanJson(text, resultHint, RESULT).pipe(
      Effect.filterOrFail(
        ({ kind }) => kind === "object",
        () => new InvalidRequest(problemMembers("A result must be a JSON object.", resultHint))
      ),
      Effect.tapError((problem) => looksLikeProgress(text, limits.chunkBytes) ? Effect.void : failResult(holder, problem))
    )
    const output = members.get("output")?.text ?? null
    if (members.get("status")?.text === "\"IN_PROGRESS\"") {
      if (Buffer.byteLength(text) > limits.chunkBytes) {
        return yield* tooLarge(limits.chunkBytes, progressRemedy)
      }
      // Late progress is not an error: a progress update may overtake the result, or arrive after it
      // (docs/spec/worker-protocol.md#delivering-progress).
      yield* queue.progress(holder, output ?? jsonNull).pipe(
        Effect.catchTag("LeaseLost", () => Effect.void),
        mapJobErrors
      )
      return accepted
    }
    // Mark the worker as draining before the result ends the job, so that it gets no other job in between.
    if (members.get("stopPod")?.text === "true") yield* queue.drainWorker(holder.endpoint, holder.worker)
    const error = errorText(members.get("error"))
    const masked = error === null ? null : yield* maskError(holder.endpoint, error)
    yield* mapJobErrors(queue.finish(holder, { output, error: masked }))
    return accepted
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

  /** The jobs in a heartbeat for which the worker proves its lease. The others are ignored, because another worker may have named them. */
  const provenJobs = (
    endpoint: Endpoint,
    worker: string,
    jobs: ReadonlyArray<string>,
    ping: Ping,
    identity: WorkerIdentity
  ): ReadonlyArray<string> => {
    if (identity === "worker") return jobs
    const tokens = pingTokens(ping)
    return jobs.filter((job, at) => {
      const token = tokens[at] ?? ""
      return token === ""
        ? !needsToken(endpoint, worker, job, identity)
        : keys.attemptOfLeaseToken(token, { endpoint: endpoint.id, worker, job }) !== undefined
    })
  }

  const unhealthy = (endpoint: Endpoint, worker: string, ping: Ping) => {
    const what = ping.check === SETUP_CHECK ? "its setup" : `fitness check ${ping.check ?? "(unnamed)"}`
    const full = `${what} failed: ${ping.reason ?? "no reason given"}`
    const reason = (secrets.maskOf(endpoint)?.(full) ?? full).slice(0, REASON_LENGTH)
    return Effect.andThen(
      Effect.logWarning(`Worker ${worker} of endpoint ${endpoint.id} is unhealthy: ${reason}.`),
      registry.failing(endpoint.id, worker, "unhealthy", reason)
    )
  }

  const recordPing = (
    endpoint: Endpoint,
    worker: string,
    ping: Ping,
    identity: WorkerIdentity
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, InvalidRequest | Unavailable> => {
    if (ping.runpod_version != null) registry.versioned(endpoint.id, worker, ping.runpod_version)
    const batch = pingBatch(ping)
    if (batch !== undefined) registry.batching(endpoint.id, worker, batch)
    if (ping.status === "unhealthy") return Effect.as(unhealthy(endpoint, worker, ping), accepted)
    if (ping.status === "setup") return Effect.as(registry.settingUp(endpoint.id, worker, setupMillis(ping)), accepted)
    const named = pingJobs(ping)
    if (named.length > MAX_VALUES) {
      const message = `Expected at most ${MAX_VALUES} ids, got ${named.length}`
      return Effect.fail(invalidValues([{ path: ["job_id"], message }], "Send the ids in several heartbeats."))
    }
    const jobs = provenJobs(endpoint, worker, named, ping, identity)
    if (ping.status !== "exiting") return Effect.as(mapStoreErrors(queue.heartbeat(endpoint.id, worker, jobs)), accepted)
    const kept = identity === "worker" ? [] : registry.tokenJobs(endpoint.id, worker)
    return Effect.as(mapStoreErrors(queue.workerExiting(endpoint.id, worker, jobs, kept)), accepted)
  }

  const stop = Effect.fnUntraced(function*({ params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    const worker = yield* delayRefusal(workerOf(parseWorkerUrl(request.url)))
    const stopSignals = yield* delayRefusal(mapStoreErrors(queue.stopSignals(endpoint.id, worker, limits.workerWaitMs)))
    if (stopSignals.length === 0) return noContent
    // A stop signal is sent once. If the response is lost, the signal is queued again for the next call, because the next heartbeat may be
    // a long time away.
    yield* watchDelivery(request, queue.requeueStopSignals(endpoint.id, worker, stopSignals))
    return json(JSON.stringify({ jobsToStop: stopSignals }))
  }, Effect.uninterruptible)

  const ping = ({ identity, params, request }: WorkerCall) => {
    const address = parseWorkerUrl(request.url)
    return Effect.flatMap(
      findEndpoint(params.endpoint),
      (endpoint) => Effect.flatMapEager(workerOf(address), (worker) => recordPing(endpoint, worker, pingOf(address), identity))
    )
  }

  const pingByPost = Effect.fnUntraced(function*({ identity, params, request }: WorkerCall) {
    const address = parseWorkerUrl(request.url)
    const endpoint = yield* findEndpoint(params.endpoint)
    const worker = yield* workerOf(address)
    const text = yield* readText(
      request,
      limits.chunkBytes,
      "A heartbeat contains only job ids. Send data with job-stream or job-done."
    )
    // A POST may contain the heartbeat in its query and have no body.
    const value = text.trim() === ""
      ? {}
      : yield* Effect.flatMap(scanJson(text, pingHint, PING), (body) => memberValues(body, pingHint))
    const ping = yield* decodePing(Predicate.isObject(value) ? { ...pingOf(address), ...value } : value)
    return yield* recordPing(endpoint, worker, ping, identity)
  })

  const handlerSchema = Effect.fnUntraced(function*({ params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    yield* storeSchema(request, endpoint, yield* workerOf(parseWorkerUrl(request.url)))
    return accepted
  })

  /** Whether the worker may write to a run: the attempt that it holds, or why it may not. */
  const proofOf = (endpoint: Endpoint, worker: string, identity: WorkerIdentity): JournalOperation.Proof => (write) => {
    const holder = { endpoint: endpoint.id, worker, job: JobId.make(write.run) }
    if (write.leaseToken === undefined) {
      return needsToken(endpoint, worker, write.run, identity)
        ? { cause: tokenMissing(holder).error }
        : { attempt: write.attempt }
    }
    const attempt = keys.attemptOfLeaseToken(write.leaseToken, holder)
    return attempt === write.attempt ? { attempt } : { cause: tokenInvalid(holder).error }
  }

  const journal = Effect.fnUntraced(function*({ identity, params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    const worker = yield* workerOf(parseWorkerUrl(request.url))
    return yield* writeJournal({ request }, { endpoint, worker, proof: proofOf(endpoint, worker, identity) })
  })

  return {
    journal,
    handlerSchema,
    /** Must run in an uninterruptible region. It can be interrupted only while it waits. */
    take: take(() => 1, renderOne),
    /** Must run in the same way as `take`. */
    takeBatch: take(batchSize, renderMany),
    done,
    chunk,
    stop,
    ping,
    pingByPost
  }
})

/** The operations of the worker API. All routes share one instance, because it watches the connections over which jobs are sent. */
export class WorkerOperations extends Context.Service<WorkerOperations, Effect.Success<typeof make>>()(
  "@stint/server/WorkerOperations"
) {}

/** The worker operations on top of the queue. */
export const layer = Layer.effect(WorkerOperations, make)
