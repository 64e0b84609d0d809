/**
 * The index of words across restarts, at its maximum size, and when it is removed.
 */
import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { indexAll, Scenario } from "@stint/store-testing"
import type { JobQuery } from "@stint/store/JobQuery"
import { JobStore } from "@stint/store/JobStore"
import { TextIndex, TextIndexSize } from "@stint/store/TextIndex"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { tempFile } from "./TestDatabase.ts"

const storesOf = (file: string) => SqliteJobStore.layer.pipe(Layer.provideMerge(SqliteDatabase.layer({ file, lockWaitMs: 0 })))

const LONG = { ttlMs: 1e12, expiresAt: 1e15, retentionMs: 1e12, leaseMs: 1e12 }
const endpoint = Scenario.endpoint().id

const insert = Effect.fnUntraced(function*(text: string, createdAt: number) {
  const job = Scenario.record({ ...LONG, input: toJsonText(text), createdAt, queuedAt: createdAt })
  yield* (yield* JobStore).insert(job)
  return job.id
})

/** The jobs that the store lists for a word. With a complete index, these are only those with the word. */
const listed = Effect.fnUntraced(function*(word: string) {
  const words = [{ word, isPrefix: false, fields: ["input"] as const }]
  const { jobs } = yield* (yield* JobStore).list(endpoint, { words, limit: 200 })
  return jobs.map(({ id }) => id)
})

const tables = Effect.flatMap(
  SqliteDatabase.SqliteDatabase,
  (db) => db.read("count", () => db.statement("SELECT count(*) AS n FROM sqlite_schema WHERE name LIKE 'text_%'").get()?.["n"])
)

it.live("lists only jobs with the words, and after a restart also those that changed while they were not recorded", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    const start = 1_790_000_000_000
    const ids = yield* Effect.gen(function*() {
      const red = yield* insert("red", start)
      const blue = yield* insert("blue", start + 1)
      yield* indexAll
      assert.deepStrictEqual([yield* listed("red"), yield* listed("blue")], [[red], [blue]])
      // Recorded, but not indexed before the end of the process.
      const later = yield* insert("red", start + 2)
      const { jobs } = yield* (yield* JobStore).claim(endpoint, 1, { _tag: "Claim", now: start + 3, worker: "ann" })
      assert.deepStrictEqual(jobs.map(({ id }) => id), [red])
      yield* (yield* JobStore).apply(endpoint, red, { _tag: "Cancel", now: start + 4, endpoint })
      assert.deepStrictEqual(yield* listed("red"), [later, red])
      return { red, blue, later }
    }).pipe(Effect.provide(storesOf(file), { local: true }))
    yield* Effect.gen(function*() {
      const index = yield* TextIndex
      // Before the comparison, every job may have the words.
      assert.deepStrictEqual(yield* listed("red"), [ids.later, ids.blue, ids.red])
      yield* index.step
      assert.deepInclude(yield* index.state, { state: "building" })
      yield* indexAll
      assert.deepInclude(yield* index.state, { state: "ready", behind: 0 })
      assert.deepStrictEqual([yield* listed("red"), yield* listed("blue")], [[ids.later, ids.red], [ids.blue]])
    }).pipe(Effect.provide(storesOf(file), { local: true }))
    // Without an index, and after its removal.
    yield* Effect.gen(function*() {
      assert.isAbove(Number(yield* tables), 0)
      assert.isFalse(yield* (yield* TextIndex).clear)
      assert.strictEqual(yield* tables, 0)
      assert.deepStrictEqual(yield* listed("red"), [ids.later, ids.blue, ids.red])
    }).pipe(Effect.provide(storesOf(file), { local: true }))
  }))

it.live("removes the oldest documents beyond the maximum size, and lists the older jobs without them", () =>
  Effect.gen(function*() {
    const ids: Array<string> = []
    for (let n = 0; n < 400; n++) ids.unshift(yield* insert(n % 2 === 0 ? "red" : "blue", n * 1_000))
    yield* indexAll
    const { from, state } = yield* (yield* TextIndex).state
    assert.strictEqual(state, "ready")
    assert.isAbove(from ?? 0, 100_000)
    assert.isBelow(from ?? 0, 400_000)
    const found: Array<string> = []
    let after: JobQuery["after"]
    do {
      const words = [{ word: "red", isPrefix: false, fields: ["input"] as const }]
      const page = yield* (yield* JobStore).list(endpoint, { words, limit: 30, after })
      found.push(...page.jobs.map(({ id }) => id))
      after = page.next ?? undefined
    } while (after !== undefined)
    const isOlder = (id: string) => (399 - ids.indexOf(id)) * 1_000 < (from ?? 0)
    assert.deepStrictEqual(found, ids.filter((id, index) => (399 - index) % 2 === 0 || isOlder(id)))
  }).pipe(
    Effect.provide(storesOf(":memory:").pipe(Layer.provide(Layer.succeed(TextIndexSize, 4_000))))
  ))

it.live("writes other tables after thousands of changes of the index, whose internal row numbers JavaScript cannot represent", () =>
  Effect.gen(function*() {
    const store = yield* JobStore
    for (let round = 0; round < 3; round++) {
      for (let n = 0; n < 200; n++) yield* insert(`word${n}`, 1_000)
      yield* indexAll
      const { jobs } = yield* store.claim(endpoint, 200, { _tag: "Claim", now: 2_000, worker: "ann" })
      for (const { id } of jobs) yield* store.apply(endpoint, id, { _tag: "Cancel", now: 2_000, endpoint })
      yield* indexAll
    }
    assert.deepInclude(yield* store.depth(endpoint), { waiting: 0, running: 0 })
  }).pipe(Effect.provide(storesOf(":memory:"))))
