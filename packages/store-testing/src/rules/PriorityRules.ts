/**
 * Rules for priorities and for positions in the queue.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

const ids = (jobs: ReadonlyArray<{ readonly id: string }>) => jobs.map((job) => job.id)

/** Registers the rules. */
export const priorityRules = (rule: Rule): void => {
  rule("claims the highest priority first, and equal priorities in order of submission", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const jobs = yield* Effect.forEach([0, -100, 5, 100, 5, 0], (priority) => submit({ priority }))
      const order = [3, 2, 4, 0, 5, 1].map((index) => jobs[index]?.id)
      assert.deepStrictEqual<unknown>(ids(yield* take("ann", { limit: 2 })), order.slice(0, 2))
      assert.deepStrictEqual<unknown>(ids(yield* take("ann", { limit: 10 })), order.slice(2))
    }))

  rule(
    "returns a job to its former position: before later submissions, after jobs that precede it",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, submit, take, takeOne } = yield* Scenario.make()
        const first = yield* submit({ priority: 1 })
        const urgent = yield* submit({ priority: 2 })
        assert.strictEqual((yield* takeOne("ann")).id, urgent.id)
        assert.strictEqual((yield* takeOne("bob")).id, first.id)
        const second = yield* submit({ priority: 1 })
        yield* queue.workerGone(endpoint.id, "bob", undefined)
        yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
        assert.deepStrictEqual(ids(yield* take("cid", { limit: 10 })), ids([urgent]))
        assert.deepStrictEqual(ids(yield* take("dan", { limit: 10 })), ids([first, second]))
      })
  )

  rule("counts a low-priority job as one for which no worker is started, whatever its position", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const plain = yield* submit()
      const low = yield* submit({ priority: 10, policy: { lowPriority: true } })
      const { oldestQueuedAt, waiting, waitingLow } = yield* queue.depth(endpoint.id)
      assert.deepStrictEqual({ oldestQueuedAt, waiting, waitingLow }, { oldestQueuedAt: 0, waiting: 2, waitingLow: 1 })
      assert.deepStrictEqual(ids(yield* take("ann", { limit: 2 })), ids([low, plain]))
    }))

  rule(
    "counts as a job's position only the ready jobs that precede it by priority and submission",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, finish, started, submit } = yield* Scenario.make()
        const neighbour = yield* Scenario.make({ id: "numbers" })
        const running = yield* started("ann")
        yield* neighbour.submit({ priority: 100 })
        const jobs = yield* Effect.forEach([0, 7, 0, 7, -1], (priority) => submit({ priority }))
        const ahead = (id: string) => Effect.map(queue.position(endpoint.id, id), (position) => position.ahead)
        assert.deepStrictEqual(
          yield* Effect.forEach(jobs, ({ id }) => ahead(id)),
          [2, 0, 3, 1, 4].map((jobs) => ({ jobs, more: false }))
        )
        assert.strictEqual(yield* ahead(running.id), null)
        yield* finish(running)
        assert.strictEqual(yield* ahead(running.id), null)
        yield* queue.cancel(endpoint.id, jobs[1]?.id ?? "")
        assert.deepStrictEqual(yield* ahead(jobs[4]?.id ?? ""), { jobs: 3, more: false })
        assert.strictEqual(yield* Scenario.reasonOf(queue.position(endpoint.id, "unknown")), "JobMissing")
      })
  )

  rule(
    "times out a job whose ttl has ended instead of returning it to a worker, and returns the next job",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, submit, take } = yield* Scenario.make()
        const old = yield* Effect.replicateEffect(submit({ policy: { ttl: 10_000 }, priority: 1 }), 150)
        const next = yield* submit()
        const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, old[7]?.id ?? "", 600_000))
        yield* Scenario.settle
        // The timers have not handled the expired job yet.
        yield* TestClock.adjust(10_000)
        assert.deepStrictEqual(ids(yield* take("ann", { limit: 3 })), [next.id])
        assert.strictEqual((yield* Fiber.join(ending)).status, "TIMED_OUT")
        const { failed, running, waiting } = yield* queue.depth(endpoint.id)
        assert.deepStrictEqual({ failed, running, waiting }, { failed: 150, running: 1, waiting: 0 })
      })
  )
}
