/** Hostile servers on loopback, and a folder that tests inspect. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer as createTcpServer } from "node:net"
import type { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Downloads } from "../src/index.ts"

/** A server at 127.0.0.2, which these tests allow. */
export interface Loopback {
  readonly url: string
  readonly requests: Array<IncomingMessage>
}

const listen = (server: ReturnType<typeof createTcpServer>, host: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly sockets: Set<Socket> }>((resume) => {
      const sockets = new Set<Socket>()
      server.on("connection", (socket: Socket) => {
        sockets.add(socket)
        socket.on("error", () => {})
        socket.on("close", () => sockets.delete(socket))
      })
      server.listen(0, host, () => {
        const address = server.address()
        resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : 0, sockets }))
      })
    }),
    ({ sockets }) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        for (const socket of sockets) socket.destroy()
      })
  )

/** Responds with a function of the request and its number, from 0. */
export const http = (
  answer: (response: ServerResponse, nth: number, request: IncomingMessage) => unknown,
  host = "127.0.0.2"
): Effect.Effect<Loopback, never, Scope.Scope> =>
  Effect.gen(function*() {
    const requests: Array<IncomingMessage> = []
    const { port } = yield* listen(
      createServer((request, response) => {
        requests.push(request)
        answer(response, requests.length - 1, request)
      }),
      host
    )
    return { url: `http://${host}:${port}`, requests }
  })

/** Responds to every request with these raw bytes, and closes the connection. */
export const raw = (text: string) =>
  Effect.map(
    listen(createTcpServer((socket) => void socket.once("data", () => socket.end(text))), "127.0.0.2"),
    ({ port }) => `http://127.0.0.2:${port}`
  )

/** The parent of temporary folders. */
export const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-downloads-test-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** All paths under the folder: temporary folders, and their files. */
export const listed = (path: string) =>
  Effect.promise(async () =>
    (await readdir(path, { recursive: true, withFileTypes: true })).filter((one) => one.isFile()).map(({ name }) => name)
      .toSorted()
  )

/** Downloads from 127.0.0.2 into temporary folders under this one. */
export const layer = (directory: string, settings: Downloads.Settings = {}) =>
  Downloads.layerWith({ allow: ["127.0.0.2"], directory, ...settings })

/** A switch that a server sets and a test waits for. */
export const signal = () => {
  const deferred = Deferred.makeUnsafe<void>()
  return { set: () => void Deferred.doneUnsafe(deferred, Exit.void), wait: Deferred.await(deferred) }
}
