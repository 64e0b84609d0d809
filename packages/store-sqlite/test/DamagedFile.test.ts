import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import type { ListCursor } from "@stint/store/ListCursor"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as SqliteWebhookStore from "../src/SqliteWebhookStore.ts"
import { layerTemp } from "./TestDatabase.ts"

const stores = Layer.mergeAll(SqliteJobStore.layer, SqliteWebhookStore.layer).pipe(Layer.provideMerge(layerTemp()))
const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(stores, WorkerRegistry.layer)))

type World = JobQueue.JobQueue | WebhookStore | SqliteDatabase.SqliteDatabase

/** Records log messages. */
const logged = () => {
  const lines: Array<string> = []
  const layer = Logger.layer([Logger.make(({ message }) => {
    lines.push(String(message))
  })])
  return { lines, layer }
}

const rule = (title: string, body: Effect.Effect<void, unknown, World>) => it.effect(title, () => Effect.provide(body, world))

/** Runs SQL directly, bypassing the store. */
const tamper = (sql: string) =>
  Effect.flatMap(SqliteDatabase.SqliteDatabase, (db) => db.write("tamper", () => void db.statement(sql).run()))

describe("damage", () => {
  rule(
    "R5: an unreadable row stops neither the timers nor the workers of other jobs, and is reported only once",
    Effect.gen(function*() {
      const { lines, layer } = logged()
      yield* Effect.gen(function*() {
        const { queue, endpoint, status, submit, take } = yield* Scenario.make()
        const bad = yield* Effect.replicateEffect(submit({ policy: { ttl: 10_000 } }), 3)
        const good = yield* submit({ policy: { ttl: 10_000 } })
        const next = yield* submit()
        for (const { id } of bad) yield* tamper(`UPDATE jobs SET retry = '{' WHERE id = '${id}'`)
        assert.deepStrictEqual((yield* take("ann", { limit: 1 })).map((job) => job.id), [good.id])
        assert.deepStrictEqual((yield* take("ann", { limit: 5 })).map((job) => job.id), [next.id])
        // Also damage a job of another endpoint, so that a sweep is the first to read it.
        const neighbour = yield* Scenario.make({ id: "numbers" })
        const worse = yield* neighbour.submit({ policy: { ttl: 10_000 } })
        yield* tamper(`UPDATE jobs SET status = 'SOMEHOW' WHERE id = '${worse.id}'`)
        yield* TestClock.adjust(10_000)
        yield* queue.heartbeat(endpoint.id, "ann", [next.id])
        yield* queue.tick
        yield* queue.tick
        assert.strictEqual(yield* status(good.id), "TIMED_OUT")
        yield* TestClock.adjust(3_600_000)
        yield* queue.tick
        const complaints = lines.filter((line) => line.includes("cannot read"))
        for (const { id } of [...bad, worse]) {
          assert.strictEqual(complaints.filter((line) => line.includes(id)).length, 1, complaints.join("\n"))
        }
        // After the repair the job continues from its stored state.
        yield* tamper(`UPDATE jobs SET status = 'IN_QUEUE' WHERE id = '${worse.id}'`)
        yield* TestClock.adjust(3_600_000)
        yield* queue.tick
        assert.strictEqual(yield* neighbour.status(worse.id), "TIMED_OUT")
      }).pipe(Effect.provide(layer))
    })
  )

  rule(
    "R10: an unreadable delivery does not delay others, is reported once, and is sent once repaired",
    Effect.gen(function*() {
      const { lines, layer } = logged()
      yield* Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { queue, endpoint, submit } = yield* Scenario.make()
        const jobs = yield* Effect.replicateEffect(
          submit({ webhook: { url: "http://127.0.0.1/", events: ["completed"] } }),
          5
        )
        yield* queue.purge(endpoint.id)
        const [odd = "", bodiless = "", ...good] = jobs.map(({ id }): string => id)
        yield* tamper(`UPDATE deliveries SET event = 'SOMEHOW' WHERE job = '${odd}'`)
        yield* tamper(`DELETE FROM delivery_bodies WHERE seq = (SELECT seq FROM deliveries WHERE job = '${bodiless}')`)
        const claim = (now: number) => Effect.map(outbox.claimDue(now, 2, 1_000), (all) => all.map(({ job }) => job))
        const claimed = [...yield* claim(0), ...yield* claim(0), ...yield* claim(0)]
        assert.deepStrictEqual(claimed, good)
        // The pages of the log continue without the damaged delivery.
        const seen: Array<string> = []
        let after: ListCursor | undefined
        do {
          const page = yield* outbox.list({ endpoint: endpoint.id, limit: 1, after })
          seen.push(...page.deliveries.map(({ job }) => job))
          after = page.next ?? undefined
        } while (after !== undefined)
        assert.deepStrictEqual(seen, [...good.toReversed(), bodiless])
        assert.deepStrictEqual((yield* outbox.claimDue(3_600_000, 9, 10_000_000)).map(({ job }) => job), good)
        for (const id of [odd, bodiless]) {
          assert.strictEqual(lines.filter((line) => line.includes("cannot read") && line.includes(id)).length, 1)
        }
        yield* tamper(`UPDATE deliveries SET event = 'completed' WHERE job = '${odd}'`)
        assert.deepStrictEqual(yield* claim(7_200_000), [odd])
      }).pipe(Effect.provide(layer))
    })
  )

  rule(
    "R10: stores a change and its delivery in one commit, never one without the other",
    Effect.gen(function*() {
      const outbox = yield* WebhookStore
      const { queue, endpoint, finish, status, submit, takeOne } = yield* Scenario.make()
      const webhook = { url: "http://127.0.0.1/", events: ["completed"] as const }
      const { id } = yield* submit({ webhook })
      const job = yield* takeOne("ann")
      yield* tamper(
        `CREATE TEMP TRIGGER trap BEFORE INSERT ON main.delivery_bodies BEGIN SELECT RAISE(ABORT, 'the trap snapped'); END`
      )
      assert.strictEqual(yield* Scenario.reasonOf(finish(job, 1)), "StoreUnavailable")
      assert.strictEqual(yield* status(id), "IN_PROGRESS")
      assert.deepStrictEqual((yield* outbox.list({ limit: 10 })).deliveries, [])
      assert.strictEqual((yield* queue.depth(endpoint.id)).running, 1)
      yield* tamper("DROP TRIGGER trap")
      yield* finish(job, 1)
      assert.strictEqual(yield* status(id), "COMPLETED")
      assert.strictEqual((yield* outbox.list({ limit: 10 })).deliveries.length, 1)
    })
  )

  rule(
    "leaves no trace of a submission, not even its key and tags, after a crash between its statements",
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      yield* tamper(`CREATE TEMP TRIGGER trap BEFORE INSERT ON main.tags BEGIN SELECT RAISE(ABORT, 'the trap snapped'); END`)
      const options = { idempotencyKey: "k", tags: ["red"], input: toJsonText(1) }
      assert.strictEqual(yield* Scenario.reasonOf(submit(options)), "StoreUnavailable")
      yield* tamper("DROP TRIGGER trap")
      assert.deepStrictEqual(yield* queue.list(endpoint.id), { jobs: [], cursor: null })
      const job = yield* submit(options)
      assert.strictEqual((yield* submit(options)).id, job.id)
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
    })
  )
})
