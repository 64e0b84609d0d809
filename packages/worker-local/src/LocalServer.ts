/**
 * Local test mode with `--rp_serve_api`: the platform's server over a memory store, for the one worker that is this process
 * (docs/spec/local-test-mode.md#local-api, docs/spec/rulings.md#local-test-mode).
 *
 * ```
 *   caller --/run, /status/{id} ...--> LocalRoutes --/v2/local/...--> Server --> JobQueue --> MemoryJobStore
 *   this worker --/v2/local/job-take ...----------------------------------^
 * ```
 *
 * The worker calls the server over the loopback address, as it calls a platform, so a handler behaves as it does once deployed. Where
 * local test mode differs: {@link LocalRoutes} has other addresses and no keys, {@link LocalJobQueue} other job ids; leases never
 * expire, because the worker cannot be lost without the server.
 *
 * When the process is asked to stop, waiting jobs end as FAILED, running jobs are finished, and their callers are answered.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { MAX_JOB_MILLIS } from "@stint/contract/Job"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { AccessKeys } from "@stint/server/AccessKeys"
import * as Limits from "@stint/server/Limits"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as Server from "@stint/server/Server"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as WebhookRetention from "@stint/webhooks/WebhookRetention"
import * as WebhookSender from "@stint/webhooks/WebhookSender"
import { JobSource } from "@stint/worker/JobSource"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import { LocalModeError } from "@stint/worker/LocalMode"
import { Shutdown } from "@stint/worker/Shutdown"
import * as TestInput from "@stint/worker/TestInput"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import type { Platform } from "@stint/worker/WorkerConfig"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as LocalJobQueue from "./LocalJobQueue.ts"
import * as LocalRoutes from "./LocalRoutes.ts"

/** How the local API differs from its defaults. */
export interface Options {
  /** Ignored, with a line in the log: callers submit the jobs. */
  readonly jobs?: unknown
}

/** The default address: the port of docs/spec/local-test-mode.md#flags, reachable from this machine alone. */
const DEFAULT_PORT = 8000
const DEFAULT_HOST = "127.0.0.1"

/** The longest wait at the end for requests in flight and for webhooks. */
const ANSWERS_TIMEOUT = "2 seconds"
const WEBHOOKS_TIMEOUT = "5 seconds"

/** The most jobs that one claim takes while the server stops. */
const CLAIM_LIMIT = 100

const stoppedMessage = (reason: string) =>
  `The local API was stopped (${reason}) before this job was done. Start it again and send the job again.`

const endpointId = EndpointId.make(LocalRoutes.ENDPOINT)

/** The endpoint has no limits of its own: `policy` of a request sets them. An hour of retention bounds the memory beside LocalJobQueue. */
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
  env: {},
  createdAt: 0
}

const layerEndpoint = Layer.effectDiscard(Effect.orDie(Effect.flatMap(EndpointStore, (store) => store.put(endpoint))))

/** Every caller may call the jobs API, with any key or none. The worker API takes the key of this process alone. */
const layerKeys = (workerKey: string): Layer.Layer<AccessKeys> => {
  const isWorkerKey = (key: Redacted.Redacted) => Redacted.value(key) === workerKey
  return Layer.succeed(AccessKeys, {
    identify: () =>
      Effect.succeed({
        _tag: "Caller",
        caller: { id: "local", name: "a caller of the local API", scopes: ["jobs"], endpoints: "all", rateLimit: undefined }
      }),
    isWorkerKeyOf: (_, key) => isWorkerKey(key),
    hasWorkerKeyPrefix: isWorkerKey,
    workerKey: () => Redacted.make(workerKey)
  })
}

const layerStores = Layer.mergeAll(
  LocalJobQueue.layerStore.pipe(Layer.provideMerge(MemoryJobStore.layerWithEndpoints)),
  KeyStore.layerMemory,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

/** Three tries, to any address: the receiver of a webhook is on the developer's machine, too. */
const layerWebhooks = Layer.merge(
  WebhookSender.layer({ timeout: "10 seconds", pauses: ["5 seconds", "15 seconds"] }),
  WebhookRetention.layer({ keep: "1 minute" })
).pipe(
  Layer.provide(
    GuardedHttp.layerWith({ allow: ["0.0.0.0/0", "::/0"] }).pipe(Layer.provide(Resolver.layer), Layer.orDie)
  )
)

const layerQueue = BatchQueue.layer.pipe(
  Layer.provideMerge(LocalJobQueue.layer.pipe(Layer.provide(JobQueue.layer))),
  Layer.provideMerge(JobLogs.layer),
  Layer.provideMerge(Layer.merge(layerStores, WorkerRegistry.layer)),
  Layer.orDie
)

const listenErrorMessage = (cause: unknown, host: string, port: number): string => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  switch (code) {
    case "EADDRINUSE":
      return `Port ${port} of ${host} is in use. Stop what uses it, or pass --rp_api_port with another port (0 takes a free one).`
    case "EACCES":
      return `Port ${port} of ${host} may not be used by this user. Pass --rp_api_port with a port of 1024 or more.`
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `--rp_api_host is "${host}", which is no address of this machine (${code}). Leave it out, or pass 127.0.0.1 or 0.0.0.0.`
    default:
      return `The local API cannot listen on ${host}, port ${port}: ${cause instanceof Error ? cause.message : String(cause)}.`
  }
}

const layerListener = (host: string, port: number) =>
  Server.layerNode({ host, port, gracefulShutdownTimeout: ANSWERS_TIMEOUT }).pipe(
    Layer.catchTag("ServeError", ({ cause }) =>
      Layer.effectContext(Effect.fail(new LocalModeError({ message: listenErrorMessage(cause, host, port) }))))
  )

/** The address of the server, and what the routes know of the process. */
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

/** The listener, with the addresses of the local API in front of the server's. */
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

/** The server, its queue and its store. */
const layerServer = (host: string, port: number, workerKey: string) =>
  Layer.mergeAll(Server.layer, JobTimers.layer(), BatchTimers.layer(), layerWebhooks, layerEndpoint).pipe(
    Layer.provide([layerHttp, Layer.effect(PublicAddress, Effect.map(Server.baseUrl, (baseUrl) => ({ baseUrl })))]),
    Layer.provideMerge(layerLocalApi),
    Layer.provideMerge(Layer.merge(layerListener(host, port), layerQueue)),
    Layer.provide([layerKeys(workerKey), Layer.succeed(Limits.Limits, { ...Limits.defaults, minWaitMs: 0 })])
  )

/** The address of this server, in the form that a platform gives to its workers. */
const platformOf = (baseUrl: string, workerId: string, workerKey: string): Platform => {
  const address = (operation: string) => `${baseUrl}/v2/${LocalRoutes.ENDPOINT}/${operation}/${encodeURIComponent(workerId)}`
  return {
    prefix: "PLATFORM_",
    take: `${address("job-take")}?`,
    takeBatch: `${address("job-take-batch")}?`,
    stop: `${address("job-stop")}?`,
    done: [`${address("job-done")}/`, "?"],
    stream: [`${address("job-stream")}/`, "?"],
    ping: undefined,
    key: Redacted.make(workerKey)
  }
}

/** The variable of a platform whose jobs this process ignores. */
const ignoredPlatform = Effect.gen(function*() {
  for (const name of ["PLATFORM_WEBHOOK_GET_JOB", "RUNPOD_WEBHOOK_GET_JOB"]) {
    if (Option.isSome(yield* Config.option(Config.NonEmptyString(name)))) return name
  }
  return undefined
})

const logStart = Effect.fnUntraced(function*({ baseUrl, isPublic }: LocalRoutes.LocalApi["Service"], options: Options) {
  const { flags } = yield* WorkerConfig
  const platform = yield* ignoredPlatform
  if (platform !== undefined) {
    yield* Effect.logWarning(`--rp_serve_api is given, so ${platform} is ignored: this process takes no jobs of the platform.`)
  }
  if (flags.testInput !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so --test_input is ignored: jobs come from callers.")
  }
  if (options.jobs !== undefined) {
    yield* Effect.logWarning("--rp_serve_api is given, so jobs_fetcher is not asked: jobs come from callers.")
  }
  if (isPublic) {
    yield* Effect.logWarning(
      `The local API listens on ${flags.apiHost} and has no keys: whoever reaches this machine can run the handler.`
    )
  }
  yield* Effect.logInfo(
    `Local API at ${baseUrl} (open it for the documentation). Try it: ` +
      `curl -s -X POST ${baseUrl}/runsync -H 'Content-Type: application/json' -d ${TestInput.shellWord(TestInput.sample())}`
  )
})

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

/** Waits until no webhook is left to send. */
const webhooksSent = Effect.gen(function*() {
  const { list } = yield* WebhookStore
  yield* Effect.repeat(list({ state: "pending", limit: 1 }), {
    schedule: Schedule.spaced("20 millis"),
    until: ({ deliveries }) => deliveries.length === 0
  })
}).pipe(Effect.orDie)

const make = Effect.fnUntraced(function*(options: Options) {
  const api = yield* LocalRoutes.LocalApi
  const queue = yield* JobQueue.JobQueue
  const shutdown = yield* Shutdown
  const context = yield* Effect.context<JobQueue.JobQueue | WebhookStore>()

  /** Accepts no more jobs and fails the waiting ones. The worker finishes the running ones. */
  const stop = Effect.fnUntraced(function*(reason: string) {
    if (api.stopping !== undefined) return
    api.stopping = reason
    const { running } = yield* Effect.orDie(queue.depth(endpointId))
    const failed = yield* failWaiting(stoppedMessage(reason))
    yield* Effect.logInfo(
      `Stopping: ${reason}.` +
        (running === 0 ? "" : ` ${running} running ${running === 1 ? "job is" : "jobs are"} finished first.`) +
        (failed === 0 ? "" : ` ${failed} that had not started ${failed === 1 ? "is" : "are"} given up.`)
    )
  })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      // A worker without jobs has ended before the fiber below has run.
      const reason = yield* Effect.raceFirst(Effect.interruptible(shutdown.requested), Effect.undefined)
      if (reason !== undefined) yield* stop(reason.reason)
      // Jobs that the worker returned at its end.
      yield* failWaiting(stoppedMessage(api.stopping ?? "the worker did not start"))
      if (Option.isNone(yield* Effect.timeoutOption(Effect.interruptible(webhooksSent), WEBHOOKS_TIMEOUT))) {
        yield* Effect.logWarning("Some webhooks did not take their results in time; those are lost.")
      }
    }).pipe(Effect.provideContext(context))
  )
  yield* logStart(api, options)
  yield* Effect.forkScoped(Effect.flatMap(shutdown.requested, ({ reason }) => stop(reason)))
})

/** The transport of the local API. The server listens while the layer's scope is open. */
export const layer = (
  options: Options = {}
): Layer.Layer<JobSource, LocalModeError | Config.ConfigError, Shutdown | WorkerConfig> =>
  Layer.unwrap(Effect.map(WorkerConfig, ({ flags, identity }) => {
    const workerKey = crypto.randomUUID()
    const source = Layer.unwrap(Effect.map(LocalRoutes.LocalApi, ({ baseUrl }) =>
      JobSourceHttp.layerOf(platformOf(baseUrl, identity.workerId, workerKey))))
    return Layer.effect(
      JobSource,
      // A result that asks for a fresh worker does not end this one.
      Effect.andThen(make(options), Effect.map(JobSource, (http) => JobSource.of({ ...http, recycles: false })))
    ).pipe(
      Layer.provide(source),
      Layer.provide(layerServer(flags.apiHost ?? DEFAULT_HOST, flags.apiPort ?? DEFAULT_PORT, workerKey))
    )
  }))
