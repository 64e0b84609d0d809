import { describe, expect, it } from "@effect/vitest"
import { defaults } from "@stint/server/Limits"
import * as PayloadMemoryBudget from "@stint/store/PayloadMemoryBudget"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { gzipSync } from "node:zlib"
import { bodyOf, head, isWhole, statusOf } from "../src/RawSocket.ts"
import { ADMIN_KEY, layer, ServerTest } from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"
import { expectProblem } from "../src/WireClient.ts"

describe("Limits", () => {
  it.live("holds /stream for 8 s when the caller sends no wait, because the Python client stops reading after 10 s", () =>
    Effect.gen(function*() {
      // The server in this test has a shorter wait, so that the test does not take 8 s.
      expect(defaults.streamWaitMs).toBe(8_000)
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run({})
      const [duration, page] = yield* Effect.timed(endpoint.stream(id))
      expect(page).toMatchObject({ status: "IN_QUEUE", stream: [] })
      expect(Duration.toMillis(duration)).toBeGreaterThanOrEqual(195)
      expect(Duration.toMillis(duration)).toBeLessThan(4_000)
    }).pipe(Effect.provide(layer({ limits: { streamWaitMs: 200, syncWaitMs: 8_000, maxWaitMs: 8_000 } }))))

  it.live("clamps a wait above the maximum", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const wait of [101, 300_000, 999_999_999]) {
        const [duration, job] = yield* Effect.timed(endpoint.runsync({}, wait))
        expect(job.status).toBe("IN_QUEUE")
        expect(Duration.toMillis(duration)).toBeGreaterThanOrEqual(95)
        expect(Duration.toMillis(duration)).toBeLessThan(2_000)
      }
    }).pipe(Effect.provide(layer({ limits: { maxWaitMs: 100 } }))))

  it.live("applies the configured sizes and names them in the error", () =>
    Effect.gen(function*() {
      const { call, endpoint: create } = yield* ServerTest
      const endpoint = yield* create()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const body = JSON.stringify({ input: "x".repeat(2_000), output: "x".repeat(2_000) })
      const calls = [
        endpoint.call(endpoint.path("run"), { body }),
        endpoint.call(endpoint.path("runsync"), { body }),
        worker.call(worker.addresses.done(id), { body }),
        worker.call(worker.addresses.stream(id), { body }),
        worker.call(worker.addresses.ping, { body }),
        call("/api/v1/endpoints", { body }),
        call("/api/v1/endpoints/x", { method: "PUT", body })
      ]
      for (const call of calls) {
        const problem = yield* Effect.flatMap(call, expectProblem(413))
        expect(problem).toMatchObject({ limit: 1_000, error: expect.stringContaining("1000 bytes") })
        expect(problem.hint.length).toBeGreaterThan(10)
      }
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: expect.stringContaining("1000 bytes") })
    }).pipe(Effect.provide(layer({
      limits: { runBytes: 1_000, runsyncBytes: 1_000, resultBytes: 1_000, chunkBytes: 1_000, controlBytes: 1_000 }
    }))))

  it.live("suggests an object store only when none is configured, and names the setting that raises the limit", () =>
    Effect.gen(function*() {
      const hints = (objectStore: boolean) =>
        Effect.gen(function*() {
          const endpoint = yield* (yield* ServerTest).endpoint()
          const worker = yield* endpoint.worker()
          const { id } = yield* endpoint.run({})
          yield* worker.next
          const body = JSON.stringify({ input: "x".repeat(2_000), output: "x".repeat(2_000) })
          const hint = (call: ReturnType<typeof endpoint.call>) =>
            Effect.map(Effect.flatMap(call, expectProblem(413)), ({ hint }) => hint)
          return {
            chunk: yield* hint(worker.call(worker.addresses.stream(id), { body })),
            moved: [
              [yield* hint(endpoint.call(endpoint.path("run"), { body })), "STINT_LIMIT_RUN)"],
              [yield* hint(endpoint.call(endpoint.path("runsync"), { body })), "STINT_LIMIT_RUNSYNC)"],
              [yield* hint(worker.call(worker.addresses.done(id), { body })), "STINT_LIMIT_RESULT)"]
            ] as const
          }
        }).pipe(Effect.provide(layer({
          limits: { runBytes: 1_000, runsyncBytes: 1_000, resultBytes: 1_000, chunkBytes: 1_000, objectStore }
        })))
      for (const objectStore of [false, true]) {
        const { chunk, moved } = yield* hints(objectStore)
        for (const [hint, variable] of moved) {
          expect(hint).toContain(variable)
          expect(hint.includes("STINT_PAYLOADS")).toBe(!objectStore)
        }
        expect(chunk).toContain("STINT_LIMIT_CHUNK)")
        expect(chunk).not.toContain("STINT_PAYLOADS")
      }
    }))

  it.live("returns 503 with Retry-After before it reads large bodies that together exceed the memory, and accepts small ones", () => {
    const memory = PayloadMemoryBudget.make(3 * 1024 * 1024)
    const size = 2 * 1024 * 1024
    return Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const first = yield* server.connect
      const line = `POST ${endpoint.path("run")}`
      const text = JSON.stringify({ input: "x".repeat(size) })
      yield* first.write(head(line, { authorization: ADMIN_KEY, "content-length": String(text.length) }) + text.slice(0, 1_000))
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === text.length)
      const refused = yield* endpoint.call(endpoint.path("run"), { body: text })
      const problem = yield* expectProblem(503)(refused)
      expect(problem).toMatchObject({
        error: expect.stringContaining("2 MiB"),
        hint: expect.stringContaining("STINT_PAYLOADS_MEMORY")
      })
      expect(refused.headers.get("retry-after")).toBe("1")
      yield* endpoint.run({ small: true })
      yield* first.write(text.slice(1_000))
      yield* until(Effect.map(endpoint.health, ({ jobs }) => jobs.inQueue), (jobs) => jobs === 2)
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
      yield* endpoint.run("x".repeat(size))
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
    }).pipe(Effect.provide(layer().pipe(Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory)))))
  })

  it.live("accepts a single body that is larger than the payload memory, and counts its response until it has been written", () => {
    const memory = PayloadMemoryBudget.make(1)
    const size = 2 * 1024 * 1024
    return Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run("x".repeat(size))
      expect((yield* worker.next).input).toHaveLength(size)
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
      yield* worker.finish(id, "y".repeat(size))
      expect((yield* endpoint.status(id)).output).toHaveLength(size)
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
    }).pipe(Effect.provide(layer().pipe(Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory)))))
  })

  it.live("counts bodies of unknown size while they arrive, returns 503 when the memory is full, and releases it afterwards", () => {
    const memory = PayloadMemoryBudget.make(3 * 1024 * 1024)
    return Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const start = head(`POST ${endpoint.path("runsync")}`, { authorization: ADMIN_KEY, "transfer-encoding": "chunked" })
      const piece = `100000\r\n${"x".repeat(1024 * 1024)}\r\n`
      const first = yield* server.connect
      yield* first.write(`${start}a\r\n{"input":"\r\n${piece}${piece}`)
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved >= 2 * 1024 * 1024)
      const second = yield* server.connect
      yield* second.write(`${start}a\r\n{"input":"\r\n${piece}${piece}`)
      const refused = yield* second.until(isWhole)
      expect(statusOf(refused)).toBe(503)
      expect(refused).toMatch(/retry-after: 1/i)
      expect(JSON.parse(bodyOf(refused))).toMatchObject({ hint: expect.stringContaining("STINT_PAYLOADS_MEMORY") })
      // The body in progress may exceed the limit when it is the only one.
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved < 3 * 1024 * 1024)
      yield* first.write(`${piece}${piece}2\r\n"}\r\n0\r\n\r\n`)
      yield* until(Effect.map(endpoint.health, ({ jobs }) => jobs.inQueue), (jobs) => jobs === 1)
      yield* first.reset
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
    }).pipe(Effect.provide(layer().pipe(Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory)))))
  })

  it.live("counts a compressed body at its decompressed size", () => {
    const memory = PayloadMemoryBudget.make(3 * 1024 * 1024)
    return Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const first = yield* server.connect
      const length = 2 * 1024 * 1024
      yield* first.write(
        head(`POST ${endpoint.path("run")}`, { authorization: ADMIN_KEY, "content-length": String(length) }) + "{"
      )
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === length)
      const body = new Uint8Array(gzipSync(JSON.stringify({ input: "x".repeat(length) })))
      const headers = { "content-encoding": "gzip" }
      yield* Effect.flatMap(endpoint.call(endpoint.path("run"), { body, headers }), expectProblem(503))
      yield* first.reset
      yield* until(Effect.sync(memory.reserved), (reserved) => reserved === 0)
      expect((yield* endpoint.call(endpoint.path("run"), { body, headers })).status).toBe(200)
    }).pipe(Effect.provide(layer().pipe(Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory)))))
  })

  it.live("returns 408 in JSON for a request that does not arrive in time", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const line = `POST ${endpoint.path("run")}`
      for (const sent of [line, head(line, { authorization: ADMIN_KEY, "content-length": "100" }) + "{"]) {
        const socket = yield* server.connect
        yield* socket.write(sent)
        const answer = yield* socket.closed
        expect(statusOf(answer)).toBe(408)
        expect(JSON.parse(bodyOf(answer))).toMatchObject({ status: 408, hint: expect.any(String) })
      }
      expect(yield* server.works).toBe(true)
      expect(yield* server.logs).toEqual([])
    }).pipe(Effect.provide(layer({ listen: { requestTimeout: "200 millis" } }))))
})
