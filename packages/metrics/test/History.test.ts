import { assert, describe, expect, it } from "@effect/vitest"
import type { EndpointId } from "@stint/contract/Ids"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { EndpointHistories } from "@stint/server/EndpointHistories"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import { EndpointSamples, KEPT, percentile, type Sample, STEP_MILLIS } from "../src/EndpointSamples.ts"
import * as Metrics from "../src/index.ts"
import { LIFETIME_SECONDS } from "../src/MetricLabels.ts"

const MINUTE = 60_000

/** Counts the reads of queues. */
class Reads {
  depths = 0
}

const counted = (reads: Reads) =>
  Layer.effect(
    JobStore,
    Effect.map(JobStore, (jobs) => ({
      ...jobs,
      depth: (endpoint: EndpointId) => {
        reads.depths += 1
        return jobs.depth(endpoint)
      }
    }))
  )

const world = (reads = new Reads()) =>
  Metrics.layerHistory.pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(WorkerRegistry.layer),
    Layer.provideMerge(counted(reads)),
    Layer.provideMerge(Metrics.layerStores),
    Layer.provideMerge(MemoryJobStore.layerWithEndpoints),
    Layer.provideMerge(Layer.merge(Metrics.layerRegistry, Logger.layer([])))
  )

/** An endpoint that the store knows. */
const scenario = Effect.gen(function*() {
  const one = yield* Scenario.make()
  yield* (yield* EndpointStore).put(one.endpoint)
  return { ...one, histories: yield* EndpointHistories }
})

const sample = (changes: Partial<Sample["columns"]>, buckets: ReadonlyArray<number> = []): Sample => ({
  columns: {
    waiting: 0,
    delayed: 0,
    running: 0,
    oldest: 0,
    submitted: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    starts: 0,
    pull: 0,
    create: 0,
    start: 0,
    setup: 0,
    prepare: 0,
    ...changes
  },
  workers: { idle: 1, running: 2, initializing: 3, draining: 4, throttled: 5, unhealthy: 6 },
  waits: buckets,
  executions: []
})

describe("the history of an endpoint", () => {
  it.effect("has the jobs of each sample as rates, their waits and runs, and the queue", () =>
    Effect.gen(function*() {
      const { endpoint, fail, finish, histories, submit, takeOne } = yield* scenario
      yield* submit()
      yield* submit()
      yield* submit()
      yield* TestClock.adjust(2_000)
      const first = yield* takeOne("ann")
      yield* TestClock.adjust(1_000)
      yield* finish(first)
      yield* fail(yield* takeOne("ann"), "broken")
      yield* TestClock.adjust(2_100)
      assert.strictEqual(histories.since(), STEP_MILLIS)
      const of = histories.of(endpoint.id, 5)
      assert.deepStrictEqual(of.at, [STEP_MILLIS])
      assert.deepStrictEqual([of.waiting, of.running], [[1], [0]])
      assert.deepStrictEqual(of.oldest, [5_000])
      assert.deepStrictEqual([of.submitted, of.completed, of.failed, of.cancelled], [[0.6], [0.2], [0.2], [0]])
      // Waits of 2 and 3 s, in the buckets up to 2.5 and 5 s.
      expect(of.waits.p50[0]).toBeGreaterThan(1_000)
      expect(of.waits.p50[0]).toBeLessThanOrEqual(2_500)
      expect(of.waits.p99[0]).toBeGreaterThan(2_500)
      expect(of.waits.p99[0]).toBeLessThanOrEqual(5_000)
      expect(of.executions.p99[0]).toBeLessThanOrEqual(1_000)
      assert.deepStrictEqual(of.workers.idle, [1])

      // The next sample has only what happened since.
      yield* TestClock.adjust(STEP_MILLIS)
      const next = histories.of(endpoint.id, 5)
      assert.deepStrictEqual([next.submitted, next.completed, next.failed], [[0.6, 0], [0.2, 0], [0.2, 0]])
      assert.deepStrictEqual([next.waits.p50[1], next.executions.p50[1]], [null, null])
      assert.deepStrictEqual([next.waiting, next.oldest], [[1, 1], [5_000, 10_000]])
    }).pipe(Effect.provide(world())))

  it.effect("shows a retried job that waits, although no count of the metrics changes", () =>
    Effect.gen(function*() {
      const { endpoint, fail, histories, queue, submit, takeOne } = yield* scenario
      yield* submit()
      const job = yield* takeOne("ann")
      yield* fail(job, "broken")
      yield* TestClock.adjust(2 * STEP_MILLIS)
      yield* queue.retry(endpoint.id, job.id)
      yield* TestClock.adjust(STEP_MILLIS)
      assert.deepStrictEqual(histories.of(endpoint.id, 5).waiting, [0, 0, 1])
    }).pipe(Effect.provide(world())))

  it.effect("has the mean time of each part of the starts that ended in a sample", () =>
    Effect.gen(function*() {
      const { endpoint, histories } = yield* scenario
      const registry = yield* WorkerRegistry.WorkerRegistry
      for (const [worker, millis] of [["w-1", 100], ["w-2", 300]] as const) {
        yield* registry.starting(endpoint.id, worker, 1)
        if (worker === "w-2") {
          registry.pulling(endpoint.id, worker, "a:1", () => ({ layers: 0, doneLayers: 0, bytes: 0, doneBytes: 0 }))
          yield* TestClock.adjust(600)
          registry.pulled(endpoint.id, worker)
        }
        yield* TestClock.adjust(millis)
        yield* registry.created(endpoint.id, worker)
        yield* TestClock.adjust(400)
        yield* registry.settingUp(endpoint.id, worker, MINUTE)
        yield* TestClock.adjust(1_000)
        yield* registry.touch(endpoint.id, worker, "take")
        // It exits before the sample.
        if (worker === "w-1") yield* registry.removed(endpoint.id, worker)
      }
      yield* TestClock.adjust(2 * STEP_MILLIS)
      const { starts } = histories.of(endpoint.id, 5)
      assert.deepStrictEqual(starts.count, [2, 0])
      assert.deepStrictEqual(
        [starts.pull, starts.create, starts.start, starts.setup, starts.prepare],
        [[300, null], [200, null], [400, null], [1_000, null], [0, null]]
      )
    }).pipe(Effect.provide(world())))

  it.effect("merges samples into at most 120, and keeps an hour", () =>
    Effect.gen(function*() {
      const { endpoint, histories, submit } = yield* scenario
      yield* submit()
      yield* TestClock.adjust(70 * MINUTE)
      const hour = histories.of(endpoint.id, 60)
      expect(hour.at.length).toBeGreaterThan(118)
      expect(hour.at.length).toBeLessThanOrEqual(121)
      expect((hour.at.at(-1) ?? 0) - (hour.at[0] ?? 0)).toBeGreaterThan(59 * MINUTE)
      expect(histories.of(endpoint.id, 5).at.length).toBe(60)
      // The groups keep their samples, so that a chart does not flicker.
      yield* TestClock.adjust(STEP_MILLIS)
      const later = histories.of(endpoint.id, 60)
      expect(later.at.slice(-20, -1).every((time) => hour.at.includes(time) || time > (hour.at.at(-2) ?? 0))).toBe(true)
    }).pipe(Effect.provide(world())))

  it.effect("has the rates of the last minute, and a line of minutes, for endpoints that were not idle", () =>
    Effect.gen(function*() {
      const { endpoint, finish, histories, submit, takeOne } = yield* scenario
      yield* TestClock.adjust(MINUTE)
      assert.deepStrictEqual(histories.rates(), [])
      for (let n = 0; n < 6; n += 1) yield* submit()
      for (let n = 0; n < 3; n += 1) yield* finish(yield* takeOne("ann"))
      yield* TestClock.adjust(MINUTE)
      const [rates] = histories.rates()
      expect(rates).toMatchObject({ id: endpoint.id, arrivals: 0.1, ended: 0.05 })
      assert.strictEqual(rates?.endedJobs.reduce((sum, count) => sum + count, 0), 3)
      assert.strictEqual(rates?.waiting.at(-1), 3)
      yield* TestClock.adjust(MINUTE)
      expect(histories.rates()).toMatchObject([{ arrivals: 0, ended: 0 }])
    }).pipe(Effect.provide(world())))

  it.effect("reads the queue of an endpoint only while it has jobs or they change", () => {
    const reads = new Reads()
    return Effect.gen(function*() {
      const { finish, submit, takeOne } = yield* scenario
      yield* TestClock.adjust(2 * STEP_MILLIS)
      reads.depths = 0
      yield* TestClock.adjust(10 * MINUTE)
      assert.strictEqual(reads.depths, 0)
      yield* submit()
      yield* TestClock.adjust(2 * STEP_MILLIS)
      assert.strictEqual(reads.depths, 2)
      yield* finish(yield* takeOne("ann"))
      yield* TestClock.adjust(MINUTE)
      assert.strictEqual(reads.depths, 3)
    }).pipe(Effect.provide(world(reads)))
  })

  it.effect("forgets a removed endpoint", () =>
    Effect.gen(function*() {
      const { endpoint, histories } = yield* scenario
      yield* (yield* WorkerRegistry.WorkerRegistry).touch(endpoint.id, "ann", "take")
      yield* TestClock.adjust(2 * STEP_MILLIS)
      assert.strictEqual(histories.rates().length, 1)
      yield* (yield* EndpointStore).remove(endpoint.id)
      yield* TestClock.adjust(STEP_MILLIS)
      assert.deepStrictEqual(histories.rates(), [])
    }).pipe(Effect.provide(world())))
})

describe("the samples of an endpoint", () => {
  it("replaces the sample of an hour before", () => {
    const samples = new EndpointSamples()
    samples.set(3, sample({ waiting: 7, submitted: 2 }, [0, 0, 1]))
    assert.deepStrictEqual([samples.get(3, "waiting"), samples.workers(3, "unhealthy"), samples.workers(3, "running")], [7, 6, 2])
    assert.strictEqual(samples.buckets([3], "waits")[2], 1)
    samples.set(3 + KEPT, undefined)
    assert.deepStrictEqual([samples.get(3, "waiting"), samples.workers(3, "unhealthy")], [0, 0])
    assert.strictEqual(samples.buckets([3], "waits")[2], 0)
  })

  it("estimates percentiles within their buckets, and counts values above the last one as its boundary", () => {
    const buckets = LIFETIME_SECONDS.map(() => 0)
    assert.isNull(percentile([...buckets, 0], 0.5))
    // 100 values from 10 to 25 ms.
    const middle = [...buckets.map((_, index) => index === 2 ? 100 : 0), 0]
    assert.strictEqual(percentile(middle, 0.5), 17.5)
    assert.strictEqual(percentile(middle, 0.99), 24.9)
    assert.strictEqual(percentile([...buckets, 5], 0.5), 3_600_000)
  })
})
