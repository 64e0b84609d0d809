/**
 * Changes that two nodes make at the same time, or shortly after one another.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { AuditStore } from "@stint/store/AuditStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobLogStore, LogLimits } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import { UsageStore } from "@stint/store/UsageStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Client } from "pg"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"
import { deadlocks, node } from "./TwoNodes.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const ENDPOINT = Scenario.endpoint().id

/** Enough for a deadlock, if one is possible. */
const ROUNDS = 100

describe.skipIf(missing !== undefined)(missing ?? "changes at two nodes", () => {
  // A deadlock counts when the server notices it.
  const cluster = testCluster({ settings: ["deadlock_timeout = 20ms"] })
  const { url } = makeDatabases(cluster)
  const nodes = Effect.map(url, (address) => [node(address), node(address)] as const)

  it.live("a node finds an endpoint as soon as another node has created it, although it was asked for it before", () =>
    Effect.gen(function*() {
      const [first, second] = yield* nodes
      const [here, there] = [Context.get(yield* first, EndpointStore), Context.get(yield* second, EndpointStore)]
      for (let n = 0; n < 10; n++) {
        const endpoint = Scenario.endpoint({ id: `letters${n}` })
        assert.isUndefined(yield* here.get(endpoint.id))
        yield* there.create(endpoint)
        assert.deepStrictEqual(yield* here.get(endpoint.id), endpoint)
      }
    }).pipe(Effect.scoped))

  it.live("R5: a claim waits for a job that another node has locked and gives back, on an endpoint with isolated jobs", () =>
    Effect.gen(function*() {
      const address = yield* url
      const store = Context.get(yield* node(address), JobStore)
      const [isolated, other] = [Scenario.record(), Scenario.record()]
      for (const job of [isolated, other]) yield* store.insert(job)
      yield* Effect.promise(() => execute(address, `UPDATE stint.ready SET isolated = true WHERE id = '${isolated.id}'`))
      const claim = (worker: string) =>
        Effect.map(store.claim(ENDPOINT, 1, { _tag: "Claim", now: 0, worker }), ({ jobs }) => jobs.map(({ id }) => id))
      assert.deepStrictEqual(yield* claim("ann"), [isolated.id])

      const client = new Client({ connectionString: address })
      yield* Effect.acquireRelease(Effect.promise(() => client.connect()), () => Effect.promise(() => client.end()))
      const locked = (text: string) => Effect.promise(() => client.query(text))
      yield* locked(`BEGIN; SELECT FROM stint.ready WHERE id = '${other.id}' FOR UPDATE`)
      const claiming = yield* Effect.forkChild(claim("bob"), { startImmediately: true })
      const waits = Effect.promise(() => execute(address, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
      yield* Effect.race(Effect.repeat(waits, { until: ([row]) => Number(row?.[0]) > 0 }), Fiber.await(claiming))
      yield* locked("COMMIT")
      assert.deepStrictEqual(yield* Fiber.join(claiming), [other.id])
    }).pipe(Effect.scoped))

  it.live("lines of the same jobs are stored without deadlocks, whatever their order, and while old lines are dropped", () =>
    Effect.gen(function*() {
      const [first, second] = yield* nodes
      const [here, there] = [yield* first, yield* second]
      const jobs = Array.from({ length: 6 }, () => Scenario.record())
      for (const job of jobs) yield* Context.get(here, JobStore).insert(job)
      const write = (stores: typeof here, order: ReadonlyArray<(typeof jobs)[number]>) =>
        Effect.replicateEffect(
          Context.get(stores, JobLogStore).append(order.map(({ id }) => ({
            endpoint: ENDPOINT,
            job: id,
            missed: 0,
            lines: [{ time: 0, level: "INFO", source: "log", attempt: 1, worker: "ann", message: "x".repeat(100) }]
          }))),
          ROUNDS,
          { discard: true }
        )
      yield* Effect.all([write(here, jobs), write(there, jobs.toReversed())], { concurrency: "unbounded" })
      for (const { id } of jobs) {
        assert.strictEqual((yield* Context.get(here, JobLogStore).read(ENDPOINT, id, 0, 1)).last, 2 * ROUNDS)
      }
      assert.strictEqual(yield* Effect.promise(() => deadlocks(cluster)), 0)
    }).pipe(
      Effect.scoped,
      Effect.provideService(LogLimits, { lines: 1_000, bytes: 1_000_000, totalBytes: 20_000 })
    ))

  it.live("a job that is removed while lines of it arrive at another node leaves no lines", () =>
    Effect.gen(function*() {
      const address = yield* url
      const [here, there] = [yield* node(address), yield* node(address)]
      const jobs = Context.get(here, JobStore)
      for (let round = 0; round < ROUNDS; round++) {
        const job = Scenario.record()
        yield* jobs.insert(job)
        yield* jobs.apply(ENDPOINT, job.id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT })
        const line = { time: 0, level: "INFO", source: "log", attempt: 1, worker: "ann", message: "late" } as const
        yield* Effect.all([
          Context.get(there, JobStore).tick({ _tag: "Tick", now: job.retentionMs + 1 }, 10),
          Context.get(here, JobLogStore).append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: [line] }])
        ], { concurrency: "unbounded" })
        assert.isUndefined(yield* jobs.get(ENDPOINT, job.id))
      }
      const count = (table: string) => Effect.promise(() => execute(address, `SELECT count(*) FROM stint.${table}`))
      assert.deepStrictEqual([yield* count("job_logs"), yield* count("log_pieces")], [[["0"]], [["0"]]])
      assert.strictEqual(yield* Effect.promise(() => deadlocks(cluster)), 0)
    }).pipe(Effect.scoped, Effect.provideService(LogLimits, { lines: 1_000, bytes: 1_000_000, totalBytes: 20_000 })))

  it.live("both remove old records without deadlocks, while others are added", () =>
    Effect.gen(function*() {
      const [first, second] = yield* nodes
      const [here, there] = [yield* first, yield* second]
      const trim = (stores: typeof here, name: string) =>
        Effect.forEach(Array.from({ length: ROUNDS }, (_, n) => n), (n) =>
          Effect.gen(function*() {
            yield* Context.get(stores, AuditStore).append("routine", {
              at: n,
              action: "keys.createKey",
              target: "key/a",
              key: "ann",
              name: "ann",
              via: "api",
              address: "::1",
              result: "done",
              status: 201
            })
            yield* Context.get(stores, UsageStore).add({
              source: name,
              sequence: n + 1,
              at: n,
              records: Array.from({ length: 20 }, (_, key) => ({
                hour: 3_600_000 * (n % 20),
                endpoint: `endpoint${(n + key) % 30}`,
                release: 1,
                key: "",
                attempts: 1,
                executionMs: 1,
                workerMs: 1,
                cpuMs: 1,
                gpuMs: 1
              }))
            })
            yield* Context.get(stores, AuditStore).trim({ before: n - 5, entries: 10 }, 100)
            yield* Context.get(stores, UsageStore).trim({ before: 3_600_000 * (n % 20), records: 100 }, 100)
          }), { discard: true })
      yield* Effect.all([trim(here, "here"), trim(there, "there")], { concurrency: "unbounded" })
      assert.strictEqual(yield* Effect.promise(() => deadlocks(cluster)), 0)
    }).pipe(Effect.scoped))

  it.live("a change that deadlocks with one of another node is made again", () =>
    Effect.gen(function*() {
      const address = yield* url
      const open = Effect.map(
        Layer.build(Layer.fresh(PostgresDatabase.layer({ url: Redacted.make(address) }))),
        (context) => Context.get(context, PostgresDatabase.PostgresDatabase)
      )
      const [here, there] = [yield* open, yield* open]
      let runs = 0
      let held = 0
      /** The first time, both hold their first lock before they wait for the other one. */
      const met = Promise.withResolvers<void>()
      const lock = (database: typeof here, keys: ReadonlyArray<number>) =>
        database.write("lock", async (query) => {
          runs++
          for (const key of keys) {
            await query(`SELECT pg_advisory_xact_lock($1)`, [key])
            held++
            if (held === 2) met.resolve()
            await met.promise
          }
          return keys
        })
      const locked = yield* Effect.all([lock(here, [1, 2]), lock(there, [2, 1])], { concurrency: "unbounded" })
      assert.deepStrictEqual([locked, runs], [[[1, 2], [2, 1]], 3])
    }).pipe(Effect.scoped))
})
