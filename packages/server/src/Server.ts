/**
 * The three surfaces as one set of routes, and a Node HTTP server for them.
 *
 * ```
 *   caller   --/v2/{endpoint}/run ...-------> JobsHandlers -----+
 *   worker   --/v2/{endpoint}/job-take ...--> WorkerHandlers ---+--> JobQueue, EndpointStore
 *   operator --/api/v1/...------------------> ControlHandlers --+
 * ```
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Api } from "@stint/contract/Api"
import { JobQueue } from "@stint/queue/JobQueue"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Layer from "effect/Layer"
import { createServer } from "node:http"
import * as Authorization from "./Authorization.ts"
import * as ControlHandlers from "./ControlHandlers.ts"
import * as Fallback from "./Fallback.ts"
import * as JobsHandlers from "./JobsHandlers.ts"
import * as WorkerHandlers from "./WorkerHandlers.ts"

/** All routes, for a router of the reader's choice. */
export const layerRoutes = Layer.mergeAll(
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide([JobsHandlers.layer, WorkerHandlers.layer, ControlHandlers.layer]),
    Layer.provide(Authorization.layer)
  ),
  Fallback.layer
)

/** Ends every long poll when the scope closes, so that the HTTP server, which closes after it, has nothing to wait for. */
const layerEndWaits = Layer.effectDiscard(Effect.gen(function*() {
  const queue = yield* JobQueue
  yield* Effect.addFinalizer(() => queue.endWaits)
}))

/** The routes, served by whatever `HttpServer` is given. When the scope closes, requests in flight are answered first. */
export const layer = HttpRouter.serve(Layer.mergeAll(layerRoutes, layerEndWaits), { disableListenLog: true, disableLogger: true })

export interface ListenOptions {
  /** Address to bind. Default 127.0.0.1: nothing outside this machine reaches the platform unless it is told to listen wider. */
  readonly host?: string
  /** Default 4600; 0 takes a free one. */
  readonly port?: number
  /** How long requests in flight are waited for when the server closes. Default 5 s. */
  readonly gracefulShutdownTimeout?: Duration.Input
}

/** A Node HTTP server on the given address. */
export const layerNode = (options: ListenOptions = {}) =>
  NodeHttpServer.layer(() =>
    createServer({
      // A worker keeps its connections between long polls; closing them under it would cost a reconnect per job.
      keepAliveTimeout: 120_000,
      // A body may come slowly, but not for ever.
      requestTimeout: 300_000
    }), {
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 4600,
    gracefulShutdownTimeout: options.gracefulShutdownTimeout ?? "5 seconds"
  })

/** The address that the server listens on, as workers on this machine see it. */
export const baseUrl: Effect.Effect<string, never, HttpServer.HttpServer> = Effect.map(
  HttpServer.HttpServer,
  (server) => HttpServer.formatAddress(server.address)
)
