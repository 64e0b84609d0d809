import { assert, describe, it, vi } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const storeAt = (url: string, deadlineMs?: number) =>
  PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(url), deadlineMs })))

/** Retries until the database is back. */
const patiently = Effect.retry(Schedule.spaced("100 millis"))

/** Inserts jobs one after the other, and returns the acknowledged ones. A job whose insertion failed is left out: it may exist. */
const insertUntil = Effect.fnUntraced(function*(isOver: () => boolean) {
  const store = yield* JobStore
  const acknowledged: Array<ReturnType<typeof Scenario.record>> = []
  while (!isOver()) {
    const job = Scenario.record()
    const inserted = yield* Effect.result(store.insert(job))
    if (inserted._tag === "Success") acknowledged.push(job)
    else yield* Effect.sleep("20 millis")
  }
  return acknowledged
})

/** Inserts with several callers while `disturb` runs, then looks up every acknowledged job. Returns the number of stored jobs. */
const underLoad = Effect.fnUntraced(function*(disturb: Effect.Effect<void>) {
  const store = yield* JobStore
  const state = { isOver: false }
  const inserting = yield* Effect.forkChild(
    Effect.all(Array.from({ length: 16 }, () => insertUntil(() => state.isOver)), { concurrency: "unbounded" })
  )
  // Some jobs before the disturbance, and some after it.
  const { endpoint } = Scenario.record()
  const count = Effect.map(store.depth(endpoint), ({ waiting }) => waiting)
  const more = (than: number) =>
    count.pipe(
      Effect.flatMap((waiting) => waiting > than ? Effect.succeed(waiting) : Effect.fail("too few")),
      Effect.retry(Schedule.spaced("20 millis"))
    )
  const before = yield* more(50)
  yield* disturb
  yield* more(before + 50)
  state.isOver = true
  const acknowledged = (yield* Fiber.join(inserting)).flat()
  for (const { endpoint, id } of acknowledged) {
    assert.strictEqual((yield* store.get(endpoint, id))?.status, "IN_QUEUE", `job ${id} is acknowledged and missing`)
  }
  assert.isAbove(acknowledged.length, 100)
  return yield* count
})

describe.skipIf(missing !== undefined)(missing ?? "outages of PostgreSQL", () => {
  const cluster = testCluster({ fsync: true })
  const { url } = makeDatabases(cluster)

  const rule = (title: string, body: (url: string) => Effect.Effect<void, unknown>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(url, body)))

  const countRows = (address: string) =>
    Effect.promise(async () => Number((await execute(address, "SELECT count(*)::int FROM stint.ready"))[0]?.[0]))

  /** Stops the server processes of all connections until the end of the scope. */
  const freeze = Effect.acquireRelease(
    Effect.promise(async () => {
      const rows = await execute(
        cluster.url("postgres"),
        "SELECT pid FROM pg_stat_activity WHERE datname LIKE 'test%' AND pid <> pg_backend_pid()"
      )
      const pids = rows.map(([pid]) => Number(pid))
      assert.isAbove(pids.length, 0)
      for (const pid of pids) process.kill(pid, "SIGSTOP")
      return pids
    }),
    (pids) => Effect.sync(() => pids.forEach((pid) => process.kill(pid, "SIGCONT")))
  )

  rule(
    "R1: keeps every acknowledged job when all its connections are ended, and continues by itself",
    (address) =>
      Effect.gen(function*() {
        const stored = yield* underLoad(
          Effect.promise(async () => {
            await execute(
              cluster.url("postgres"),
              "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%' AND pid <> pg_backend_pid()"
            )
          })
        ).pipe(Effect.provide(storeAt(address)))
        assert.strictEqual(stored, yield* countRows(address))
      })
  )

  rule(
    "R1: keeps every acknowledged job when PostgreSQL is killed, and continues by itself when it runs again",
    (address) =>
      Effect.gen(function*() {
        const stored = yield* underLoad(
          Effect.promise(async () => {
            await cluster.ctl("-m", "immediate", "stop")
            await cluster.ctl("start")
          })
        ).pipe(Effect.provide(storeAt(address)))
        assert.strictEqual(stored, yield* countRows(address))
      })
  )

  rule("fails at the deadline while PostgreSQL does not answer, and continues when it does", (address) =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const job = Scenario.record()
      yield* store.insert(job)
      const failed = yield* Effect.scoped(Effect.andThen(freeze, Effect.flip(store.insert(Scenario.record()))))
      assert.include(failed.message, "no answer from PostgreSQL within 1000 ms")
      const next = Scenario.record()
      assert.deepStrictEqual(yield* patiently(store.insert(next)), { _tag: "Inserted" })
      assert.strictEqual((yield* patiently(store.depth(job.endpoint))).waiting, yield* countRows(address))
    }).pipe(Effect.provide(storeAt(address, 1_000))))

  rule(
    "fails reads at the deadline even while more of them are sent on the same connections",
    (address) =>
      Effect.gen(function*() {
        const store = yield* JobStore
        const { endpoint, id } = Scenario.record()
        const get = store.get(endpoint, id)
        yield* get
        yield* get
        yield* Effect.scoped(Effect.gen(function*() {
          yield* freeze
          yield* Effect.forkScoped(Effect.repeat(Effect.forkScoped(Effect.exit(get)), Schedule.spaced("100 millis")))
          const failed = yield* Effect.flip(get).pipe(Effect.timeout("10 seconds"))
          assert.include(failed.message, "no answer from PostgreSQL within 1000 ms")
        }))
        assert.isUndefined(yield* patiently(get))
      }).pipe(Effect.provide(storeAt(address, 1_000)))
  )

  rule("names the address but no password when it cannot connect", () =>
    Effect.gen(function*() {
      const failed = yield* Effect.flip(
        Effect.scoped(
          Layer.build(storeAt(`postgres://stint:hunter2@localhost/nothing?host=${encodeURIComponent(cluster.folder)}`))
        )
      )
      assert.include(failed.message, "localhost/nothing")
      assert.include(failed.message, "does not exist")
      assert.notInclude(failed.message, "hunter2")
      const unescaped = yield* Effect.flip(Effect.scoped(Layer.build(storeAt("postgres://stint:12/hunter+2@localhost/nothing"))))
      assert.include(unescaped.message, "at the given address")
      assert.notInclude(unescaped.message, "hunter")
    }))

  rule("refuses tables of a newer version, and changes nothing", (address) =>
    Effect.gen(function*() {
      yield* Effect.scoped(Layer.build(storeAt(address)))
      const set = (version: string) =>
        Effect.promise(() => execute(address, `UPDATE stint.settings SET value = '${version}' WHERE key = 'version'`))
      const [[version] = []] = yield* Effect.promise(() =>
        execute(address, "SELECT value FROM stint.settings WHERE key = 'version'")
      )
      yield* set("999")
      const failed = yield* Effect.flip(Effect.scoped(Layer.build(storeAt(address))))
      yield* set(String(version))
      assert.include(failed.message, "have version 999")
    }))
})
