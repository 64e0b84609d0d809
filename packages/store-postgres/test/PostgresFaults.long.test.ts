import { assert, describe, it, vi } from "@effect/vitest"
import { BatchId } from "@stint/contract/Batch"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import * as BatchMachine from "@stint/store/BatchMachine"
import { BatchStore } from "@stint/store/BatchStore"
import { JobStore } from "@stint/store/JobStore"
import { newDelivery } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { Client } from "pg"
import { connect } from "../src/Connection.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

/** Milliseconds. */
const DEADLINE = 1_500

const storeAt = (url: string, deadlineMs?: number) =>
  PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(url), deadlineMs })))

describe.skipIf(missing !== undefined)(missing ?? "faults of one job, node or connection", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  const rule = (title: string, body: (url: string) => Effect.Effect<void, unknown>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(url, body)))

  const HOLD = (id: string) => `SELECT 1 FROM stint.ready WHERE id = '${id}' FOR UPDATE`

  rule(
    "gets the jobs of a node that stops in the middle of a transaction before its own commands fail",
    (address) =>
      Effect.gen(function*() {
        const store = yield* JobStore
        const job = Scenario.record()
        yield* store.insert(job)
        // To the server, a frozen node is one that sends nothing more.
        const frozen = yield* Effect.acquireRelease(
          Effect.promise(() => connect({ url: address, deadlineMs: DEADLINE, prepare: true })),
          (connection) => Effect.sync(() => connection.destroy("the test is over"))
        )
        yield* Effect.promise(() => frozen.execute(`BEGIN; ${HOLD(job.id)}`))
        const results = yield* Effect.all([
          store.apply(job.endpoint, job.id, { _tag: "Cancel", now: 1, endpoint: job.endpoint }),
          store.insert(Scenario.record())
        ], { concurrency: "unbounded" })
        assert.deepStrictEqual(results.map(({ _tag }) => _tag), ["Changed", "Inserted"])
      }).pipe(Effect.provide(storeAt(address, DEADLINE)), Effect.scoped)
  )

  rule(
    "leaves no statement waiting for a lock on a connection that was closed at the deadline",
    (address) =>
      Effect.gen(function*() {
        const store = yield* JobStore
        const job = Scenario.record()
        yield* store.insert(job)
        const holder = yield* Effect.acquireRelease(
          Effect.promise(async () => {
            const client = new Client({ connectionString: address })
            await client.connect()
            await client.query(`BEGIN; ${HOLD(job.id)}`)
            return client
          }),
          (client) => Effect.promise(() => client.end())
        )
        const failed = yield* Effect.flip(store.apply(job.endpoint, job.id, { _tag: "Cancel", now: 1, endpoint: job.endpoint }))
        assert.include(failed.message, `no answer from PostgreSQL within ${DEADLINE} ms`)
        const waiting = Effect.promise(() =>
          execute(address, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        )
        yield* waiting.pipe(
          Effect.flatMap((rows) => rows.length === 0 ? Effect.void : Effect.fail("still waiting")),
          Effect.retry(Schedule.spaced("50 millis"))
        )
        yield* Effect.promise(() => holder.query("ROLLBACK"))
        const cancelled = yield* store.apply(job.endpoint, job.id, { _tag: "Cancel", now: 1, endpoint: job.endpoint })
        assert.strictEqual(cancelled._tag, "Changed")
      }).pipe(Effect.provide(storeAt(address, DEADLINE)), Effect.scoped)
  )

  rule("divides large submissions that arrive together among several transactions", (address) =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const input = toJsonText("x".repeat(15 * 1_048_576))
      const inserted = yield* Effect.all(Array.from({ length: 12 }, () => store.insert(Scenario.record({ input }))), {
        concurrency: "unbounded"
      })
      assert.isTrue(inserted.every(({ _tag }) => _tag === "Inserted"))
      const [[transactions] = []] = yield* Effect.promise(() =>
        execute(address, "SELECT count(DISTINCT xmin::text)::int FROM stint.jobs")
      )
      assert.strictEqual(transactions, 3)
    }).pipe(Effect.provide(storeAt(address))))

  rule("divides the large requests of a batch among several transactions", (address) =>
    Effect.gen(function*() {
      const batches = yield* BatchStore
      const endpoint = Scenario.endpoint().id
      const input = toJsonText("x".repeat(15 * 1_048_576))
      const draft = BatchMachine.created({
        id: BatchId.make("batch_1"),
        endpoint,
        owner: "",
        name: null,
        webhook: null,
        policy: null,
        createdAt: 0,
        retentionMs: 1_000
      })
      const requests = Array.from({ length: 6 }, () => ({ id: Scenario.jobId(), input, s3Config: null, options: {} }))
      yield* batches.create(draft, requests, { maxOpen: 1, maxRequests: 10 })
      yield* batches.finalize(endpoint, draft.id, 0, 10)
      const enqueue = batches.enqueue(
        endpoint,
        draft.id,
        200,
        (batch, { id }) => Scenario.record({ id, batchId: batch.id, input })
      )
      assert.deepStrictEqual([yield* enqueue, yield* enqueue], [
        { jobs: 5, more: true, isHeld: false },
        { jobs: 1, more: false, isHeld: false }
      ])
    }).pipe(Effect.provide(storeAt(address))))

  rule(
    "commits nothing of a transaction with more data than a statement can carry, and continues",
    (address) =>
      Effect.gen(function*() {
        const db = yield* PostgresDatabase.PostgresDatabase
        const store = yield* JobStore
        const [large, small] = [Scenario.record(), Scenario.record()]
        const body = toJsonText("x".repeat(1_048_576))
        const insert = (job: typeof large, bodies: number) =>
          db.alone("insert", async ({ admit, work }) => {
            await admit(job.endpoint, "", undefined, 1)
            work.insert(job)
            for (let at = 0; at < bodies; at++) {
              const { endpoint, id } = job
              const [traceparent, tracestate] = [null, null]
              work.deliveries.push(
                newDelivery({ job: id, endpoint, event: "completed", url: "", body, traceparent, tracestate, createdAt: 0 })
              )
            }
          })
        yield* insert(Scenario.record(), 1)
        const failed = yield* Effect.flip(insert(large, 600))
        assert.include(failed.message, "characters")
        // The same statements work again.
        yield* insert(small, 1)
        assert.isUndefined(yield* store.get(large.endpoint, large.id))
        assert.strictEqual((yield* store.get(small.endpoint, small.id))?.status, "IN_QUEUE")
        const jobs = yield* Effect.promise(() => execute(address, "SELECT count(*)::int FROM stint.jobs"))
        assert.deepStrictEqual(jobs, [[2]])
      }).pipe(
        Effect.provide(
          Layer.provideMerge(PostgresJobStore.layer, PostgresDatabase.layer({ url: Redacted.make(address) }))
        )
      )
  )

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
