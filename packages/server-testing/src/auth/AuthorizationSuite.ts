/**
 * Tests authorization: which key is valid for which API, and that the server never reveals a key
 * (docs/spec/authentication.md#keys-in-requests).
 */
import { expect } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, LIMITS, ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"

/** Registers the tests for authorization. */
export const authorization = (it: ServerIt): void => {
  it.effect("each API accepts its own key, raw or as a bearer token, and rejects all other keys", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const otherWorker = yield* (yield* server.endpoint()).worker()
      const { id } = yield* endpoint.run({})

      const admin = [ADMIN_KEY, `Bearer ${ADMIN_KEY}`, `bearer ${ADMIN_KEY}`, `BEARER   ${ADMIN_KEY} `]
      const workers = [worker.key, `Bearer ${worker.key}`]
      const otherKeys = [otherWorker.key, `Bearer ${otherWorker.key}`]
      const missing = [null, "", "Bearer", "Bearer "]
      const unknown = ["wrong", "Bearer wrong", `${ADMIN_KEY}x`, ADMIN_KEY.slice(0, -1), `Basic ${ADMIN_KEY}`, "ключ-🔑"]

      const jobs: ReadonlyArray<readonly [method: string, path: string]> = [
        ["GET", endpoint.path(`status/${id}`)],
        ["POST", endpoint.path(`status/${id}`)],
        ["GET", endpoint.path(`status-sync/${id}?wait=1`)],
        ["GET", endpoint.path(`stream/${id}?wait=1`)],
        ["GET", endpoint.path("health")]
      ]
      const control: ReadonlyArray<readonly [method: string, path: string]> = [
        ["GET", "/api/v1/endpoints"],
        ["GET", `/api/v1/endpoints/${endpoint.id}`],
        ["GET", `/api/v1/endpoints/${endpoint.id}/worker-env`]
      ]
      const ofWorkers: ReadonlyArray<readonly [method: string, path: string]> = [
        ["GET", worker.addresses.ping],
        ["POST", worker.addresses.ping]
      ]
      const check = (
        surface: ReadonlyArray<readonly [method: string, path: string]>,
        keys: ReadonlyArray<string | null>,
        status: number
      ) =>
        Effect.forEach(surface, ([method, path]) =>
          Effect.forEach(keys, (authorization) =>
            Effect.gen(function*() {
              // Header values are bytes, and fetch sends each character as one byte.
              const sent = authorization === null ? null : Buffer.from(authorization, "utf8").toString("latin1")
              const answer = yield* server.call(path, { method, authorization: sent })
              expect(answer.status, `${method} ${path} with ${authorization}`).toBe(status)
              if (status === 200) return
              const problem = yield* expectProblem(status)(answer)
              const text = JSON.stringify([problem, ...answer.headers])
              for (const key of [ADMIN_KEY, worker.key, otherWorker.key]) expect(text).not.toContain(key)
              if (authorization !== null && authorization.length > 10) expect(text).not.toContain(authorization)
            }), { concurrency: 8 }), { concurrency: 8, discard: true })

      for (const surface of [jobs, control]) {
        yield* check(surface, admin, 200)
        yield* check(surface, [...missing, ...unknown], 401)
        yield* check(surface, [...workers, ...otherKeys], 403)
      }
      yield* check(ofWorkers, workers, 200)
      yield* check(ofWorkers, [...missing, ...unknown], 401)
      yield* check(ofWorkers, [...otherKeys, ...admin], 403)
    }))

  it.effect("every operation checks the key before anything else", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const operations: ReadonlyArray<readonly [method: string, path: string]> = [
        ["POST", "run"],
        ["POST", "runsync"],
        ["GET", "status/x"],
        ["POST", "status/x"],
        ["GET", "status-sync/x"],
        ["POST", "status-sync/x"],
        ["GET", "stream/x"],
        ["POST", "stream/x"],
        ["POST", "cancel/x"],
        ["POST", "retry/x"],
        ["POST", "purge-queue"],
        ["GET", "health"],
        ["GET", "logs"],
        ["GET", "job-take/w"],
        ["GET", "job-take-batch/w"],
        ["POST", "job-done/w/x"],
        ["POST", "job-done-batch/w"],
        ["POST", "job-stream/w/x"],
        ["GET", "job-stop/w"],
        ["GET", "ping/w"],
        ["POST", "ping/w"],
        ["POST", "run-journal/w"],
        ["POST", "handler-schema/w"],
        ["GET", "schema"]
      ]
      const calls = [
        ...operations.map(([method, operation]) => [method, `/v2/no-such-endpoint/${operation}`] as const),
        ...["GET", "POST"].map((method) => [method, "/api/v1/endpoints"] as const),
        ...["GET", "PUT", "DELETE"].map((method) => [method, "/api/v1/endpoints/no-such-endpoint"] as const),
        ["GET", "/api/v1/endpoints/no-such-endpoint/worker-env"] as const,
        ...["GET", "POST"].map((method) => [method, "/api/v1/keys"] as const),
        ...["GET", "PATCH"].map((method) => [method, "/api/v1/keys/no-such-key"] as const),
        ...["rotate", "revoke"].map((operation) => ["POST", `/api/v1/keys/no-such-key/${operation}`] as const)
      ]
      yield* Effect.forEach(calls, ([method, path]) =>
        Effect.gen(function*() {
          const body = method === "GET" ? {} : { body: "not even JSON" }
          const problem = yield* Effect.flatMap(
            server.call(path, { method, authorization: null, ...body }),
            expectProblem(401)
          )
          expect(problem.hint, path).toContain("Authorization")
        }), { concurrency: 8, discard: true })
    }))

  it.effect("a worker key is valid for all worker operations of its own endpoint and for no other endpoint", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const worker = yield* (yield* server.endpoint()).worker()
      const other = yield* (yield* server.endpoint()).worker()
      const { addresses } = other
      const calls = [
        worker.call(addresses.take),
        worker.call(addresses.takeBatch),
        worker.call(addresses.stop),
        worker.call(addresses.ping),
        worker.call(addresses.done("x"), { json: { output: 1 } }),
        worker.call(addresses.stream("x"), { json: { output: 1 } })
      ]
      yield* Effect.forEach(calls, (call) => Effect.flatMap(call, expectProblem(403)), { concurrency: 8 })
    }))

  it.effect("the error for a rejected worker states which key is required, and is delayed", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const [duration, answer] = yield* Effect.timed(worker.call(worker.addresses.take, { authorization: "wrong" }))
      expect((yield* expectProblem(401)(answer)).error).toMatch(/key/)
      expect(answer.text).toContain(`stint worker-env ${endpoint.id}`)
      expect(Duration.toMillis(duration)).toBeGreaterThanOrEqual(LIMITS.refusalWaitMs - 5)
    }))

  it.effect("the log never contains a key", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      // This warning is always logged right after the key has been used.
      yield* worker.call(`${worker.addresses.ping}&status=unhealthy&check=logged-for-sure&reason=x`)
      const logs = (yield* server.logs).join("\n")
      expect(logs).toContain("logged-for-sure")
      for (const key of [ADMIN_KEY, worker.key]) expect(logs).not.toContain(key)
    }))
}
