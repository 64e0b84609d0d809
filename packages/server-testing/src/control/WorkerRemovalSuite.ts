/**
 * Tests how an operator drains and stops a worker (docs/spec/worker-lifecycle.md#drained-and-stopped-workers).
 */
import { expect } from "@effect/vitest"
import { AuditPage } from "@stint/contract/AuditApi"
import { EndpointDetail, WorkerOverview } from "@stint/contract/OverviewApi"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decodeWorker = expectJson(200, WorkerOverview)
const decodeDetail = expectJson(200, EndpointDetail)
const decodeAudit = expectJson(200, AuditPage)

/** Registers the tests. */
export const workerRemovals = (it: ServerIt): void => {
  const setup = Effect.gen(function*() {
    const { call, endpoint } = yield* ServerTest
    const one = yield* endpoint({ maxAttempts: 2 })
    const path = (worker: string, how: string) => `/api/v1/endpoints/${one.id}/workers/${encodeURIComponent(worker)}/${how}`
    const remove = (worker: string, how: "drain" | "stop") =>
      Effect.flatMap(call(path(worker, how), { method: "POST" }), decodeWorker)
    return { call, one, path, remove }
  })

  it.effect("drain: an external worker finishes its job and gets no more, and the overview and the explanation say so", () =>
    Effect.gen(function*() {
      const { call, one, remove } = yield* setup
      const { id: job } = yield* one.run(1)
      const worker = yield* one.worker("ann")
      yield* worker.next
      expect(yield* remove("ann", "drain")).toMatchObject({
        id: "ann",
        state: "draining",
        jobs: [job],
        leaving: "drain",
        external: true
      })
      const { id: next } = yield* one.run(2)
      yield* worker.ping([job])
      yield* worker.finish(job, "done")
      expect(yield* one.status(job)).toMatchObject({ status: "COMPLETED", output: "done" })
      expect(yield* worker.take(false)).toBe(undefined)
      const detail = yield* Effect.flatMap(call(`/api/v1/overview/${one.id}`), decodeDetail)
      expect(detail.workers.draining).toBe(1)
      expect(detail.list).toMatchObject([{ id: "ann", state: "draining", leaving: "drain", external: true }])
      const explained = yield* call(one.path(`status/${next}?explain`))
      expect(explained.text).toContain("1 worker is draining and takes no more jobs.")
      expect((yield* (yield* one.worker("bob")).next).id).toBe(next)
    }))

  it.effect("stop: an external worker loses its job to another worker, and is told to stop it", () =>
    Effect.gen(function*() {
      const { one, remove } = yield* setup
      const { id: job } = yield* one.run(1)
      const worker = yield* one.worker("ann")
      yield* worker.next
      expect(yield* remove("ann", "stop")).toMatchObject({
        id: "ann",
        state: "draining",
        leaving: "stop",
        external: true,
        jobs: []
      })
      expect(yield* worker.stops).toEqual([job])
      yield* Effect.flatMap(worker.deliver(job, { output: "late" }), expectProblem(409))
      const other = yield* one.worker("bob")
      expect((yield* other.next).id).toBe(job)
      // A stop is not taken back, and repeating it does not harm the job's next attempt.
      expect(yield* remove("ann", "drain")).toMatchObject({ leaving: "stop" })
      expect(yield* remove("ann", "stop")).toMatchObject({ leaving: "stop" })
      yield* other.finish(job, "done")
      expect(yield* one.status(job)).toMatchObject({ status: "COMPLETED", output: "done" })
    }))

  it.effect("says when there is no such worker or endpoint, and audits the requests", () =>
    Effect.gen(function*() {
      const { call, one, path, remove } = yield* setup
      const missing = yield* Effect.flatMap(call(path("no/body", "stop"), { method: "POST" }), expectProblem(404))
      expect(missing.error).toBe(`The endpoint "${one.id}" has no worker "no/body".`)
      expect(missing.hint).toContain(`stint workers list ${one.id}`)
      yield* Effect.flatMap(call("/api/v1/endpoints/nowhere/workers/w/drain", { method: "POST" }), expectProblem(404))
      const worker = yield* one.worker("ann")
      yield* worker.ping([])
      yield* remove("ann", "drain")
      const { entries } = yield* Effect.flatMap(call(`/api/v1/audit?target=endpoint/${one.id}/worker`), decodeAudit)
      expect(entries.map(({ action, result, status, target }) => `${action} ${target} ${result} ${status}`)).toEqual([
        `control.drainWorker endpoint/${one.id}/worker/ann done 200`,
        `control.stopWorker endpoint/${one.id}/worker/no/body failed 404`
      ])
    }))
}
