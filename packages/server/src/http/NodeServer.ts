/**
 * A Node HTTP server that closes in time and answers what is no HTTP.
 *
 * ```
 *   the scope closes
 *     |  waits are ended                        every long poll is answered            (Server.ts)
 *     |  answers carry `connection: close`      kept-alive connections end with them
 *     |  the listener closes                    new connections are refused
 *     v  requests in flight are waited for      gracefulShutdownTimeout
 *   what is still open is cut                   uploads that never end, connections that never asked
 * ```
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http"
import * as Layer from "effect/Layer"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import { PROBLEM_CONTENT_TYPE, problemJson } from "./ProblemJson.ts"

/** Where to listen, and how patiently. */
export interface ListenOptions {
  /** Address to bind. Default 127.0.0.1: nothing outside this machine reaches the platform unless it is told to listen wider. */
  readonly host?: string
  /** Default 4600; 0 takes a free one. */
  readonly port?: number
  /** How long requests in flight are waited for when the server closes. Default 5 s. */
  readonly gracefulShutdownTimeout?: Duration.Input
  /**
   * How long a client may take to send a request, body included. Default 5 min: 20 MiB over a slow line, but no connection that is held
   * open for ever. Longer is kinder to slow lines, shorter to the number of open connections.
   */
  readonly requestTimeout?: Duration.Input
}

/** How long a connection is kept between requests. A worker keeps its own between long polls; a shorter time would cost it a reconnect a job. */
const KEEP_ALIVE_MILLIS = 120_000

/** How often Node looks for requests that take too long. */
const CHECK_MILLIS = 30_000

/** How long a client that was refused has to read the answer before the connection is cut. */
const LINGER_MILLIS = 500

const rejectionFor = (code: string | undefined): { readonly status: string; readonly body: string } => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return {
        status: "431 Request Header Fields Too Large",
        body: problemJson({
          status: 431,
          title: "Request header fields too large",
          type: "headers-too-large",
          error: "The address and headers of the request are larger than 16 KiB.",
          hint: "Send data in the body, and fewer or shorter headers."
        })
      }
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return {
        status: "408 Request Timeout",
        body: problemJson({
          status: 408,
          title: "Request timeout",
          type: "request-timeout",
          error: "The request did not arrive in time.",
          hint: "Send it again. If the line is slow, put the data in an object store and send its address."
        })
      }
    default:
      return {
        status: "400 Bad Request",
        body: problemJson({
          status: 400,
          title: "Bad request",
          type: "bad-request",
          error: `This is not an HTTP/1.1 request that the platform understands${code === undefined ? "" : ` (${code})`}.`,
          hint: "Speak plain HTTP here, not TLS; a proxy in front of the platform can add https."
        })
      }
  }
}

/** Answers what Node's parser refuses. `latest` holds the latest response of each connection. */
const answerRefusals = (server: Server, latest: ReadonlyMap<Duplex, ServerResponse>) => {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // More of the same from a connection that was refused already.
    if (socket.writableEnded) return
    const response = latest.get(socket)
    // A second answer within a first would be taken for a part of it.
    if (
      !socket.writable || error.code === "ECONNRESET" ||
      (response !== undefined && response.headersSent && !response.writableEnded)
    ) {
      socket.destroy()
      return
    }
    const { body, status } = rejectionFor(error.code)
    socket.end(
      `HTTP/1.1 ${status}\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\ncontent-length: ${
        Buffer.byteLength(body)
      }\r\nconnection: close\r\n\r\n${body}`
    )
    // Cut at once, the client's unread bytes would reset the connection and take the answer with them.
    const cut = setTimeout(() => socket.destroy(), LINGER_MILLIS)
    socket.once("close", () => clearTimeout(cut))
  })
}

const make = Effect.fnUntraced(function*(options: ListenOptions) {
  const requestTimeout = Duration.toMillis(options.requestTimeout ?? "5 minutes")
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MILLIS,
    requestTimeout,
    headersTimeout: Math.min(60_000, requestTimeout),
    connectionsCheckingInterval: Math.min(CHECK_MILLIS, requestTimeout)
  })
  // By connection and not by request, because a listener a request would cost more than all else that is done here.
  const latest = new Map<Duplex, ServerResponse>()
  let closing = false
  server.on("connection", (socket) => {
    socket.once("close", () => latest.delete(socket))
  })
  const note = (request: IncomingMessage, response: ServerResponse) => {
    latest.set(request.socket, response)
    if (closing) response.shouldKeepAlive = false
  }
  server.on("request", note)
  // A client that asks first (`Expect: 100-continue`) comes by this event alone.
  server.on("checkContinue", note)
  answerRefusals(server, latest)

  const http = yield* NodeHttpServer.make(() => server, {
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 4600,
    gracefulShutdownTimeout: options.gracefulShutdownTimeout ?? "5 seconds"
  })
  // Node closes the listener and then waits for connections; some of them would never end.
  yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  const endKeepAlive = Effect.sync(() => {
    closing = true
    for (const response of latest.values()) response.shouldKeepAlive = false
  })
  return HttpServer.make({
    address: http.address,
    serve: (app, middleware) =>
      Effect.andThen(
        middleware === undefined ? http.serve(app) : http.serve(app, middleware),
        Effect.addFinalizer(() => endKeepAlive)
      )
  })
})

/** A Node HTTP server on the given address, and what handlers of HTTP need besides. */
export const layer = (options: ListenOptions = {}) =>
  Layer.merge(Layer.effect(HttpServer.HttpServer, make(options)), NodeHttpServer.layerHttpServices)
