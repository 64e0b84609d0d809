/**
 * Rules for searches: which jobs match, in which order, and how far a page looks.
 */
import { assert } from "@effect/vitest"
import { EVERYTHING, type JobSearch, parseSearch } from "@stint/contract/JobSearch"
import { JobQueue, type SearchOptions } from "@stint/queue/JobQueue"
import * as JobSearches from "@stint/queue/JobSearches"
import { SCAN_LIMIT } from "@stint/store/JobQuery"
import type { JobSummary } from "@stint/store/JobRecord"
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

/** A term of a generated query. */
interface GeneratedTerm {
  readonly key: string
  readonly value: string
  readonly isNegated: boolean
}

const textOf = ({ isNegated, key, value }: GeneratedTerm): string => `${isNegated ? "-" : ""}${key}:${value}`

/** Whether a job has what a term names, without the parser and the rules of the product. */
const has = (job: JobSummary, { key, value }: Pick<GeneratedTerm, "key" | "value">, now: number): boolean => {
  switch (key) {
    case "status":
      return { waiting: "IN_QUEUE", running: "IN_PROGRESS" }[value] === job.status || job.status.toLowerCase() === value
    case "endpoint":
      return job.endpoint === value
    case "tag":
      return job.tags.includes(value)
    case "error":
      return job.error?.includes(value) === true
    case "worker":
      return job.worker === value
    case "since":
      return job.createdAt >= now - Number.parseInt(value) * 1_000
    case "before":
      return job.createdAt < now - Number.parseInt(value) * 1_000
    default:
      throw new Error(`${key} is not generated`)
  }
}

/** Keys for which a job has only one value, so that several terms mean any of them. */
const SINGLE = new Set(["status", "endpoint", "worker"])

/** Whether a job matches an alternative: no negated term, one term of each single-valued key, and all terms of the other keys. */
const matchesNaively = (job: JobSummary, terms: ReadonlyArray<GeneratedTerm>, now: number): boolean =>
  terms.every((term) =>
    term.isNegated
      ? !has(job, term, now)
      : SINGLE.has(term.key)
      ? terms.some((other) => !other.isNegated && other.key === term.key && has(job, other, now))
      : has(job, term, now)
  )

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
      assert.deepStrictEqual(yield* find("-status:failed"), [3, 2, 1])
      assert.deepStrictEqual(yield* find("-status:failed -status:completed tag:blue"), [2])
      assert.deepStrictEqual(yield* find("-tag:blue"), [3, 0])
      assert.deepStrictEqual(yield* find("NOT endpoint:numbers"), [2, 0])
      assert.deepStrictEqual(yield* find("-error:memory"), [3, 2, 1], "jobs without an error do not contain the text")
      assert.deepStrictEqual(yield* find("status:failed OR status:completed"), [1, 0])
      assert.deepStrictEqual(yield* find("tag:red endpoint:numbers OR status:waiting OR tag:red"), [2, 1, 0])
      assert.deepStrictEqual(yield* find("status:failed -status:failed"), [])
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
        ...["failed", "waiting", "cancelled", "completed"].map((value) => ({ key: "status", value })),
        ...["red", "blue"].map((value) => ({ key: "tag", value })),
        { key: "error", value: "memory" },
        { key: "worker", value: "ann" },
        ...["numbers", "letters"].map((value) => ({ key: "endpoint", value })),
        { key: "since", value: "20s" },
        { key: "before", value: "10s" }
      ]
      const isTime = (key: string) => key === "since" || key === "before"
      const alternative = (): ReadonlyArray<GeneratedTerm> => {
        const chosen = terms.filter(() => random() < 0.2)
        return chosen.map((term) => ({ ...term, isNegated: !isTime(term.key) && random() < 0.4 }))
      }
      const now = 40_000
      const { queue } = scenarios[0] ?? (yield* Effect.die("no scenario"))
      const all = (yield* Effect.forEach(endpoints, (id) => queue.list(id, { limit: 200 }))).flatMap(({ jobs }) => jobs)
        .toSorted(compareNewestFirst)
      const seen = { some: 0, several: 0 }
      for (let n = 0; n < 60; n++) {
        const made = Array.from({ length: pick([1, 1, 2, 3]) ?? 1 }, alternative)
        // An alternative without terms can only be the whole query.
        const filled = made.filter((one) => one.length > 0)
        const any = filled.length === 0 ? [[]] : filled
        const text = any.map((one) => one.map(textOf).join(" ")).join(" OR ")
        const expected = all.filter((job) => any.some((one) => matchesNaively(job, one, now))).map(({ id }) => String(id))
        const limit = pick([1, 2, 7, 200]) ?? 1
        const { found } = yield* searchAll({ endpoints, search: queryOf(text), now, limit })
        assert.deepStrictEqual(found, expected, `${text} in pages of ${limit}, seed ${seed}`)
        const counted = yield* queue.count({ endpoints, search: queryOf(text), now }, 1_000)
        assert.deepStrictEqual(counted, { count: expected.length, more: false }, `${text}, counted, seed ${seed}`)
        if (expected.length > 0 && expected.length < all.length) seen.some += 1
        if (any.length > 1) seen.several += 1
      }
      assert.isAbove(Math.min(seen.some, seen.several), 5, `the queries find something, and have alternatives, seed ${seed}`)
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
          texts: store.texts,
          // The newest page ends, then the oldest jobs begin to run.
          list: (of, query) => Effect.tap(store.list(of, { ...query, limit: 10 }), () => takeOne("ann"))
        })
        const { jobs } = yield* search({ endpoints: [endpoint.id], search: queryOf(text), now: 0, limit: 200 })
        assert.deepStrictEqual(jobs.map(({ id }) => String(id)), ids)
      }))
  }

  rule(
    "finds a job that changes between the reads of two alternatives, so that only its later row matches",
    () =>
      Effect.gen(function*() {
        const { endpoint, submit, takeOne } = yield* Scenario.make()
        const store = yield* JobStore
        const { id } = yield* submit()
        let isTaken = false
        const { search } = JobSearches.make({
          texts: store.texts,
          list: (of, query) =>
            Effect.tap(store.list(of, query), () => {
              if (query.status !== "IN_QUEUE" || isTaken) return Effect.void
              isTaken = true
              return takeOne("ann")
            })
        })
        const found = yield* search({
          endpoints: [endpoint.id],
          search: queryOf("status:waiting worker:bob OR status:running worker:ann"),
          now: 0
        })
        assert.deepStrictEqual(found.jobs.map((job) => job.id), [id])
      })
  )

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
