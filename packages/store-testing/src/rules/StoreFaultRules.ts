/**
 * Rules for a store that is slow or fails, and for callers that disconnect in the meantime.
 */
import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import * as StoreFaults from "../StoreFaults.ts"
import type { RuleServices } from "./StoreRule.ts"

/** Registers the rules. */
export const storeFaultRules = <E>(store: Layer.Layer<JobStore, E>): void => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store), WorkerRegistry.layer)))
  const rule = (title: string, body: Effect.Effect<void, unknown, RuleServices | StoreFaults.StoreFaults>) =>
    it.effect(title, () => Effect.provide(body, world))

  rule(
    "R5: wakes a worker for the job of a caller that disconnects during its submission",
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
      // The job was stored. No time passes, so only its notifications can end these waits.
      assert.strictEqual((yield* Fiber.join(taking)).length, 1)
      yield* Fiber.join(watching)
    })
  )

  rule(
    "wakes the caller that waits for a result whose worker disconnects during its delivery",
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
    "R11: acknowledges nothing that the store cannot write, and works again when the store does",
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
      // A take that fails unregisters its waiter.
      const next = yield* submit()
      yield* failNextWrites(1)
      assert.strictEqual(yield* Scenario.reasonOf(take("ann", { waitMs: 60_000 })), "StoreUnavailable")
      assert.deepStrictEqual((yield* take("ann")).map((one) => one.id), [next.id])
    })
  )

  rule(
    "R11: rejects only new jobs while the store has too little space: results, chunks, retries, cancels and purges continue",
    Effect.gen(function*() {
      const { fillUp, repair } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, fail, finish, started, submit } = yield* Scenario.make()
      const failed = yield* started("ann")
      yield* fail(failed, "no such city")
      const job = yield* started("ann")
      const waiting = yield* submit()
      yield* fillUp
      assert.strictEqual(yield* Scenario.reasonOf(submit()), "StoreFull")
      assert.strictEqual(yield* queue.append(Scenario.holderOf(job), toJsonText(1), 1), "accepted")
      assert.strictEqual(yield* finish(job), "accepted")
      assert.strictEqual((yield* queue.cancel(endpoint.id, waiting.id)).status, "CANCELLED")
      assert.strictEqual((yield* queue.retry(endpoint.id, failed.id)).status, "IN_QUEUE")
      assert.strictEqual(yield* queue.purge(endpoint.id), 1)
      assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, running: 0, completed: 1 })
      yield* repair
      yield* submit()
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
    })
  )

  rule(
    "R3: creates no second job for a submission that is repeated after a lost response",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, submit } = yield* Scenario.make()
      for (let round = 0; round < 20; round++) {
        const sending = submit({ idempotencyKey: `order ${round}` })
        yield* dropNextAnswers(2)
        const first = yield* Effect.all([1, 2, 3].map(() => Effect.exit(sending)), { concurrency: "unbounded" })
        assert.strictEqual(first.filter((exit) => exit._tag === "Failure").length, 2)
        const again = yield* Effect.replicateEffect(sending, 3, { concurrency: "unbounded" })
        assert.strictEqual(new Set(again.map((job) => job.id)).size, 1)
      }
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 20)
    })
  )

  rule(
    "R2, R9: stores a chunk and a result once when they are repeated after a lost response",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      for (const n of [1, 2, 3]) {
        const append = queue.append(Scenario.holderOf(job), toJsonText(n), n)
        yield* dropNextAnswers(1)
        assert.strictEqual(yield* Scenario.reasonOf(append), "StoreUnavailable")
        assert.strictEqual(yield* append, "accepted")
      }
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(finish(job, "done")), "StoreUnavailable")
      assert.strictEqual(yield* finish(job, "done"), "ignored")
      assert.deepStrictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks.map(Number), [1, 2, 3])
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, "COMPLETED")
    })
  )

  rule(
    "R5: ends a backoff with the next sweep when the store failed in the first",
    Effect.gen(function*() {
      const { failNextWrites } = yield* StoreFaults.StoreFaults
      const { queue, fail, submit, take, takeOne } = yield* Scenario.make({
        retry: { onError: true, backoff: { initialMs: 1_000 } }
      })
      const { id } = yield* submit()
      yield* fail(yield* takeOne("ann"), "busy")
      yield* TestClock.adjust(1_000)
      yield* failNextWrites(1)
      assert.strictEqual(yield* Scenario.reasonOf(queue.tick), "StoreUnavailable")
      assert.deepStrictEqual(yield* take("ann"), [])
      yield* queue.tick
      assert.deepStrictEqual((yield* take("ann")).map((job) => job.id), [id])
    })
  )

  rule(
    "R5: gives a waiting worker a stored job at once, even if its submission was reported as failed",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      const watching = yield* Effect.forkChild(queue.awaitDemand(endpoint.id, 60_000))
      yield* Scenario.settle
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(submit({ idempotencyKey: "order 17" })), "StoreUnavailable")
      // No time passes.
      assert.strictEqual((yield* Fiber.join(taking)).length, 1)
      yield* Fiber.join(watching)
    })
  )

  rule(
    "R5: completes waits for a stored result at once, even if its delivery was reported as failed",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000))
      const following = yield* Effect.forkChild(Stream.runCollect(queue.follow(endpoint.id, job.id)))
      yield* Scenario.settle
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(finish(job)), "StoreUnavailable")
      assert.strictEqual((yield* Fiber.join(ending)).status, "COMPLETED")
      yield* Fiber.join(following)
      // The worker repeats the result. It is then idle and can be drained.
      assert.strictEqual(yield* finish(job), "ignored")
      const [worker] = yield* (yield* WorkerRegistry.WorkerRegistry).list(endpoint.id)
      assert.deepInclude(worker, { state: "idle", jobs: [] })
    })
  )

  rule(
    "R5: gives waiting workers a lost worker's job, and a job whose backoff has ended, at once, even if the sweep's response was lost",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, fail, submit, take, takeOne } = yield* Scenario.make({
        retry: { onError: true, backoff: { initialMs: 1_000 } }
      })
      const { id } = yield* submit()
      yield* fail(yield* takeOne("ann"), "busy")
      yield* TestClock.adjust(1_000)
      const first = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(queue.tick), "StoreUnavailable")
      assert.deepStrictEqual((yield* Fiber.join(first)).map((job) => job.id), [id])
      const patient = yield* Scenario.make()
      const lost = yield* patient.started("cid")
      const second = yield* Effect.forkChild(take("dee", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* dropNextAnswers(1)
      yield* Effect.ignore(queue.workerGone(endpoint.id, "cid", "Worker cid was killed by SIGKILL."))
      assert.deepStrictEqual((yield* Fiber.join(second)).map((job) => job.id), [lost.id])
    })
  )

  rule(
    "R8: stops the running handler when a stored cancel that was reported as failed is repeated",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      yield* Scenario.settle
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(queue.cancel(endpoint.id, job.id)), "StoreUnavailable")
      assert.strictEqual((yield* queue.cancel(endpoint.id, job.id)).status, "CANCELLED")
      assert.deepStrictEqual(yield* Fiber.join(stopping), [job.id])
      // The stop signal is sent only once, because the next cancel finds no worker running the job.
      yield* queue.cancel(endpoint.id, job.id)
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    })
  )

  rule(
    "R2: accepts a repeated error whose response was lost and whose job is already retried, and changes nothing",
    Effect.gen(function*() {
      const { dropNextAnswers } = yield* StoreFaults.StoreFaults
      const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make({
        retry: { onError: true },
        maxAttempts: 5
      })
      const { id } = yield* submit()
      const job = yield* takeOne("ann")
      yield* dropNextAnswers(1)
      assert.strictEqual(yield* Scenario.reasonOf(fail(job, "busy")), "StoreUnavailable")
      const retried = yield* queue.get(endpoint.id, id)
      assert.strictEqual(retried.retries, 1)
      assert.strictEqual(yield* fail(job, "busy"), "ignored")
      assert.deepStrictEqual(yield* queue.get(endpoint.id, id), retried)
      // Any other result of that attempt is refused, because the attempt has ended.
      assert.strictEqual(yield* Scenario.reasonOf(fail(job, "another error")), "LeaseLost")
      assert.strictEqual(yield* Scenario.reasonOf(finish(job, 1)), "LeaseLost")
      // While the next attempt runs, the repeated error is ignored as well and does not affect that attempt.
      const next = yield* takeOne("bob")
      assert.strictEqual(yield* fail(job, "busy"), "ignored")
      assert.strictEqual(yield* Scenario.reasonOf(fail({ ...next, worker: "ann" }, "busy")), "LeaseLost")
      assert.strictEqual(yield* finish(next, 2), "accepted")
      // An error of an attempt that was lost is refused, not ignored.
      yield* submit()
      const frozen = yield* takeOne("ann")
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      assert.strictEqual(yield* Scenario.reasonOf(fail(frozen, "busy")), "LeaseLost")
    })
  )
}
