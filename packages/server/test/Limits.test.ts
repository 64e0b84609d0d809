import { describe, expect, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { bodyOf, head, statusOf } from "../src/testing/RawSocket.ts"
import { ADMIN_KEY, layer, ServerTest } from "../src/testing/ServerTest.ts"
import { expectProblem } from "../src/testing/WireClient.ts"

describe("Limits", () => {
  it.live("a wait above the most is pulled down", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const wait of [101, 300_000, 999_999_999]) {
        const [duration, job] = yield* Effect.timed(endpoint.runsync({}, wait))
        expect(job.status).toBe("IN_QUEUE")
        expect(Duration.toMillis(duration)).toBeGreaterThanOrEqual(95)
        expect(Duration.toMillis(duration)).toBeLessThan(2_000)
      }
    }).pipe(Effect.provide(layer({ limits: { maxWaitMs: 100 } }))))

  it.live("sizes are those that were set, and named in the refusal", () =>
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
      }
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: expect.stringContaining("1000 bytes") })
    }).pipe(Effect.provide(layer({
      limits: { runBytes: 1_000, runsyncBytes: 1_000, resultBytes: 1_000, chunkBytes: 1_000, controlBytes: 1_000 }
    }))))

  it.live("a request that does not arrive in time is 408, in JSON", () =>
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
