/**
 * Rules for searches: which jobs match, in which order, and how far a page looks.
 */
import { assert } from "@effect/vitest"
import { EVERYTHING, type JobSearch, matchesSearch, parseSearch, searchRange } from "@stint/contract/JobSearch"
import { JobQueue, type SearchOptions } from "@stint/queue/JobQueue"
import * as JobSearches from "@stint/queue/JobSearches"
import { SCAN_LIMIT } from "@stint/store/JobQuery"
import { JobStore } from "@stint/store/JobStore"
import { compareNewestFirst } from "@stint/store/ListCursor"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import { runSeed, seededRandom } from "../SeededRandom.ts"
import type { Rule } from "./StoreRule.ts"

const queryOf = (text: string): JobSearch => {
  const { problem, search } = parseSearch(text)
  if (search === undefined) throw new Error(`${text}: ${problem.message}`)
  return search
}

/** All pages of a search. */
const searchAll = Effect.fnUntraced(function*(options: Omit<SearchOptions, "after">) {
  const queue = yield* JobQueue
  const found: Array<string> = []
  let pages = 0
  let after: SearchOptions["after"]
  while (true) {
    const { jobs, next } = yield* queue.search({ ...options, after })
    found.push(...jobs.map(({ id }) => id))
    pages += 1
    if (next === null) return { found, pages }
    after = next
  }
})

/** Registers the rules. */
export const searchRules = (rule: Rule): void => {
  rule("finds the jobs of several endpoints by every term, newest first", () =>
    Effect.gen(function*() {
      const letters = yield* Scenario.make()
      const numbers = yield* Scenario.make({ id: "numbers" })
      const ids: Array<string> = []
      for (
        const [scenario, tags] of [[letters, ["red"]], [numbers, ["red", "blue"]], [letters, ["blue"]], [numbers, []]] as const
      ) {
        ids.push((yield* scenario.submit({ tags })).id)
        yield* TestClock.adjust(1_000)
      }
      yield* letters.fail(yield* letters.takeOne("ann"), "CUDA: Out of memory")
      yield* numbers.finish(yield* numbers.takeOne("bob"))
      yield* numbers.takeOne("bob")
      const find = (text: string) =>
        Effect.map(
          searchAll({ endpoints: [letters.endpoint.id, numbers.endpoint.id], search: queryOf(text), now: 4_000 }),
          ({ found }) => found.map((id) => ids.indexOf(id))
        )
      assert.deepStrictEqual(yield* find(""), [3, 2, 1, 0])
      assert.deepStrictEqual(yield* find("endpoint:numbers"), [3, 1])
      assert.deepStrictEqual(yield* find("status:failed status:completed"), [1, 0])
      assert.deepStrictEqual(yield* find("status:waiting"), [2])
      assert.deepStrictEqual(yield* find("tag:red tag:blue"), [1])
      assert.deepStrictEqual(yield* find("tag:red status:failed"), [0])
      assert.deepStrictEqual(yield* find("worker:bob"), [3, 1])
      assert.deepStrictEqual(yield* find("error:\"out of memory\""), [0])
      assert.deepStrictEqual(yield* find("since:3s before:1s"), [2, 1])
      assert.deepStrictEqual(yield* find("release:1"), [])
      const { count } = letters.queue
      const scope = { endpoints: [letters.endpoint.id, numbers.endpoint.id], search: EVERYTHING, now: 4_000 }
      assert.deepStrictEqual(yield* count(scope, 10), { count: 4, more: false })
      assert.deepStrictEqual(yield* count(scope, 4), { count: 4, more: false })
      assert.deepStrictEqual(yield* count(scope, 3), { count: 3, more: true })
      assert.deepStrictEqual(yield* count({ ...scope, createdBefore: 2_000 }, 10), { count: 2, more: false })
    }))

  rule("finds the same jobs, in pages of every size, as a comparison of all jobs does", () =>
    Effect.gen(function*() {
      const seed = runSeed()
      const random = seededRandom(seed)
      const pick = <A>(values: ReadonlyArray<A>): A | undefined => values[Math.floor(random() * values.length)]
      const scenarios = [yield* Scenario.make(), yield* Scenario.make({ id: "numbers" })]
      const endpoints = scenarios.map(({ endpoint }) => endpoint.id)
      for (let n = 0; n < 60; n++) {
        const { fail, finish, queue, submit, takeOne } = pick(scenarios) ?? (yield* Effect.die("no scenario"))
        const { endpoint, id } = yield* submit({ tags: ["red", "blue"].filter(() => random() < 0.5) })
        const fate = random()
        if (fate < 0.5) {
          const job = yield* takeOne("ann")
          yield* fate < 0.3 ? fail(job, pick(["disk full", "out of memory"]) ?? "") : finish(job)
        } else if (fate < 0.7) yield* queue.cancel(endpoint, id)
        if (random() < 0.5) yield* TestClock.adjust(1_000)
      }
      const terms = [
        "status:failed",
        "status:waiting",
        "status:cancelled",
        "tag:red",
        "tag:blue",
        "error:memory",
        "worker:ann",
        "endpoint:numbers",
        "endpoint:letters",
        "since:20s",
        "before:10s"
      ]
      const now = 40_000
      const { queue } = scenarios[0] ?? (yield* Effect.die("no scenario"))
      const all = (yield* Effect.forEach(endpoints, (id) => queue.list(id, { limit: 200 }))).flatMap(({ jobs }) => jobs)
        .toSorted(compareNewestFirst)
      for (let n = 0; n < 30; n++) {
        const text = [...new Set(terms.filter(() => random() < 0.25))].join(" ")
        const search = queryOf(text)
        const { createdAfter = -Infinity, createdBefore = Infinity } = searchRange(search, now)
        const expected = all.filter((job) =>
          matchesSearch(search, job) && job.createdAt >= createdAfter && job.createdAt < createdBefore
        ).map(({ id }) => String(id))
        const limit = pick([1, 2, 7, 200]) ?? 1
        const { found } = yield* searchAll({ endpoints, search, now, limit })
        assert.deepStrictEqual(found, expected, `${text} in pages of ${limit}, seed ${seed}`)
      }
    }))

  for (const text of ["status:waiting status:running", "status:running status:waiting"]) {
    rule(`finds a job that begins to run during the search only once: ${text}`, () =>
      Effect.gen(function*() {
        const { endpoint, submit, takeOne } = yield* Scenario.make()
        const store = yield* JobStore
        const ids: Array<string> = []
        for (let n = 0; n < 30; n++) {
          ids.unshift((yield* submit()).id)
          yield* TestClock.adjust(1)
        }
        const { search } = JobSearches.make({
          // The newest page ends, then the oldest jobs begin to run.
          list: (of, query) => Effect.tap(store.list(of, { ...query, limit: 10 }), () => takeOne("ann"))
        })
        const { jobs } = yield* search({ endpoints: [endpoint.id], search: queryOf(text), now: 0, limit: 200 })
        assert.deepStrictEqual(jobs.map(({ id }) => String(id)), ids)
      }))
  }

  rule("finds no job by a tag or after a position that no job can have", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make()
      yield* submit({ tags: ["red"] })
      const options = { endpoints: [endpoint.id], now: 0 }
      assert.deepStrictEqual(yield* queue.search({ ...options, search: queryOf("tag:a\0b") }), { jobs: [], next: null })
      const after = { createdAt: -1, id: "a\0b" }
      assert.deepStrictEqual(yield* queue.search({ ...options, search: EVERYTHING, after }), { jobs: [], next: null })
    }))

  rule("examines a limited number of jobs for a page, and continues after them", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit } = yield* Scenario.make()
      const { id } = yield* submit({ tags: ["rare"] })
      yield* TestClock.adjust(1)
      yield* Effect.replicateEffect(submit(), SCAN_LIMIT, { concurrency: "unbounded", discard: true })
      const options = { endpoints: [endpoint.id], search: queryOf("worker:nobody"), now: 0 }
      const first = yield* queue.search(options)
      assert.deepStrictEqual(first.jobs, [])
      assert.isNotNull(first.next)
      assert.isNull((yield* queue.search({ ...options, after: first.next })).next)
      // The index of tags finds it at once.
      const tagged = yield* queue.search({ ...options, search: queryOf("tag:rare") })
      assert.deepStrictEqual([tagged.jobs.map((job) => String(job.id)), tagged.next], [[String(id)], null])
    }))
}
