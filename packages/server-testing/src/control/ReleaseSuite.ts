/**
 * Tests the control API of releases. The endpoints have external workers, so that each release is active at once and no code is frozen.
 */
import { expect } from "@effect/vitest"
import { Release, ReleasePreview } from "@stint/contract/Release"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const source = { type: "external" }
const Page = Schema.Struct({ releases: Schema.Array(Release) })

/** Registers the tests. */
export const releases = (it: ServerIt) => {
  const world = Effect.gen(function*() {
    const { call } = yield* ServerTest
    const path = `/api/v1/endpoints/r-${randomUUID()}`
    return {
      call,
      path,
      deploy: (spec: object, more: object = {}) =>
        call(`${path}/releases`, { method: "POST", json: { spec: { source, ...spec }, ...more } }),
      list: (query = "") =>
        Effect.map(Effect.flatMap(call(`${path}/releases${query}`), expectJson(200, Page)), (page) => page.releases)
    }
  })

  it.effect("deploy: creates the endpoint with release 1 and returns 201; returns 200 with the existing release when nothing differs", () =>
    Effect.gen(function*() {
      const { call, deploy, list, path } = yield* world
      const first = yield* Effect.flatMap(deploy({ maxAttempts: 4 }, { message: "hello" }), expectJson(201, Release))
      expect(first).toMatchObject({ number: 1, state: "active", message: "hello", settings: { maxAttempts: 4 } })
      expect(first.createdBy).toBe("the platform's API key")
      expect((yield* call(path)).json).toMatchObject({ maxAttempts: 4, release: 1, createdAt: first.createdAt })
      expect(yield* Effect.flatMap(deploy({ maxAttempts: 4 }), expectJson(200, Release))).toEqual(first)
      expect(yield* Effect.flatMap(deploy({ maxAttempts: 5 }), expectJson(201, Release))).toMatchObject({ number: 2 })
      const all = yield* list()
      expect(all.map(({ number, state }) => [number, state])).toEqual([[2, "active"], [1, "superseded"]])
      expect((yield* list("?limit=1")).map(({ number }) => number)).toEqual([2])
      expect((yield* list("?before=2")).map(({ number }) => number)).toEqual([1])
      expect((yield* call(`${path}/releases/1`)).json).toEqual(all[1])
    }))

  it.effect("canary: is deployed next to the active release, promoted once, and ended by a rollback", () =>
    Effect.gen(function*() {
      const { call, list, path } = yield* world
      const spec = (command: string) => ({ source: { type: "command", command: [command] }, workers: { min: 0, max: 2 } })
      const deploy = (command: string, more: object = {}) =>
        call(`${path}/releases`, { method: "POST", json: { spec: spec(command), ...more } })
      const first = yield* Effect.flatMap(deploy("a", { canary: { percent: 10 } }), expectJson(201, Release))
      expect(first).toMatchObject({ number: 1, state: "active" })
      expect(first).not.toHaveProperty("canary")
      const canary = yield* Effect.flatMap(deploy("b", { canary: { percent: 10, maxPoints: 2.5 } }), expectJson(201, Release))
      expect(canary).toMatchObject({ number: 2, state: "canary", canary: { percent: 10, minJobs: 50, maxPoints: 2.5 } })
      expect((yield* call(path)).json).toMatchObject({
        release: 1,
        source: { command: ["a"] },
        canary: { release: 2, percent: 10 }
      })
      const promote = call(`${path}/promote`, { method: "POST" })
      expect(yield* Effect.flatMap(promote, expectJson(200, Release))).toMatchObject({ number: 2, state: "rolling" })
      expect((yield* call(path)).json).toMatchObject({ release: 2, previousRelease: 1, source: { command: ["b"] } })
      const { error } = yield* Effect.flatMap(promote, expectProblem(409))
      expect(error).toContain("has no canary")
      yield* Effect.flatMap(deploy("a"), expectJson(201, Release))
      yield* Effect.flatMap(deploy("c", { canary: { percent: 50 } }), expectJson(201, Release))
      const back = yield* Effect.flatMap(call(`${path}/rollback`, { method: "POST" }), expectJson(201, Release))
      expect(back).toMatchObject({ number: 5, rollbackOf: 3, state: "active" })
      expect((yield* call(path)).json).not.toHaveProperty("canary")
      expect((yield* list()).map(({ state }) => state)).toEqual([
        "active",
        "superseded",
        "superseded",
        "superseded",
        "superseded"
      ])
      yield* Effect.flatMap(deploy("d", { canary: { percent: 51 } }), expectProblem(400))
    }))

  it.effect("PUT and POST of an endpoint also make releases", () =>
    Effect.gen(function*() {
      const { call, list, path } = yield* world
      const put = (json: object) => call(path, { method: "PUT", json: { source, ...json } })
      yield* put({})
      yield* put({})
      yield* put({ env: { A: "1" } })
      expect((yield* list()).map(({ number }) => number)).toEqual([2, 1])
      const id = `r-${randomUUID()}`
      yield* call("/api/v1/endpoints", { method: "POST", json: { id, source } })
      expect((yield* call(`/api/v1/endpoints/${id}/releases`)).json).toMatchObject({ releases: [{ number: 1 }] })
    }))

  it.effect("deploy: returns 409 with who deployed what when the endpoint is not at the expected release", () =>
    Effect.gen(function*() {
      const { deploy, list } = yield* world
      yield* Effect.flatMap(deploy({}, { expected: 0 }), expectJson(201, Release))
      yield* Effect.flatMap(deploy({ maxAttempts: 4 }, { expected: 1 }), expectJson(201, Release))
      const { error } = yield* Effect.flatMap(deploy({ maxAttempts: 5 }, { expected: 1 }), expectProblem(409))
      expect(error).toMatch(/is at release 2, not 1: the platform's API key deployed it at 20\d\d-/)
      expect(yield* list()).toHaveLength(2)
    }))

  it.effect("gives concurrent deployments different numbers, and keeps the last deployment's settings", () =>
    Effect.gen(function*() {
      const { call, deploy, list, path } = yield* world
      yield* Effect.forEach([3, 4, 5, 6, 7, 8], (maxAttempts) => deploy({ maxAttempts }), { concurrency: "unbounded" })
      const all = yield* list()
      expect(all.map(({ number }) => number)).toEqual([6, 5, 4, 3, 2, 1])
      expect(all.map(({ state }) => state)).toEqual(["active", ...Array.from({ length: 5 }, () => "superseded")])
      expect((yield* call(path)).json).toMatchObject({ release: 6, maxAttempts: all[0]?.settings.maxAttempts })
    }))

  it.effect("preview: lists the settings that differ, and makes no release", () =>
    Effect.gen(function*() {
      const { call, deploy, list, path } = yield* world
      const preview = (spec: object) =>
        Effect.flatMap(
          call(`${path}/releases/preview`, { method: "POST", json: { spec: { source, ...spec } } }),
          expectJson(200, ReleasePreview)
        )
      const unknown = yield* preview({})
      expect([unknown.active, unknown.changes]).toEqual([undefined, true])
      yield* deploy({ env: { A: "1", B: "2" }, workers: { max: 2 } })
      expect(yield* preview({ env: { A: "1", B: "2" }, workers: { max: 2 } })).toEqual({
        active: 1,
        settings: [],
        code: { added: [], removed: [], changed: [] },
        changes: false
      })
      expect((yield* preview({ env: { A: "1", C: "3" } })).settings).toEqual([
        { path: "env.B", before: "2" },
        { path: "env.C", after: "3" },
        { path: "workers.max", before: 2, after: 3 }
      ])
      expect(yield* list()).toHaveLength(1)
    }))

  it.effect("rollback: makes a release with the settings of the previous release, or of a named one", () =>
    Effect.gen(function*() {
      const { call, deploy, path } = yield* world
      const rollback = (json?: object) => call(`${path}/rollback`, { method: "POST", ...(json === undefined ? {} : { json }) })
      yield* Effect.flatMap(rollback(), expectProblem(404))
      yield* deploy({ maxAttempts: 3 })
      const { error } = yield* Effect.flatMap(rollback(), expectProblem(404))
      expect(error).toMatch(/has no earlier release that was active/)
      yield* deploy({ maxAttempts: 4 })
      yield* deploy({ maxAttempts: 5 })
      const back = yield* Effect.flatMap(rollback(), expectJson(201, Release))
      expect(back).toMatchObject({ number: 4, rollbackOf: 2, state: "active", settings: { maxAttempts: 4 } })
      const named = yield* Effect.flatMap(rollback({ to: 1, message: "why" }), expectJson(201, Release))
      expect(named).toMatchObject({ number: 5, rollbackOf: 1, message: "why" })
      expect((yield* call(path)).json).toMatchObject({ release: 5, maxAttempts: 3 })
      yield* Effect.flatMap(rollback({ to: 77 }), expectProblem(404))
      yield* Effect.flatMap(rollback({ to: 0 }), expectProblem(400))
    }))

  it.effect("keeps the last 20 releases, and removes them with their endpoint", () =>
    Effect.gen(function*() {
      const { call, deploy, list, path } = yield* world
      for (let number = 1; number <= 23; number++) yield* deploy({ maxAttempts: number })
      expect((yield* list("?limit=100")).map(({ number }) => number)).toEqual(
        Array.from({ length: 20 }, (_, index) => 23 - index)
      )
      yield* Effect.flatMap(call(`${path}/releases/3`), expectProblem(404))
      yield* call(path, { method: "DELETE" })
      yield* Effect.flatMap(call(`${path}/releases`), expectProblem(404))
      expect(yield* Effect.flatMap(deploy({}), expectJson(201, Release))).toMatchObject({ number: 1 })
      expect(yield* list()).toHaveLength(1)
    }))

  it.effect("refuses invalid deployments with the path of the invalid value, and keys without the scope deploy", () =>
    Effect.gen(function*() {
      const { call, deploy, path } = yield* world
      const { errors } = yield* Effect.flatMap(deploy({ workers: { max: -1 } }), expectProblem(400))
      expect(errors?.[0]?.path).toEqual(["spec", "workers", "max"])
      yield* Effect.flatMap(call(`${path}/releases`, { method: "POST", json: {} }), expectProblem(400))
      const made = yield* call("/api/v1/keys", { method: "POST", json: { name: "jobs", scopes: ["jobs"], endpoints: "all" } })
      const { secret } = yield* Schema.decodeUnknownEffect(Schema.Struct({ secret: Schema.String }))(made.json)
      const asCaller = { headers: { authorization: `Bearer ${secret}` } }
      yield* Effect.flatMap(call(`${path}/releases`, asCaller), expectProblem(403))
      yield* Effect.flatMap(
        call(`${path}/releases`, { ...asCaller, method: "POST", json: { spec: { source } } }),
        expectProblem(403)
      )
    }))
}
