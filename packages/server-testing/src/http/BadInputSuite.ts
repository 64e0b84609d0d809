/**
 * Tests invalid input: the server returns a JSON error that states the problem and the remedy, and continues unaffected.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { bodyOf, head, isWhole, statusOf } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { type Call, expectProblem } from "../WireClient.ts"

const MEBIBYTE = 1024 * 1024

const KEY = { authorization: `Bearer ${ADMIN_KEY}` }

/** A chunked body without a content-length. */
const chunked = (size: number): ReadableStream =>
  new ReadableStream({
    start: (controller) => {
      controller.enqueue(new TextEncoder().encode("{\"input\":\""))
    },
    pull: (() => {
      const block = new Uint8Array(256 * 1024).fill(120)
      let left = size
      return (controller: ReadableStreamDefaultController<Uint8Array>) => {
        controller.enqueue(block)
        left -= block.length
        if (left <= 0) controller.close()
      }
    })()
  })

const understanding = (it: ServerIt) => {
  it.effect("returns 400 for a body that is not JSON, or not an object with `input`", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const bodies: ReadonlyArray<readonly [body: string, error: RegExp]> = [
        ["", /empty/],
        ["   \n", /empty/],
        ["hello", /not JSON.*hello/],
        ["{\"input\":", /not JSON/],
        ["{'input': 1}", /not JSON/],
        ["{\"input\": 1} {}", /not JSON/],
        ["{\"input\": NaN}", /not JSON/],
        ["input=1", /not JSON/],
        ["[]", /object/],
        ["[{\"input\":1}]", /object/],
        ["null", /object/],
        ["\"input\"", /object/],
        ["42", /object/],
        ["{}", /input/],
        ["{\"Input\": 1}", /input/],
        ["{\"data\":{\"input\":1}}", /input/]
      ]
      for (const operation of ["run", "runsync"]) {
        for (const [body, error] of bodies) {
          const problem = yield* Effect.flatMap(
            endpoint.call(endpoint.path(operation), { method: "POST", body }),
            expectProblem(400)
          )
          expect(problem.error, body).toMatch(error)
          expect(problem.hint, body).toContain("\"input\"")
          expect(problem.type).toBe("/problems/invalid-request")
        }
      }
      expect((yield* endpoint.health).jobs.inQueue).toBe(0)
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 400 with the path of a value that has the wrong type or is out of range", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const cases: ReadonlyArray<readonly [rest: object, path: ReadonlyArray<string>]> = [
        [{ policy: 5 }, ["policy"]],
        [{ policy: { ttl: "1h" } }, ["policy", "ttl"]],
        [{ policy: { ttl: 9_999 } }, ["policy", "ttl"]],
        [{ policy: { ttl: 10_000.5 } }, ["policy", "ttl"]],
        [{ policy: { ttl: 8 * 24 * 3600 * 1000 } }, ["policy", "ttl"]],
        [{ policy: { executionTimeout: 4_999 } }, ["policy", "executionTimeout"]],
        [{ policy: { executionTimeout: "5 s" } }, ["policy", "executionTimeout"]],
        [{ policy: { lowPriority: "yes" } }, ["policy", "lowPriority"]],
        [{ s3Config: {} }, ["s3Config", "endpointUrl"]],
        [{ s3Config: { accessId: 1, accessSecret: "b", bucketName: "c", endpointUrl: "d" } }, ["s3Config", "accessId"]]
      ]
      for (const [rest, path] of cases) {
        const problem = yield* Effect.flatMap(
          endpoint.call(endpoint.path("run"), { json: { input: {}, ...rest } }),
          expectProblem(400)
        )
        expect(problem.errors?.map((error) => error.path), JSON.stringify(rest)).toContainEqual(path)
        expect(problem.error).toContain(path.join("."))
      }
      const problem = yield* Effect.flatMap(
        endpoint.call(endpoint.path("run"), { json: { policy: { ttl: 1, lowPriority: 2 } } }),
        expectProblem(400)
      )
      expect(problem.errors).toHaveLength(3)
    }))

  it.effect("shortens the values that an error message quotes", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const long = "x".repeat(MEBIBYTE)
      for (const body of [`{"input":1,"policy":{"ttl":"${long}"}}`, `{"input":1,"policy":"${long}"}`, long, `{"${long}":1}`]) {
        const answer = yield* endpoint.call(endpoint.path("run"), { body })
        yield* expectProblem(400)(answer)
        expect(answer.text.length).toBeLessThan(2_000)
      }
      const answer = yield* endpoint.call(endpoint.path(`status/${"x".repeat(10_000)}`))
      yield* expectProblem(404)(answer)
      expect(answer.text.length).toBeLessThan(2_000)
      const nowhere = yield* endpoint.call(`/${"x".repeat(10_000)}`)
      yield* expectProblem(404)(nowhere)
      expect(nowhere.text.length).toBeLessThan(2_000)
    }))

  it.effect("returns 400 for JSON nested more than 512 levels deep, and stores nothing", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)
      const allowed = nested(511)
      expect((yield* endpoint.call(endpoint.path("run"), { body: `{"input":${allowed}}` })).status).toBe(200)
      const taken = yield* worker.next
      expect((yield* worker.call(worker.addresses.done(taken.id), { body: `{"output":${allowed}}` })).status).toBe(200)
      expect((yield* endpoint.call(endpoint.path(`status/${taken.id}`))).text).toContain(allowed)
      const objects = `${"{\"a\":".repeat(200_000)}1${"}".repeat(200_000)}`
      for (const value of [nested(512), nested(MEBIBYTE), objects]) {
        for (const body of [`{"input":${value}}`, `{"input":1,"policy":{"ttl":${value}}}`, `{"input":1,"other":${value}}`]) {
          const problem = yield* Effect.flatMap(endpoint.call(endpoint.path("run"), { body }), expectProblem(400))
          expect(problem.error).toMatch(/512 levels deep, at character \d+/)
        }
      }
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* Effect.flatMap(worker.call(worker.addresses.done(id), { body: `{"output":${nested(512)}}` }), expectProblem(400))
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: expect.stringContaining("512 levels deep") })
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 400 for a number that a double cannot hold, wherever it is", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const number of ["1e400", "-1E400", "9".repeat(400)]) {
        for (const body of [`{"input":${number}}`, `{"input":1,"priority":${number}}`, `{"input":1,"other":[{"a":${number}}]}`]) {
          const problem = yield* Effect.flatMap(endpoint.call(endpoint.path("run"), { body }), expectProblem(400))
          expect(problem.error).toMatch(/number -?[149eE0]{5,20} at character \d+ is too large/)
        }
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* Effect.flatMap(worker.call(worker.addresses.stream(id), { body: `{"output":${number}}` }), expectProblem(400))
        yield* Effect.flatMap(worker.call(worker.addresses.done(id), { body: `{"output":${number}}` }), expectProblem(400))
        expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: expect.stringContaining("is too large") })
      }
    }))

  it.effect("returns 400 for options with more than 10,000 values, however many of them are invalid", () =>
    Effect.gen(function*() {
      const { call, endpoint: create } = yield* ServerTest
      const endpoint = yield* create()
      const worker = yield* endpoint.worker()
      const many = Array.from({ length: 10_000 }, () => 1)
      const answers = [
        [["tags"], endpoint.call(endpoint.path("run"), { json: { input: many, tags: many } })],
        [["webhook"], endpoint.call(endpoint.path("run"), { json: { input: 1, webhook: { url: "http://a.b", events: many } } })],
        [["requests", 1, "tags"], endpoint.call(endpoint.path("batch"), { json: [{ input: many }, { input: 1, tags: many }] })],
        [["job_id"], worker.call(worker.addresses.ping, { json: { job_id: many } })],
        [["job_id"], worker.call(worker.addresses.ping, { json: { job_id: `${many.join(",")},1` } })],
        [[], call("/api/v1/endpoints", { json: { id: "a", source: { type: "command", command: many } } })]
      ] as const
      for (const [path, answer] of answers) {
        const problem = yield* Effect.flatMap(answer, expectProblem(400))
        expect(problem.errors?.map((error) => error.path)).toEqual([path])
        expect(problem.error).toContain("at most 10000")
      }
    }))

  it.effect("returns 404 for an unknown endpoint and lists the existing ones", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      yield* server.endpoint({ id: "0-first" })
      const calls: ReadonlyArray<readonly [path: string, call: Call]> = [
        ["run", { json: { input: 1 } }],
        ["runsync", { json: { input: 1 } }],
        ["status/x", {}],
        ["status/x", { method: "POST" }],
        ["status-sync/x", {}],
        ["stream/x", {}],
        ["cancel/x", { method: "POST" }],
        ["retry/x", { method: "POST" }],
        ["purge-queue", { method: "POST" }],
        ["health", {}]
      ]
      for (const name of ["nowhere", "__proto__", "constructor", "%F0%9F%92%A5", "a%2Fb", "x".repeat(5_000)]) {
        for (const [path, call] of calls) {
          const problem = yield* Effect.flatMap(server.call(`/v2/${name}/${path}`, call), expectProblem(404))
          expect(problem.type).toBe("/problems/endpoint-not-found")
          expect(problem.hint).toContain("0-first")
        }
      }
    }))

  it.effect("tolerates a query value that is repeated or not a number", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const { id } = yield* endpoint.run({})
      yield* endpoint.cancel(id)
      for (
        const query of ["wait=1&wait=2", "wait[]=1", "wait=", "wait", "wait=%00", "wait=1e400", "wait=-1e400", "=&&=", "%ff=%fe"]
      ) {
        const answer = yield* endpoint.call(endpoint.path(`stream/${id}?${query}`))
        expect([200, 400], `${query}: ${answer.text}`).toContain(answer.status)
        if (answer.status === 400) yield* expectProblem(400)(answer)
      }
      expect(yield* server.logs.pipe(Effect.map((lines) => lines.filter((line) => line.includes("defect in the platform")))))
        .toEqual([])
    }))
}

const sizing = (it: ServerIt) => {
  it.effect("returns 413 with the limit and the remedy for a body of 30 MB, with and without a content-length", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      for (const [operation, limit] of [["run", 10 * MEBIBYTE], ["runsync", 20 * MEBIBYTE]] as const) {
        for (const body of [`{"input":"${"x".repeat(30_000_000)}"}`, chunked(30_000_000)]) {
          const problem = yield* Effect.flatMap(endpoint.call(endpoint.path(operation), { body }), expectProblem(413))
          expect(problem).toMatchObject({
            type: "/problems/payload-too-large",
            limit,
            error: expect.stringContaining(`${limit / MEBIBYTE} MiB`),
            hint: expect.stringContaining("object store")
          })
        }
      }
      expect((yield* endpoint.health).jobs.inQueue).toBe(0)
      expect(yield* server.works).toBe(true)
    }))

  it.effect("accepts a body just within the limit and rejects one byte more", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const frame = "{\"input\":\"\"}".length
      const of = (bytes: number) => `{"input":"${"x".repeat(bytes - frame)}"}`
      expect((yield* endpoint.call(endpoint.path("run"), { body: of(10 * MEBIBYTE) })).status).toBe(200)
      yield* Effect.flatMap(endpoint.call(endpoint.path("run"), { body: of(10 * MEBIBYTE + 1) }), expectProblem(413))
    }))

  it.effect("a client that keeps sending a rejected body still gets the response", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const socket = yield* server.connect
      yield* socket.write(head(`POST ${endpoint.path("run")}`, { ...KEY, "content-length": "30000000" }))
      for (let i = 0; i < 30; i++) yield* socket.write("x".repeat(100_000))
      const answer = yield* socket.until(isWhole)
      expect(statusOf(answer)).toBe(413)
      expect(JSON.parse(bodyOf(answer))).toMatchObject({ status: 413, limit: 10 * MEBIBYTE })
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 431 in JSON for headers that exceed Node's limit", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const bombs = [
        head("GET /v2/x/health", { "x-bomb": "y".repeat(100_000) }),
        head("GET /v2/x/health", Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`x-${i}`, "y"]))),
        head(`GET /v2/x/health?q=${"y".repeat(100_000)}`)
      ]
      for (const bomb of bombs) {
        const socket = yield* server.connect
        yield* socket.write(bomb)
        const answer = yield* socket.closed
        expect(statusOf(answer)).toBe(431)
        expect(JSON.parse(bodyOf(answer))).toMatchObject({ status: 431, error: expect.any(String), hint: expect.any(String) })
      }
      expect(yield* server.works).toBe(true)
    }))
}

/** Registers the tests for invalid input. */
export const badInput = (it: ServerIt): void => {
  understanding(it)
  sizing(it)
}
