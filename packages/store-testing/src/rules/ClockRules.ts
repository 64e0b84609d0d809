/**
 * Rules for a wall clock that is set while the platform runs, and for a platform that was suspended. Time passes on its own: the queue's
 * timers run.
 */
import { assert, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { JobStore } from "@stint/store/JobStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { type SetWallClock, withDivergentClock } from "../DivergentClock.ts"
import * as Scenario from "../Scenario.ts"
import * as StoreFaults from "../StoreFaults.ts"
import type { RuleServices } from "./StoreRule.ts"

const HOUR = 3_600_000

/** Registers the rules. */
export const clockRules = <E>(store: Layer.Layer<JobStore, E>): void => {
  const stopped = JobQueue.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store), WorkerRegistry.layer))
  )
  const running = JobTimers.layer().pipe(Layer.provideMerge(stopped))
  /** `world`: the queue with its timers, or without. */
  const rule = (
    title: string,
    body: (setWallClock: SetWallClock) => Effect.Effect<void, unknown, RuleServices | StoreFaults.StoreFaults>,
    world: typeof stopped = running
  ) => it.effect(title, () => withDivergentClock((setWallClock) => Effect.provide(body(setWallClock), world)))

  for (const [name, by] of [["forward", HOUR], ["back", -HOUR]] as const) {
    rule(
      `R5: keeps a running job with its worker when the clock is set ${name} an hour, and ends its lease and its timeout in time`,
      (set) =>
        Effect.gen(function*() {
          const { queue, endpoint, started, status } = yield* Scenario.make({ ttlMs: 50_000, executionTimeoutMs: 40_000 })
          const silent = yield* started("ann")
          const busy = yield* started("bob")
          const heartbeat = queue.heartbeat(endpoint.id, "bob", [busy.id])
          yield* Scenario.pass(9_000)
          yield* heartbeat
          yield* set(by)
          yield* Scenario.pass(1_000)
          assert.strictEqual(yield* status(silent.id), "IN_PROGRESS")
          assert.strictEqual(yield* status(busy.id), "IN_PROGRESS")
          // Both leases are full as of the jump. Nothing waits an hour for the lease of a silent worker.
          yield* Scenario.pass(8_500)
          yield* heartbeat
          assert.strictEqual(yield* status(silent.id), "IN_PROGRESS")
          yield* Scenario.pass(1_000)
          assert.strictEqual(yield* status(silent.id), "IN_QUEUE")
          for (let passed = 19_500; passed < 39_500; passed += 5_000) {
            yield* heartbeat
            yield* Scenario.pass(5_000)
          }
          assert.strictEqual(yield* status(busy.id), "IN_PROGRESS")
          yield* Scenario.pass(1_000)
          const ended = yield* queue.get(endpoint.id, busy.id)
          assert.strictEqual(ended.status, "TIMED_OUT")
          assert.include(ended.error ?? "", "execution timeout (40 s)")
        })
    )

    rule(`ends every wait in time when the clock is set ${name} an hour`, (set) =>
      Effect.gen(function*() {
        const { queue, endpoint, started, take } = yield* Scenario.make({ leaseMs: 60_000 })
        const { id } = yield* started("ann")
        const waits = yield* Effect.forEach([
          Effect.asVoid(take("bob", { waitMs: 5_000 })),
          Effect.asVoid(queue.awaitEnd(endpoint.id, id, 5_000)),
          Effect.asVoid(queue.drain(endpoint.id, id, 5_000)),
          Effect.asVoid(queue.stopSignals(endpoint.id, "ann", 5_000))
        ], (wait) => Effect.forkChild(wait))
        yield* Scenario.pass(2_000)
        yield* set(by)
        // Wakes every waiter, so that it reads the clock again: some of them while time is left, all of them at the end of their wait.
        yield* queue.notifyEnqueued(endpoint.id, 1)
        yield* queue.append({ endpoint: endpoint.id, worker: "ann", job: id }, Scenario.text("chunk"))
        yield* Scenario.pass(2_900)
        // The chunk ends only the wait for chunks.
        assert.deepStrictEqual(waits.map((wait) => Scenario.isDone(wait)), [false, false, true, false])
        yield* Scenario.pass(200)
        assert.deepStrictEqual(waits.map((wait) => Scenario.isDone(wait)), [true, true, true, true])
      }))
  }

  rule("R8: repeats a stop signal every second when the clock is set back an hour", (set) =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      yield* queue.cancel(endpoint.id, id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [id])
      yield* set(-HOUR)
      const again = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      yield* Scenario.pass(1_000)
      assert.deepStrictEqual(yield* Fiber.join(again), [id])
    }))

  rule("R5: ends a backoff in time when the clock is set back an hour", (set) =>
    Effect.gen(function*() {
      const retry = { maxAttempts: 2, onError: true, backoff: { initialMs: 2_000, maxMs: 2_000 } }
      const { endpoint, fail, queue, started } = yield* Scenario.make({ retry })
      yield* fail(yield* started("ann"), "no such city")
      assert.strictEqual((yield* queue.depth(endpoint.id)).delayed, 1)
      yield* set(-HOUR)
      yield* Scenario.pass(2_500)
      assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 0, waiting: 1 })
    }))

  rule(
    "R5: ends a backoff in time when the clock is set forward an hour and back two, between two sweeps",
    (set) =>
      Effect.gen(function*() {
        const retry = { maxAttempts: 2, onError: true, backoff: { initialMs: 2_000, maxMs: 2_000 } }
        const { endpoint, fail, queue, started } = yield* Scenario.make({ retry, ttlMs: 24 * HOUR })
        const job = yield* started("ann")
        yield* set(HOUR)
        yield* fail(job, "no such city")
        yield* set(-2 * HOUR)
        yield* Scenario.pass(3_000)
        assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 0, waiting: 1 })
      })
  )

  rule(
    "R5: ends a backoff in time when the failure read the clock before it was set back, and is stored afterwards",
    (set) =>
      Effect.gen(function*() {
        const retry = { maxAttempts: 2, onError: true, backoff: { initialMs: 2_000, maxMs: 2_000 } }
        const { endpoint, queue, started } = yield* Scenario.make({ retry, ttlMs: 24 * HOUR })
        const store = yield* JobStore
        const job = yield* started("ann")
        const before = yield* Clock.currentTimeMillis
        yield* set(-HOUR)
        // The timers move.
        yield* Scenario.pass(100)
        yield* store.apply(endpoint.id, job.id, {
          _tag: "Finish",
          now: before,
          endpoint: endpoint.id,
          worker: "ann",
          output: null,
          error: "no such city"
        })
        yield* Scenario.pass(3_000)
        assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 0, waiting: 1 })
      })
  )

  rule(
    "starts a job with a start time when the clock shows that time, even after it was set back",
    (set) =>
      Effect.gen(function*() {
        const { endpoint, queue, submit } = yield* Scenario.make()
        const { id } = yield* submit({ startAfterMs: 2_000 })
        yield* set(-10_000)
        yield* Scenario.pass(2_500)
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_QUEUE", notBefore: 2_000 })
        yield* Scenario.pass(10_000)
        assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 0, waiting: 1 })
      })
  )

  rule(
    "R5: fires no timer while the store cannot move the timers, and moves them once the store works again",
    (set) =>
      Effect.gen(function*() {
        const { failNextWrites } = yield* StoreFaults.StoreFaults
        const { started, status } = yield* Scenario.make()
        const { id } = yield* started("ann")
        yield* failNextWrites(4)
        yield* set(HOUR)
        yield* Scenario.pass(2_000)
        assert.strictEqual(yield* status(id), "IN_PROGRESS")
        yield* Scenario.pass(11_000)
        assert.strictEqual(yield* status(id), "IN_QUEUE")
      })
  )

  rule(
    "counts no earlier time for a job that is claimed right after the clock was set",
    (set) =>
      Effect.gen(function*() {
        const { endpoint, queue, started } = yield* Scenario.make()
        yield* set(HOUR)
        const { id } = yield* started("ann")
        yield* Scenario.pass(250)
        const { leaseExpiresAt, startedAt } = yield* queue.get(endpoint.id, id)
        const now = yield* Clock.currentTimeMillis
        assert.strictEqual(startedAt, now - 250)
        assert.isAtMost(leaseExpiresAt ?? 0, now + 10_000)
      })
  )

  rule(
    "R5: ends a lease in time after a restart when the clock was set back while the platform was down",
    (set) =>
      Effect.gen(function*() {
        const { endpoint, started } = yield* Scenario.make()
        const { id } = yield* started("ann")
        yield* set(-HOUR)
        yield* Effect.gen(function*() {
          const { leaseExpiresAt } = yield* (yield* JobQueue.JobQueue).get(endpoint.id, id)
          assert.strictEqual(leaseExpiresAt, 10_000 - HOUR)
        }).pipe(Effect.provide(JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer)), { local: true }))
      }),
    // The timers of a platform that is down do not run. A sweep that had read the old time would return the job.
    stopped
  )
}
