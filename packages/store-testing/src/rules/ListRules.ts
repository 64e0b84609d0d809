/**
 * Rules for lists: selection, order and pages.
 */
import { assert } from "@effect/vitest"
import type { ListOptions } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const listRules = (rule: Rule): void => {
  rule("lists an endpoint's jobs newest first, filtered by status, tag and time", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make()
      const neighbour = yield* Scenario.make({ id: "numbers" })
      yield* neighbour.submit({ tags: ["red"] })
      const ids: Array<string> = []
      for (const tags of [["red"], ["red", "blue", "red"], [], ["blue"], ["red"]]) {
        ids.push((yield* submit({ tags })).id)
        yield* TestClock.adjust(1_000)
      }
      yield* finish(yield* takeOne("ann"))
      yield* fail(yield* takeOne("ann"), "no such city")
      yield* takeOne("ann")
      const list = (options?: ListOptions) =>
        Effect.map(queue.list(endpoint.id, options), ({ jobs }) => jobs.map((job) => ids.indexOf(job.id)))
      assert.deepStrictEqual(yield* list(), [4, 3, 2, 1, 0])
      assert.deepStrictEqual(yield* list({ status: "IN_QUEUE" }), [4, 3])
      assert.deepStrictEqual(yield* list({ status: "IN_PROGRESS" }), [2])
      assert.deepStrictEqual(yield* list({ status: "COMPLETED" }), [0])
      assert.deepStrictEqual(yield* list({ status: "CANCELLED" }), [])
      assert.deepStrictEqual(yield* list({ tag: "red" }), [4, 1, 0])
      assert.deepStrictEqual(yield* list({ tag: "Red" }), [])
      assert.deepStrictEqual(yield* list({ tag: "red", status: "FAILED" }), [1])
      assert.deepStrictEqual(yield* list({ createdAfter: 1_000, createdBefore: 3_000 }), [2, 1])
      assert.deepStrictEqual(yield* list({ tag: "red", createdAfter: 1_000, createdBefore: 4_000 }), [1])
      assert.deepStrictEqual((yield* queue.list(endpoint.id, { tag: "blue", limit: 1 })).jobs[0]?.tags, ["blue"])
      assert.deepStrictEqual((yield* queue.list(endpoint.id, { status: "FAILED" })).jobs[0]?.tags, ["red", "blue"])
    }))

  rule("lists every existing job exactly once across the pages, whatever changes in between", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, submit, takeOne } = yield* Scenario.make()
      const pages = Effect.fnUntraced(function*(options: ListOptions, between: Effect.Effect<unknown, unknown>) {
        const seen: Array<string> = []
        let cursor: string | undefined
        while (true) {
          const page = yield* queue.list(endpoint.id, { ...options, cursor })
          seen.push(...page.jobs.map((job) => job.id))
          if (page.cursor === null) return seen
          cursor = page.cursor
          yield* between
        }
      })
      const ids: Array<string> = []
      // Give several jobs the same submission time.
      for (let n = 0; n < 23; n++) {
        ids.unshift((yield* submit({ tags: ["all"] })).id)
        if (n % 4 === 0) yield* TestClock.adjust(1)
      }
      const meanwhile = Effect.gen(function*() {
        yield* finish(yield* takeOne("ann"))
        yield* submit({ tags: ["all"] })
      })
      for (const options of [{ limit: 4 }, { limit: 1, tag: "all" }, { limit: 23 }]) {
        const seen = yield* pages(options, meanwhile)
        assert.deepStrictEqual(seen.filter((id) => ids.includes(id)), ids)
        assert.strictEqual(new Set(seen).size, seen.length)
      }
    }))

  rule("lists jobs without payloads and with truncated errors", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, started } = yield* Scenario.make()
      yield* fail(yield* started("ann"), "e".repeat(2_000))
      const { jobs } = yield* queue.list(endpoint.id)
      assert.strictEqual(jobs[0]?.error, "e".repeat(500))
      for (const key of ["input", "output", "progress", "s3Config"]) assert.notProperty(jobs[0], key)
    }))

  rule("returns 50 jobs per page by default, and at most 200", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      yield* Effect.replicateEffect(submit(), 210, { concurrency: "unbounded", discard: true })
      const count = (limit?: number) => Effect.map(queue.list(endpoint.id, { limit }), ({ jobs }) => jobs.length)
      assert.deepStrictEqual([yield* count(), yield* count(1_000), yield* count(0)], [50, 200, 1])
    }))

  rule("refuses a cursor that the queue did not issue", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      yield* submit()
      for (const cursor of ["", "1", "x.y.z", "-1.2", "zzzzzzzzzzzz.1", "1.2 ", "1'.2"]) {
        assert.strictEqual(yield* Scenario.reasonOf(queue.list(endpoint.id, { cursor })), "InvalidCursor", cursor)
      }
    }))

  rule("omits removed jobs from lists, including lists filtered by tag", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      const { id } = yield* submit({ tags: ["red"] })
      yield* queue.cancel(endpoint.id, id)
      yield* TestClock.adjust(600_000)
      yield* queue.tick
      assert.deepStrictEqual(yield* queue.list(endpoint.id), { jobs: [], cursor: null })
      assert.deepStrictEqual(yield* queue.list(endpoint.id, { tag: "red" }), { jobs: [], cursor: null })
    }))
}
