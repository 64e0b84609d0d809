import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import type { Quotas } from "@stint/store/Quota"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { DatabaseSync } from "node:sqlite"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { layerTemp, tempFile } from "./TestDatabase.ts"

const BYTES: Quotas = { endpoint: { storedBytes: 1_000_000 }, key: { storedBytes: 1_000_000 } }

/** A job with an input of this number of bytes. */
const job = (bytes: number, owner = "ann") => Scenario.record({ input: toJsonText("x".repeat(bytes - 2)), owner })

/** What the store has counted for the endpoint and the key, by a submission that is too large. */
const used = (scope: "endpoint" | "key", owner = "ann") =>
  Effect.gen(function*() {
    const store = yield* JobStore
    const inserted = yield* store.insert(job(2_000_000, owner), undefined, {
      ...BYTES,
      [scope === "endpoint" ? "key" : "endpoint"]: { storedBytes: 1_000_000_000 }
    })
    return inserted._tag === "QuotaExceeded" ? inserted.quota.used : NaN
  })

it.effect("counts the jobs from before a quota in steps, exactly, while counted and uncounted jobs change", () =>
  Effect.gen(function*() {
    const store = yield* JobStore
    const jobs = Array.from({ length: 2_500 }, () => job(10))
    yield* Effect.forEach(jobs, (one) => store.insert(one), { concurrency: "unbounded", discard: true })
    const steps = [yield* used("endpoint")]
    assert.strictEqual(steps[0], 10_000)
    // The first jobs are counted by now, the last ones are not.
    const endpoint = Scenario.endpoint().id
    const finishNext = Effect.gen(function*() {
      const { jobs: [claimed] } = yield* store.claim(endpoint, 1, { _tag: "Claim", now: 1, worker: "ann" })
      const result = { now: 2, endpoint, worker: "ann", output: toJsonText("y".repeat(98)), error: null }
      yield* store.apply(endpoint, claimed?.id ?? Scenario.jobId(), { _tag: "Finish", ...result })
    })
    yield* finishNext
    yield* Effect.forEach(jobs.slice(-10), ({ id }) => store.apply(endpoint, id, { _tag: "Cancel", now: 2, endpoint }))
    assert.strictEqual(yield* used("endpoint"), 20_100)
    yield* store.insert(job(10), undefined, BYTES)
    yield* finishNext
    assert.strictEqual(yield* used("endpoint"), 2_501 * 10 + 200)
    assert.strictEqual(yield* used("endpoint"), 2_501 * 10 + 200)
  }).pipe(Effect.provide(SqliteJobStore.layer.pipe(Layer.provide(layerTemp())))))

it.effect("keeps the counts in the file, and corrects them with a warning when another program changed the jobs", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))])
    const session = <A, E>(use: Effect.Effect<A, E, JobStore>) =>
      Effect.provide(
        use,
        SqliteJobStore.layer.pipe(
          Layer.provide(SqliteDatabase.layer({ file, durability: "D1", lockWaitMs: 0 })),
          Layer.provideMerge(logger)
        )
      )
    yield* session(Effect.flatMap(JobStore, (store) =>
      Effect.gen(function*() {
        yield* store.insert(job(100), undefined, BYTES)
        yield* store.insert(job(200), undefined, BYTES)
      })))
    assert.deepStrictEqual(yield* session(Effect.all([used("endpoint"), used("key")])), [300, 300])
    assert.deepStrictEqual(lines, [])
    const other = new DatabaseSync(file)
    other.exec("DELETE FROM jobs WHERE seq = 1; DELETE FROM inputs WHERE seq = 1")
    other.close()
    assert.strictEqual(yield* session(used("key")), 200)
    assert.strictEqual(lines.length, 2)
    assert.match(
      lines.join(),
      /The counts for the quota of the key .*ann.* did not match .* 2 waiting jobs and 300 bytes were recorded, 1 and 200 are stored/
    )
  }))

it.effect("removes the counters of quotas that no longer exist, so that later writes count nothing", () =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase.SqliteDatabase
    const counters = db.read(
      "counters",
      () => db.statement("SELECT scope, id FROM usage ORDER BY scope").all().map(({ id }) => id)
    )
    yield* Effect.gen(function*() {
      const store = yield* JobStore
      yield* store.insert(job(100))
      assert.deepStrictEqual(yield* counters, [])
      yield* store.insert(job(100), undefined, BYTES)
      assert.deepStrictEqual(yield* counters, ["letters", "ann"])
      yield* store.insert(job(100), undefined, { endpoint: {}, key: { waitingJobs: 5 } })
      assert.deepStrictEqual(yield* counters, ["ann"])
      yield* store.insert(job(100))
      assert.deepStrictEqual(yield* counters, [])
    }).pipe(Effect.provide(SqliteJobStore.layer))
  }).pipe(Effect.provide(layerTemp())))
