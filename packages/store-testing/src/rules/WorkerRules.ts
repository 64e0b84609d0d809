/**
 * Rules of workers: what they are told, and what becomes of their jobs when they go.
 */
import { assert } from "@effect/vitest"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const workerRules = (rule: Rule): void => {
  rule("a heartbeat that names a job that is not the worker's has it told to stop", () =>
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

  rule("a heartbeat that crosses the worker's own result stops nothing", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started } = yield* Scenario.make()
      const done = yield* started("ann")
      const failed = yield* started("ann")
      yield* finish(done)
      yield* fail(failed, "no such city")
      yield* queue.heartbeat(endpoint.id, "ann", [done.id, failed.id])
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("a stop that was missed is repeated with the next heartbeat", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.cancel(endpoint.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
      yield* queue.heartbeat(endpoint.id, "ann", [job.id])
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [job.id])
    }))

  rule(
    "R8: a stop whose answer was lost is sent again every second, until a heartbeat omits the job",
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

  rule("R8: a stop is sent again until the worker delivers a result for the job", () =>
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
    "R8: a stop is not repeated for more than 30 s; a later heartbeat that names the job sends it again",
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

  rule("a stop for an earlier attempt does not hit the worker's next one", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const [again] = yield* take("ann")
      assert.strictEqual(again?.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("a wait for stops ends when its time is over, draining or not", () =>
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
    "R6: the jobs of a worker that died go back and count an attempt, with the cause when it was the last",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started, take } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
        const lost = yield* queue.get(endpoint.id, job.id)
        assert.strictEqual(lost.status, "IN_QUEUE")
        assert.strictEqual(lost.retries, 1)
        assert.deepStrictEqual(yield* (yield* WorkerRegistry).list(endpoint.id), [])
        yield* take("bob")
        yield* queue.workerGone(endpoint.id, "bob", "Worker bob exited with code 137. Its last words: out of memory.")
        const failed = yield* queue.get(endpoint.id, job.id)
        assert.strictEqual(failed.status, "FAILED")
        assert.strictEqual(
          failed.error,
          "Worker bob exited with code 137. Its last words: out of memory. This was attempt 2 of 2."
        )
      })
  )

  rule("the only attempt is called that", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make({ maxAttempts: 1 })
      const job = yield* started("ann")
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      assert.strictEqual(
        (yield* queue.get(endpoint.id, job.id)).error,
        "Worker ann was killed by SIGKILL. This was the only attempt allowed."
      )
    }))

  rule("the jobs of a worker that left in order go back and cost nothing", () =>
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

  rule("a worker that goes takes only its own jobs with it", () =>
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

  rule("jobs that are given back wait again, unstarted, and their worker is free", () =>
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

  rule("a worker that leaves keeps what it names, and gives back the rest", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started, status, submit, take } = yield* Scenario.make()
      const kept = yield* started("ann")
      const missed = yield* started("ann")
      yield* TestClock.adjust(5_000)
      yield* queue.workerExiting(endpoint.id, "ann", [kept.id])
      assert.strictEqual((yield* queue.get(endpoint.id, kept.id)).leaseExpiresAt, 15_000)
      assert.strictEqual(yield* status(missed.id), "IN_QUEUE")
      yield* submit()
      assert.deepStrictEqual(yield* take("ann"), [])
      assert.strictEqual(yield* finish(kept), "accepted")
    }))
}
