/**
 * The server of local test mode: the platform's server over a memory store, at an address of this machine.
 *
 * It does not share a copy of Effect with the worker: everything that crosses {@link start} is a promise or a plain value. A bundled worker
 * therefore does not contain the server, which would make each start slower, but loads it as a separate bundle.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { MAX_JOB_MILLIS, MAX_START_DELAY_MILLIS } from "@stint/contract/Job"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as RunQueue from "@stint/queue/RunQueue"
import * as Schedules from "@stint/queue/Schedules"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Releases from "@stint/releases/Releases"
import { AccessKeys } from "@stint/server/AccessKeys"
import * as Limits from "@stint/server/Limits"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as Server from "@stint/server/Server"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as UsageStore from "@stint/store/UsageStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as WebhookRetention from "@stint/webhooks/WebhookRetention"
import * as WebhookSender from "@stint/webhooks/WebhookSender"
import * as Logger from "@stint/worker/Logger"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http"
import * as Layer from "effect/Layer"
import { layer as layerLoggers } from "effect/Logger"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { MinimumLogLevel } from "effect/References"
import * as Schedule from "effect/Schedule"
import * as LocalJobQueue from "./LocalJobQueue.ts"
import * as LocalRoutes from "./LocalRoutes.ts"

/** The address on which the server listens, and the destination of its log. */
export interface StartOptions {
  readonly host: string
  /** 0 selects a free port. */
  readonly port: number
  /** Receives each line with its job's id. */
  readonly log: Parameters<typeof Logger.make>[0]
}

/** A server that is listening. */
export interface RunningServer {
  /** Without a trailing slash: `http://127.0.0.1:8000`. */
  readonly baseUrl: string
  /** The base address of the worker API. */
  readonly workerUrl: string
  /** The key of the worker API. */
  readonly workerKey: string
  /** Whether the server listens on an address other than loopback. */
  readonly isPublic: boolean
  /** Stops accepting jobs, and ends the waiting jobs as FAILED. Returns the number of failed jobs and of running jobs. */
  readonly stop: (reason: string) => Promise<{ readonly failed: number; readonly running: number }>
  /** Sends the pending webhooks, responds to the requests in flight, and closes. Returns false when some webhooks were not sent in time. */
  readonly close: () => Promise<boolean>
}

/** The longest wait for requests in flight and for webhooks when the server closes. */
const ANSWERS_TIMEOUT = "2 seconds"
const WEBHOOKS_TIMEOUT = "5 seconds"

/** The maximum number of jobs in one claim while the server is stopping. */
const CLAIM_LIMIT = 100

const stoppedMessage = (reason: string) =>
  `The local API was stopped (${reason}) before this job was done. Start it again and send the job again.`

const endpointId = EndpointId.make(LocalRoutes.ENDPOINT)

/**
 * The endpoint itself has no limits; the `policy` of each request sets them. The retention of one hour bounds the memory, in addition
 * to the limits of LocalJobQueue.
 */
const endpoint: Endpoint = {
  id: endpointId,
  source: { type: "external" },
  workers: { min: 0, max: 1, idleTimeoutMs: 0 },
  scaler: { type: "QUEUE_DELAY", value: 4 },
  executionTimeoutMs: MAX_JOB_MILLIS,
  ttlMs: MAX_JOB_MILLIS,
  leaseMs: MAX_JOB_MILLIS,
  maxAttempts: 1,
  retentionMs: 3_600_000,
  errorTraceback: "full",
  leaseToken: "optional",
  limits: {
    executionTimeoutMs: MAX_JOB_MILLIS,
    ttlMs: MAX_JOB_MILLIS,
    maxAttempts: 100,
    priority: 100,
    startDelayMs: MAX_START_DELAY_MILLIS
  },
  env: {},
  createdAt: 0
}

const layerEndpoint = Layer.effectDiscard(Effect.orDie(Effect.flatMap(EndpointStore, (store) => store.put(endpoint))))

/** Any caller can call the jobs API, with any key or none. The worker API accepts only this process's key. */
const layerKeys = (workerKey: string): Layer.Layer<AccessKeys> => {
  const isWorkerKey = (key: Redacted.Redacted) => Redacted.value(key) === workerKey
  return Layer.succeed(AccessKeys, {
    identify: () =>
      Effect.succeed({
        _tag: "Caller",
        caller: { id: "local", name: "a caller of the local API", scopes: ["jobs"], endpoints: "all", rateLimit: undefined }
      }),
    // The only worker of this server is the process itself, so its key identifies it, and lease tokens would prove nothing more.
    identifyWorker: (_endpoint, _worker, key) => isWorkerKey(key) ? "worker" : undefined,
    hasWorkerKeyPrefix: isWorkerKey,
    workerKey: () => Redacted.make(workerKey),
    leaseToken: ({ attempt }) => `${attempt}.`,
    attemptOfLeaseToken: (token) => Number.parseInt(token, 10),
    // There is no console.
    sessionKey: Redacted.make(crypto.getRandomValues(new Uint8Array(32)))
  })
}

const layerStores = Layer.mergeAll(
  LocalJobQueue.layerStore.pipe(Layer.provideMerge(MemoryJobStore.layerWithEndpoints)),
  KeyStore.layerMemory,
  UsageStore.layerMemory,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

/** Sends webhooks to any address, with up to three attempts, because a webhook's receiver may also be on the developer's machine. */
const layerWebhooks = Layer.merge(
  WebhookSender.layer({ timeout: "10 seconds", pauses: ["5 seconds", "15 seconds"] }),
  WebhookRetention.layer({ keep: "1 minute" })
).pipe(
  Layer.provide(
    GuardedHttp.layerWith({ allow: ["0.0.0.0/0", "::/0"] }).pipe(Layer.provide(Resolver.layer), Layer.orDie)
  )
)

const layerQueue = Layer.mergeAll(BatchQueue.layer, BulkJobs.layer, RunQueue.layer, Schedules.layer).pipe(
  Layer.provideMerge(LocalJobQueue.layer.pipe(Layer.provide(JobQueue.layer))),
  Layer.provideMerge(JobLogs.layer),
  Layer.provideMerge(Layer.merge(layerStores, WorkerRegistry.layer)),
  Layer.orDie
)

/** Part of the server; local test mode does not serve the control API. */
const layerReleases = Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone))

/** Fails with Node's error when the server cannot listen. */
const layerListener = ({ host, port }: StartOptions) =>
  Server.layerNode({ host, port, gracefulShutdownTimeout: ANSWERS_TIMEOUT }).pipe(
    Layer.catchTag("ServeError", ({ cause }) => Layer.effectContext(Effect.fail(cause)))
  )

/** The server's address, and the state of the process that the routes need. */
const layerLocalApi = Layer.effect(
  LocalRoutes.LocalApi,
  Effect.gen(function*() {
    const { depth } = yield* JobQueue.JobQueue
    const { address } = yield* HttpServer.HttpServer
    return {
      baseUrl: yield* Server.baseUrl,
      isPublic: !LocalRoutes.isLoopback(new URL(HttpServer.formatAddress(address)).hostname),
      queued: Effect.orDie(Effect.map(depth(endpointId), ({ delayed, waiting }) => waiting + delayed)),
      stopping: undefined
    }
  })
)

/** The listener, which maps the paths of the local API to the server's paths. */
const layerHttp = Layer.effect(
  HttpServer.HttpServer,
  Effect.gen(function*() {
    const api = yield* LocalRoutes.LocalApi
    const { address, serve } = yield* HttpServer.HttpServer
    return HttpServer.make({
      address,
      serve: (app, middleware) => {
        const local = LocalRoutes.make(app, api)
        return middleware === undefined ? serve(local) : serve(local, middleware)
      }
    })
  })
)

/** The server, its queue and its store. Fails with Node's error when the server cannot listen. */
export const layer = (
  options: StartOptions,
  workerKey: string
): Layer.Layer<LocalRoutes.LocalApi | JobQueue.JobQueue | WebhookStore, unknown> =>
  Layer.mergeAll(Server.layer, JobTimers.layer(), BatchTimers.layer(), layerWebhooks, layerEndpoint).pipe(
    Layer.provide([layerHttp, Layer.effect(PublicAddress, Effect.map(Server.baseUrl, (baseUrl) => ({ baseUrl })))]),
    Layer.provideMerge(layerLocalApi),
    Layer.provideMerge(Layer.merge(layerListener(options), layerReleases.pipe(Layer.provideMerge(layerQueue)))),
    Layer.provide([layerKeys(workerKey), Layer.succeed(Limits.Limits, { ...Limits.defaults, minWaitMs: 0 })])
  )

/** Ends all waiting jobs as FAILED with this error. Returns their number. */
const failWaiting = Effect.fnUntraced(function*(error: string) {
  const queue = yield* JobQueue.JobQueue
  let failed = 0
  while (true) {
    const worker = "local-api"
    const jobs = yield* queue.take({ endpoint: endpointId, worker, limit: CLAIM_LIMIT, waitMs: 0, holding: true })
    for (const { attempt, id: job } of jobs) {
      yield* queue.finish({ endpoint: endpointId, worker, job, attempt }, { output: null, error })
    }
    failed += jobs.length
    if (jobs.length === 0) return failed
  }
}, Effect.orDie)

/** Waits until all webhooks have been sent. */
const webhooksSent = Effect.gen(function*() {
  const { list } = yield* WebhookStore
  yield* Effect.repeat(list({ state: "pending", limit: 1 }), {
    schedule: Schedule.spaced("20 millis"),
    until: ({ deliveries }) => deliveries.length === 0
  })
}).pipe(Effect.orDie)

/** Starts the server. Rejects with Node's error when the server cannot listen. */
export const start = async (options: StartOptions): Promise<RunningServer> => {
  const workerKey = crypto.randomUUID()
  const runtime = ManagedRuntime.make(
    layer(options, workerKey).pipe(
      Layer.provide([layerLoggers([Logger.make(options.log)]), Layer.succeed(MinimumLogLevel, "All")])
    )
  )
  const api = await runtime.runPromise(Effect.service(LocalRoutes.LocalApi))
  const { baseUrl, isPublic } = api

  const stop = Effect.fnUntraced(function*(reason: string) {
    api.stopping ??= reason
    const { running } = yield* Effect.orDie(Effect.flatMap(JobQueue.JobQueue, ({ depth }) => depth(endpointId)))
    const failed = yield* failWaiting(stoppedMessage(reason))
    return { failed, running }
  })
  return {
    baseUrl,
    workerUrl: `${baseUrl}/v2/${LocalRoutes.ENDPOINT}`,
    workerKey,
    isPublic,
    stop: (reason) => runtime.runPromise(stop(reason)),
    close: async () => {
      const sent = await runtime.runPromise(Effect.timeoutOption(webhooksSent, WEBHOOKS_TIMEOUT))
      await runtime.dispose()
      return Option.isSome(sent)
    }
  }
}
