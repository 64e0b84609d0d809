/**
 * Rules for jobs with a start time: they wait in the queue until then.
 */
import { assert } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const startTimeRules = (rule: Rule): void => {
  rule(
    "does not offer a job or start workers for it before its start time, and then wakes a worker",
    () =>
      Effect.gen(function*() {
        yield* TestClock.adjust(1_000)
        const { endpoint, queue, submit, take } = yield* Scenario.make({ leaseMs: 60_000 })
        const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
        yield* Scenario.settle
        const { id } = yield* submit({ startAfterMs: 9_000 })
        const later = yield* submit({ startAt: 20_000 })
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(taking))
        assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 2, oldestQueuedAt: null, waiting: 0 })
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_QUEUE", notBefore: 10_000, attempt: 0 })
        assert.deepInclude(yield* queue.get(endpoint.id, later.id), { status: "IN_QUEUE", notBefore: 20_000 })
        assert.strictEqual((yield* queue.position(endpoint.id, id)).ahead, null)
        yield* Scenario.pass(8_999)
        yield* queue.tick
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(taking))
        yield* TestClock.adjust(1)
        yield* queue.tick
        const [job] = yield* Fiber.join(taking)
        // The time before the start is not part of the queue delay.
        assert.deepInclude(job, { id, queuedAt: 10_000, startedAt: 10_000, notBefore: null, attempt: 1 })
        assert.deepStrictEqual(yield* take("bob"), [])
        yield* TestClock.adjust(10_000)
        yield* queue.tick
        assert.deepStrictEqual((yield* take("bob")).map((one) => one.id), [later.id])
      })
  )

  rule("queues a job whose start time has passed at once", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust(5_000)
      const { submit, take } = yield* Scenario.make()
      const past = yield* submit({ startAt: 1_000 })
      const now = yield* submit({ startAfterMs: 0 })
      assert.deepStrictEqual([past.notBefore, past.expiresAt, now.notBefore], [null, 305_000, null])
      assert.deepStrictEqual((yield* take("ann", { limit: 2 })).map((job) => job.id), [past.id, now.id])
    }))

  rule("R5: starts the time to live at the start time", () =>
    Effect.gen(function*() {
      const { endpoint, queue, status, submit } = yield* Scenario.make()
      const { id } = yield* submit({ startAfterMs: 600_000, policy: { ttl: 10_000 } })
      assert.strictEqual((yield* queue.get(endpoint.id, id)).expiresAt, 610_000)
      yield* TestClock.adjust(600_000)
      yield* queue.tick
      assert.strictEqual(yield* status(id), "IN_QUEUE")
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      assert.strictEqual(yield* status(id), "TIMED_OUT")
    }))

  rule("R1, R5: keeps a start time across a restart of the platform", () =>
    Effect.gen(function*() {
      const { endpoint, submit } = yield* Scenario.make()
      const { id } = yield* submit({ startAfterMs: 8_000 })
      yield* Effect.gen(function*() {
        const restarted = yield* JobQueue.JobQueue
        const take = restarted.take({ endpoint: endpoint.id, worker: "bob", limit: 1, waitMs: 0, holding: false })
        assert.deepStrictEqual(yield* take, [])
        yield* TestClock.adjust(8_000)
        yield* restarted.tick
        assert.deepStrictEqual((yield* take).map((job) => job.id), [id])
      }).pipe(Effect.provide(JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer)), { local: true }))
    }))

  rule("cancels and purges jobs before their start time", () =>
    Effect.gen(function*() {
      const { endpoint, queue, status, submit } = yield* Scenario.make()
      const one = yield* submit({ startAfterMs: 8_000 })
      const other = yield* submit({ startAfterMs: 8_000 })
      assert.strictEqual((yield* queue.cancel(endpoint.id, one.id)).status, "CANCELLED")
      assert.strictEqual(yield* queue.purge(endpoint.id), 1)
      assert.strictEqual(yield* status(other.id), "CANCELLED")
      yield* TestClock.adjust(9_000)
      yield* queue.tick
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 0)
    }))

  rule("the start time is part of what an idempotency key identifies", () =>
    Effect.gen(function*() {
      const { submit } = yield* Scenario.make()
      const send = (startAfterMs?: number) =>
        submit({ idempotencyKey: "k", ...(startAfterMs === undefined ? {} : { startAfterMs }) })
      const first = yield* send(8_000)
      yield* TestClock.adjust(1_000)
      assert.strictEqual((yield* send(8_000)).id, first.id)
      assert.strictEqual(yield* Scenario.reasonOf(send(9_000)), "IdempotencyConflict")
      assert.strictEqual(yield* Scenario.reasonOf(send()), "IdempotencyConflict")
    }))
}
