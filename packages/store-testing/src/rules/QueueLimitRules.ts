/**
 * Rules for the limit of waiting jobs (docs/spec/endpoints.md#limits-for-callers).
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const queueLimitRules = (rule: Rule): void => {
  rule(
    "rejects a submission while the endpoint has as many waiting jobs as its limit, and stores nothing",
    () =>
      Effect.gen(function*() {
        const { endpoint, fail, queue, submit, takeOne } = yield* Scenario.make({ limits: { waitingJobs: 2 } })
        const retry = { retry: { onError: true, maxAttempts: 3, backoff: { initialMs: 5_000, factor: 2, maxMs: 60_000 } } }
        yield* submit({ policy: retry })
        yield* submit()
        const refused = Scenario.reasonOf(submit())
        assert.strictEqual(yield* refused, "TooManyWaiting")
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 2)
        const running = yield* takeOne("ann")
        yield* submit()
        assert.strictEqual(yield* refused, "TooManyWaiting")
        // A job that returns to the queue is never rejected, and a job in a backoff counts.
        yield* fail(running, "busy")
        yield* takeOne("bob")
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 1, delayed: 1 })
        assert.strictEqual(yield* refused, "TooManyWaiting")
        yield* queue.purge(endpoint.id)
        yield* submit()
      })
  )

  rule("accepts no more than the limit when many submissions arrive at once", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make({ limits: { waitingJobs: 10 } })
      const errors = yield* Effect.all(Array.from({ length: 50 }, () => Scenario.reasonOf(submit())), {
        concurrency: "unbounded"
      })
      assert.strictEqual(errors.filter((error) => error === "TooManyWaiting").length, 40)
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 10)
    }))

  rule(
    "returns the job of an idempotency key although the queue is full, and other endpoints have their own limits",
    () =>
      Effect.gen(function*() {
        const { submit } = yield* Scenario.make({ limits: { waitingJobs: 1 } })
        const other = yield* Scenario.make({ id: "numbers" })
        const { id } = yield* submit({ idempotencyKey: "order 17" })
        yield* TestClock.adjust(1_000)
        assert.strictEqual((yield* submit({ idempotencyKey: "order 17" })).id, id)
        yield* other.submit()
        assert.strictEqual(yield* Scenario.reasonOf(submit()), "TooManyWaiting")
      })
  )
}
