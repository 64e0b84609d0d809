/**
 * A Node HTTP server that loses no request while it starts, shuts down within a time limit and sends error responses to requests that are not
 * valid HTTP.
 *
 * ```
 *   the scope opens
 *     |  the listener opens                     requests are accepted and held
 *     v  the routes are ready                   held requests are served
 *
 *   the scope closes
 *     |  waits complete                         every long poll gets its response       (Server.ts)
 *     |  responses carry `connection: close`    keep-alive connections end with them
 *     |  the listener closes                    new connections are refused
 *     v  requests in flight may finish          gracefulShutdownTimeout
 *   remaining connections are closed            unfinished uploads, idle connections
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

/** Where to listen, and the timeouts. */
export interface ListenOptions {
  /** Address to bind. Default 127.0.0.1: the platform is reachable only from this machine. */
  readonly host?: string
  /** Default 4600; 0 picks a free port. */
  readonly port?: number
  /** How long the server waits for requests in flight when it closes. Default 5 s. */
  readonly gracefulShutdownTimeout?: Duration.Input
  /**
   * How long a client may take to send a request, body included. Default 5 min: enough for 20 MiB over a slow connection, while no
   * connection stays open forever. A longer time suits slower connections; a shorter time reduces the number of open connections.
   */
  readonly requestTimeout?: Duration.Input
}

/**
 * How long idle connections stay open. Workers reuse their connection between long polls; with a shorter time, they would have to
 * reconnect for every job.
 */
const KEEP_ALIVE_MILLIS = 120_000

/** How often Node checks for requests that have exceeded their timeout. */
const CHECK_MILLIS = 30_000

/** How much time a rejected client has to read the response before the connection is closed. */
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
          error: "The URL and headers of the request are larger than 16 KiB.",
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
          hint: "Send the request again. Over a slow line, put the data in an object store and send its URL."
        })
      }
    default:
      return {
        status: "400 Bad Request",
        body: problemJson({
          status: 400,
          title: "Bad request",
          type: "bad-request",
          error: `The platform received data that is not an HTTP/1.1 request${code === undefined ? "" : ` (${code})`}.`,
          hint: "Use plain HTTP, not TLS. Put a proxy in front of the platform for https."
        })
      }
  }
}

/** The bytes of a response that ends its connection. */
const closingResponse = (status: string, body: string): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\nx-content-type-options: nosniff\r\ncontent-length: ${
    Buffer.byteLength(body)
  }\r\nconnection: close\r\n\r\n${body}`

/** Responds to CONNECT. Without a listener, Node closes the connection. */
const answerConnect = (server: Server) => {
  const response = closingResponse(
    "405 Method Not Allowed",
    problemJson({
      status: 405,
      title: "Method not allowed",
      type: "method-not-allowed",
      error: "The platform does not support CONNECT, because it is not a proxy.",
      hint: "Send requests directly to the platform: in your client's settings, it is not an HTTP proxy."
    })
  )
  server.on("connect", (_request, socket) => {
    // Node no longer watches this socket, and an unhandled error would end the process.
    socket.on("error", () => socket.destroy())
    socket.end(response)
    socket.resume()
    const closeTimer = setTimeout(() => socket.destroy(), LINGER_MILLIS)
    socket.once("close", () => clearTimeout(closeTimer))
  })
}

/** Responds to requests that Node's parser rejects. `latest` contains the latest response on each connection. */
const answerRefusals = (server: Server, latest: ReadonlyMap<Duplex, ServerResponse>) => {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // This is further data from a connection that was already rejected.
    if (socket.writableEnded) return
    const response = latest.get(socket)
    // The client would read a second response as part of the first response's body.
    if (
      !socket.writable || error.code === "ECONNRESET" ||
      (response !== undefined && response.headersSent && !response.writableEnded)
    ) {
      socket.destroy()
      return
    }
    const { body, status } = rejectionFor(error.code)
    socket.end(closingResponse(status, body))
    // Closing immediately would reset the connection because of unread bytes, and the client would lose the response.
    const closeTimer = setTimeout(() => socket.destroy(), LINGER_MILLIS)
    socket.once("close", () => clearTimeout(closeTimer))
  })
}

const make = Effect.fnUntraced(function*(options: ListenOptions) {
  const requestTimeout = Duration.toMillis(options.requestTimeout ?? "5 minutes")
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MILLIS,
    requestTimeout,
    headersTimeout: Math.min(60_000, requestTimeout),
    connectionsCheckingInterval: Math.min(CHECK_MILLIS, requestTimeout),
    // Node's response to a request without a Host header has no body. Fallback.ts responds instead.
    requireHostHeader: false
  })
  // One listener per connection: a listener per request would cost more than the rest of this file.
  const latest = new Map<Duplex, ServerResponse>()
  let closing = false
  server.on("connection", (socket) => {
    socket.once("close", () => latest.delete(socket))
  })
  // Other parts of the platform need the address to start, so the server listens before its routes are ready. Node would never respond to a
  // request that arrives while there is no listener.
  let held: Array<() => void> | undefined = []
  const track = (event: "request" | "checkContinue") => (request: IncomingMessage, response: ServerResponse) => {
    held?.push(() => server.emit(event, request, response))
    latest.set(request.socket, response)
    if (closing) response.shouldKeepAlive = false
  }
  server.on("request", track("request"))
  // Requests with `Expect: 100-continue` arrive only through this event.
  server.on("checkContinue", track("checkContinue"))
  answerRefusals(server, latest)
  answerConnect(server)

  const http = yield* NodeHttpServer.make(() => server, {
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 4600,
    gracefulShutdownTimeout: options.gracefulShutdownTimeout ?? "5 seconds"
  })
  // Node closes the listener and then waits for all connections to end. Some would never end.
  yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  const endKeepAlive = Effect.sync(() => {
    closing = true
    for (const response of latest.values()) response.shouldKeepAlive = false
  })
  const serveHeld = Effect.sync(() => {
    const requests = held ?? []
    held = undefined
    for (const serve of requests) serve()
  })
  // The platform upgrades no connection. While a server has a listener for upgrades, Node no longer watches the connection of a request that
  // offers another protocol, and a caller that hangs up would wait on. Without one, Node ignores the offer.
  const ignoreUpgrades = Effect.sync(() => server.removeAllListeners("upgrade"))
  return HttpServer.make({
    address: http.address,
    serve: (app, middleware) =>
      (middleware === undefined ? http.serve(app) : http.serve(app, middleware)).pipe(
        Effect.andThen(Effect.addFinalizer(() => endKeepAlive)),
        Effect.andThen(ignoreUpgrades),
        Effect.andThen(serveHeld)
      )
  })
})

/** A Node HTTP server on the given address, with the services that HTTP handlers require. */
export const layer = (options: ListenOptions = {}) =>
  Layer.merge(Layer.effect(HttpServer.HttpServer, make(options)), NodeHttpServer.layerHttpServices)
