import { assert, describe, it } from "@effect/vitest"
import type { EndpointId } from "@stint/contract/Ids"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { EndpointHistories } from "@stint/server/EndpointHistories"
import { RunScenario } from "@stint/store-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { TestClock } from "effect/testing"
import { STEP_MILLIS } from "../src/EndpointSamples.ts"
import * as Metrics from "../src/index.ts"

const { finish, park, spawn, start } = RunScenario

const world = Metrics.layerHistory.pipe(
  Layer.provideMerge(RunQueue.layer),
  Layer.provideMerge(JobQueue.layer),
  Layer.provideMerge(WorkerRegistry.layer),
  Layer.provideMerge(Metrics.layerStores),
  Layer.provideMerge(MemoryJobStore.layerWithEndpoints),
  Layer.provideMerge(Layer.merge(Metrics.layerRegistry, Logger.layer([])))
)

/** The series of an endpoint that are not 0: counters, and the number of values of histograms. */
const countsOf = (endpoint: EndpointId) =>
  Effect.map(Metric.snapshot, (all) =>
    Object.fromEntries(all.flatMap(({ attributes, id, state }) => {
      const { endpoint: of, reason, status } = { ...attributes }
      if (of !== endpoint || !("count" in state) || Number(state.count) === 0) return []
      return [[[id, status ?? reason].filter((part) => part !== undefined).join(" "), Number(state.count)]]
    })))

describe("a pipeline's run", () => {
  it.effect("is counted once with its child, also when its writes are repeated", () =>
    Effect.gen(function*() {
      const { children, pipeline, write } = yield* RunScenario.make
      const first = yield* pipeline.started("ann")
      yield* write(first, { ...start, records: [spawn()], ...park(1) })
      yield* write(first, { ...start, records: [spawn()] })
      yield* children.finish(yield* children.takeOne("bob"))
      const second = yield* pipeline.takeOne("ann")
      yield* write(second, { ...start, records: [spawn()], ...finish() })
      yield* write(second, { records: [spawn()], ...finish() })
      assert.deepStrictEqual(yield* countsOf(pipeline.endpoint.id), {
        stint_jobs_submitted_total: 1,
        "stint_jobs_ended_total COMPLETED": 1,
        stint_job_wait_seconds: 2,
        stint_job_execution_seconds: 1
      })
      assert.deepStrictEqual(yield* countsOf(children.endpoint.id), {
        stint_jobs_submitted_total: 1,
        "stint_jobs_ended_total COMPLETED": 1,
        stint_job_wait_seconds: 1,
        stint_job_execution_seconds: 1
      })
    }).pipe(Effect.provide(world)))

  it.effect("counts as failed, and the children that end with it as cancelled", () =>
    Effect.gen(function*() {
      const { children, pipeline, write } = yield* RunScenario.make
      const job = yield* pipeline.started("ann")
      yield* write(job, { ...start, records: [spawn(), spawn("seal")] })
      yield* children.takeOne("bob")
      yield* write(job, finish("no"))
      assert.deepStrictEqual(yield* countsOf(pipeline.endpoint.id), {
        stint_jobs_submitted_total: 1,
        "stint_jobs_ended_total FAILED": 1,
        stint_job_wait_seconds: 1,
        stint_job_execution_seconds: 1
      })
      assert.deepStrictEqual(yield* countsOf(children.endpoint.id), {
        stint_jobs_submitted_total: 2,
        "stint_jobs_ended_total CANCELLED": 2,
        stint_job_wait_seconds: 1,
        stint_job_execution_seconds: 1
      })
    }).pipe(Effect.provide(world)))

  it.effect("does not lose its worker when a timer wakes it, and does not run while it is parked", () =>
    Effect.gen(function*() {
      const { pipeline, write } = yield* RunScenario.make
      const job = yield* pipeline.started("ann")
      yield* write(job, { ...start, records: [{ kind: "sleep", path: "nap", ms: 5_000 }], ...park(1) })
      yield* TestClock.adjust(5_000)
      yield* pipeline.queue.tick
      const again = yield* pipeline.takeOne("ann")
      yield* write(again, { ...start, records: [{ kind: "sleep", path: "rest", ms: 60_000 }], ...park(3) })
      yield* pipeline.queue.cancel(pipeline.endpoint.id, job.id)
      assert.deepStrictEqual(yield* countsOf(pipeline.endpoint.id), {
        stint_jobs_submitted_total: 1,
        "stint_jobs_ended_total CANCELLED": 1,
        stint_job_wait_seconds: 2
      })
    }).pipe(Effect.provide(world)))

  it.effect("is in the history of its endpoint, and its child in that of the child's", () =>
    Effect.gen(function*() {
      const histories = yield* EndpointHistories
      const { children, pipeline, write } = yield* RunScenario.make
      const job = yield* pipeline.started("ann")
      yield* write(job, { ...start, records: [spawn()] })
      yield* TestClock.adjust(1_000)
      yield* write(job, finish("no"))
      yield* TestClock.adjust(STEP_MILLIS)
      const [runs, jobs] = [histories.of(pipeline.endpoint.id, 5), histories.of(children.endpoint.id, 5)]
      assert.deepStrictEqual([runs.submitted, runs.failed], [[0.2], [0.2]])
      assert.isNotNull(runs.executions.p50[0])
      assert.deepStrictEqual([jobs.submitted, jobs.cancelled], [[0.2], [0.2]])
    }).pipe(Effect.provide(world)))

  it.effect("is measured as operations of the store", () =>
    Effect.gen(function*() {
      const { pipeline, runs, write } = yield* RunScenario.make
      const job = yield* pipeline.started("ann")
      yield* write(job, { ...start, ...finish("no") })
      yield* runs.retryFrom(pipeline.endpoint.id, job.id, "stamp")
      const operations = (yield* Metric.snapshot).flatMap(({ attributes, id, state }) =>
        id === "stint_store_operation_seconds" && "count" in state && Number(state.count) > 0
          ? [{ ...attributes }["operation"]]
          : []
      )
      assert.includeMembers(operations, ["define", "journal", "retryRun"])
    }).pipe(Effect.provide(world)))
})
