import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as SpaceReclaimer from "../src/SpaceReclaimer.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { layerTemp } from "./TestDatabase.ts"

const world = SqliteJobStore.layer.pipe(Layer.provideMerge(layerTemp()))

const TABLES = ["jobs", "inputs", "outcomes", "chunks"] as const

/** The number of rows in each table that stores job data. */
const rows = Effect.gen(function*() {
  const db = yield* SqliteDatabase.SqliteDatabase
  return yield* db.read(
    "count",
    () => TABLES.map((table) => Number(db.statement(`SELECT count(*) AS n FROM ${table}`).get()?.["n"]))
  )
})

const pages = Effect.gen(function*() {
  const db = yield* SqliteDatabase.SqliteDatabase
  return yield* db.read("pages", () => Number(db.statement("PRAGMA page_count").get()?.["page_count"]))
})

/** Runs a job that writes a row to every table. */
const lived = Effect.fnUntraced(function*(size: number) {
  const store = yield* JobStore
  const { endpoint, id } = Scenario.record()
  const text = Scenario.text("x".repeat(size))
  const by = { now: 0, endpoint, worker: "ann" } as const
  yield* store.insert(Scenario.record({ id, input: text }))
  yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })
  yield* store.append(by.endpoint, id, { _tag: "Chunk", ...by }, text)
  yield* store.apply(by.endpoint, id, { _tag: "Progress", output: text, ...by })
  return { id, text, by }
})

describe("R15: space", () => {
  it.effect("deletes every row of a removed job", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const { by, id, text } = yield* lived(10)
      assert.deepStrictEqual(yield* rows, [1, 1, 1, 1])
      yield* store.apply(by.endpoint, id, { _tag: "Finish", output: text, error: "e", ...by })
      assert.deepStrictEqual(yield* rows, [1, 1, 1, 1])
      yield* store.tick({ _tag: "Tick", now: 600_000 }, 10)
      assert.deepStrictEqual(yield* rows, [0, 0, 0, 0])
    }).pipe(Effect.provide(world)))

  it.effect("removes chunks and progress of a lost attempt and stores its error", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const { by, id } = yield* lived(10)
      yield* store.apply(by.endpoint, id, { _tag: "LoseLease", cause: "Gone.", ...by })
      assert.deepStrictEqual(yield* rows, [1, 1, 1, 0])
      const { lastError, progress } = (yield* store.get(by.endpoint, id)) ?? assert.fail("the job is gone")
      assert.deepStrictEqual({ lastError, progress }, { lastError: "Gone.", progress: null })
    }).pipe(Effect.provide(world)))

  it.effect("reuses the pages of removed jobs, and returns the pages beyond a reserve in steps", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const fill = Effect.forEach(Array.from({ length: 40 }), () => lived(200_000), { discard: true })
      const empty = Effect.andThen(
        store.tick({ _tag: "Tick", now: 300_000 }, 100),
        store.tick({ _tag: "Tick", now: 900_000 }, 100)
      )
      yield* fill
      yield* empty
      assert.deepStrictEqual(yield* rows, [0, 0, 0, 0])
      const peak = yield* pages
      assert.isAbove(peak, 5_000)
      yield* fill
      assert.isBelow(yield* pages, peak * 1.1)
      // No space is returned while it is in use.
      assert.isFalse(yield* SpaceReclaimer.reclaim)
      yield* empty
      let steps = 1
      while (yield* SpaceReclaimer.reclaim) steps += 1
      assert.isAbove(steps, 5)
      assert.isBelow(yield* pages, 1_600)
    }).pipe(Effect.provide(world)))

  it.effect("checks for free space every minute", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      yield* Effect.forEach(Array.from({ length: 40 }), () => lived(200_000), { discard: true })
      yield* store.tick({ _tag: "Tick", now: 300_000 }, 100)
      yield* store.tick({ _tag: "Tick", now: 900_000 }, 100)
      const peak = yield* pages
      for (let turn = 0; turn < 100 && (yield* pages) > 1_600; turn++) yield* Scenario.pass(1_000)
      assert.isBelow(yield* pages, peak / 2)
      yield* TestClock.adjust(1)
    }).pipe(Effect.provide(Layer.provideMerge(SpaceReclaimer.layer(), world))))
})
