/**
 * The worker API on top of the queue (docs/spec/worker-protocol.md#overview). It tolerates the irregular requests of existing SDKs and is
 * strict about leases.
 *
 * Each operation returns a response or fails with a problem. Callers of these operations check the key and match the route:
 * `WorkerHandlers` for the `HttpApi`, `FastPath` for the fast path.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { InvalidRequest, Unavailable } from "@stint/contract/Problem"
import { LEASE_TOKEN_HEADER, Ping, pingBatch, pingJobs, SETUP_CHECK, setupMillis } from "@stint/contract/WorkerProtocol"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Secrets } from "@stint/secrets/Secrets"
import type { JobRecord } from "@stint/store/JobRecord"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import { AccessKeys } from "../auth/AccessKeys.ts"
import { json, NOSNIFF, trackedJson } from "../http/JsonResponse.ts"
import { Limits } from "../http/Limits.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, invalidValues, MAX_VALUES, memberValues, readText, scanJson } from "../http/RequestBody.ts"
import { claimedJobJson } from "../jobs/JobView.ts"
import * as JournalOperation from "../runs/JournalOperation.ts"
import * as DeliveryOperations from "./DeliveryOperations.ts"
import * as DeliveryWatch from "./DeliveryWatch.ts"
import * as LeaseProof from "./LeaseProof.ts"
import * as SchemaOperation from "./SchemaOperation.ts"
import { accepted, refusalDelay, type WorkerCall, workerEndpointFinder, workerOf } from "./WorkerCall.ts"
import { parseWorkerUrl, type WorkerUrl } from "./WorkerUrl.ts"

const pingHint = "A heartbeat is a JSON object like {\"job_id\": [\"...\"], \"runpod_version\": \"...\"}."

const PING = { members: new Set(Object.keys(Ping.fields)) }

const decodePing = decoder(Ping, pingHint)

const noContent = HttpServerResponse.empty({ status: 204, headers: NOSNIFF })

/** Maximum number of jobs in one batch take. */
const MAX_BATCH = 1_000

/** Maximum stored length of an unhealthy worker's reason, which is displayed and logged. */
const REASON_LENGTH = 1_000

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

const make = Effect.gen(function*() {
  const queue = yield* JobQueue
  const registry = yield* WorkerRegistry
  const keys = yield* AccessKeys
  const secrets = yield* Secrets
  const limits = yield* Limits
  const findEndpoint = yield* workerEndpointFinder
  const delayRefusal = yield* refusalDelay
  const proof = yield* LeaseProof.make
  const watchDelivery = yield* DeliveryWatch.make
  const deliveries = yield* DeliveryOperations.make
  const writeJournal = yield* JournalOperation.operation
  const storeSchema = yield* SchemaOperation.operation

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
        holding: address.get("job_in_progress") !== "0" || !proof.mayReleaseJobs({ endpoint, worker, identity }),
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
    caller: LeaseProof.Caller,
    ping: Ping
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, InvalidRequest | Unavailable> => {
    const { endpoint, identity, worker } = caller
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
    const jobs = proof.provenJobs(caller, named, ping)
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
      (endpoint) =>
        Effect.flatMapEager(workerOf(address), (worker) => recordPing({ endpoint, worker, identity }, pingOf(address)))
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
    return yield* recordPing({ endpoint, worker, identity }, ping)
  })

  const handlerSchema = Effect.fnUntraced(function*({ params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    yield* storeSchema(request, endpoint, yield* workerOf(parseWorkerUrl(request.url)))
    return accepted
  })

  const journal = Effect.fnUntraced(function*({ identity, params, request }: WorkerCall) {
    const endpoint = yield* findEndpoint(params.endpoint)
    const worker = yield* workerOf(parseWorkerUrl(request.url))
    return yield* writeJournal({ request }, { endpoint, worker, proof: proof.runProof({ endpoint, worker, identity }) })
  })

  return {
    journal,
    handlerSchema,
    /** Must run in an uninterruptible region. It can be interrupted only while it waits. */
    take: take(() => 1, renderOne),
    /** Must run in the same way as `take`. */
    takeBatch: take(batchSize, renderMany),
    ...deliveries,
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
