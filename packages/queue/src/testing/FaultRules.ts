/**
 * Rules for a store that is slow or failing, and for callers who hang up meanwhile.
 */
import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as JobQueue from "../JobQueue.ts"
import type { JobStore } from "../JobStore.ts"
import * as WorkerRegistry from "../WorkerRegistry.ts"
import * as Scenario from "./Scenario.ts"
import * as StoreFaults from "./StoreFaults.ts"
import type { World } from "./SuiteIt.ts"

/** Registers the rules. */
export const faultRules = <E>(store: Layer.Layer<JobStore, E>): void => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store), WorkerRegistry.layer)))
  const rule = (title: string, body: Effect.Effect<void, unknown, World | StoreFaults.StoreFaults>) =>
    it.effect(title, () => Effect.provide(body, world))

  rule(
    "R5: a caller who hangs up during a submission leaves no job that nobody is woken for",
    Effect.gen(function*() {
      const { freeze, thaw } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      const watching = yield* Effect.forkChild(queue.awaitDemand(endpoint.id, 60_000))
      yield* Scenario.settle
      yield* freeze
      const submitting = yield* Effect.forkChild(submit())
      yield* Scenario.settle
      const hangingUp = yield* Effect.forkChild(Fiber.interrupt(submitting))
      yield* Scenario.settle
      yield* thaw
      yield* Fiber.join(hangingUp)
      // The job was kept; no time passes, so only its wake-ups can end these.
      assert.strictEqual((yield* Fiber.join(taking)).length, 1)
      yield* Fiber.join(watching)
    })
  )

  rule(
    "a worker that hangs up during its delivery leaves nobody waiting for the result",
    Effect.gen(function*() {
      const { freeze, thaw } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000))
      yield* Scenario.settle
      yield* freeze
      const finishing = yield* Effect.forkChild(finish(job, 42))
      yield* Scenario.settle
      const hangingUp = yield* Effect.forkChild(Fiber.interrupt(finishing))
      yield* Scenario.settle
      yield* thaw
      yield* Fiber.join(hangingUp)
      assert.strictEqual((yield* Fiber.join(ending)).output, "42")
      const [worker] = yield* (yield* WorkerRegistry.WorkerRegistry).list(endpoint.id)
      assert.strictEqual(worker?.state, "idle")
    })
  )

  rule(
    "R11: what the store cannot keep is not acknowledged, and works again when the store does",
    Effect.gen(function*() {
      const { failNextWrites } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, finish, started, submit, take } = yield* Scenario.make()
      yield* failNextWrites(1)
      assert.strictEqual(yield* Scenario.reasonOf(submit()), "StoreUnavailable")
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 0)
      const job = yield* started("ann")
      yield* failNextWrites(2)
      assert.strictEqual(yield* Scenario.reasonOf(finish(job)), "StoreUnavailable")
      assert.strictEqual(yield* Scenario.reasonOf(queue.progress(Scenario.holderOf(job), toJsonText(1))), "StoreUnavailable")
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, "IN_PROGRESS")
      assert.strictEqual(yield* finish(job), "accepted")
      // A take that fails gives its place in line away.
      const next = yield* submit()
      yield* failNextWrites(1)
      assert.strictEqual(yield* Scenario.reasonOf(take("ann", { waitMs: 60_000 })), "StoreUnavailable")
      assert.deepStrictEqual((yield* take("ann")).map((one) => one.id), [next.id])
    })
  )
}
