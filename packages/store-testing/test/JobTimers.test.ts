import { assert, describe, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario, StoreFaults } from "@stint/store-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"

/** The logged messages, in order. */
const recorded = () => {
  const lines: Array<string> = []
  return { lines, layer: Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]) }
}

const world = JobQueue.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(MemoryJobStore.layer), WorkerRegistry.layer))
)

describe("JobTimers", () => {
  it.effect("does due work within each interval", () =>
    Effect.gen(function*() {
      const { started, status } = yield* Scenario.make()
      const first = yield* started("ann")
      yield* TestClock.adjust(9_999)
      assert.strictEqual(yield* status(first.id), "IN_PROGRESS")
      yield* TestClock.adjust(500)
      assert.strictEqual(yield* status(first.id), "IN_QUEUE")
      yield* TestClock.adjust(300_000)
      assert.strictEqual(yield* status(first.id), "TIMED_OUT")
    }).pipe(Effect.provide(Layer.provideMerge(JobTimers.layer({ interval: 500 }), world))))

  it.effect("does all due work without waiting in between", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make()
      yield* Effect.replicateEffect(submit(), 3_000, { discard: true })
      yield* TestClock.adjust(300_250)
      yield* Scenario.settle
      assert.strictEqual((yield* queue.depth(endpoint.id)).failed, 3_000)
    }).pipe(Effect.provide(Layer.provideMerge(JobTimers.layer(), world))))

  it.effect("logs a store failure once, retries, and logs the recovery", () => {
    const { layer, lines } = recorded()
    return Effect.gen(function*() {
      const { failNextWrites } = yield* StoreFaults.StoreFaults
      const { started, status } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* failNextWrites(3)
      yield* TestClock.adjust(10_500)
      yield* Scenario.settle
      assert.strictEqual(yield* status(job.id), "IN_QUEUE")
      assert.strictEqual(lines.length, 2)
      assert.include(lines[0], "The job timers cannot fire: the job store failed in tick: the disk is full.")
      assert.strictEqual(lines[1], "The job timers work again.")
    }).pipe(Effect.provide(Layer.provideMerge(JobTimers.layer(), world).pipe(Layer.provideMerge(layer))))
  })

  it.effect("continues after a defect", () => {
    const { layer, lines } = recorded()
    let sweeps = 0
    const broken = Layer.effect(
      JobQueue.JobQueue,
      Effect.map(JobQueue.JobQueue, (queue) =>
        JobQueue.JobQueue.of({
          ...queue,
          tick: Effect.suspend(() => ++sweeps === 1 ? Effect.die(new Error("a broken job")) : queue.tick)
        }))
    ).pipe(Layer.provide(world))
    return Effect.gen(function*() {
      yield* TestClock.adjust(1_000)
      assert.isAbove(sweeps, 2)
      assert.include(lines[0], "a broken job")
    }).pipe(Effect.provide(Layer.provideMerge(JobTimers.layer(), broken).pipe(Layer.provideMerge(layer))))
  })
})
