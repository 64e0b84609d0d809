/**
 * The three surfaces as one set of routes, and a Node HTTP server for them.
 *
 * ```
 *   caller   --/v2/{endpoint}/run ...-------> JobsHandlers -----+
 *   caller   --/v2/{endpoint}/batch ...-----> BatchHandlers ----+
 *   caller   --/v2/{endpoint}/openai/v1/ ---> OpenAiHandlers ---+
 *   caller   --/v2/{endpoint}/logs ...------> LogHandlers --------> JobLogs
 *   worker   --/v2/{endpoint}/job-take ...--> WorkerHandlers ---+--> JobQueue, BatchQueue, EndpointStore
 *   operator --/api/v1/...------------------> ControlHandlers --+
 *   operator --/api/v1/keys...--------------> KeyHandlers --------> KeyStore
 *   operator --/api/v1/.../webhooks/...-----> WebhookHandlers ----> WebhookStore
 * ```
 *
 * The calls that come with every job have a short way besides, to the same operations (HotRoutes.ts).
 */
import { Api } from "@stint/contract/Api"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as ApiPage from "./ApiPage.ts"
import * as AuthGuards from "./auth/AuthGuards.ts"
import * as AuthMiddleware from "./auth/AuthMiddleware.ts"
import * as BatchHandlers from "./batches/BatchHandlers.ts"
import * as ControlHandlers from "./control/ControlHandlers.ts"
import * as KeyHandlers from "./control/KeyHandlers.ts"
import * as WebhookHandlers from "./control/WebhookHandlers.ts"
import * as FastPath from "./FastPath.ts"
import * as Cors from "./http/Cors.ts"
import * as Fallback from "./http/Fallback.ts"
import * as PublicAddress from "./http/PublicAddress.ts"
import * as JobsHandlers from "./jobs/JobsHandlers.ts"
import * as LogHandlers from "./jobs/LogHandlers.ts"
import * as SubmitOperations from "./jobs/SubmitOperations.ts"
import * as OpenAiHandlers from "./openai/OpenAiHandlers.ts"
import * as WorkerHandlers from "./workers/WorkerHandlers.ts"
import * as WorkerOperations from "./workers/WorkerOperations.ts"

const layerApi = Layer.mergeAll(
  HttpApiBuilder.layer(Api, { openapiPath: Fallback.OPENAPI_PATH }).pipe(
    Layer.provide([
      JobsHandlers.layer,
      LogHandlers.layer,
      BatchHandlers.layer,
      OpenAiHandlers.layer,
      WorkerHandlers.layer,
      ControlHandlers.layer,
      KeyHandlers.layer,
      WebhookHandlers.layer
    ]),
    Layer.provide(AuthMiddleware.layer)
  ),
  ApiPage.layer,
  Fallback.layer,
  Cors.layer
)

/** All routes, for a router of the reader's choice. The hot ones come last: what all other layers put around the router is around them, too. */
export const layerRoutes = FastPath.layer.pipe(
  Layer.provideMerge(layerApi),
  Layer.provide([AuthGuards.layer, SubmitOperations.layer, WorkerOperations.layer])
)

const layerServed = HttpRouter.serve(layerRoutes, {
  disableListenLog: true,
  disableLogger: true,
  // A worker's id has up to 256 characters, encoded three times as many, and SDKs append to it without end
  // (docs/spec/worker-protocol.md#appended-queries). Node bounds
  // the whole head of a request at 16 KiB.
  routerConfig: { maxParamLength: 16_384, caseSensitive: true }
})

/**
 * Ends every wait when the scope closes. It is built upon the served routes, so that it closes before them: the server waits for the
 * requests in flight, and a long poll would keep it waiting.
 */
const layerEndWaits = Layer.effectDiscard(Effect.gen(function*() {
  const queue = yield* JobQueue
  yield* Effect.addFinalizer(() => queue.completeWaits)
}))

/** The routes, served by whatever `HttpServer` is given. When the scope closes, requests in flight are answered first. */
export const layer = layerEndWaits.pipe(Layer.provideMerge(layerServed))

export {
  /** A Node HTTP server on the given address. */
  layer as layerNode,
  type ListenOptions
} from "./http/NodeServer.ts"

/** The address that the server listens on; it may be one that nobody can call, like 0.0.0.0. */
const listening: Effect.Effect<string, never, HttpServer.HttpServer> = Effect.map(
  HttpServer.HttpServer,
  (server) => HttpServer.formatAddress(server.address)
)

/** The address of the server, as programs on this machine call it. */
export const baseUrl: Effect.Effect<string, never, HttpServer.HttpServer> = Effect.map(listening, PublicAddress.local)

/** The address of the server, as others may call it: a guess where it listens on every address of this machine. */
export const publicAddress: Effect.Effect<PublicAddress.PublicAddress["Service"], never, HttpServer.HttpServer> = Effect.map(
  listening,
  (address) => PublicAddress.guess(address)
)
