/**
 * Tests the state of the endpoints, which dashboards read (docs/spec/endpoints.md#control-api).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { EndpointDetail, Overview } from "@stint/contract/OverviewApi"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decodeAll = expectJson(200, Overview)
const decodeOne = expectJson(200, EndpointDetail)
const created = expectJson(201, NewKey)

/** Registers the tests. */
export const overviews = (it: ServerIt): void => {
  it.effect("overview: counts the jobs and workers of an endpoint, and lists its workers with their jobs", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const first = yield* one.run(1)
      yield* one.run(2)
      yield* one.run(3, { startAfterMs: 3_600_000 })
      const worker = yield* one.worker("ann")
      expect((yield* worker.next).id).toBe(first.id)
      const { list, ...detail } = yield* Effect.flatMap(call(`/api/v1/overview/${one.id}`), decodeOne)
      expect(detail).toEqual({
        id: one.id,
        source: "external",
        jobs: { waiting: 1, delayed: 1, running: 1, completed: 0, failed: 0 },
        oldestQueuedAt: expect.any(Number),
        workers: { max: null, idle: 0, initializing: 0, running: 1, draining: 0, throttled: 0, unhealthy: 0 }
      })
      expect(list).toEqual([{
        id: "ann",
        state: "running",
        jobs: [first.id],
        slots: 1,
        firstSeenAt: expect.any(Number),
        lastSeenAt: expect.any(Number),
        external: true,
        results: 0
      }])
      const { endpoints } = yield* Effect.flatMap(call("/api/v1/overview"), decodeAll)
      expect(endpoints.find(({ id }) => id === one.id)).toEqual(detail)
      yield* worker.ping([first.id])
      yield* worker.finish(first.id, "done")
      const after = yield* Effect.flatMap(call(`/api/v1/overview/${one.id}`), decodeOne)
      expect(after.jobs).toMatchObject({ running: 0, completed: 1 })
      expect(after.list[0]).toMatchObject({
        jobs: [],
        results: 1,
        lastJob: first.id,
        version: "1.12.0",
        heartbeatAt: expect.any(Number)
      })
      yield* Effect.flatMap(call("/api/v1/overview/no-such-endpoint"), expectProblem(404))
    }))

  it.effect("overview: shows a key only its own endpoints, and requires a scope that permits reading", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const mine = yield* endpoint()
      const other = yield* endpoint()
      const secretOf = (scopes: ReadonlyArray<string>) =>
        Effect.map(
          Effect.flatMap(call("/api/v1/keys", { json: { name: "viewer", scopes, endpoints: [mine.id] } }), created),
          ({ secret }) => secret
        )
      const authorization = yield* secretOf(["jobs:read"])
      const { endpoints } = yield* Effect.flatMap(call("/api/v1/overview", { authorization }), decodeAll)
      expect(endpoints.map(({ id }) => id)).toEqual([mine.id])
      yield* Effect.flatMap(call(`/api/v1/overview/${mine.id}`, { authorization }), decodeOne)
      for (const id of [other.id, "no-such-endpoint"]) {
        yield* Effect.flatMap(call(`/api/v1/overview/${id}`, { authorization }), expectProblem(403))
      }
      for (const scope of ["jobs:submit", "jobs:manage", "worker"]) {
        const problem = yield* Effect.flatMap(
          call("/api/v1/overview", { authorization: yield* secretOf([scope]) }),
          expectProblem(403)
        )
        expect(problem.error).toContain("jobs:read")
      }
      for (const authorization of [null, "wrong"]) {
        yield* Effect.flatMap(call("/api/v1/overview", { authorization }), expectProblem(401))
      }
    }))
}
