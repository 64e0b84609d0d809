import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import * as NodeHttpClient from "../src/transport/NodeHttpClient.ts"

/** Runs a server with this behaviour until the scope closes. */
const serve = (listener: (request: IncomingMessage, response: ServerResponse, count: number) => void) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      let count = 0
      const sockets = new Set<Socket>()
      const server = createServer((request, response) => listener(request, response, ++count))
      server.on("connection", (socket) => sockets.add(socket))
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const address = server.address()
      return {
        server,
        url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
        count: () => count,
        connections: () => sockets.size
      }
    }),
    ({ server }) =>
      Effect.promise(() =>
        new Promise((resolve) => {
          server.closeAllConnections()
          server.close(resolve)
        })
      )
  )

const get = (url: string, idleTimeout = 10_000): NodeHttpClient.HttpRequest => ({ method: "GET", url, idleTimeout })

it.live("reuses its connection, sends its headers and reads bodies in any number of pieces", () =>
  Effect.gen(function*() {
    const server = yield* serve((request, response) => {
      response.setHeader("content-type", "Application/JSON; charset=utf-8")
      response.write("Grü")
      setImmediate(() =>
        response.end(`ße ${String(request.headers["x-test"])} ${request.headers.host ?? ""} ${request.url ?? ""}`)
      )
    })
    const call = yield* NodeHttpClient.make({ "x-test": "1" })
    for (const path of ["/a?b=c", "/d", ""]) {
      expect(yield* call(get(server.url + path))).toEqual({
        status: 200,
        contentType: "application/json",
        text: `Grüße 1 ${new URL(server.url).host} ${path === "" ? "/" : path}`
      })
    }
    expect(server.connections()).toBe(1)
  }))

it.live("repeats a call once when the reused connection was closed", () =>
  Effect.gen(function*() {
    const server = yield* serve((request, response, count) => count === 2 ? request.socket.destroy() : response.end(`${count}`))
    const call = yield* NodeHttpClient.make({})
    expect((yield* call(get(server.url))).text).toBe("1")
    expect((yield* call(get(server.url))).text).toBe("3")
  }))

it.live("does not repeat a call when a new connection is cut", () =>
  Effect.gen(function*() {
    const server = yield* serve((request) => request.socket.destroy())
    const call = yield* NodeHttpClient.make({})
    const error = yield* Effect.flip(call(get(server.url)))
    expect(error).toMatchObject({ reason: { _tag: "Unreachable", timedOut: false } })
    expect(error.message).toBe(`${server.url} does not answer (ECONNRESET)`)
    expect(server.count()).toBe(1)
  }))

it.live("fails a call without traffic with a message that says so", () =>
  Effect.gen(function*() {
    const server = yield* serve(() => {})
    const call = yield* NodeHttpClient.make({})
    expect(yield* Effect.flip(call(get(server.url, 50)))).toMatchObject({ reason: { _tag: "Unreachable", timedOut: true } })
  }))

it.live("an interrupted call closes its connection and is not repeated", () =>
  Effect.gen(function*() {
    const arrived = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    const server = yield* serve((request, response, count) => {
      if (count === 1) response.end()
      else {
        request.socket.on("close", () => left.resolve())
        arrived.resolve()
      }
    })
    const call = yield* NodeHttpClient.make({})
    yield* call(get(server.url))
    const fiber = yield* Effect.forkChild(call(get(server.url)))
    yield* Effect.promise(() => arrived.promise)
    yield* Fiber.interrupt(fiber)
    yield* Effect.promise(() => left.promise)
    // The next call is sent after anything that the interrupted call might still have sent.
    const other = yield* Effect.forkChild(call(get(server.url)))
    yield* Effect.promise(async () => {
      while (server.count() < 3) await new Promise((resolve) => setImmediate(resolve))
    })
    expect(server.count()).toBe(3)
    yield* Fiber.interrupt(other)
  }))

it.live("waits as long for a response on a reused connection as on a new one, if the server announces to close idle ones sooner", () =>
  Effect.gen(function*() {
    const server = yield* serve((_request, response, count) => {
      response.setHeader("keep-alive", "timeout=2")
      if (count === 1) response.end("first")
      // Node keeps an idle connection for a second less than announced.
      else setTimeout(() => response.end("second"), 1_200)
    })
    const call = yield* NodeHttpClient.make({})
    expect((yield* call(get(server.url))).text).toBe("first")
    expect((yield* call(get(server.url))).text).toBe("second")
    expect(server.connections()).toBe(1)
  }))
