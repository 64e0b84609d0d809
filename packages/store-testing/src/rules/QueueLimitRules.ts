/**
 * Rules for the quotas of endpoints and keys (docs/spec/endpoints.md#quotas).
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** An endpoint whose queue is full. Fails when the store does not limit waiting jobs. */
export const fullQueue = Effect.gen(function*() {
  const { endpoint, fail, queue, submit, takeOne } = yield* Scenario.make({ limits: { waitingJobs: 2 } })
  const retry = { retry: { onError: true, maxAttempts: 3, backoff: { initialMs: 5_000, factor: 2, maxMs: 60_000 } } }
  yield* submit({ policy: retry })
  yield* submit()
  const refused = Scenario.reasonOf(submit())
  assert.strictEqual(yield* refused, "QuotaExceeded")
  assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 2)
  const running = yield* takeOne("ann")
  yield* submit()
  assert.strictEqual(yield* refused, "QuotaExceeded")
  // A job that returns to the queue is never rejected, and a job in a backoff counts.
  yield* fail(running, "busy")
  yield* takeOne("bob")
  assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 1, delayed: 1 })
  assert.strictEqual(yield* refused, "QuotaExceeded")
  yield* queue.purge(endpoint.id)
  yield* submit()
})

/** An endpoint whose jobs use their quota of bytes. Fails when the store does not count or free any of them. */
export const fullStorage = Effect.gen(function*() {
  const { endpoint, fail, finish, queue, submit, takeOne } = yield* Scenario.make({ limits: { storedBytes: 2_000 } })
  const input = (bytes: number) => Scenario.text("x".repeat(bytes - 2))
  const left = Effect.gen(function*() {
    const error = yield* Effect.flip(submit({ input: input(5_000) }))
    assert.deepInclude(error, { _tag: "QuotaExceeded", scope: "endpoint", resource: "storedBytes", limit: 2_000, size: 5_000 })
    return error._tag === "QuotaExceeded" ? 2_000 - error.used : NaN
  })
  assert.strictEqual(yield* left, 2_000)
  yield* submit({ input: input(500), s3Config: input(100) })
  assert.strictEqual(yield* left, 1_400)
  const first = yield* takeOne("ann")
  const holder = Scenario.holderOf(first)
  yield* queue.progress(holder, input(50))
  assert.strictEqual(yield* left, 1_350)
  yield* queue.append(holder, input(200))
  yield* queue.append(holder, input(100))
  assert.strictEqual(yield* left, 1_050)
  // The result replaces the progress, and multi-byte characters count as they are stored.
  yield* finish(first, "é".repeat(9))
  assert.strictEqual(yield* left, 1_080)
  yield* submit({ input: input(1_080) })
  assert.strictEqual(yield* left, 0)
  assert.strictEqual(yield* Scenario.reasonOf(submit({ input: Scenario.text(1) })), "QuotaExceeded")
  yield* fail(yield* takeOne("ann"), "e".repeat(300))
  assert.strictEqual(yield* left, -300)
  yield* Scenario.pass(600_000)
  while (yield* queue.tick);
  assert.deepInclude(yield* queue.depth(endpoint.id), { completed: 0, failed: 0 })
  assert.strictEqual(yield* left, 2_000)
})

/** Registers the rules. */
export const queueLimitRules = (rule: Rule): void => {
  rule("rejects a submission while the endpoint has as many waiting jobs as its limit, and stores nothing", () => fullQueue)

  rule("accepts no more than the limit when many submissions arrive at once", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make({ limits: { waitingJobs: 10 } })
      const errors = yield* Effect.all(Array.from({ length: 50 }, () => Scenario.reasonOf(submit())), {
        concurrency: "unbounded"
      })
      assert.strictEqual(errors.filter((error) => error === "QuotaExceeded").length, 40)
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 10)
    }))

  rule(
    "returns the job of an idempotency key even when the queue is full, and limits each endpoint on its own",
    () =>
      Effect.gen(function*() {
        const { submit } = yield* Scenario.make({ limits: { waitingJobs: 1 } })
        const other = yield* Scenario.make({ id: "numbers" })
        const { id } = yield* submit({ idempotencyKey: "order 17" })
        yield* TestClock.adjust(1_000)
        assert.strictEqual((yield* submit({ idempotencyKey: "order 17" })).id, id)
        yield* other.submit()
        assert.strictEqual(yield* Scenario.reasonOf(submit()), "QuotaExceeded")
      })
  )

  rule(
    "rejects a submission that would exceed the endpoint's stored bytes, counts inputs, outputs, errors, chunks and progress, and never " +
      "rejects a result",
    () => fullStorage
  )

  rule("frees the chunks and the error of an attempt when the job is tried again", () =>
    Effect.gen(function*() {
      const { fail, queue, submit, takeOne } = yield* Scenario.make({ limits: { storedBytes: 1_000 } })
      const used = Effect.map(Effect.flip(submit({ input: Scenario.text("x".repeat(2_000)) })), (error) =>
        error._tag === "QuotaExceeded" ? error.used : NaN)
      yield* submit({ input: Scenario.text("x".repeat(98)) })
      const job = yield* takeOne("ann")
      yield* queue.append(Scenario.holderOf(job), Scenario.text("x".repeat(198)))
      yield* fail(job, "e".repeat(50))
      assert.strictEqual(yield* used, 350)
      yield* queue.retry(job.endpoint, job.id)
      const again = yield* takeOne("bob")
      yield* queue.append(Scenario.holderOf(again), Scenario.text("x".repeat(8)))
      assert.isAtMost(yield* used, 160)
      yield* queue.finish(Scenario.holderOf(again), { output: Scenario.text(1), error: null })
      assert.strictEqual(yield* used, 111)
    }))

  rule(
    "counts a key's waiting jobs and bytes on all endpoints together, and no other key's",
    () =>
      Effect.gen(function*() {
        const { submit, takeOne } = yield* Scenario.make()
        const other = yield* Scenario.make({ id: "numbers" })
        const keyQuota = { waitingJobs: 2, storedBytes: 1_000 }
        const ann = { owner: "ann", keyQuota }
        yield* submit({ ...ann, input: Scenario.text("x".repeat(98)) })
        yield* submit({ owner: "bob" })
        yield* other.submit({ ...ann, input: Scenario.text("x".repeat(98)) })
        const refused = yield* Effect.flip(submit(ann))
        assert.deepInclude(refused, { scope: "key", key: "ann", resource: "waitingJobs", limit: 2, used: 2 })
        yield* submit({ owner: "bob", keyQuota })
        yield* takeOne("w1")
        const large = yield* Effect.flip(submit({ ...ann, input: Scenario.text("x".repeat(799)) }))
        assert.deepInclude(large, { scope: "key", resource: "storedBytes", limit: 1_000, used: 200, size: 801 })
        yield* other.submit({ ...ann, input: Scenario.text("x".repeat(798)) })
        yield* submit()
      })
  )

  rule("counts earlier jobs when a quota is set, and counts again when it was removed in between", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make()
      const limited = { ...endpoint, limits: { ...endpoint.limits, storedBytes: 1_000 } }
      const usedWith = (world: typeof endpoint, bytes: number) =>
        queue.submit({ endpoint: world, id: Scenario.jobId(), input: Scenario.text("x".repeat(bytes - 2)), owner: "ann" }).pipe(
          Effect.flip,
          Effect.map((error) => error._tag === "QuotaExceeded" ? error.used : NaN)
        )
      const plain = { input: Scenario.text("x".repeat(98)), owner: "ann" }
      yield* submit(plain)
      yield* submit(plain)
      assert.strictEqual(yield* usedWith(limited, 5_000), 200)
      yield* submit(plain)
      assert.strictEqual(yield* usedWith(limited, 5_000), 300)
      const waiting = yield* Effect.flip(submit({ ...plain, keyQuota: { waitingJobs: 3 } }))
      assert.deepInclude(waiting, { scope: "key", used: 3 })
    }))
}
