/**
 * The schedule runners on two nodes with one PostgreSQL database.
 */
import { assert, describe, it } from "@effect/vitest"
import type { EndpointId } from "@stint/contract/Ids"
import { ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import * as JobQueue from "@stint/queue/JobQueue"
import * as Schedules from "@stint/queue/Schedules"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import {
  PostgresDatabase,
  PostgresEndpointStore,
  PostgresJobStore,
  PostgresRunStore,
  PostgresScheduleStore
} from "@stint/store-postgres"
import { missing, startCluster } from "@stint/store-postgres/testing"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"

const endpoint = Scenario.endpoint({ ttlMs: 600_000_000, retentionMs: 600_000_000 })

const database = Effect.acquireRelease(
  Effect.promise(() => startCluster({})),
  (cluster) => Effect.promise(() => cluster.stop())
)

const stores = Layer.mergeAll(
  PostgresJobStore.layer,
  PostgresRunStore.layer,
  PostgresScheduleStore.layer,
  PostgresEndpointStore.layer
)

/** A node. `change` replaces its job store. */
const makeNode = (
  url: string,
  change: (jobs: JobStore["Service"], schedules: ScheduleStore["Service"]) => JobStore["Service"]
) => {
  const changed = Layer.effect(
    JobStore,
    Effect.gen(function*() {
      return change(yield* JobStore, yield* ScheduleStore)
    })
  ).pipe(Layer.provideMerge(stores), Layer.provide(PostgresDatabase.layer({ url: Redacted.make(url) })))
  return Layer.build(
    Layer.fresh(
      Schedules.layer.pipe(
        Layer.provideMerge(JobQueue.layer),
        Layer.provideMerge(Layer.merge(changed, WorkerRegistry.layer)),
        Layer.provideMerge(Logger.layer([]))
      )
    )
  )
}

const countOf = (jobs: JobStore["Service"], id: EndpointId) => Effect.map(jobs.depth(id), ({ waiting }) => waiting)

/** Both nodes tick at the same time, `ticks` times, for a schedule that fires every minute. Returns the number of jobs. */
const run = Effect.fnUntraced(function*(ticks: number, change: Parameters<typeof makeNode>[1]) {
  const cluster = yield* database
  yield* TestClock.setTime(Date.parse("2026-11-22T12:00:30Z"))
  const url = cluster.url("postgres")
  const [one, two] = [yield* makeNode(url, change), yield* makeNode(url, change)]
  yield* Context.get(one, EndpointStore).put(endpoint)
  // The other node reads it.
  yield* Context.get(two, EndpointStore).get(endpoint.id)
  const schedules = Context.get(one, Schedules.Schedules)
  const spec = Schema.decodeUnknownSync(ScheduleSpec)({ cron: "* * * * *", overlap: "allow" })
  yield* schedules.put({ endpoint: endpoint.id, name: ScheduleName.make("nightly") }, spec, "a test")
  const both = [schedules.tick, Context.get(two, Schedules.Schedules).tick]
  for (let minute = 0; minute < ticks; minute++) {
    yield* TestClock.adjust("1 minute")
    yield* Effect.all(both, { concurrency: "unbounded" })
  }
  return yield* countOf(Context.get(one, JobStore), endpoint.id)
}, Effect.scoped)

describe.skipIf(missing !== undefined)(missing ?? "the schedule runners on two nodes", () => {
  it.effect("submit one job for each time", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* run(200, (jobs) => jobs), 200)
    }), 180_000)

  it.effect("would submit more if a firing were not part of its job's transaction", () =>
    Effect.gen(function*() {
      const jobs = yield* run(10, (jobs, schedules) => ({
        ...jobs,
        insert: (job, key, quotas) =>
          Effect.tap(jobs.insert(job, undefined, quotas), () =>
            key?.schedule === undefined ? Effect.void : schedules.put(key.schedule))
      }))
      assert.isAbove(jobs, 10)
    }), 180_000)
})
