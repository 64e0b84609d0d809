/** Servers on loopback addresses, and a count of every connection that undici attempts. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { createServer } from "node:http"
import type { IncomingMessage, RequestListener, Server } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import { createServer as createTcpServer } from "node:net"
import type { Server as TcpServer, Socket } from "node:net"
import { getCACertificates, setDefaultCACertificates } from "node:tls"
import { GuardedHttp, Resolver } from "../src/index.ts"
import { certificate, key } from "./Certificate.ts"

/** A server that records its requests. */
export interface Loopback {
  readonly port: number
  readonly requests: Array<IncomingMessage>
  readonly sockets: Set<Socket>
  /** Connections so far, including closed ones. */
  connections: number
}

const listening = (server: Server | TcpServer, host: string, port: number) =>
  Effect.acquireRelease(
    Effect.callback<Loopback>((resume) => {
      const sockets = new Set<Socket>()
      const loopback: Loopback = { port: 0, requests: [], sockets, connections: 0 }
      server.on("connection", (socket: Socket) => {
        loopback.connections++
        sockets.add(socket)
        socket.on("error", () => {})
        socket.on("close", () => sockets.delete(socket))
      })
      server.on("request", (request: IncomingMessage) => loopback.requests.push(request))
      server.listen(port, host, () => {
        const address = server.address()
        resume(Effect.succeed(
          Object.assign(loopback, { port: typeof address === "object" && address !== null ? address.port : 0 })
        ))
      })
    }),
    ({ sockets }) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        for (const socket of sockets) socket.destroy()
      })
  )

/** An HTTP server at this address. 127.0.0.2 represents the public network, and 127.0.0.1 represents the internal network. */
export const http = (listener: RequestListener, host = "127.0.0.2", port = 0) => listening(createServer(listener), host, port)

/** An HTTPS server for secure.example. */
export const https = (listener: RequestListener) =>
  listening(createHttpsServer({ cert: certificate, key }, listener), "127.0.0.2", 0)

/** Trusts only this certificate while the scope is open. */
export const trusted = (certificate: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = getCACertificates("default")
      setDefaultCACertificates([certificate])
      return before
    }),
    (before) => Effect.sync(() => setDefaultCACertificates(before))
  )

/** A server that sends raw bytes. */
export const tcp = (talk: (socket: Socket) => void, host = "127.0.0.2") => listening(createTcpServer(talk), host, 0)

/** The addresses that undici connects to while the scope is open. */
export const attempts = Effect.acquireRelease(
  Effect.sync(() => {
    const seen: Array<string> = []
    const listener = (message: unknown) => {
      if (typeof message !== "object" || message === null || !("connectParams" in message)) return
      seen.push(JSON.stringify(message.connectParams))
    }
    subscribe("undici:client:beforeConnect", listener)
    return { seen, listener }
  }),
  ({ listener }) => Effect.sync(() => void unsubscribe("undici:client:beforeConnect", listener))
)

/** The client for these tests: 127.0.0.2 is treated as public, and a table resolves names. */
export const client = (
  table: { readonly [host: string]: ReadonlyArray<string> } = {},
  settings: GuardedHttp.Settings = { allow: ["127.0.0.2"] }
) => GuardedHttp.layerWith(settings).pipe(Layer.provide(Resolver.layerTable(table)))

/** Requests the URL and reads the whole body. */
export const fetched = (url: string, options: GuardedHttp.Options = {}) =>
  Effect.scoped(Effect.gen(function*() {
    const response = yield* GuardedHttp.request(url, options)
    const chunks: Array<Uint8Array> = []
    yield* Stream.runForEach(response.body, (chunk) => Effect.sync(() => void chunks.push(chunk)))
    return { ...response, bytes: Buffer.concat(chunks) }
  }))

/** The reason for the failure. */
export const reason = (url: string, options: GuardedHttp.Options = {}) =>
  Effect.map(Effect.flip(fetched(url, options)), (error) => error.reason)
