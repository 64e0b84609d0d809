/**
 * Tests requests that no HTTP library would send: each one gets a response, and the server continues unaffected.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { bodyOf, head, isWhole, statusOf } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"

const KEY = { authorization: `Bearer ${ADMIN_KEY}` }

/** Registers the tests for connections. */
export const connections = (it: ServerIt): void => {
  it.effect("returns 400 in JSON for data that is not HTTP", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const texts = [
        "hello\r\n\r\n",
        "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /\u0000 HTTP/1.1\r\nhost: x\r\n\r\n",
        "BREW /coffee HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
      ]
      for (const text of texts) {
        const socket = yield* server.connect
        yield* socket.write(text)
        const answer = yield* socket.closed
        expect(statusOf(answer), JSON.stringify(text)).toBe(400)
        expect(JSON.parse(bodyOf(answer)), JSON.stringify(text)).toMatchObject({ status: 400, hint: expect.any(String) })
      }
      const empty = yield* server.connect
      yield* empty.halfClose
      expect(yield* empty.closed).toBe("")
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 400 in JSON for an HTTP/1.1 request without a Host header, and accepts an HTTP/1.0 request without one", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      for (const path of [endpoint.path("health"), "/nowhere"]) {
        const socket = yield* server.connect
        yield* socket.write(`GET ${path} HTTP/1.1\r\nauthorization: ${ADMIN_KEY}\r\n\r\n`)
        const answer = yield* socket.until(isWhole)
        expect(statusOf(answer), path).toBe(400)
        expect(answer).toContain("application/problem+json")
        expect(JSON.parse(bodyOf(answer))).toMatchObject({ status: 400, error: expect.stringContaining("Host") })
      }
      const old = yield* server.connect
      yield* old.write(`GET ${endpoint.path("health")} HTTP/1.0\r\nauthorization: ${ADMIN_KEY}\r\n\r\n`)
      expect(statusOf(yield* old.closed)).toBe(200)
    }))

  it.effect("returns 405 in JSON for CONNECT and closes the connection", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      for (const target of ["example.com:443", "/v2/x/run"]) {
        const socket = yield* server.connect
        yield* socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n\r\nGET / HTTP/1.1\r\n`)
        const answer = yield* socket.closed
        expect(statusOf(answer), target).toBe(405)
        expect(JSON.parse(bodyOf(answer))).toMatchObject({ status: 405, hint: expect.stringContaining("proxy") })
      }
      expect(yield* server.works).toBe(true)
    }))

  it.effect("every response forbids browsers from guessing its content type", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const answers = [
        yield* endpoint.call(endpoint.path("run"), { json: { input: 1 } }),
        yield* endpoint.call(endpoint.path("runsync?wait=100"), { json: { input: 1 } }),
        yield* endpoint.call(endpoint.path("run"), { body: "{" }),
        yield* endpoint.call(endpoint.path("health")),
        yield* endpoint.call(endpoint.path("batch/none/requests")),
        yield* endpoint.call(endpoint.path(`cancel/${id}`), { method: "POST" }),
        yield* endpoint.call(endpoint.path(`events/${id}`)),
        yield* endpoint.call(endpoint.path("openai/v1/"), { authorization: null }),
        yield* worker.call(worker.addresses.ping),
        yield* server.call("/docs", { authorization: null }),
        yield* server.call("/openapi.json", { authorization: null }),
        yield* server.call("/nowhere", { authorization: null })
      ]
      for (const answer of answers) expect(answer.headers.get("x-content-type-options"), answer.text).toBe("nosniff")
      for (const text of ["hello\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n"]) {
        const socket = yield* server.connect
        yield* socket.write(text)
        expect(yield* socket.until(isWhole)).toMatch(/\r\nx-content-type-options: nosniff\r\n/i)
      }
    }))

  it.effect("accepts sloppy requests: absolute URLs, lower-case header names, an upgrade offer, two requests at once", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const health = endpoint.path("health")
      const body = "{\"input\":1}"
      const length = { "content-length": String(body.length) }
      const upgrade = { connection: "Upgrade, HTTP2-Settings", upgrade: "h2c", "http2-settings": "AAMAAABkAAQAoAAAAAIAAAAA" }
      const requests: ReadonlyArray<readonly [text: string, status: number]> = [
        [head(`GET http://elsewhere${health}`, KEY), 200],
        [head(`GET ${health}`, { AUTHORIZATION: ADMIN_KEY }), 200],
        [head(`GET //v2//${endpoint.id}//health/`, KEY), 200],
        [head(`GET ${health}#fragment`, KEY), 200],
        // curl sends this with --http2.
        [head(`GET ${health}`, { ...KEY, ...upgrade }), 200],
        [head(`POST ${endpoint.path("run")}`, { ...KEY, ...upgrade, ...length }) + body, 200],
        [head(`POST ${endpoint.path("run")}`, { ...KEY, ...length, expect: "100-continue" }) + body, 200],
        [head(`POST ${endpoint.path("run")}`, { ...KEY, "transfer-encoding": "chunked" }) + `b\r\n${body}\r\n0\r\n\r\n`, 200]
      ]
      for (const [text, status] of requests) {
        const socket = yield* server.connect
        yield* socket.write(text)
        const answer = (yield* socket.until((received) => isWhole(received.replace("HTTP/1.1 100 Continue\r\n\r\n", ""))))
          .replace("HTTP/1.1 100 Continue\r\n\r\n", "")
        expect(statusOf(answer), text).toBe(status)
      }
      const socket = yield* server.connect
      yield* socket.write(head(`GET ${health}`, KEY) + head(`GET ${endpoint.path("status/x")}`, KEY))
      const both = yield* socket.until((received) => received.includes("job-not-found"))
      expect(both.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404"])
    }))

  it.effect("a body that arrives slowly or never completes does not delay other requests", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const body = "{\"input\":\"slow\"}"
      const start = head(`POST ${endpoint.path("run")}`, { ...KEY, "content-length": String(body.length) })
      const slow = yield* server.connect
      yield* slow.write(start.slice(0, 30))
      expect(yield* server.works).toBe(true)
      yield* slow.write(start.slice(30) + body.slice(0, 5))
      const cut = yield* server.connect
      yield* cut.write(start + body.slice(0, 5))
      const half = yield* server.connect
      yield* half.write(start + body.slice(0, 5))
      expect(yield* server.works).toBe(true)
      yield* cut.reset
      yield* half.halfClose
      yield* half.closed
      expect(yield* server.works).toBe(true)
      yield* slow.write(body.slice(5))
      expect(statusOf(yield* slow.until(isWhole))).toBe(200)
      expect((yield* endpoint.health).jobs.inQueue).toBe(1)
    }))

  it.effect("a client's mistake is not logged as a defect in the platform", () =>
    Effect.gen(function*() {
      const logs = yield* (yield* ServerTest).logs
      expect(logs.filter((line) => /ERROR|defect in the platform/i.test(line))).toEqual([])
    }))
}
