import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as NetAddress from "effect/net/NetAddress"
import { once } from "node:events"
import { connect } from "node:net"
import { layer } from "../src/http/NodeServer.ts"

/** Sends `text` on a connection of its own. Resolves with everything that the server writes until it closes the connection. */
const send = async (port: number, text: string): Promise<string> => {
  const socket = connect(port, "127.0.0.1")
  let answer = ""
  socket.on("data", (data: Buffer) => (answer += data.toString()))
  await once(socket, "connect")
  socket.write(text)
  await once(socket, "close")
  return answer
}

const echo = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  return HttpServerResponse.text(`${request.method} ${request.url} ${yield* request.text}`)
})

describe("a server that listens before its routes are ready", () => {
  it.live("responds to the requests that arrived in the meantime", () =>
    Effect.gen(function*() {
      const server = yield* HttpServer.HttpServer
      if (!NetAddress.isInetAddress(server.address)) throw new Error("no port")
      const { port } = server.address
      const get = send(port, "GET /early HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
      const post = send(port, "POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody")
      const expecting = send(
        port,
        "PUT /early HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody"
      )
      // The server responds to this request without routes. It arrived after the others, so the server has read those too.
      expect(yield* Effect.promise(() => send(port, "not HTTP\r\n\r\n"))).toContain("HTTP/1.1 400 Bad Request")
      yield* server.serve(echo)
      expect(yield* Effect.promise(() => get)).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\nGET \/early $/)
      expect(yield* Effect.promise(() => post)).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\nPOST \/early body$/)
      expect(yield* Effect.promise(() => expecting)).toMatch(/HTTP\/1.1 200 OK\r\n[^]*\r\n\r\nPUT \/early body$/)
      expect(yield* Effect.promise(() => send(port, "GET /later HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")))
        .toContain("GET /later ")
    }).pipe(Effect.provide(layer({ port: 0 }))))
})
