import { assert, describe, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { layerTemp } from "./TestDatabase.ts"

const world = JobQueue.layer.pipe(
  Layer.provideMerge(SqliteJobStore.layer),
  Layer.provideMerge(Layer.merge(layerTemp(), WorkerRegistry.layer))
)

const commits = SqliteDatabase.SqliteDatabase.use((db) => db.commits)

/** Runs SQL directly, bypassing the store. */
const tamper = (sql: string) => SqliteDatabase.SqliteDatabase.use((db) => db.write("tamper", () => void db.statement(sql).run()))

describe("a waiting worker", () => {
  it.effect("claims a job in the commit that stores it", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      const before = yield* commits
      const { id, status } = yield* submit()
      const [taken] = yield* Fiber.join(taking)
      assert.strictEqual(status, "IN_QUEUE")
      assert.strictEqual(taken?.id, id)
      assert.strictEqual((yield* commits) - before, 1)
    }).pipe(Effect.provide(world)))

  it.effect("does not receive a job that could not be stored, and receives the next job at once", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      yield* tamper(`CREATE TEMP TRIGGER trap BEFORE INSERT ON main.inputs BEGIN SELECT RAISE(ABORT, 'the trap snapped'); END`)
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      assert.strictEqual(yield* Scenario.reasonOf(submit()), "StoreUnavailable")
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      yield* tamper("DROP TRIGGER trap")
      const { id } = yield* submit()
      assert.strictEqual((yield* Fiber.join(taking))[0]?.id, id)
    }).pipe(Effect.provide(world)))

  it.effect("never receives a job that another waiting worker received", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forEach(Array.from({ length: 8 }), (_, n) =>
        Effect.forkChild(take(`worker-${n}`, { waitMs: 60_000 })))
      yield* Scenario.settle
      const kept = yield* Effect.all(
        Array.from({ length: 8 }, () =>
          submit()),
        { concurrency: "unbounded" }
      )
      const taken = (yield* Effect.forEach(taking, (one) => Fiber.join(one))).flat()
      assert.deepStrictEqual(taken.map(({ id }) => id).sort(), kept.map(({ id }) => id).sort())
    }).pipe(Effect.provide(world)))
})
