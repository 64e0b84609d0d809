/**
 * The real server on a free loopback port, for tests: real routes, real sockets, real time. The caller provides the stores.
 *
 * The waits are short (see {@link LIMITS}), so that tests in which a wait elapses are fast.
 */
import { failed } from "@stint/builder/BuildError"
import * as BuildQueue from "@stint/builder/BuildQueue"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as BulkRunner from "@stint/queue/BulkRunner"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as RunQueue from "@stint/queue/RunQueue"
import * as ScheduleRunner from "@stint/queue/ScheduleRunner"
import * as Schedules from "@stint/queue/Schedules"
import * as UsageMeter from "@stint/queue/UsageMeter"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Releases from "@stint/releases/Releases"
import * as Secrets from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as AuditLog from "@stint/server/AuditLog"
import type { AuthGuards } from "@stint/server/AuthGuards"
import { FastPathEnabled } from "@stint/server/FastPath"
import { defaults, Limits, type LimitSettings } from "@stint/server/Limits"
import * as Pages from "@stint/server/Pages"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as Server from "@stint/server/Server"
import * as AuditStore from "@stint/store/AuditStore"
import type { BatchStore } from "@stint/store/BatchStore"
import * as BuildStore from "@stint/store/BuildStore"
import type { BulkStore } from "@stint/store/BulkStore"
import type * as EndpointStore from "@stint/store/EndpointStore"
import type { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import type { JobLogStore } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import type { ReleaseStore } from "@stint/store/ReleaseStore"
import type { RunStore } from "@stint/store/RunStore"
import type { ScheduleStore } from "@stint/store/ScheduleStore"
import * as SecretStore from "@stint/store/SecretStore"
import * as UsageStore from "@stint/store/UsageStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpRouter } from "effect/http"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { open, type RawSocket } from "./RawSocket.ts"
import * as TestEndpoint from "./TestEndpoint.ts"
import * as TestModels from "./TestModels.ts"
import { make as makeClient, type NoAnswer, type WireClient } from "./WireClient.ts"
import type { WireFault } from "./WireWorker.ts"

/** The admin key of every server under test. */
export const ADMIN_KEY = "test-admin-key-0123456789"

/** Few, so that tests of a server's memory use do not measure its audit log. */
const AUDIT_ENTRIES = 2_000

/** The waits of a server under test. The sizes are the defaults. */
export const LIMITS: LimitSettings = {
  ...defaults,
  syncWaitMs: 10_000,
  headWaitMs: 50,
  openAiHeadWaitMs: 10_000,
  heartbeatMs: 100,
  streamWaitMs: 250,
  minWaitMs: 25,
  maxWaitMs: 15_000,
  workerWaitMs: 300,
  refusalWaitMs: 25,
  // The tests of the throttle set a limit. All other tests may send any number of wrong keys.
  authFailures: 1_000_000
}

/** A running server with its clients. */
export class ServerTest extends Context.Service<ServerTest, {
  readonly baseUrl: string
  /** An HTTP client that sends the admin key by default. */
  readonly call: WireClient
  /** Creates an endpoint with a unique id. */
  readonly endpoint: (settings?: TestEndpoint.Settings) => Effect.Effect<TestEndpoint.TestEndpoint, WireFault>
  /** Opens a bare TCP connection. */
  readonly connect: Effect.Effect<RawSocket, NoAnswer, Scope.Scope>
  /** Creates an endpoint and runs a job on it, to check that the server still works. */
  readonly works: Effect.Effect<boolean, WireFault>
  /** The whole log, as text. */
  readonly logs: Effect.Effect<ReadonlyArray<string>>
}>()("@stint/server-testing/ServerTest") {}

/** The log lines of one server. */
class Logs extends Context.Service<Logs, Array<string>>()("@stint/server/testing/Logs") {}

const layerLogs = Layer.unwrap(Effect.sync(() => {
  const lines: Array<string> = []
  const logger = Logger.map(Logger.formatLogFmt, (line) => {
    lines.push(line)
  })
  return Layer.merge(Layer.succeed(Logs, lines), Logger.layer([logger]))
}))

const layerTest = Layer.effect(
  ServerTest,
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress
    const logs = yield* Logs
    const call = makeClient(baseUrl, `Bearer ${ADMIN_KEY}`)
    const endpoint = (settings?: TestEndpoint.Settings) => TestEndpoint.make(call, settings)
    return ServerTest.of({
      baseUrl,
      call,
      endpoint,
      connect: open(baseUrl),
      works: Effect.gen(function*() {
        const one = yield* endpoint()
        const worker = yield* one.worker()
        const { id } = yield* one.run({ still: "there" })
        const job = yield* worker.next
        yield* worker.finish(job.id, "yes")
        return job.id === id && (yield* one.status(id)).output === "yes"
      }),
      logs: Effect.sync(() => logs.slice())
    })
  })
)

/** The stores that a server needs. */
export type Stores =
  | JobStore
  | JobLogStore
  | BatchStore
  | BulkStore
  | ErrorGroupStore
  | EndpointStore.EndpointStore
  | ReleaseStore
  | RunStore
  | AuditStore.AuditStore
  | UsageStore.UsageStore
  | ScheduleStore
  | BuildStore.BuildStore
  | KeyStore.KeyStore
  | SecretStore.SecretStore
  | WebhookStore
  | WebhookSecretStore.WebhookSecretStore
  | WebhookAttemptStore.WebhookAttemptStore

/** All stores in memory. */
export const layerMemory: Layer.Layer<Stores> = Layer.mergeAll(
  MemoryJobStore.layerWithEndpoints,
  KeyStore.layerMemory,
  SecretStore.layerMemory,
  AuditStore.layerMemory,
  UsageStore.layerMemory,
  BuildStore.layerMemory,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

/** Builds on a machine without a container engine. */
const layerBuilds = BuildQueue.layer({
  engine: Effect.fail(failed("This platform cannot build: this machine has no container engine.", "Start Docker or Podman.")),
  folder: "/nonexistent",
  registry: undefined,
  options: [],
  localFolders: []
})

/** The settings of a server under test. */
export interface Options<E = never> {
  /** Stores of jobs, endpoints and keys. Default: in memory. */
  readonly stores?: Layer.Layer<Stores, E>
  /** The key that encrypts the secrets. Default: in memory. */
  readonly secretsKey?: Layer.Layer<SecretsKey.SecretsKey>
  /** Default: builds on a machine without a container engine. */
  readonly builds?: Layer.Layer<never>
  /** The model cache. Default: a cache that is filled from a test hub. */
  readonly models?: Layer.Layer<TestModels.TestModels>
  /** Overrides {@link LIMITS}. */
  readonly limits?: Partial<LimitSettings>
  /** Overrides the defaults of `Server.layerNode`, except for the port. */
  readonly listen?: Omit<Server.ListenOptions, "port">
  /** Whether the fast path is on. Default: true. */
  readonly fastPath?: boolean
  /** More routes. Default: none. */
  readonly routes?: Layer.Layer<never, never, HttpRouter.HttpRouter | AuthGuards | Stores | WorkerRegistry.WorkerRegistry>
}

/**
 * A server with its queue, timers and stores. Also provides the queue and the registry, for state that the wire does not show.
 */
export const layer = <E = never>(options: Options<E> = {}) => {
  const stores: Layer.Layer<Stores, E> = options.stores ??
    layerMemory
  const address = Layer.effect(PublicAddress, Effect.map(Server.baseUrl, (baseUrl) => ({ baseUrl })))
  return layerTest.pipe(
    Layer.provide([
      Server.layerWith(Layer.merge(Pages.layer, options.routes ?? Layer.empty)),
      JobTimers.layer({ interval: 25 }),
      BatchTimers.layer({ interval: 25 }),
      ScheduleRunner.layer({ interval: 25 }),
      BulkRunner.layer({ interval: 25 })
    ]),
    Layer.provide(address.pipe(Layer.provideMerge(Server.layerNode({ ...options.listen, port: 0 })))),
    Layer.provide([BatchQueue.layer, BulkJobs.layer, RunQueue.layer, Schedules.layer]),
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(JobLogs.layer),
    Layer.provideMerge(UsageMeter.layer({ ...UsageMeter.defaults, interval: "100 millis" })),
    Layer.provideMerge(WorkerRegistry.layer),
    Layer.provideMerge(options.models ?? TestModels.layer),
    Layer.provide(Layer.orDie(Secrets.layer.pipe(Layer.provide(options.secretsKey ?? SecretsKey.layerMemory)))),
    Layer.provide(
      Layer.mergeAll(
        AuditLog.layer({ ...AuditLog.defaults, entries: AUDIT_ENTRIES }),
        AccessKeys.layer(AccessKeys.secretsOf(Redacted.make(ADMIN_KEY))),
        (options.builds ?? layerBuilds).pipe(Layer.provideMerge(Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone))))
      ).pipe(Layer.provideMerge(stores))
    ),
    Layer.provide([
      layerLogs,
      Layer.succeed(Limits, { ...LIMITS, ...options.limits }),
      Layer.succeed(FastPathEnabled, options.fastPath ?? true)
    ])
  )
}
