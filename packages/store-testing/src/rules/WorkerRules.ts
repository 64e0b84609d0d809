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

/** The rules for workers that send no heartbeats, such as RunPod's SDK without `RUNPOD_POD_ID`. */
const callRules = (rule: Rule): void => {
  rule("stores a bounded number of stop signals for a worker that names missing jobs", () =>
    Effect.gen(function*() {
      const { endpoint, queue } = yield* Scenario.make()
      const invented = Array.from({ length: 1_500 }, (_, at) => `job ${at}`)
      yield* queue.heartbeat(endpoint.id, "ann", invented)
      const stops = yield* queue.stopSignals(endpoint.id, "ann", 0)
      assert.deepStrictEqual(stops, invented.slice(500))
    }))

  rule("renews all leases of a worker without heartbeats when it calls, but not at each call", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make()
      const jobs = [yield* started("ann"), yield* started("ann")]
      const others = yield* started("bob")
      const leases = Effect.map(
        Effect.forEach([...jobs, others], ({ id }) => queue.get(endpoint.id, id)),
        (all) => all.map(({ leaseExpiresAt }) => leaseExpiresAt)
      )
      const calls = [
        queue.stopSignals(endpoint.id, "ann", 0),
        take("ann", { holding: true }),
        queue.append(Scenario.holderOf(jobs[0] ?? others), Scenario.text("chunk"))
      ]
      let now = 0
      for (const call of calls) {
        const before = yield* leases
        yield* TestClock.adjust(3_999)
        yield* queue.stopSignals(endpoint.id, "ann", 0)
        assert.deepStrictEqual(yield* leases, before)
        yield* TestClock.adjust(1)
        now += 4_000
        yield* call
        assert.deepStrictEqual(yield* leases, [now + 10_000, now + 10_000, 10_000])
      }
    }))

  rule(
    "ends the polls of a worker without heartbeats in time for its next call to renew its leases",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started, take } = yield* Scenario.make()
        yield* take("ann", { holding: false })
        const idle = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
        yield* Scenario.pass(30_000)
        assert.isFalse(Scenario.isDone(idle))
        // The poll was open before the worker took the job.
        const job = yield* started("ann")
        const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
        yield* Scenario.pass(3_999)
        assert.isFalse(Scenario.isDone(idle) || Scenario.isDone(taking))
        yield* Scenario.pass(1)
        assert.deepStrictEqual([yield* Fiber.join(idle), yield* Fiber.join(taking)], [[], []])
        for (let polls = 0; polls < 10; polls++) {
          const poll = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
          yield* Scenario.pass(5_000)
          assert.deepStrictEqual(yield* Fiber.join(poll), [])
          yield* queue.tick
        }
        assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, "IN_PROGRESS")
      })
  )

  rule("takes a job from a worker whose heartbeats do not name it, however often the worker calls", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, status, take } = yield* Scenario.make()
      const named = yield* started("ann")
      const dropped = yield* started("ann")
      for (let second = 0; second < 10; second++) {
        if (second % 3 === 0) yield* queue.heartbeat(endpoint.id, "ann", [named.id])
        yield* queue.stopSignals(endpoint.id, "ann", 0)
        yield* take("ann", { holding: true })
        yield* TestClock.adjust(1_000)
      }
      yield* queue.tick
      assert.strictEqual(yield* status(named.id), "IN_PROGRESS")
      assert.strictEqual(yield* status(dropped.id), "IN_QUEUE")
    }))

  rule("does not shorten the polls of a worker that sends heartbeats", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.heartbeat(endpoint.id, "ann", [job.id])
      const poll = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      yield* Scenario.settle
      for (let beats = 0; beats < 17; beats++) {
        yield* Scenario.pass(3_500)
        yield* queue.heartbeat(endpoint.id, "ann", [job.id])
      }
      assert.isFalse(Scenario.isDone(poll))
      yield* Scenario.pass(500)
      assert.deepStrictEqual(yield* Fiber.join(poll), [])
    }))

  rule(
    "renews the leases of a worker that this process does not know, because the platform was restarted",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* (yield* WorkerRegistry).removed(endpoint.id, "ann")
        yield* TestClock.adjust(1_000)
        yield* queue.stopSignals(endpoint.id, "ann", 0)
        assert.strictEqual((yield* queue.get(endpoint.id, job.id)).leaseExpiresAt, 11_000)
      })
  )
}
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
  callRules(rule)

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
    "ends the stop poll of a draining worker when its last job has ended, because RunPod's SDK does not exit before then",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, finish, started } = yield* Scenario.make()
        const jobs = [yield* started("ann"), yield* started("ann")]
        const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
        yield* Scenario.settle
        yield* queue.drainWorker(endpoint.id, "ann")
        for (const job of jobs) {
          yield* Scenario.settle
          assert.isFalse(Scenario.isDone(stopping))
          yield* finish(job)
        }
        assert.deepStrictEqual(yield* Fiber.join(stopping), [])
        // A worker that polls again anyway waits for a second.
        const again = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
        yield* Scenario.pass(999)
        assert.isFalse(Scenario.isDone(again))
        yield* Scenario.pass(1)
        assert.deepStrictEqual(yield* Fiber.join(again), [])
      })
  )

  rule("ends the stop poll of an idle worker at once when it must drain", () =>
    Effect.gen(function*() {
      const { queue, endpoint, take } = yield* Scenario.make()
      yield* take("ann", { holding: false })
      const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      yield* Scenario.settle
      yield* queue.drainWorker(endpoint.id, "ann")
      assert.deepStrictEqual(yield* Fiber.join(stopping), [])
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
