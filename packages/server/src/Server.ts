/**
 * All routes of the three APIs, and a Node HTTP server for them.
 *
 * ```
 *   caller   --/v2/{endpoint}/run ...-------> JobsHandlers -----+
 *   caller   --/v2/{endpoint}/batch ...-----> BatchHandlers ----+
 *   caller   --/v2/{endpoint}/openai/v1/ ---> OpenAiHandlers ---+
 *   caller   --/v2/{endpoint}/logs ...------> LogHandlers --------> JobLogs
 *   caller   --/v2/{endpoint}/steps ...-----> RunHandlers --------> RunQueue
 *   worker   --/v2/{endpoint}/job-take ...--> WorkerHandlers ---+--> JobQueue, BatchQueue, EndpointStore
 *   caller   --/api/v1/jobs, /bulk...--------> BulkHandlers -------> BulkJobs, JobQueue
 *   caller   --/api/v1/errors...-------------> ErrorHandlers ------> ErrorGroupStore
 *   operator --/api/v1/...------------------> ControlHandlers --+
 *   operator --/api/v1/.../releases...------> ReleaseHandlers ----> Releases
 *   operator --/api/v1/.../builds...--------> BuildHandlers ------> Builds
 *   operator --/api/v1/audit----------------> AuditHandlers ------> AuditLog
 *   operator --/api/v1/keys...--------------> KeyHandlers --------> KeyStore
 *   operator --/api/v1/.../schedules...-----> ScheduleHandlers ---> Schedules
 *   operator --/api/v1/secrets...-----------> SecretHandlers -----> Secrets
 *   operator --/api/v1/models...------------> ModelHandlers ------> Models
 *   operator --/api/v1/.../webhooks/...-----> WebhookHandlers ----> WebhookStore
 *   viewer   --/api/v1/overview-------------> OverviewHandlers ---> JobQueue, WorkerRegistry
 *   viewer   --/api/v1/history--------------> HistoryHandlers ----> EndpointHistories
 *   viewer   --/api/v1/events---------------> EventHandlers ------> PlatformEvents
 *   operator --/api/v1/agents...------------> AgentHandlers ------> Agents
 *   agent    --/api/v1/agents/{agent}/...---> AgentHandlers ------> Agents
 *   operator --/api/v1/alerts...------------> AlertHandlers ------> Alerts
 *   viewer   --/api/v1/usage----------------> UsageHandlers ------> UsageStore, Budgets
 *   operator --/api/v1/backup---------------> BackupHandlers -----> Backups
 *   monitor  --/healthz, /readyz------------> ProbeHandlers ------> Readiness
 * ```
 *
 * `AuditMiddleware` records the operations that change something. The operations that every job uses also have a fast path to the same code (FastPath.ts).
 */
import { Api } from "@stint/contract/Api"
import { Agents } from "@stint/pool/Agents"
import { JobQueue } from "@stint/queue/JobQueue"
import { PlatformEvents } from "@stint/queue/PlatformEvents"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as AuditMiddleware from "./audit/AuditMiddleware.ts"
import * as AuthGuards from "./auth/AuthGuards.ts"
import * as AuthMiddleware from "./auth/AuthMiddleware.ts"
import * as BatchHandlers from "./batches/BatchHandlers.ts"
import * as AgentHandlers from "./control/AgentHandlers.ts"
import * as AlertHandlers from "./control/AlertHandlers.ts"
import * as AuditHandlers from "./control/AuditHandlers.ts"
import * as BackupHandlers from "./control/BackupHandlers.ts"
import * as BuildHandlers from "./control/BuildHandlers.ts"
import * as ControlHandlers from "./control/ControlHandlers.ts"
import * as EventHandlers from "./control/EventHandlers.ts"
import * as HistoryHandlers from "./control/HistoryHandlers.ts"
import * as KeyHandlers from "./control/KeyHandlers.ts"
import * as ModelHandlers from "./control/ModelHandlers.ts"
import * as OverviewHandlers from "./control/OverviewHandlers.ts"
import * as ReleaseHandlers from "./control/ReleaseHandlers.ts"
import * as ScheduleHandlers from "./control/ScheduleHandlers.ts"
import * as SecretHandlers from "./control/SecretHandlers.ts"
import * as UsageHandlers from "./control/UsageHandlers.ts"
import * as WebhookHandlers from "./control/WebhookHandlers.ts"
import * as FastPath from "./FastPath.ts"
import * as Cors from "./http/Cors.ts"
import * as Fallback from "./http/Fallback.ts"
import * as ProbeHandlers from "./http/ProbeHandlers.ts"
import * as PublicAddress from "./http/PublicAddress.ts"
import * as Readiness from "./http/Readiness.ts"
import * as BulkHandlers from "./jobs/BulkHandlers.ts"
import * as ErrorHandlers from "./jobs/ErrorHandlers.ts"
import * as JobsHandlers from "./jobs/JobsHandlers.ts"
import * as LogHandlers from "./jobs/LogHandlers.ts"
import * as SubmitOperations from "./jobs/SubmitOperations.ts"
import * as OpenAiHandlers from "./openai/OpenAiHandlers.ts"
import { OPENAPI_PATH } from "./pages/Paths.ts"
import * as RunHandlers from "./runs/RunHandlers.ts"
import * as WorkerHandlers from "./workers/WorkerHandlers.ts"
import * as WorkerOperations from "./workers/WorkerOperations.ts"

const layerApi = Layer.mergeAll(
  HttpApiBuilder.layer(Api, { openapiPath: OPENAPI_PATH }).pipe(
    Layer.provide([
      JobsHandlers.layer,
      LogHandlers.layer,
      RunHandlers.layer,
      BatchHandlers.layer,
      BulkHandlers.layer,
      ErrorHandlers.layer,
      OpenAiHandlers.layer,
      WorkerHandlers.layer,
      ControlHandlers.layer,
      ReleaseHandlers.layer,
      BuildHandlers.layer,
      KeyHandlers.layer,
      ScheduleHandlers.layer,
      SecretHandlers.layer,
      ModelHandlers.layer,
      WebhookHandlers.layer,
      OverviewHandlers.layer,
      HistoryHandlers.layer,
      EventHandlers.layer,
      AgentHandlers.layerOperators,
      AgentHandlers.layerCalls,
      AlertHandlers.layer,
      AuditHandlers.layer,
      UsageHandlers.layer,
      BackupHandlers.layer,
      ProbeHandlers.layer
    ]),
    Layer.provide([AuthMiddleware.layer, AuditMiddleware.layer])
  ),
  Fallback.layer,
  Cors.layer
)

/** All routes. The fast path is the innermost middleware, so all other middleware wraps it too. */
const layerAllRoutes = FastPath.layer.pipe(
  Layer.provideMerge(layerApi),
  Layer.provide([AuthGuards.layer, SubmitOperations.layer, WorkerOperations.layer])
)

/** All routes, for any router. */
export const layerRoutes = layerAllRoutes.pipe(Layer.provide(Readiness.layer))

const serve = <E, R>(routes: Layer.Layer<never, E, R>) =>
  HttpRouter.serve(routes, {
    disableListenLog: true,
    disableLogger: true,
    // A worker id has up to 256 characters, or three times that when encoded, and SDKs append any amount of text to it
    // (docs/spec/worker-protocol.md#appended-queries). Node limits all headers of a request to 16 KiB.
    routerConfig: { maxParamLength: 16_384, caseSensitive: true }
  })

/**
 * Completes every wait when the scope closes. The layer is built on top of the served routes, so it closes first: the server waits for
 * requests in flight, and a long poll would delay its shutdown.
 */
const layerEndWaits = Layer.effectDiscard(Effect.gen(function*() {
  const queue = yield* JobQueue
  const events = yield* PlatformEvents
  const agents = yield* Agents
  yield* Effect.addFinalizer(() => Effect.andThen(queue.completeWaits, Effect.andThen(agents.completeWaits, events.close)))
}))

/**
 * The routes, served by the provided `HttpServer`. When the scope closes, the server first responds to requests in flight. Also provides
 * `Readiness`, so that the program can report itself as not ready before the server closes.
 */
export const layer = layerEndWaits.pipe(Layer.provideMerge(serve(layerAllRoutes)), Layer.provideMerge(Readiness.layer))

/**
 * {@link layer}, with more routes, such as the pages of `Pages.layer`. They share the guards of the API. Their middleware wraps the API and the
 * fast path, so these routes are added first.
 */
export const layerWith = <E, R>(routes: Layer.Layer<never, E, R>) =>
  layerEndWaits.pipe(
    Layer.provideMerge(serve(Layer.provideMerge(layerAllRoutes, Layer.provide(routes, AuthGuards.layer)))),
    Layer.provideMerge(Readiness.layer)
  )

export {
  /** A Node HTTP server on the given address. */
  layer as layerNode,
  type ListenOptions
} from "./http/NodeServer.ts"

/** The address that the server listens on. Clients cannot connect to some of these addresses, such as 0.0.0.0. */
const listening: Effect.Effect<string, never, HttpServer.HttpServer> = Effect.map(
  HttpServer.HttpServer,
  (server) => HttpServer.formatAddress(server.address)
)

/** The address of the server for programs on this machine. */
export const baseUrl: Effect.Effect<string, never, HttpServer.HttpServer> = Effect.map(listening, PublicAddress.local)

/** The address of the server for other machines. A guess when the server listens on every address of this machine. */
export const publicAddress: Effect.Effect<PublicAddress.PublicAddress["Service"], never, HttpServer.HttpServer> = Effect.map(
  listening,
  (address) => PublicAddress.guess(address)
)
