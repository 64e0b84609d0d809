/**
 * Tests the maxima that an operator sets for callers' requests (docs/spec/endpoints.md#limits-for-callers).
 */
import { expect } from "@effect/vitest"
import { AccessKey, NewKey } from "@stint/contract/AccessKey"
import { Batch, BatchReceipt } from "@stint/contract/Batch"
import { JobReceipt } from "@stint/contract/Job"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until as pollUntil } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const WEEK = 604_800_000

/** Registers the tests. */
export const callerLimits = (it: ServerIt): void => {
  it.effect("the execution timeout and the ttl that an operator sets are the maxima that a caller may request, in every submission", () =>
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

  it.effect("callers may request up to 7 days if the operator sets neither, because RunPod's clients do so", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      expect(endpoint.endpoint).toMatchObject({ executionTimeoutMs: 600_000, limits: { executionTimeoutMs: WEEK, ttlMs: WEEK } })
      yield* endpoint.run(1, { policy: { executionTimeout: WEEK, ttl: WEEK } })
    }))

  it.effect("a submission to a full queue is rejected with 429, the limit and a hint, until a job is taken", () =>
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

  it.effect("a submission beyond its endpoint's limit on stored bytes is rejected with 507, but results, cancels and repeats are accepted", () =>
    Effect.gen(function*() {
      const { call, id, path, run, status, worker } = yield* (yield* ServerTest).endpoint({
        limits: { storedBytes: 1_000 }
      })
      const keyed = { json: { input: "x".repeat(498) }, headers: { "idempotency-key": "order 17" } }
      const first = yield* Effect.flatMap(call(path("run"), keyed), expectJson(200, JobReceipt))
      const second = yield* run("x".repeat(98))
      for (const operation of ["run", "runsync", "run?router"]) {
        const problem = yield* Effect.flatMap(call(path(operation), { json: { input: "x".repeat(498) } }), expectProblem(507))
        expect(problem).toMatchObject({ type: "/problems/insufficient-storage" })
        expect(problem.detail).toBe(
          `The jobs of the endpoint "${id}" store 600 bytes of at most 1 kB, and this job needs 500 bytes. The job was not stored.`
        )
        expect(problem.hint).toContain("retention")
        expect(problem.hint).toContain(`stint endpoints update ${id} --limit-stored-bytes SIZE`)
      }
      expect((yield* call(path("run"), keyed)).json).toMatchObject({ id: first.id })
      const ann = yield* worker("ann")
      const job = yield* ann.next
      yield* ann.finish(job.id, "y".repeat(5_000))
      expect(yield* status(job.id)).toMatchObject({ status: "COMPLETED" })
      expect((yield* call(path(`cancel/${second.id}`), { method: "POST" })).status).toBe(200)
      yield* Effect.flatMap(call(path("run"), { json: { input: 1 } }), expectProblem(507))
    }))

  it.effect("a key's quotas apply to its jobs on all endpoints, change with the key, and do not affect other keys", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [one, two] = [yield* endpoint(), yield* endpoint()]
      const limits = { waitingJobs: 2, storedBytes: 1_000 }
      const { key, secret } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "shop", endpoints: [one.id, two.id], limits } }),
        expectJson(201, NewKey)
      )
      expect(key.limits).toEqual(limits)
      const submit = (where: typeof one, input: string, authorization = secret, operation = "run") =>
        call(where.path(operation), { json: { input }, authorization })
      expect((yield* submit(one, "x".repeat(98))).status).toBe(200)
      const large = yield* Effect.flatMap(submit(two, "x".repeat(998)), expectProblem(507))
      expect(large.detail).toBe(
        "The jobs of this key, on all endpoints together, store 100 bytes of at most 1 kB, and this job needs 1 kB. The job was not stored."
      )
      expect(large.hint).toContain(`stint keys update ${key.id} --max-stored-bytes SIZE`)
      expect((yield* submit(two, "x", secret, "run?router")).status).toBe(200)
      const waiting = yield* submit(one, "x")
      const problem = yield* expectProblem(429)(waiting)
      expect(problem.detail).toBe(
        "2 jobs of this key are waiting, on all endpoints together, the most that the key may have. The job was not stored."
      )
      expect(problem.hint).toContain(`stint keys update ${key.id} --max-waiting-jobs N`)
      expect(waiting.headers.get("retry-after")).toBe("10")
      expect((yield* call(one.path("openai/v1/chat/completions"), { json: {}, authorization: secret })).status).toBe(429)
      yield* one.run("x".repeat(998))
      const patch = (limits: unknown) =>
        Effect.flatMap(call(`/api/v1/keys/${key.id}`, { method: "PATCH", json: { limits } }), expectJson(200, AccessKey))
      expect((yield* patch({ waitingJobs: 3 })).limits).toEqual({ waitingJobs: 3 })
      expect((yield* submit(one, "x".repeat(998))).status).toBe(200)
      yield* Effect.flatMap(submit(one, "x"), expectProblem(429))
      expect(yield* patch(null)).not.toHaveProperty("limits")
      expect((yield* submit(one, "x")).status).toBe(200)
      yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "shop", endpoints: "all", limits: { waitingJob: 2 } } }),
        expectProblem(400)
      )
    }))

  it.effect("a batch does not start while its requests exceed the queue's limit, and its remaining requests wait while a quota is full", () =>
    Effect.gen(function*() {
      const { call, path, run, worker } = yield* (yield* ServerTest).endpoint({
        limits: { waitingJobs: 2, storedBytes: 1_000_000 }
      })
      const create = (count: number) =>
        Effect.flatMap(
          call(path("batch"), { json: Array.from({ length: count }, (_, index) => ({ input: index })) }),
          expectJson(200, BatchReceipt)
        )
      const large = yield* create(3)
      const refused = yield* Effect.flatMap(call(path(`batch/${large.id}/finalize`), { method: "POST" }), expectProblem(409))
      expect(refused.detail).toContain("more than 2 jobs would be waiting on this endpoint")
      expect(refused.hint).toContain("limits.waitingJobs")
      const { id } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "batches", endpoints: "all", limits: { waitingJobs: 1 } } }),
        expectJson(201, NewKey)
      ).pipe(Effect.flatMap(({ secret }) =>
        Effect.gen(function*() {
          const batch = yield* Effect.flatMap(
            call(path("batch"), { json: [{ input: 1 }, { input: 2 }], authorization: secret }),
            expectJson(200, BatchReceipt)
          )
          const started = yield* Effect.flatMap(
            call(path(`batch/${batch.id}/finalize`), { method: "POST", authorization: secret }),
            expectJson(200, Batch)
          )
          expect(started).toMatchObject({ status: "FINALIZED", requestTotal: 2, requestHeld: 1 })
          return batch
        })
      ))
      const ann = yield* worker("ann")
      for (const output of [1, 2]) {
        const job = yield* ann.next
        yield* ann.finish(job.id, output)
      }
      const ended = yield* pollUntil(
        Effect.flatMap(call(path(`batch/${id}`)), expectJson(200, Batch)),
        ({ status }) => status === "COMPLETED"
      )
      expect(ended).toMatchObject({ requestCompleted: 2 })
      expect(ended).not.toHaveProperty("requestHeld")
      yield* run(1)
    }))

  it.effect("limits may allow more than the endpoint's defaults, and survive a change to the endpoint", () =>
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

  it.effect("batch jobs, which may wait for a week by default, stay within the endpoint's limit", () =>
    Effect.gen(function*() {
      const { call, endpoint, path } = yield* (yield* ServerTest).endpoint({ ttlMs: 60_000 })
      const queue = yield* JobQueue
      const { id } = yield* Effect.flatMap(call(path("batch"), { json: [{ input: 1 }] }), expectJson(200, BatchReceipt))
      yield* call(path(`batch/${id}/finalize`), { method: "POST" })
      const { jobs: [job] } = yield* queue.list(endpoint.id)
      expect(yield* queue.get(endpoint.id, job?.id ?? "")).toMatchObject({ ttlMs: 60_000 })
    }))
}
