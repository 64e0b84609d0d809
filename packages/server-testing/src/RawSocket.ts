/**
 * A bare TCP client for requests that no HTTP library would send.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { connect, type Socket } from "node:net"
import { NoAnswer } from "./WireClient.ts"

/** An open connection. */
export interface RawSocket {
  /** Writes without waiting for a response. */
  readonly write: (bytes: string | Uint8Array) => Effect.Effect<void>
  /** Sends FIN and continues reading. */
  readonly halfClose: Effect.Effect<void>
  /** Resets the connection (RST). */
  readonly reset: Effect.Effect<void>
  /** The bytes received so far. */
  readonly received: Effect.Effect<string>
  /** Everything received, as soon as `matches` accepts it. Fails if the connection ends before that. */
  readonly until: (matches: (received: string) => boolean) => Effect.Effect<string, NoAnswer>
  /** Everything received, after the server has closed the connection. */
  readonly closed: Effect.Effect<string>
}

interface Listener {
  readonly matches: (received: string) => boolean
  readonly found: (received: string) => void
  readonly ended: (received: string) => void
}

const wrap = (socket: Socket): RawSocket => {
  let received = ""
  let over = false
  const listeners = new Set<Listener>()
  const check = () => {
    for (const listener of listeners) {
      if (listener.matches(received)) {
        listeners.delete(listener)
        listener.found(received)
      } else if (over) {
        listeners.delete(listener)
        listener.ended(received)
      }
    }
  }
  socket.setEncoding("utf8")
  socket.on("data", (text: string) => {
    received += text
    check()
  })
  // Ignored, because tests provoke resets. A `close` event follows.
  socket.on("error", () => {})
  const close = () => {
    over = true
    check()
  }
  socket.on("end", close)
  socket.on("close", close)
  const listen = (listener: Listener) => {
    listeners.add(listener)
    check()
    return Effect.sync(() => listeners.delete(listener))
  }
  return {
    write: (bytes) => Effect.sync(() => void socket.write(bytes)),
    halfClose: Effect.sync(() => void socket.end()),
    reset: Effect.sync(() => void socket.resetAndDestroy()),
    received: Effect.sync(() => received),
    until: (matches) =>
      Effect.callback<string, NoAnswer>((resume) =>
        listen({
          matches,
          found: (text) => resume(Effect.succeed(text)),
          ended: (text) => resume(new NoAnswer({ cause: new Error(`the connection ended after: ${JSON.stringify(text)}`) }))
        })
      ),
    closed: Effect.callback<string>((resume) =>
      listen({ matches: () => false, found: () => {}, ended: (text) => resume(Effect.succeed(text)) })
    )
  }
}

/** Connects. The connection is closed when the scope closes. */
export const open = (baseUrl: string): Effect.Effect<RawSocket, NoAnswer, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Socket, NoAnswer>((resume) => {
      const { hostname, port } = new URL(baseUrl)
      const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
      const refused = (cause: Error) => resume(new NoAnswer({ cause }))
      socket.once("error", refused)
      socket.once("connect", () => {
        socket.off("error", refused)
        resume(Effect.succeed(socket))
      })
    }),
    (socket) => Effect.sync(() => void socket.destroy())
  ).pipe(Effect.map(wrap))

/** The head of a request, with its blank line. Adds a `host` header. */
export const head = (line: string, headers: Readonly<Record<string, string>> = {}): string =>
  [`${line} HTTP/1.1`, "host: stint", ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), "", ""].join("\r\n")

/** The status of the first response in a text; undefined when there is none. */
export const statusOf = (received: string): number | undefined => {
  const match = /^HTTP\/1\.1 (\d{3}) /.exec(received)
  return match?.[1] === undefined ? undefined : Number(match[1])
}

/** Whether a text contains a complete response with a `content-length`. */
export const isWhole = (received: string): boolean => {
  const end = received.indexOf("\r\n\r\n")
  if (end === -1) return false
  const length = /^content-length: (\d+)/im.exec(received.slice(0, end))?.[1]
  return Buffer.byteLength(received.slice(end + 4)) >= Number(length ?? 0)
}

/** The body of the first response in a text. */
export const bodyOf = (received: string): string => received.slice(received.indexOf("\r\n\r\n") + 4)
