/**
 * The real server on a free port of the loopback address, for tests: real routes, real sockets, real time; the stores are the reader's.
 *
 * Waits are short (see {@link LIMITS}), so that a test in which a wait has to run out does not take long.
 */
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as AccessKeys from "@stint/server/AccessKeys"
import { FastPathEnabled } from "@stint/server/FastPath"
import { defaults, Limits, type LimitSettings } from "@stint/server/Limits"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as Server from "@stint/server/Server"
import type { BatchStore } from "@stint/store/BatchStore"
import type * as EndpointStore from "@stint/store/EndpointStore"
import type { JobLogStore } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { open, type RawSocket } from "./RawSocket.ts"
import * as TestEndpoint from "./TestEndpoint.ts"
import { make as makeClient, type NoAnswer, type WireClient } from "./WireClient.ts"
import type { WireFault } from "./WireWorker.ts"

/** The admin key of every server under test. */
export const ADMIN_KEY = "test-admin-key-0123456789"

/** The waits of a server under test; its sizes are the defaults. */
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
  refusalWaitMs: 25
}

/** A running server and the ways to talk to it. */
export class ServerTest extends Context.Service<ServerTest, {
  readonly baseUrl: string
  /** Calls with the admin key unless told otherwise. */
  readonly call: WireClient
  /** Creates an endpoint that no other test has. */
  readonly endpoint: (settings?: TestEndpoint.Settings) => Effect.Effect<TestEndpoint.TestEndpoint, WireFault>
  /** A bare TCP connection. */
  readonly connect: Effect.Effect<RawSocket, NoAnswer, Scope.Scope>
  /** Whether the server still does its work: an endpoint is created and a job goes through it. */
  readonly works: Effect.Effect<boolean, WireFault>
  /** All that was logged, as text. */
  readonly logs: Effect.Effect<ReadonlyArray<string>>
}>()("@stint/server-testing/ServerTest") {}

/** Lines of the log of one server. */
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

/** What a server keeps its things in. */
export type Stores =
  | JobStore
  | JobLogStore
  | BatchStore
  | EndpointStore.EndpointStore
  | KeyStore.KeyStore
  | WebhookStore
  | WebhookSecretStore.WebhookSecretStore
  | WebhookAttemptStore.WebhookAttemptStore

/** All of them in memory. */
export const layerMemory: Layer.Layer<Stores> = Layer.mergeAll(
  MemoryJobStore.layerWithEndpoints,
  KeyStore.layerMemory,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

/** What a server under test is made of. */
export interface Options<E = never> {
  /** Jobs, endpoints and keys. Default: in memory. */
  readonly stores?: Layer.Layer<Stores, E>
  /** Over {@link LIMITS}. */
  readonly limits?: Partial<LimitSettings>
  /** Over the defaults of `Server.layerNode`, but for the port. */
  readonly listen?: Omit<Server.ListenOptions, "port">
  /** Whether hot calls go their short way. Default: they do. */
  readonly fastPath?: boolean
}

/**
 * A server with the queue, its timers and its stores. The queue and the registry are given out as well, for what the wire does not show.
 */
export const layer = <E = never>(options: Options<E> = {}) => {
  const stores: Layer.Layer<Stores, E> = options.stores ??
    layerMemory
  const address = Layer.effect(PublicAddress, Effect.map(Server.baseUrl, (baseUrl) => ({ baseUrl })))
  return layerTest.pipe(
    Layer.provide([Server.layer, JobTimers.layer({ interval: 25 }), BatchTimers.layer({ interval: 25 })]),
    Layer.provide(address.pipe(Layer.provideMerge(Server.layerNode({ ...options.listen, port: 0 })))),
    Layer.provide(BatchQueue.layer),
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(JobLogs.layer),
    Layer.provideMerge(WorkerRegistry.layer),
    Layer.provide(AccessKeys.layer(Redacted.make(ADMIN_KEY)).pipe(Layer.provideMerge(stores))),
    Layer.provide([
      layerLogs,
      Layer.succeed(Limits, { ...LIMITS, ...options.limits }),
      Layer.succeed(FastPathEnabled, options.fastPath ?? true)
    ])
  )
}
