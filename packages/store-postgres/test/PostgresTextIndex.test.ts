/**
 * The index of words of several nodes: what a search lists, however late an end is committed, and which node indexes.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { indexAll, Scenario } from "@stint/store-testing"
import type { JobQuery } from "@stint/store/JobQuery"
import { JobStore } from "@stint/store/JobStore"
import { Nodes } from "@stint/store/Nodes"
import { TextIndex, TextIndexSize } from "@stint/store/TextIndex"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { TestClock } from "effect/testing"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import * as PostgresNodes from "../src/PostgresNodes.ts"
import * as PostgresTextIndex from "../src/PostgresTextIndex.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

const STORES = Layer.mergeAll(PostgresJobStore.layer, PostgresTextIndex.layer)

const LONG = { ttlMs: 1e12, expiresAt: 1e15, retentionMs: 1e12, leaseMs: 1e12 }
const endpoint = Scenario.endpoint().id

/** An hour after the tests' first job. */
const NOW = 3_600_000

const insert = Effect.fnUntraced(function*(text: string, createdAt: number, retentionMs: number = LONG.retentionMs) {
  const job = Scenario.record({ ...LONG, retentionMs, input: toJsonText(text), createdAt, queuedAt: createdAt })
  yield* (yield* JobStore).insert(job)
  return job.id
})

/** A job that ended at once. */
const insertEnded = Effect.fnUntraced(function*(text: string, at: number, retentionMs?: number) {
  const inserted = yield* insert(text, at, retentionMs)
  yield* (yield* JobStore).apply(endpoint, inserted, { _tag: "Cancel", now: at, endpoint })
  return inserted
})

/** The jobs that the store lists for a word. With the index, these are the ended ones with the word, and those that the index does not contain. */
const listed = Effect.fnUntraced(function*(word: string, query: Partial<JobQuery> = {}) {
  const words = [{ word, isPrefix: false, fields: ["input"] as const }]
  const { jobs } = yield* (yield* JobStore).list(endpoint, { words, limit: 200, ...query })
  return jobs.map(({ id }) => id)
})

describe.skipIf(missing !== undefined)(missing ?? "the index of words in PostgreSQL", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  const nodeOf = (address: string) => STORES.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) })))

  const test = (name: string, body: (address: string) => Effect.Effect<void, unknown, Layer.Success<typeof STORES>>) =>
    it.effect(name, () =>
      Effect.gen(function*() {
        const address = yield* url
        yield* TestClock.setTime(NOW)
        yield* body(address).pipe(Effect.provide(nodeOf(address)))
      }))

  const rows = (address: string) =>
    Effect.promise(async () => (await execute(address, "SELECT id FROM stint.text_words ORDER BY created_at")).map(([id]) => id))

  test("lists the ended jobs with the words and all others that have not ended, also on a node that starts later", (address) =>
    Effect.gen(function*() {
      const red = yield* insertEnded("red", 1)
      const blue = yield* insertEnded("blue", 2)
      const waiting = yield* insert("green", 3)
      // Before the index is complete, every job may have the words.
      assert.deepStrictEqual(yield* listed("red"), [waiting, blue, red])
      yield* indexAll
      assert.deepStrictEqual([yield* listed("red"), yield* listed("blue")], [[waiting, red], [waiting, blue]])
      assert.deepStrictEqual(yield* listed("red", { status: "CANCELLED" }), [red])
      assert.deepStrictEqual(yield* listed("red", { status: "IN_QUEUE" }), [waiting])
      assert.deepStrictEqual(yield* rows(address), [red, blue])
      yield* Effect.gen(function*() {
        assert.deepInclude(yield* (yield* TextIndex).state, { state: "ready", behind: 0 })
        assert.deepStrictEqual(yield* listed("red"), [waiting, red])
        const late = yield* insertEnded("blue", NOW)
        assert.deepInclude(yield* (yield* TextIndex).state, { state: "ready", behind: 1 })
        assert.deepStrictEqual(yield* listed("red"), [late, waiting, red])
      }).pipe(Effect.provide(nodeOf(address), { local: true }))
    }))

  test("finds a job whose end was committed after those of later ones, and indexes it", (address) =>
    Effect.gen(function*() {
      const first = yield* insertEnded("blue", NOW - 1_000)
      const { step } = yield* TextIndex
      yield* indexAll
      // All jobs have been compared, so that the next step compares rows.
      yield* step
      // Another node has taken 20 seconds to commit it.
      const late = yield* insertEnded("red", NOW - 20_000)
      assert.deepStrictEqual(yield* listed("blue"), [first, late])
      yield* TestClock.adjust("20 seconds")
      while (yield* step);
      assert.deepStrictEqual([yield* listed("blue"), yield* listed("red")], [[first], [late]])
      assert.deepStrictEqual(yield* rows(address), [late, first])
    }))

  test("finds a job whose node's clock was an hour behind once all jobs have been compared", (address) =>
    Effect.gen(function*() {
      const first = yield* insertEnded("blue", NOW - 1_000)
      yield* indexAll
      const late = yield* insertEnded("red", 5)
      yield* indexAll
      yield* indexAll
      assert.deepStrictEqual(yield* listed("red"), [late])
      assert.deepStrictEqual(yield* rows(address), [late, first])
    }))

  test("indexes more jobs than one step compares, with ends at the same time, and pages through them", (address) =>
    Effect.gen(function*() {
      yield* Effect.forEach(
        Array.from({ length: 1_200 }, (_, n) => n),
        (n) => insertEnded(n % 3 === 0 ? "red" : "blue", NOW - 100),
        {
          concurrency: 64
        }
      )
      const index = yield* TextIndex
      for (let n = 0; n < 20; n++) assert.isTrue(yield* index.step)
      assert.isAbove((yield* rows(address)).length, 0)
      assert.deepInclude(yield* index.state, { state: "building" })
      assert.lengthOf(yield* listed("red"), 200)
      yield* indexAll
      assert.lengthOf(yield* rows(address), 1_200)
      const found = new Set<string>()
      let after: JobQuery["after"]
      do {
        const words = [{ word: "red", isPrefix: false, fields: ["input"] as const }]
        const page = yield* (yield* JobStore).list(endpoint, { words, limit: 150, after })
        for (const { id } of page.jobs) found.add(id)
        after = page.next ?? undefined
      } while (after !== undefined)
      assert.strictEqual(found.size, 400)
    }))

  test("removes the words of a job with the job, and those that a node wrote while the job was removed", (address) =>
    Effect.gen(function*() {
      yield* insertEnded("red", 1, 100)
      const blue = yield* insertEnded("blue", 2)
      yield* indexAll
      yield* Effect.promise(() =>
        execute(
          address,
          "INSERT INTO stint.text_words SELECT 'gone', endpoint, 3, 3, attempt, outcome_bytes, size, words FROM stint.text_words LIMIT 1"
        )
      )
      yield* (yield* JobStore).tick({ _tag: "Tick", now: NOW, random: 0 }, 10)
      assert.deepStrictEqual(yield* rows(address), [blue, "gone"])
      // The jobs are compared, and then the rows.
      for (let n = 0; n < 3; n++) yield* indexAll
      assert.deepStrictEqual(yield* rows(address), [blue])
    }))

  test("compares all jobs when nothing has been indexed for minutes, and removes only such an index", (address) =>
    Effect.gen(function*() {
      const red = yield* insertEnded("red", 1)
      const blue = yield* insertEnded("blue", 2)
      yield* indexAll
      const index = yield* TextIndex
      assert.deepStrictEqual(yield* listed("red"), [red])
      const passing = Effect.forever(Effect.andThen(rows(address), TestClock.adjust("1 second")))
      assert.isTrue(yield* Effect.raceFirst(index.clear, passing))
      assert.lengthOf(yield* rows(address), 2)
      yield* TestClock.adjust("5 minutes")
      assert.deepInclude(yield* index.state, { state: "building" })
      assert.deepStrictEqual(yield* listed("red"), [blue, red])
      assert.isFalse(yield* index.clear)
      assert.lengthOf(yield* rows(address), 0)
      assert.deepInclude(yield* index.state, { state: "none" })
      // The node that wrote it begins again.
      yield* TestClock.adjust("1 minute")
      yield* indexAll
      assert.deepStrictEqual(yield* listed("red"), [red])
    }))

  test("removes an index of other rules, in steps, and builds it again", (address) =>
    Effect.gen(function*() {
      const sql = (text: string) => Effect.promise(() => execute(address, text))
      const red = yield* insertEnded("red", NOW - 1)
      yield* indexAll
      yield* sql(
        "INSERT INTO stint.text_words SELECT 'old-' || n, endpoint, n, n, 0, 0, 1, words FROM stint.text_words, generate_series(1, 5000) n"
      )
      yield* sql("UPDATE stint.text_state SET version = 0")
      assert.deepInclude(yield* (yield* TextIndex).state, { state: "none" })
      yield* Effect.gen(function*() {
        yield* (yield* TextIndex).step
        assert.lengthOf(yield* rows(address), 3_001)
        yield* indexAll
      }).pipe(Effect.provide(nodeOf(address), { local: true }))
      assert.deepStrictEqual(yield* rows(address), [red])
      assert.deepInclude(yield* (yield* TextIndex).state, { state: "ready" })
    }))

  it.effect("removes the oldest rows beyond the maximum size, and lists the older jobs without the index", () =>
    Effect.gen(function*() {
      const address = yield* url
      yield* TestClock.setTime(NOW)
      yield* Effect.gen(function*() {
        const ids: Array<string> = []
        for (let n = 0; n < 900; n++) ids.push(yield* insertEnded(n % 2 === 0 ? "red" : "blue", n * 1_000))
        yield* indexAll
        const { from, state } = yield* (yield* TextIndex).state
        assert.strictEqual(state, "ready")
        const start = from ?? 0
        assert.isAbove(start, 100_000)
        assert.isBelow(start, 900_000)
        const found: Array<string> = []
        let after: JobQuery["after"]
        do {
          const words = [{ word: "red", isPrefix: false, fields: ["input"] as const }]
          const page = yield* (yield* JobStore).list(endpoint, { words, limit: 70, after })
          found.push(...page.jobs.map(({ id }) => id))
          after = page.next ?? undefined
        } while (after !== undefined)
        assert.deepStrictEqual(found, ids.filter((_, n) => n % 2 === 0 || n * 1_000 < start).toReversed())
      }).pipe(
        Effect.provide(nodeOf(address).pipe(Layer.provide(Layer.succeed(TextIndexSize, 8_000))))
      )
    }))

  it.live("is written by the oldest node only", () =>
    Effect.gen(function*() {
      const address = yield* url
      const start = () =>
        Layer.build(
          Layer.merge(STORES, PostgresNodes.layer).pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) })))
        )
      const first = yield* start()
      const second = yield* start()
      yield* insertEnded("red", Date.now()).pipe(Effect.provide(first))
      // Until its first heartbeat, it does not know the other one.
      yield* Effect.repeat(Effect.sync(() => Context.get(second, Nodes).isOldest()), {
        until: (isOldest) => !isOldest,
        schedule: Schedule.spaced("50 millis")
      })
      assert.isFalse(yield* Context.get(second, TextIndex).step)
      assert.lengthOf(yield* rows(address), 0)
      yield* indexAll.pipe(Effect.provide(first))
      assert.lengthOf(yield* rows(address), 1)
      assert.deepInclude(yield* Context.get(second, TextIndex).state, { state: "ready", behind: 0 })
    }))
})
