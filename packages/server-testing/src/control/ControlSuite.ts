/**
 * Tests the control API for endpoints and for the environment variables of their workers (docs/spec/environment.md#set-by-the-platform).
 */
import { expect } from "@effect/vitest"
import { WorkerEnv } from "@stint/contract/ControlApi"
import { Endpoint } from "@stint/contract/Endpoint"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"
import * as WireWorker from "../WireWorker.ts"

const DEFAULTS = {
  workers: { min: 0, max: 3, idleTimeoutMs: 5_000 },
  scaler: { type: "QUEUE_DELAY", value: 4 },
  executionTimeoutMs: 600_000,
  ttlMs: 86_400_000,
  leaseMs: 30_000,
  maxAttempts: 2,
  retentionMs: 86_400_000,
  errorTraceback: "full",
  limits: { executionTimeoutMs: 604_800_000, ttlMs: 604_800_000, maxAttempts: 100, priority: 100, startDelayMs: 2_592_000_000 },
  leaseToken: "optional",
  env: {}
}

const external = { type: "external" }

const WARM = { start: "0 8 * * 1-5", end: "0 18 * * 1-5", timeZone: "Europe/Berlin", min: 2 }

/** Specs that are rejected, and the path of the invalid value. */
const BAD_SPECS: ReadonlyArray<readonly [spec: unknown, path: ReadonlyArray<string | number>]> = [
  [[], []],
  ["hello", []],
  [null, []],
  [{ source: external }, ["id"]],
  [{ id: "no-source" }, ["source"]],
  [{ id: "-leading", source: external }, ["id"]],
  [{ id: "has space", source: external }, ["id"]],
  [{ id: "x".repeat(64), source: external }, ["id"]],
  [{ id: "", source: external }, ["id"]],
  [{ id: 7, source: external }, ["id"]],
  [{ id: "a", source: { type: "nonsense" } }, ["source"]],
  [{ id: "a", source: { type: "handler" } }, ["source", "file"]],
  [{ id: "a", source: { type: "command", command: [] } }, ["source", "command", 0]],
  [{ id: "a", source: { type: "command", command: ["run", ""] } }, ["source", "command", 1]],
  [{ id: "a", source: external, workers: { min: 4, max: 2 } }, ["workers"]],
  [{ id: "a", source: external, workers: { max: -1 } }, ["workers", "max"]],
  [{ id: "a", source: external, workers: { max: 1.5 } }, ["workers", "max"]],
  [{ id: "a", source: external, workers: { warm: [{ start: "8 o'clock", end: "@daily", min: 1 }] } }, [
    "workers",
    "warm",
    0,
    "start"
  ]],
  [{ id: "a", source: external, workers: { warm: [{ start: "@daily", end: "0 0 30 2 *", min: 1 }] } }, [
    "workers",
    "warm",
    0,
    "end"
  ]],
  [{ id: "a", source: external, workers: { warm: [WARM, { ...WARM, timeZone: "Mars" }] } }, ["workers", "warm", 1, "timeZone"]],
  [{ id: "a", source: external, workers: { max: 1, warm: [WARM] } }, ["workers", "warm", 0, "min"]],
  [{ id: "a", source: external, workers: { warm: Array.from({ length: 21 }, () => WARM) } }, ["workers", "warm"]],
  [{ id: "a", source: external, scaler: { type: "REQUEST_COUNT", value: 0 } }, ["scaler", "value"]],
  [{ id: "a", source: external, leaseMs: 10 }, ["leaseMs"]],
  [{ id: "a", source: external, leaseMs: "30000" }, ["leaseMs"]],
  [{ id: "a", source: external, maxAttempts: 0 }, ["maxAttempts"]],
  [{ id: "a", source: external, errorTraceback: "some" }, ["errorTraceback"]],
  [{ id: "a", source: external, env: { KEY: 1 } }, ["env", "KEY"]]
]

const reading = (it: ServerIt) => {
  it.effect("create: returns 201 with every default filled in; get and list return the same", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const id = `c-${randomUUID()}`
      const created = yield* call("/api/v1/endpoints", { json: { id, source: { type: "handler", file: "/h.ts" } } })
      const endpoint = yield* expectJson(201, Endpoint)(created)
      expect(created.json).toEqual({
        id,
        source: { type: "handler", file: "/h.ts" },
        ...DEFAULTS,
        createdAt: expect.any(Number),
        release: 1
      })
      expect((yield* call(`/api/v1/endpoints/${id}`)).json).toEqual(endpoint)
      const list = yield* Effect.flatMap(
        call("/api/v1/endpoints"),
        expectJson(200, Schema.Struct({ endpoints: Schema.Array(Endpoint) }))
      )
      expect(list.endpoints.filter((one) => one.id === id)).toEqual([endpoint])
      const ids = list.endpoints.map((one) => one.id)
      expect(ids).toEqual(ids.toSorted())
    }))

  it.effect("create: stores every setting unchanged", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const spec = {
        id: `c-${randomUUID()}`,
        source: { type: "command", command: ["python", "-u", "h.py"], directory: "/srv" },
        workers: { min: 1, max: 9, idleTimeoutMs: 0, warm: [WARM, { ...WARM, timeZone: "UTC" }] },
        scaler: { type: "REQUEST_COUNT", value: 2.5 },
        executionTimeoutMs: 5_000,
        ttlMs: 10_000,
        leaseMs: 3_000,
        maxAttempts: 7,
        retentionMs: 1_000,
        errorTraceback: "none",
        env: { KEY: "value", EMPTY: "" }
      }
      const created = yield* call("/api/v1/endpoints", { json: spec })
      expect(created).toMatchObject({ status: 201, json: { ...spec, createdAt: expect.any(Number) } })
    }))

  it.effect("create: refuses a lease that is too short for the heartbeats of RunPod's SDK, unless the worker is ours", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const create = (source: object, leaseMs: number) =>
        call("/api/v1/endpoints", { json: { id: `c-${randomUUID()}`, source, leaseMs } })
      const command = { type: "command", command: ["python3", "h.py"] }
      for (const source of [external, command]) {
        const problem = yield* Effect.flatMap(create(source, 2_999), expectProblem(400))
        expect(problem.errors?.map(({ path }) => path)).toEqual([["leaseMs"]])
        expect(problem.error).toMatch(/got 2999.*heartbeats.*Use 3000 or more/)
        expect((yield* create(source, 3_000)).status).toBe(201)
      }
      expect((yield* create({ type: "handler", file: "/srv/handler.ts" }, 1_000)).status).toBe(201)
    }))

  it.effect("create: returns a conflict for an existing id and changes nothing", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ maxAttempts: 5 })
      const problem = yield* Effect.flatMap(
        call("/api/v1/endpoints", { json: { id: one.id, source: external } }),
        expectProblem(409)
      )
      expect(problem.hint).toContain(`PUT /api/v1/endpoints/${one.id}`)
      expect((yield* call(`/api/v1/endpoints/${one.id}`)).json).toEqual(one.endpoint)
    }))

  it.effect("create and put: reject an invalid spec with the path of the invalid value", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (const [spec, path] of BAD_SPECS) {
        const text = JSON.stringify(spec)
        const problem = yield* Effect.flatMap(call("/api/v1/endpoints", { json: spec }), expectProblem(400))
        expect(problem.errors?.map((error) => error.path), text).toContainEqual(path)
        expect(problem.error, text).toContain(path.join(".").replaceAll(/\.(\d+)/g, "[$1]"))
        if (path[0] === "id" || path.length === 0) continue
        const put = yield* Effect.flatMap(call("/api/v1/endpoints/a", { method: "PUT", json: spec }), expectProblem(400))
        expect(put.errors?.map((error) => error.path), text).toContainEqual(path)
      }
      yield* Effect.flatMap(call("/api/v1/endpoints/a"), expectProblem(404))
    }))

  it.effect("create: the error for a spec with very many invalid values lists only the first of them", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const env = Object.fromEntries(Array.from({ length: 9_000 }, (_, i) => [`KEY_${i}`, i]))
      const answer = yield* call("/api/v1/endpoints", { json: { id: "a", source: external, env } })
      const problem = yield* expectProblem(400)(answer)
      expect(problem.errors?.[0]?.path).toEqual(["env", "KEY_0"])
      expect(answer.text.length).toBeLessThan(20_000)
    }))
}

const changing = (it: ServerIt) => {
  it.effect("put: uses the id in the URL, ignores the id in the body, replaces the settings, and keeps the creation time", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const id = `c-${randomUUID()}`
      const path = `/api/v1/endpoints/${id}`
      const created = yield* Effect.flatMap(
        call(path, { method: "PUT", json: { id: "another", source: external, maxAttempts: 9 } }),
        expectJson(200, Endpoint)
      )
      expect(created).toMatchObject({ id, maxAttempts: 9 })
      const replaced = yield* Effect.flatMap(
        call(path, { method: "PUT", json: { source: external, leaseMs: 4_000 } }),
        expectJson(200, Endpoint)
      )
      expect(replaced).toEqual({ ...created, leaseMs: 4_000, maxAttempts: 2, release: 2 })
      expect((yield* call(path)).json).toEqual(replaced)
      yield* Effect.flatMap(
        call("/api/v1/endpoints/has%20space", { method: "PUT", json: { source: external } }),
        expectProblem(400)
      )
    }))

  it.effect("put: later jobs get the new settings, and waiting jobs keep the old ones", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ maxAttempts: 1 })
      const worker = yield* one.worker()
      const early = yield* one.run("early")
      yield* call(`/api/v1/endpoints/${one.id}`, { method: "PUT", json: { source: external, maxAttempts: 5 } })
      const late = yield* one.run("late")
      yield* worker.takeBatch(2)
      // The worker held both jobs and now reports that no job is in progress.
      expect(yield* worker.take(false)).toMatchObject({ id: late.id, attempt: 2 })
      expect((yield* one.status(early.id)).status).toBe("FAILED")
    }))

  it.effect("delete: returns 204, and the endpoint no longer exists", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const path = `/api/v1/endpoints/${one.id}`
      expect(yield* call(path, { method: "DELETE" })).toMatchObject({ status: 204, text: "" })
      for (const method of ["GET", "DELETE"]) yield* Effect.flatMap(call(path, { method }), expectProblem(404))
      yield* Effect.flatMap(call(`${path}/worker-env`), expectProblem(404))
      const problem = yield* Effect.flatMap(call(one.path("run"), { json: { input: 1 } }), expectProblem(404))
      expect(problem).toMatchObject({ type: "/problems/endpoint-not-found", error: expect.stringContaining(one.id) })
    }))

  it.effect("delete: returns 409 while jobs are waiting or running, with the number of jobs and the remedy", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      const remove = call(`/api/v1/endpoints/${one.id}`, { method: "DELETE" })
      yield* one.run(1)
      yield* one.run(2)
      const { id } = yield* worker.next
      const problem = yield* Effect.flatMap(remove, expectProblem(409))
      expect(problem.error).toMatch(/1 waiting and 1 running/)
      expect(problem.hint).toContain("purge-queue")
      yield* one.purge
      yield* Effect.flatMap(remove, expectProblem(409))
      yield* worker.finish(id, 1)
      expect((yield* remove).status).toBe(204)
    }))

  it.effect("worker-env: returns both prefixes or the requested one, and a new worker id with each call", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ leaseMs: 3_000 })
      const path = `/api/v1/endpoints/${one.id}/worker-env`
      const names = [
        "WEBHOOK_GET_JOB",
        "WEBHOOK_POST_OUTPUT",
        "WEBHOOK_POST_STREAM",
        "WEBHOOK_PING",
        "PING_INTERVAL",
        "AI_API_KEY",
        "ENDPOINT_ID",
        "POD_ID",
        "POD_HOSTNAME"
      ]
      const both = yield* Effect.flatMap(call(path), expectJson(200, WorkerEnv))
      const workerIds = new Set([both.variables["RUNPOD_POD_ID"]])
      expect(both.variables["PLATFORM_POD_ID"]).toBe(both.variables["RUNPOD_POD_ID"])
      for (const prefix of ["PLATFORM_", "RUNPOD_"] as const) {
        const only = yield* Effect.flatMap(call(`${path}?prefix=${prefix}`), expectJson(200, WorkerEnv))
        expect(Object.keys(only.variables).toSorted()).toEqual(names.map((name) => prefix + name).toSorted())
        const { [`${prefix}POD_ID`]: workerId, [`${prefix}POD_HOSTNAME`]: hostname, ...lasting } = only.variables
        expect(both.variables).toMatchObject(lasting)
        expect(workerId).toMatch(/^ext-[0-9a-f-]{36}$/)
        expect(hostname).toBe(workerId)
        workerIds.add(workerId)
        expect(only.variables[`${prefix}ENDPOINT_ID`]).toBe(one.id)
        expect(only.variables[`${prefix}PING_INTERVAL`]).toBe("1000")
        // A worker works with either set of variables.
        const worker = WireWorker.make(only.variables, "joined", prefix)
        const { id } = yield* one.run(prefix)
        expect(yield* worker.next).toMatchObject({ id, input: prefix })
        yield* worker.ping([id])
        yield* worker.stream(id, [1])
        yield* worker.finish(id, "done")
        expect(yield* one.status(id)).toMatchObject({ status: "COMPLETED", output: "done", workerId: "joined" })
      }
      expect(Object.keys(both.variables)).toHaveLength(2 * names.length)
      expect(workerIds.size).toBe(3)
    }))

  it.effect("worker-env: rejects an unknown prefix and lists the known ones", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const problem = yield* Effect.flatMap(call(`/api/v1/endpoints/${one.id}/worker-env?prefix=MY_`), expectProblem(400))
      expect(problem.errors?.[0]?.path).toEqual(["prefix"])
      expect(problem.error).toMatch(/PLATFORM_.*RUNPOD_/)
    }))
}

/** Registers the tests for the control API. */
export const control = (it: ServerIt): void => {
  reading(it)
  changing(it)
}
