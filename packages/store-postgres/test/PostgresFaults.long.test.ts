import { assert, describe, it, vi } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const storeAt = (url: string, deadlineMs?: number) =>
  PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(url), deadlineMs })))

describe.skipIf(missing !== undefined)(missing ?? "faults of one job, node or connection", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  const rule = (title: string, body: (url: string) => Effect.Effect<void, unknown>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(url, body)))

  rule("fires the timers of other jobs beside a job that the database refuses to change", (address) =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const jobs = Array.from({ length: 5 }, () => Scenario.record({ expiresAt: 1_000 }))
      for (const job of jobs) yield* store.insert(job)
      const poisonous = jobs[2] ?? assert.fail()
      yield* Effect.promise(() =>
        execute(address, `ALTER TABLE stint.ended ADD CONSTRAINT poison CHECK (id <> '${poisonous.id}')`)
      )
      const tick = (now: number) => store.tick({ _tag: "Tick", now }, 200)
      assert.strictEqual((yield* tick(1_000)).length, 4)
      assert.strictEqual((yield* tick(1_000)).length, 0)
      const statuses = Effect.forEach(jobs, ({ endpoint, id }) => Effect.map(store.get(endpoint, id), (job) => job?.status))
      assert.deepStrictEqual<unknown>(yield* statuses, jobs.map((job) => job === poisonous ? "IN_QUEUE" : "TIMED_OUT"))
      // The job ends once it can be changed.
      yield* Effect.promise(() => execute(address, "ALTER TABLE stint.ended DROP CONSTRAINT poison"))
      assert.deepStrictEqual((yield* tick(3_601_000)).map(({ _tag }) => _tag).filter((tag) => tag === "Changed"), ["Changed"])
    }).pipe(Effect.provide(storeAt(address))))
})
