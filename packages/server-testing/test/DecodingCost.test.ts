/**
 * The cost of a body is proportional to its size: for every operation that reads a body, and for every value in it, a body of N bytes costs
 * at most c x N of CPU time and of memory, whatever that value is.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { getHeapStatistics } from "node:v8"
import { head, isWhole, statusOf } from "../src/RawSocket.ts"
import { ADMIN_KEY, layer, ServerTest } from "../src/ServerTest.ts"
import { BODY_OPERATIONS, BOMBS } from "./HostileBodies.ts"

/** Large enough to exceed the fixed cost of a request by far. */
const SIZE = 100_000

/**
 * Nanoseconds per byte. A scan takes 5 to 20. Collecting all errors took 900, and `JSON.parse` takes up to 150 for nested arrays. A body of
 * 10 MB therefore costs at most a second.
 */
const TIME_PER_BYTE = 100

/** Bytes of heap per byte of body. The text and its pieces take 2 to 4. The values of `JSON.parse` took up to 30, and all errors 300. */
const MEMORY_PER_BYTE = 10

/** The fixed cost: parsing and checking the 10,000 values that a schema may receive, and the request itself. */
const FIXED_NANOS = 25_000_000
const FIXED_BYTES = 12_000_000

const cpuNanos = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (user + system) * 1_000
}

const allocated = (): number => {
  const { external_memory: external, total_allocated_bytes: heap } = getHeapStatistics()
  return heap + external
}

describe("the cost of a body", () => {
  it.live("is proportional to its size, for every operation and every value in its body", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const bombs = Object.entries(BOMBS)
      const texts = new Map(bombs.map(([name, bomb]) => [name, bomb(SIZE)]))

      /** The cost of one request, in nanoseconds and bytes. */
      const measure = (method: string, path: string, authorization: string, body: string) =>
        Effect.gen(function*() {
          const socket = yield* server.connect
          const start = head(`${method} ${path}`, { authorization, "content-length": String(Buffer.byteLength(body)) })
          const before = { nanos: cpuNanos(), bytes: allocated() }
          yield* socket.write(start + body)
          const answer = yield* socket.until(isWhole)
          return { nanos: cpuNanos() - before.nanos, bytes: allocated() - before.bytes, status: statusOf(answer) ?? 0, answer }
        }).pipe(Effect.scoped)

      const places = BODY_OPERATIONS.flatMap((operation) => operation.paths.map((path) => ({ operation, path })))
      expect(BODY_OPERATIONS.length).toBeGreaterThanOrEqual(14)
      expect(places.length).toBeGreaterThan(100)
      const expensive: Array<string> = []
      for (const [at, { operation, path }] of places.entries()) {
        const url = operation.template
          .replace("{endpoint}", operation.template.startsWith("/api/v1/endpoints/{endpoint}") ? "new" : endpoint.id)
          .replace("{worker}", "w-1")
          .replaceAll(/\{\w+\}/g, "none")
        const key = /\/(?:job-|ping)/.test(url) ? worker.key : ADMIN_KEY
        // Each place gets some of the bombs, and each bomb many places.
        const [name = ""] = bombs[at % bombs.length] ?? []
        const body = operation.body(path, texts.get(name) ?? "")
        let least = yield* measure(operation.method, url, key, body)
        const isExpensive = () =>
          least.nanos > FIXED_NANOS + TIME_PER_BYTE * body.length || least.bytes > FIXED_BYTES + MEMORY_PER_BYTE * body.length
        // Garbage collection and compilation take time and memory of their own.
        for (let tries = 0; tries < 3 && isExpensive(); tries++) {
          const again = yield* measure(operation.method, url, key, body)
          least = { ...again, nanos: Math.min(again.nanos, least.nanos), bytes: Math.min(again.bytes, least.bytes) }
        }
        const what = `${name} at ${path.join(".")} of ${operation.name}`
        expect(least.status, `${what}: ${least.answer}`).toBeGreaterThanOrEqual(200)
        expect(least.status, `${what}: ${least.answer}`).toBeLessThan(500)
        if (isExpensive()) {
          expensive.push(`${what}: ${Math.round(least.nanos / 1e6)} ms, ${Math.round(least.bytes / 1e6)} MB`)
        }
      }
      expect(expensive).toEqual([])
    }).pipe(
      Effect.provide(layer({ limits: { minWaitMs: 1, maxWaitMs: 1, syncWaitMs: 1, openAiHeadWaitMs: 1, heartbeatMs: 1 } }))
    ))
})
