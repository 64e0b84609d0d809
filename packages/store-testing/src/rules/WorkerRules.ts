/**
 * Rules for workers: their stop signals, and their jobs when they exit.
 */
import { assert } from "@effect/vitest"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Kills the workers of a job until its attempts are used up (R6). */
export const deadWorker = Effect.gen(function*() {
  const { queue, endpoint, started, take } = yield* Scenario.make()
  const job = yield* started("ann")
  yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
  const lost = yield* queue.get(endpoint.id, job.id)
  assert.strictEqual(lost.status, "IN_QUEUE")
  assert.strictEqual(lost.retries, 1)
  assert.deepStrictEqual(yield* (yield* WorkerRegistry).list(endpoint.id), [])
  yield* take("bob")
  yield* queue.workerGone(endpoint.id, "bob", "Worker bob exited with code 137. Last output: out of memory.")
  const failed = yield* queue.get(endpoint.id, job.id)
  assert.strictEqual(failed.status, "FAILED")
  assert.strictEqual(
    failed.error,
    "Worker bob exited with code 137. Last output: out of memory. This was attempt 2 of 2."
  )
})

/** Registers the rules. */
export const workerRules = (rule: Rule): void => {
  rule("sends a stop signal for a job that the heartbeat names but the worker does not hold", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, submit } = yield* Scenario.make()
      const others = yield* started("bob")
      const waiting = yield* submit()
      const before = yield* queue.get(endpoint.id, others.id)
      yield* TestClock.adjust(1_000)
      yield* queue.heartbeat(endpoint.id, "ann", [others.id, waiting.id, "unknown", "x".repeat(500)])
      assert.deepStrictEqual(
        [...yield* queue.stopSignals(endpoint.id, "ann", 0)].sort(),
        [others.id, waiting.id, "unknown", "x".repeat(500)].sort()
      )
      assert.deepStrictEqual(yield* queue.get(endpoint.id, others.id), before)
    }))

  rule("sends no stop signal when a heartbeat crosses the worker's own result", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started } = yield* Scenario.make()
      const done = yield* started("ann")
      const failed = yield* started("ann")
      yield* finish(done)
      yield* fail(failed, "no such city")
      yield* queue.heartbeat(endpoint.id, "ann", [done.id, failed.id])
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("repeats a missed stop signal after the next heartbeat", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.cancel(endpoint.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      yield* queue.heartbeat(endpoint.id, "ann", [job.id])
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
    }))

  rule(
    "R8: repeats a stop signal every second until a heartbeat omits the job",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* queue.cancel(endpoint.id, job.id)
        assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
        for (let repeat = 0; repeat < 3; repeat++) {
          const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
          yield* Scenario.pass(999)
          assert.isFalse(Scenario.isDone(stopping))
          yield* Scenario.pass(1)
          assert.deepStrictEqual(yield* Fiber.join(stopping), [job.id])
        }
        yield* queue.heartbeat(endpoint.id, "ann", [])
        yield* TestClock.adjust(1_000)
        assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
      })
  )

  rule("R8: repeats a stop signal until the worker delivers a result for the job", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.cancel(endpoint.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      yield* Effect.ignore(finish(job))
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule(
    "R8: stops repeating a stop signal after 30 s, and sends it again when a later heartbeat names the job",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* queue.cancel(endpoint.id, job.id)
        assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
        yield* TestClock.adjust(30_000)
        assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
        yield* queue.heartbeat(endpoint.id, "ann", [job.id])
        assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      })
  )

  rule("does not stop the worker's next attempt with a stop signal of an earlier one", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const [again] = yield* take("ann")
      assert.strictEqual(again?.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("ends a wait for stop signals when it times out, whether or not the worker is draining", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.drainWorker(endpoint.id, "ann")
      const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 5_000))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(stopping))
      yield* Scenario.pass(5_000)
      assert.deepStrictEqual(yield* Fiber.join(stopping), [])
      const again = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 5_000))
      yield* Scenario.settle
      yield* queue.cancel(endpoint.id, job.id)
      assert.deepStrictEqual(yield* Fiber.join(again), [job.id])
    }))

  rule(
    "R6: returns the jobs of a dead worker with one attempt counted, and fails them with the cause after the last",
    () => deadWorker
  )

  rule("says so in the error when the only attempt was lost", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make({ maxAttempts: 1 })
      const job = yield* started("ann")
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      assert.strictEqual(
        (yield* queue.get(endpoint.id, job.id)).error,
        "Worker ann was killed by SIGKILL. This was the only attempt allowed."
      )
    }))

  rule("returns the jobs of a worker that exited gracefully without counting an attempt", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make({ maxAttempts: 1 })
      const job = yield* started("ann")
      yield* queue.workerGone(endpoint.id, "ann", undefined)
      const back = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(back.status, "IN_QUEUE")
      assert.strictEqual(back.retries, 0)
      const [again] = yield* take("bob")
      assert.strictEqual(again?.attempt, 2)
    }))

  rule("changes only the jobs of the worker that exited", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, status } = yield* Scenario.make()
      const neighbour = yield* Scenario.make({ id: "numbers" })
      yield* started("ann")
      const bobs = yield* started("bob")
      const namesakes = yield* neighbour.started("ann")
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      assert.strictEqual(yield* status(bobs.id), "IN_PROGRESS")
      assert.strictEqual(yield* neighbour.status(namesakes.id), "IN_PROGRESS")
    }))

  rule("returns undelivered jobs to the queue as unstarted, and frees their worker", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, status, take } = yield* Scenario.make({ maxAttempts: 1 })
      const job = yield* started("ann")
      const bobs = yield* started("bob")
      yield* queue.returnJobs(endpoint.id, "ann", [job.id, bobs.id, "unknown"])
      assert.strictEqual(yield* status(job.id), "IN_QUEUE")
      assert.strictEqual(yield* status(bobs.id), "IN_PROGRESS")
      const ann = (yield* (yield* WorkerRegistry).list(endpoint.id)).find((worker) => worker.id === "ann")
      assert.strictEqual(ann?.state, "idle")
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
      assert.deepStrictEqual((yield* take("cid")).map((one) => one.retries), [0])
    }))

  rule("leaves an exiting worker the jobs it names, and returns the others to the queue", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started, status, submit, take } = yield* Scenario.make()
      const named = yield* started("ann")
      const missed = yield* started("ann")
      yield* TestClock.adjust(5_000)
      yield* queue.workerExiting(endpoint.id, "ann", [named.id])
      assert.strictEqual((yield* queue.get(endpoint.id, named.id)).leaseExpiresAt, 15_000)
      assert.strictEqual(yield* status(missed.id), "IN_QUEUE")
      yield* submit()
      assert.deepStrictEqual(yield* take("ann"), [])
      assert.strictEqual(yield* finish(named), "accepted")
    }))
}
