/**
 * Tests the operator's maxima of what callers may ask for (docs/spec/endpoints.md#limits-for-callers).
 */
import { expect } from "@effect/vitest"
import { BatchReceipt } from "@stint/contract/Batch"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const WEEK = 604_800_000

/** Registers the tests. */
export const callerLimits = (it: ServerIt): void => {
  it.effect("the execution timeout and the ttl that an operator sets are the most that a caller may ask for, in every submission", () =>
    Effect.gen(function*() {
      const { call, path } = yield* (yield* ServerTest).endpoint({ executionTimeoutMs: 5_000, ttlMs: 10_000 })
      const { id } = yield* Effect.flatMap(call(path("batch"), { json: [] }), expectJson(200, BatchReceipt))
      const asked = [
        [
          { policy: { executionTimeout: WEEK } },
          ["policy", "executionTimeout"],
          "604800000 ms is above the maximum of this endpoint, 5000 ms"
        ],
        [{ policy: { ttl: 10_001 } }, ["policy", "ttl"], "10001 ms is above the maximum of this endpoint, 10000 ms"]
      ] as const
      for (const [wishes, at, message] of asked) {
        const request = { input: 1, ...wishes }
        const submissions: ReadonlyArray<readonly [path: string, json: unknown, at: ReadonlyArray<string | number>]> = [
          ["run", request, at],
          ["runsync", request, at],
          ["batch", { ...wishes, requests: [] }, at],
          ["batch", [{ input: 0 }, request], ["requests", 1, ...at]],
          [`batch/${id}/requests`, { requests: [request] }, ["requests", 0, ...at]]
        ]
        for (const [operation, json, expected] of submissions) {
          const problem = yield* Effect.flatMap(call(path(operation), { json }), expectProblem(400))
          expect(problem.errors, operation).toEqual([{ path: expected, message }])
          expect(problem.hint).toContain("`limits`")
        }
      }
      const most = { input: 1, policy: { executionTimeout: 5_000, ttl: 10_000 } }
      expect((yield* call(path("run"), { json: most })).status).toBe(200)
    }))

  it.effect("callers may ask for up to 7 days if the operator sets neither, because RunPod's clients do", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      expect(endpoint.endpoint).toMatchObject({ executionTimeoutMs: 600_000, limits: { executionTimeoutMs: WEEK, ttlMs: WEEK } })
      yield* endpoint.run(1, { policy: { executionTimeout: WEEK, ttl: WEEK } })
    }))

  it.effect("a submission to a full queue is rejected with 429, the limit and the way out, until a job is taken", () =>
    Effect.gen(function*() {
      const { call, id, path, run, worker } = yield* (yield* ServerTest).endpoint({ limits: { waitingJobs: 2 } })
      const keyed = { json: { input: 1 }, headers: { "idempotency-key": "order 17" } }
      const first = yield* call(path("run"), keyed)
      yield* run(2)
      for (const operation of ["run", "runsync", "run?router"]) {
        const rejected = yield* call(path(operation), { json: { input: 3 } })
        const problem = yield* expectProblem(429)(rejected)
        expect(rejected.headers.get("retry-after")).toBe("10")
        expect(problem).toMatchObject({ type: "/problems/too-many-requests", retryAfter: 10 })
        expect(problem.detail).toBe(
          `2 jobs are waiting on the endpoint "${id}", the most that it allows. The job was not stored.`
        )
        expect(problem.hint).toContain("limits.waitingJobs")
      }
      expect((yield* call(path("health"))).json).toMatchObject({ jobs: { inQueue: 2 }, limits: { waitingJobs: 2 } })
      expect((yield* call(path("run"), keyed)).json).toMatchObject({ id: Object(first.json).id })
      yield* (yield* worker("ann")).take()
      yield* run(3)
    }))

  it.effect("limits may allow more than the defaults of the endpoint, and survive a change of the endpoint", () =>
    Effect.gen(function*() {
      const { call, endpoint, id, run } = yield* (yield* ServerTest).endpoint({
        executionTimeoutMs: 5_000,
        limits: { executionTimeoutMs: 60_000 }
      })
      expect(endpoint.limits).toMatchObject({ executionTimeoutMs: 60_000, ttlMs: WEEK, priority: 100, maxAttempts: 100 })
      yield* run(1, { policy: { executionTimeout: 60_000 } })
      const put = yield* call(`/api/v1/endpoints/${id}`, { method: "PUT", json: endpoint })
      expect(put.json).toMatchObject({ limits: endpoint.limits })
      const low = yield* Effect.flatMap(
        call(`/api/v1/endpoints/${id}`, {
          method: "PUT",
          json: { ...endpoint, limits: { executionTimeoutMs: 5_000, ttlMs: 10_000 } }
        }),
        expectProblem(400)
      )
      expect(low.errors?.map((one) => one.path)).toEqual([["limits", "ttlMs"]])
    }))

  it.effect("limits priorities, attempts, start times and batches where the operator sets them", () =>
    Effect.gen(function*() {
      const limits = { priority: 5, maxAttempts: 3, startDelayMs: 60_000, openBatches: 1, batchRequests: 2 }
      const { call, path } = yield* (yield* ServerTest).endpoint({ limits })
      const run = (wishes: object) => Effect.map(call(path("run"), { json: { input: 1, ...wishes } }), ({ status }) => status)
      expect(yield* run({ priority: 6 })).toBe(400)
      expect(yield* run({ priority: 5 })).toBe(200)
      expect(yield* run({ policy: { retry: { maxAttempts: 4 } } })).toBe(400)
      expect(yield* run({ policy: { retry: { maxAttempts: 3 } } })).toBe(200)
      expect(yield* run({ startAfterMs: 60_001 })).toBe(400)
      expect(yield* run({ startAt: Date.now() + 70_000 })).toBe(400)
      expect(yield* run({ startAfterMs: 60_000 })).toBe(200)
      const batch = (count: number) =>
        Effect.map(call(path("batch"), { json: Array.from({ length: count }, () => ({ input: 1 })) }), ({ status }) => status)
      expect(yield* batch(3)).toBe(409)
      expect(yield* batch(2)).toBe(200)
      expect(yield* batch(0)).toBe(409)
    }))

  it.effect("the jobs of a batch, which may wait for a week by default, stay within the limit of the endpoint", () =>
    Effect.gen(function*() {
      const { call, endpoint, path } = yield* (yield* ServerTest).endpoint({ ttlMs: 60_000 })
      const queue = yield* JobQueue
      const { id } = yield* Effect.flatMap(call(path("batch"), { json: [{ input: 1 }] }), expectJson(200, BatchReceipt))
      yield* call(path(`batch/${id}/finalize`), { method: "POST" })
      const { jobs: [job] } = yield* queue.list(endpoint.id)
      expect(yield* queue.get(endpoint.id, job?.id ?? "")).toMatchObject({ ttlMs: 60_000 })
    }))
}
