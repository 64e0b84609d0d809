/**
 * Rules for timers: leases, limits and retention. The store does due work in `tick`, which the queue's timers call.
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const timerRules = (rule: Rule): void => {
  rule("fires no timer before it is due", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, submit } = yield* Scenario.make()
      const running = yield* started("ann")
      const waiting = yield* submit()
      const before = [yield* queue.get(endpoint.id, running.id), yield* queue.get(endpoint.id, waiting.id)]
      yield* TestClock.adjust(9_999)
      assert.isFalse(yield* queue.tick)
      assert.deepStrictEqual([yield* queue.get(endpoint.id, running.id), yield* queue.get(endpoint.id, waiting.id)], before)
    }))

  rule("R5: returns the job of a silent worker to its former position in the queue", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, submit, take } = yield* Scenario.make()
      const job = yield* started("ann")
      const later = yield* submit()
      yield* queue.progress(Scenario.holderOf(job), toJsonText("half"))
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const lost = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(lost.status, "IN_QUEUE")
      assert.strictEqual(lost.retries, 1)
      assert.strictEqual(lost.attempt, 1)
      assert.strictEqual(lost.progress, null)
      assert.strictEqual(lost.queuedAt, 10_000)
      assert.strictEqual(lost.startedAt, null)
      // If the worker is still alive, it receives a stop signal for the job.
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      assert.deepStrictEqual((yield* take("bob", { limit: 2 })).map((one) => one.id), [job.id])
      assert.deepStrictEqual((yield* take("cid", { limit: 2 })).map((one) => one.id), [later.id])
    }))

  rule("fails a job whose last attempt is lost, and reports the cause", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make({ maxAttempts: 3 })
      const job = yield* started("ann")
      for (const [worker, status] of [["bob", "IN_QUEUE"], ["cid", "IN_QUEUE"], ["", "FAILED"]] as const) {
        yield* TestClock.adjust(10_000)
        yield* queue.tick
        assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, status)
        if (worker !== "") yield* take(worker)
      }
      const failed = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(failed.error, "Worker cid was silent for 10 s and lost the job. This was attempt 3 of 3.")
      assert.strictEqual(failed.retries, 2)
      assert.strictEqual(failed.attempt, 3)
    }))

  rule("keeps a job with its worker as long as heartbeats arrive", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, status } = yield* Scenario.make()
      const job = yield* started("ann")
      for (let heartbeat = 0; heartbeat < 5; heartbeat++) {
        yield* TestClock.adjust(9_000)
        yield* queue.heartbeat(endpoint.id, "ann", [job.id])
        yield* queue.tick
        assert.strictEqual(yield* status(job.id), "IN_PROGRESS")
      }
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      assert.strictEqual(yield* status(job.id), "IN_QUEUE")
    }))

  rule("times out an attempt that runs too long, even with heartbeats", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make({ leaseMs: 30_000, executionTimeoutMs: 40_000 })
      const job = yield* started("ann")
      yield* TestClock.adjust(20_000)
      yield* queue.heartbeat(endpoint.id, "ann", [job.id])
      const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000))
      yield* Scenario.settle
      yield* Scenario.pass(20_000)
      yield* queue.tick
      const ended = yield* Fiber.join(ending)
      assert.strictEqual(ended.status, "TIMED_OUT")
      assert.strictEqual(ended.error, "The attempt ran longer than its execution timeout (40 s) on worker ann.")
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      assert.strictEqual(yield* finish(job), "ignored")
    }))

  rule("times out a job that waits beyond its ttl", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const job = yield* submit({ policy: { ttl: 10_000 } })
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const ended = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(ended.status, "TIMED_OUT")
      assert.strictEqual(ended.error, "The job's time to live (10 s) ended while it was waiting for a worker.")
      assert.deepStrictEqual(yield* take("ann"), [])
    }))

  rule("times out a job that runs beyond its ttl, and sends its worker a stop signal", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make({ leaseMs: 30_000 })
      const { id } = yield* submit({ policy: { ttl: 12_000 } })
      yield* TestClock.adjust(5_000)
      yield* take("ann")
      yield* TestClock.adjust(7_000)
      yield* queue.tick
      const ended = yield* queue.get(endpoint.id, id)
      assert.strictEqual(ended.status, "TIMED_OUT")
      assert.strictEqual(ended.error, "The job's time to live (12 s) ended while it was running on worker ann.")
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [id])
    }))

  rule("R15: removes an ended job and its chunks when its retention ends", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started, status } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.append(Scenario.holderOf(job), toJsonText("chunk"))
      yield* finish(job)
      yield* TestClock.adjust(599_999)
      yield* queue.tick
      assert.strictEqual(yield* status(job.id), "COMPLETED")
      yield* TestClock.adjust(1)
      yield* queue.tick
      assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, job.id)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.drain(endpoint.id, job.id, 0)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(finish(job)), "JobMissing")
      const { completed } = yield* queue.depth(endpoint.id)
      assert.strictEqual(completed, 0)
    }))

  rule("reports whether more may be due after a sweep, and fires everything over repeated sweeps", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      yield* Effect.replicateEffect(submit(), 1_200, { concurrency: "unbounded", discard: true })
      yield* TestClock.adjust(300_000)
      let sweeps = 1
      while (yield* queue.tick) sweeps += 1
      assert.isAbove(sweeps, 1)
      assert.strictEqual((yield* queue.depth(endpoint.id)).failed, 1_200)
    }))

  rule(
    "R1: finds its jobs after a restart, and gives running jobs a full lease again",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, finish, started, submit } = yield* Scenario.make()
        const running = yield* started("ann")
        const waiting = yield* submit()
        // The platform is down for longer than the lease, so no worker could send heartbeats.
        yield* TestClock.adjust(25_000)
        const world = JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer))
        yield* Effect.gen(function*() {
          const restarted = yield* JobQueue.JobQueue
          yield* restarted.tick
          const found = yield* restarted.get(endpoint.id, running.id)
          assert.strictEqual(found.status, "IN_PROGRESS")
          assert.strictEqual(found.leaseExpiresAt, 35_000)
          assert.strictEqual((yield* restarted.get(endpoint.id, waiting.id)).status, "IN_QUEUE")
          assert.strictEqual(
            yield* restarted.finish(Scenario.holderOf(running), { output: toJsonText("at last"), error: null }),
            "accepted"
          )
        }).pipe(Effect.provide(world, { local: true }))
        assert.strictEqual((yield* queue.get(endpoint.id, running.id)).output, `"at last"`)
        assert.strictEqual(yield* finish(running), "ignored")
      })
  )
}
