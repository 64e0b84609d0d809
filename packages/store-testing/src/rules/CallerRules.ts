/**
 * Rules for the callers' operations on jobs: cancel, retry, purge.
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const callerRules = (rule: Rule): void => {
  rule("R8: never gives a worker a waiting job that was cancelled", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const job = yield* submit()
      assert.strictEqual((yield* queue.cancel(endpoint.id, job.id)).status, "CANCELLED")
      assert.deepStrictEqual(yield* take("ann"), [])
      const { error, finishedAt, output } = yield* queue.get(endpoint.id, job.id)
      assert.deepStrictEqual({ error, finishedAt, output }, { error: null, finishedAt: 0, output: null })
    }))

  rule("R8: sends the worker of a cancelled job a stop signal, and ignores its result", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started, status } = yield* Scenario.make()
      const job = yield* started("ann")
      const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      const waiting = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000))
      yield* Scenario.settle
      assert.strictEqual((yield* queue.cancel(endpoint.id, job.id)).status, "CANCELLED")
      assert.deepStrictEqual(yield* Fiber.join(stopping), [job.id])
      assert.strictEqual((yield* Fiber.join(waiting)).status, "CANCELLED")
      assert.strictEqual(yield* finish(job), "ignored")
      assert.strictEqual(yield* status(job.id), "CANCELLED")
      // The stop signal is sent once.
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("changes nothing on a cancel after the end, and returns the ended job", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* finish(job, 7)
      const before = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual((yield* queue.cancel(endpoint.id, job.id)).status, "COMPLETED")
      assert.deepStrictEqual(yield* queue.get(endpoint.id, job.id), before)
    }))

  rule("R2: lets either a cancel or a concurrent result win, and reports the same winner to both", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      for (let round = 0; round < 10; round++) {
        const job = yield* started("ann")
        const [cancelled, delivered] = yield* Effect.all([queue.cancel(endpoint.id, job.id), finish(job)], {
          concurrency: "unbounded"
        })
        const { status } = yield* queue.get(endpoint.id, job.id)
        assert.strictEqual(cancelled.status, status)
        assert.strictEqual(delivered, status === "COMPLETED" ? "accepted" : "ignored")
      }
    }))

  rule("runs a retried job again from the start, as a later attempt", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.append(Scenario.holderOf(job), toJsonText("old"))
      yield* fail(job, "no such city")
      yield* TestClock.adjust(1_000)
      assert.strictEqual((yield* queue.retry(endpoint.id, job.id)).status, "IN_QUEUE")
      const waiting = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(waiting.error, null)
      assert.strictEqual(waiting.output, null)
      assert.strictEqual(waiting.queuedAt, 1_000)
      assert.strictEqual(waiting.finishedAt, null)
      assert.strictEqual(waiting.expiresAt, 301_000)
      assert.deepStrictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks, [])
      const again = yield* takeOne("ann")
      assert.strictEqual(again.attempt, 2)
      assert.strictEqual(again.input, job.input)
      assert.strictEqual(yield* Scenario.reasonOf(fail(job, "stale")), "LeaseLost")
      assert.strictEqual(yield* finish(again, "new"), "accepted")
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).output, `"new"`)
    }))

  rule("wakes a waiting worker on a retry", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, started, take } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* fail(job, "no such city")
      const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* queue.retry(endpoint.id, job.id)
      assert.deepStrictEqual((yield* Fiber.join(taking)).map((one) => one.id), [job.id])
    }))

  rule("gives a retried TIMED_OUT job its full time again", () =>
    Effect.gen(function*() {
      const { queue, endpoint, status, submit } = yield* Scenario.make()
      const job = yield* submit({ policy: { ttl: 10_000 } })
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      assert.strictEqual(yield* status(job.id), "TIMED_OUT")
      yield* queue.retry(endpoint.id, job.id)
      yield* TestClock.adjust(9_999)
      yield* queue.tick
      assert.strictEqual(yield* status(job.id), "IN_QUEUE")
      yield* TestClock.adjust(1)
      yield* queue.tick
      assert.strictEqual(yield* status(job.id), "TIMED_OUT")
    }))

  rule("retries only FAILED and TIMED_OUT jobs", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started, submit } = yield* Scenario.make()
      const running = yield* started("ann")
      const waiting = yield* submit()
      const cancelled = yield* submit()
      yield* queue.cancel(endpoint.id, cancelled.id)
      for (const job of [running, waiting, cancelled]) {
        const before = yield* queue.get(endpoint.id, job.id)
        assert.strictEqual(yield* Scenario.reasonOf(queue.retry(endpoint.id, job.id)), "NotRetryable")
        assert.deepStrictEqual(yield* queue.get(endpoint.id, job.id), before)
      }
      yield* finish(running)
      assert.strictEqual(yield* Scenario.reasonOf(queue.retry(endpoint.id, running.id)), "NotRetryable")
    }))

  rule("cancels only the waiting jobs of the endpoint on a purge", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, status, submit, take } = yield* Scenario.make()
      const neighbour = yield* Scenario.make({ id: "numbers" })
      const running = yield* started("ann")
      const waiting = yield* Effect.replicateEffect(submit(), 3)
      const other = yield* neighbour.submit()
      const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, waiting[1]?.id ?? "", 60_000))
      yield* Scenario.settle
      assert.strictEqual(yield* queue.purge(endpoint.id), 3)
      assert.strictEqual((yield* Fiber.join(ending)).status, "CANCELLED")
      for (const { id } of waiting) assert.strictEqual(yield* status(id), "CANCELLED")
      assert.strictEqual(yield* status(running.id), "IN_PROGRESS")
      assert.strictEqual(yield* neighbour.status(other.id), "IN_QUEUE")
      assert.deepStrictEqual(yield* take("bob"), [])
      assert.strictEqual(yield* queue.purge(endpoint.id), 0)
    }))

  rule("cancels any number of jobs on a purge", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      yield* Effect.replicateEffect(submit(), 1_100, { concurrency: "unbounded", discard: true })
      assert.strictEqual(yield* queue.purge(endpoint.id), 1_100)
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 0)
    }))
}
