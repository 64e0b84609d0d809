/**
 * Rules for idempotency keys: each key has one job.
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const idempotencyRules = (rule: Rule): void => {
  rule(
    "R3: creates one job for concurrent submissions with one key, and returns it to all of them",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, submit, take } = yield* Scenario.make()
        const jobs = yield* Effect.replicateEffect(submit({ idempotencyKey: "order 17" }), 40, { concurrency: "unbounded" })
        assert.strictEqual(new Set(jobs.map((job) => job.id)).size, 1)
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
        assert.strictEqual((yield* take("ann", { limit: 10 })).length, 1)
        // The same holds while the job runs and after its end.
        const again = yield* submit({ idempotencyKey: "order 17" })
        assert.strictEqual(again.id, jobs[0]?.id)
        assert.deepInclude(again, { status: "IN_PROGRESS", input: toJsonText({ text: "hello" }) })
        yield* queue.cancel(endpoint.id, again.id)
        assert.strictEqual((yield* submit({ idempotencyKey: "order 17" })).status, "CANCELLED")
      })
  )

  rule("refuses a key that was used with a different request, and names the key's job", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      const job = yield* submit({ idempotencyKey: "order 17", tags: ["a"] })
      const others = [
        { tags: ["a"], input: toJsonText({ text: "bye" }) },
        { tags: ["b"] },
        { tags: ["a"], priority: 1 },
        { tags: ["a"], policy: { ttl: 20_000 } },
        { tags: ["a"], s3Config: toJsonText({}) },
        { tags: ["a"], webhook: { url: "http://127.0.0.1/", events: ["completed"] as const } }
      ]
      for (const other of others) {
        const error = yield* Effect.flip(submit({ ...other, idempotencyKey: "order 17" }))
        assert.deepInclude(error, { _tag: "IdempotencyConflict", key: "order 17", id: job.id })
      }
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
    }))

  rule("scopes keys to their endpoint, and creates a job for each submission without a key", () =>
    Effect.gen(function*() {
      const { submit } = yield* Scenario.make()
      const neighbour = yield* Scenario.make({ id: "numbers" })
      const jobs = [
        yield* submit({ idempotencyKey: "k" }),
        yield* submit({ idempotencyKey: "K" }),
        yield* neighbour.submit({ idempotencyKey: "k" }),
        yield* submit(),
        yield* submit()
      ]
      assert.strictEqual(new Set(jobs.map((job) => job.id)).size, 5)
    }))

  rule("scopes keys to their owner; every owner finds the job of a key without an owner", () =>
    Effect.gen(function*() {
      const { submit } = yield* Scenario.make()
      const input = toJsonText({ text: "secret" })
      const ann = yield* submit({ idempotencyKey: "order 17", owner: "ann", input })
      const bob = yield* submit({ idempotencyKey: "order 17", owner: "bob", input })
      assert.notStrictEqual(bob.id, ann.id)
      assert.strictEqual((yield* submit({ idempotencyKey: "order 17", owner: "ann", input })).id, ann.id)
      // Another request with the key of another owner is not a conflict, so it reveals nothing.
      assert.notStrictEqual((yield* submit({ idempotencyKey: "order 17", owner: "cy" })).id, ann.id)
      assert.strictEqual(
        yield* Scenario.reasonOf(submit({ idempotencyKey: "order 17", owner: "bob" })),
        "IdempotencyConflict"
      )
      const old = yield* submit({ idempotencyKey: "order 16" })
      assert.strictEqual((yield* submit({ idempotencyKey: "order 16", owner: "bob" })).id, old.id)
      // The owner's own job comes first.
      assert.strictEqual((yield* submit({ idempotencyKey: "order 17" })).status, "IN_QUEUE")
      assert.strictEqual((yield* submit({ idempotencyKey: "order 17", owner: "bob", input })).id, bob.id)
    }))

  rule("frees a key when its job is removed", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, status, submit, takeOne } = yield* Scenario.make()
      const first = yield* submit({ idempotencyKey: "k" })
      yield* finish(yield* takeOne("ann"))
      yield* TestClock.adjust(599_999)
      yield* queue.tick
      assert.strictEqual((yield* submit({ idempotencyKey: "k" })).id, first.id)
      yield* TestClock.adjust(1)
      yield* queue.tick
      const second = yield* submit({ idempotencyKey: "k", priority: 3 })
      assert.notStrictEqual(second.id, first.id)
      assert.strictEqual(yield* status(second.id), "IN_QUEUE")
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
    }))
}
