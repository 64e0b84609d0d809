/**
 * Rules for the job counts that the autoscaler uses.
 */
import { assert } from "@effect/vitest"
import type { Depth } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

const empty: Depth = {
  waiting: 0,
  waitingLow: 0,
  delayed: 0,
  running: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  isolated: 0,
  oldestQueuedAt: null
}

/** Registers the rules. */
export const depthRules = (rule: Rule): void => {
  rule("counts jobs by state for each endpoint", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started, submit } = yield* Scenario.make()
      const depth = queue.depth(endpoint.id)
      assert.deepStrictEqual(yield* depth, empty)
      yield* finish(yield* started("ann"))
      yield* fail(yield* started("ann"), "no such city")
      yield* queue.cancel(endpoint.id, (yield* submit()).id)
      yield* submit({ policy: { ttl: 10_000 } })
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      yield* started("ann")
      yield* submit({ policy: { lowPriority: true } })
      yield* TestClock.adjust(1_000)
      yield* submit()
      assert.deepStrictEqual(yield* depth, {
        waiting: 2,
        waitingLow: 1,
        delayed: 0,
        running: 1,
        completed: 1,
        failed: 2,
        retried: 0,
        isolated: 0,
        oldestQueuedAt: 11_000
      })
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      assert.deepStrictEqual(yield* depth, {
        waiting: 3,
        waitingLow: 1,
        delayed: 0,
        running: 0,
        completed: 1,
        failed: 2,
        retried: 1,
        isolated: 1,
        oldestQueuedAt: 11_000
      })
      assert.deepStrictEqual(yield* queue.depth(Scenario.elsewhere), empty)
    }))

  rule("measures the oldest wait from the time a job last entered the queue", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, submit, take } = yield* Scenario.make()
      const first = yield* started("ann")
      yield* TestClock.adjust(4_000)
      yield* submit()
      yield* TestClock.adjust(1_000)
      yield* queue.workerGone(endpoint.id, "ann", undefined)
      const oldest = Effect.map(queue.depth(endpoint.id), (depth) => depth.oldestQueuedAt)
      assert.strictEqual(yield* oldest, 4_000)
      assert.deepStrictEqual((yield* take("bob")).map((job) => job.id), [first.id])
      assert.strictEqual(yield* oldest, 4_000)
      yield* take("bob")
      assert.strictEqual(yield* oldest, null)
    }))

  rule("wakes callers that wait for demand only for new, returned and ended jobs", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, submit, take } = yield* Scenario.make()
      const neighbour = yield* Scenario.make({ id: "numbers" })
      const watch = Effect.forkChild(queue.awaitDemand(endpoint.id, 60_000)).pipe(Effect.tap(() => Scenario.settle))
      const submitted = yield* watch
      yield* neighbour.submit()
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(submitted))
      yield* submit()
      yield* Fiber.join(submitted)
      const taken = yield* watch
      const [job] = yield* take("ann")
      yield* Fiber.join(taken)
      const ended = yield* watch
      if (job !== undefined) yield* finish(job)
      yield* Fiber.join(ended)
      const watching = yield* watch
      yield* queue.workerGone(endpoint.id, "ann", undefined)
      yield* Fiber.join(watching)
      const nothing = yield* watch
      yield* Scenario.pass(60_000)
      yield* Fiber.join(nothing)
    }))
}
