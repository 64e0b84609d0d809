/**
 * Tests compressed request bodies: gzip and deflate are decoded within the body's limit, and other encodings are rejected.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib"
import { head, isWhole, statusOf } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"

const MEBIBYTE = 1024 * 1024

/** Registers the tests for compressed bodies. */
export const encodings = (it: ServerIt): void => {
  it.effect("decodes gzip and deflate bodies of callers and workers", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const input = { text: "Ünïcödé 😀 ".repeat(20_000) }
      for (const [encoding, compress] of [["gzip", gzipSync], ["x-gzip", gzipSync], ["Deflate", deflateSync]] as const) {
        const body = new Uint8Array(compress(JSON.stringify({ input, output: input })))
        const headers = { "content-encoding": encoding }
        const sent = yield* endpoint.call(endpoint.path("run"), { body, headers })
        expect(sent.status, sent.text).toBe(200)
        const job = yield* worker.next
        expect(job.input).toEqual(input)
        expect((yield* worker.call(worker.addresses.stream(job.id), { body, headers })).status).toBe(200)
        expect((yield* worker.call(worker.addresses.done(job.id), { body, headers })).status).toBe(200)
        expect((yield* endpoint.status(job.id)).output).toEqual(input)
      }
      const plain = yield* endpoint.call(endpoint.path("run"), { json: { input }, headers: { "content-encoding": "identity" } })
      expect(plain.status).toBe(200)
    }))

  it.effect("decodes a gzip body that follows `Expect: 100-continue`", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const body = gzipSync("{\"input\":1}")
      const socket = yield* server.connect
      yield* socket.write(head(`POST ${endpoint.path("run")}`, {
        authorization: ADMIN_KEY,
        "content-length": String(body.length),
        "content-encoding": "gzip",
        expect: "100-continue"
      }))
      yield* socket.until((received) => received.includes("100 Continue"))
      yield* socket.write(body)
      const rest = (received: string) => received.replace("HTTP/1.1 100 Continue\r\n\r\n", "")
      expect(statusOf(rest(yield* socket.until((received) => isWhole(rest(received)))))).toBe(200)
    }))

  it.effect("returns 413 for a small body that decompresses to more than the limit", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const bomb = new Uint8Array(gzipSync(`{"input":"${"x".repeat(64 * MEBIBYTE)}"}`))
      expect(bomb.length).toBeLessThan(100_000)
      const answer = yield* endpoint.call(endpoint.path("run"), { body: bomb, headers: { "content-encoding": "gzip" } })
      expect(yield* expectProblem(413)(answer)).toMatchObject({ limit: 10 * MEBIBYTE })
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 400 for a body that is not compressed as its header says", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const whole = gzipSync("{\"input\":1}")
      for (const body of ["{\"input\":1}", new Uint8Array(whole.subarray(0, whole.length - 9)), "x"]) {
        const answer = yield* endpoint.call(endpoint.path("run"), { body, headers: { "content-encoding": "gzip" } })
        expect((yield* expectProblem(400)(answer)).error).toContain("not valid gzip")
      }
    }))

  it.effect("returns 415 with the accepted encodings for any other encoding", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const body = new Uint8Array(brotliCompressSync("{\"input\":1}"))
      for (const encoding of ["br", "gzip, gzip", "zstd", "x".repeat(5_000)]) {
        const answer = yield* endpoint.call(endpoint.path("run"), { body, headers: { "content-encoding": encoding } })
        const problem = yield* expectProblem(415)(answer)
        expect(problem.hint).toContain("gzip or deflate")
        expect(answer.headers.get("accept-encoding")).toBe("gzip, deflate")
      }
    }))
}
