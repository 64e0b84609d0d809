import { assert, describe, it } from "@effect/vitest"
import { layer as sqliteLayer } from "@stint/store-sqlite"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { execFileSync, spawn } from "node:child_process"
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { createInterface } from "node:readline"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import * as Migrations from "../src/Migrations.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { layerTemp, tempFile } from "./TestDatabase.ts"

/** Opens the file for as long as `use` runs. */
const open = <A, E>(file: string, use: Effect.Effect<A, E, SqliteDatabase.SqliteDatabase>) =>
  Effect.provide(use, SqliteDatabase.layer({ file, lockWaitMs: 0 }), { local: true })

/** The error of opening the file. */
const refusal = (file: string) => Effect.flip(open(file, Effect.void))

/** Changes a closed file without using the store. */
const alter = (file: string, sql: string) => {
  mkdirSync(dirname(file), { recursive: true })
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
}

describe("opening", () => {
  it.live("creates the file, its directory (for its owner only) and the tables, once", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      for (let round = 0; round < 2; round++) {
        yield* open(file, Effect.void)
        assert.strictEqual(statSync(dirname(file)).mode & 0o777, 0o700)
        const db = new DatabaseSync(file, { readOnly: true })
        assert.strictEqual(db.prepare("PRAGMA user_version").get()?.["user_version"], Migrations.LATEST)
        assert.strictEqual(db.prepare("PRAGMA journal_mode").get()?.["journal_mode"], "wal")
        db.close()
      }
    }))

  it.live("syncs every commit with D2, but not with D1", () =>
    Effect.gen(function*() {
      for (const [durability, level] of [["D2", 2], ["D1", 1]] as const) {
        const found = yield* Effect.gen(function*() {
          const db = yield* SqliteDatabase.SqliteDatabase
          assert.strictEqual(db.durability, durability)
          assert.strictEqual((yield* JobStore).durability, durability)
          return yield* db.read("level", () => db.statement("PRAGMA synchronous").get()?.["synchronous"])
        }).pipe(Effect.provide(SqliteJobStore.layer.pipe(Layer.provideMerge(layerTemp(durability))), { local: true }))
        assert.strictEqual(found, level)
      }
    }))

  it.live("fails while another process has the file open, and names the process", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const child = spawn(process.execPath, [fileURLToPath(new URL("fixtures/holder.ts", import.meta.url)), file], {
        stdio: ["pipe", "pipe", "inherit"]
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
      const lines = createInterface({ input: child.stdout })
      yield* Effect.promise(() => new Promise((resolve) => lines.once("line", resolve)))
      const error = yield* refusal(file)
      assert.strictEqual(error.reason._tag, "FileLocked")
      assert.include(error.message, `${file} is in use by process ${child.pid} on `)
      assert.include(error.message, "One platform at a time can use a database file")
      // The holder is not affected. When it exits, it releases the file.
      const ended = new Promise((resolve) => child.once("exit", resolve))
      child.stdin.end()
      assert.strictEqual(yield* Effect.promise(() => ended), 0)
      assert.isFalse(existsSync(`${file}.holder`))
      yield* open(file, Effect.void)
    }))

  it.live("fails for a file that is already open in the same process", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(
        file,
        Effect.gen(function*() {
          const error = yield* refusal(file)
          assert.strictEqual(error.reason._tag, "FileLocked")
          assert.include(error.message, `process ${process.pid}`)
        })
      )
    }))

  it.live("opens a file whose last holder was killed", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(file, Effect.void)
      writeFileSync(`${file}.holder`, "process 1 on elsewhere, since long ago\n")
      yield* open(file, Effect.sync(() => assert.include(readFileSync(`${file}.holder`, "utf8"), `process ${process.pid}`)))
    }))

  it.live("rejects a file of a newer version and leaves it unchanged", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(file, Effect.void)
      alter(file, "PRAGMA user_version = 99")
      const error = yield* refusal(file)
      assert.strictEqual(error.reason._tag, "FileNewer")
      assert.include(error.message, `its tables have version 99, this one knows ${Migrations.LATEST}`)
      assert.include(error.message, "Start that version to keep all jobs")
      assert.include(error.message, "there is no copy from before the upgrade")
      alter(file, `PRAGMA user_version = ${Migrations.LATEST}`)
      yield* open(file, Effect.void)
    }))

  it.live("names the version that wrote a newer file, and the commands that bring back the copy from before its migration", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(file, Effect.void)
      // What the migration of a newer version leaves behind.
      copyFileSync(file, `${file}.v${Migrations.LATEST}.bak`)
      alter(file, "PRAGMA user_version = 99; INSERT INTO upgrades VALUES (99, '7.8.9', 0); CREATE TABLE newer (x)")
      const error = yield* refusal(file)
      assert.include(error.message, "Start Stint 7.8.9 or newer to keep all jobs")
      const commands = /from before the upgrade: (.+)$/.exec(error.message)?.[1] ?? ""
      execFileSync("sh", ["-c", commands])
      yield* open(file, Effect.void)
      assert.isTrue(existsSync(`${file}.newer`))
      assert.isTrue(existsSync(`${file}.v${Migrations.LATEST}.bak`))
    }))

  it.live("rejects databases of other programs and other files, and leaves them unchanged", () =>
    Effect.gen(function*() {
      const database = yield* tempFile
      alter(database, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
      const text = yield* tempFile
      mkdirSync(dirname(text), { recursive: true })
      writeFileSync(text, "This is the story of a file that is no database, and long enough to be looked at as one.\n".repeat(20))
      for (const file of [database, text]) {
        const before = readFileSync(file)
        const error = yield* refusal(file)
        assert.strictEqual(error.reason._tag, "NotStintDatabase")
        assert.include(error.message, `${file} is not a Stint database. Move it away`)
        assert.strictEqual(readFileSync(file).compare(before), 0)
      }
    }))

  it.live("names a directory that cannot be created", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(`${dirname(file)}/occupied`, "")
      const error = yield* refusal(`${dirname(file)}/occupied/stint.db`)
      assert.strictEqual(error.reason._tag, "FileUnusable")
      assert.include(error.message, "occupied/stint.db cannot be used: ")
    }))

  it.live("names the path when it is a directory instead of a file", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      mkdirSync(file, { recursive: true })
      const error = yield* refusal(file)
      assert.strictEqual(error.reason._tag, "FileUnusable")
      assert.include(error.message, `${file} cannot be used: unable to open database file. Check that`)
    }))

  it.live("writes no file for :memory:", () =>
    Effect.gen(function*() {
      const db = yield* SqliteDatabase.SqliteDatabase
      assert.strictEqual(db.file, ":memory:")
      const store = yield* JobStore
      const job = Scenario.record()
      yield* store.insert(job)
      assert.isDefined(yield* store.get(job.endpoint, job.id))
      assert.isFalse(existsSync(":memory:"))
      assert.isFalse(existsSync(":memory:.holder"))
    }).pipe(Effect.provide(SqliteJobStore.layer.pipe(Layer.provideMerge(SqliteDatabase.layer({ file: ":memory:" }))))))

  it.live("provides all stores in one layer", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* Effect.gen(function*() {
        yield* (yield* EndpointStore).put(Scenario.endpoint())
        yield* (yield* JobStore).insert(Scenario.record())
        assert.strictEqual((yield* (yield* JobStore).depth(Scenario.endpoint().id)).waiting, 1)
      }).pipe(Effect.provide(sqliteLayer({ file })))
    }))
})

const stores = Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(
  Layer.provideMerge(layerTemp("D2", { holdMs: 0 }))
)

const rule = (
  title: string,
  body: Effect.Effect<void, unknown, JobStore | EndpointStore | SqliteDatabase.SqliteDatabase>
) => it.live(title, () => Effect.provide(body, stores))

/** The number of transactions that `use` commits. */
const commitsOf = <A, E, R>(use: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const { commits } = yield* SqliteDatabase.SqliteDatabase
    const before = yield* commits
    yield* use
    return (yield* commits) - before
  })

const together = <A, E, R>(effects: ReadonlyArray<Effect.Effect<A, E, R>>) => Effect.all(effects, { concurrency: "unbounded" })

const records = (count: number) => Array.from({ length: count }, () => Scenario.record())

describe("group commit", () => {
  rule(
    "commits concurrent submissions in one transaction",
    Effect.gen(function*() {
      const store = yield* JobStore
      assert.strictEqual(yield* commitsOf(store.insert(Scenario.record())), 1)
      assert.strictEqual(yield* commitsOf(together(records(64).map((job) => store.insert(job)))), 1)
      assert.isAtMost(yield* commitsOf(together(records(1_000).map((job) => store.insert(job)))), 50)
      assert.strictEqual((yield* store.depth(Scenario.endpoint().id)).waiting, 1_065)
    })
  )

  rule(
    "commits nothing when an operation finds no work",
    Effect.gen(function*() {
      const store = yield* JobStore
      const { id: endpoint } = Scenario.endpoint()
      const job = Scenario.record({ endpoint: Scenario.elsewhere })
      yield* store.insert(job)
      const operations = Effect.gen(function*() {
        yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })
        yield* store.tick({ _tag: "Tick", now: 0 }, 100)
        yield* store.applyRunning({ endpoint, worker: "ann" }, { _tag: "Return", now: 0, endpoint, worker: "ann" })
        yield* store.applyWaiting(endpoint, { _tag: "Cancel", now: 0, endpoint }, 100)
        yield* store.drain(job.endpoint, job.id, 100)
        yield* store.get(job.endpoint, job.id)
        yield* store.depth(endpoint)
      })
      assert.strictEqual(yield* commitsOf(operations), 0)
    })
  )

  rule(
    "rejects only the job that cannot be stored when several jobs share a commit",
    Effect.gen(function*() {
      const store = yield* JobStore
      const db = yield* SqliteDatabase.SqliteDatabase
      yield* db.read("trap", () =>
        db.statement(
          `CREATE TEMP TRIGGER trap BEFORE INSERT ON main.inputs WHEN new.input = '"trap"'
           BEGIN SELECT RAISE(ABORT, 'the trap snapped'); END`
        ).run())
      const good = records(5)
      const bad = Scenario.record({ input: Scenario.text("trap") })
      const exits = yield* together([...good.slice(0, 3), bad, ...good.slice(3)].map((job) => Effect.exit(store.insert(job))))
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, true, false, true, true])
      assert.strictEqual(yield* store.get(bad.endpoint, bad.id), undefined)
      const claimed = yield* store.claim(Scenario.endpoint().id, 10, { _tag: "Claim", now: 0, worker: "ann" })
      assert.deepStrictEqual(claimed.jobs.map((job) => job.id), good.map((job) => job.id))
    })
  )

  rule(
    "reports a failed commit to every caller, and keeps the counts correct",
    Effect.gen(function*() {
      const store = yield* JobStore
      const db = yield* SqliteDatabase.SqliteDatabase
      // Adds a constraint that is only checked at the commit.
      yield* db.write("arm", () => {
        db.statement("CREATE TABLE parents (id INTEGER PRIMARY KEY)").run()
        db.statement("CREATE TABLE children (id INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)").run()
        db.statement("CREATE TRIGGER orphan AFTER INSERT ON inputs BEGIN INSERT INTO children VALUES (new.seq); END").run()
      })
      const before = yield* Effect.all([
        store.depth(Scenario.endpoint().id),
        store.get(Scenario.endpoint().id, Scenario.record().id)
      ])
      yield* db.read("enforce", () => db.statement("PRAGMA foreign_keys = ON").run())
      const jobs = records(3)
      const failed = yield* together(jobs.map((job) => Scenario.reasonOf(store.insert(job))))
      assert.deepStrictEqual(failed, ["StoreUnavailable", "StoreUnavailable", "StoreUnavailable"])
      assert.deepStrictEqual(yield* store.depth(Scenario.endpoint().id), before[0])
      for (const job of jobs) assert.strictEqual(yield* store.get(job.endpoint, job.id), undefined)
      yield* db.write("disarm", () => db.statement("DROP TRIGGER orphan").run())
      yield* together(jobs.map((job) => store.insert(job)))
      assert.strictEqual((yield* store.depth(Scenario.endpoint().id)).waiting, 3)
    })
  )
})

/** Limits the growth of the file to a number of pages. */
const leavePages = (pages: number) =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase.SqliteDatabase
    yield* db.read("limit", () => {
      const used = Number(db.statement("PRAGMA page_count").get()?.["page_count"])
      db.statement(`PRAGMA max_page_count = ${used + pages}`).all()
    })
  })

describe("R11: a full disk", () => {
  rule(
    "rejects jobs that it cannot store, keeps the stored ones, and recovers when space becomes available",
    Effect.gen(function*() {
      const store = yield* JobStore
      const { id: endpoint } = Scenario.endpoint()
      const first = Scenario.record()
      yield* store.insert(first)
      yield* leavePages(20)
      const jobs = Array.from({ length: 200 }, () => Scenario.record({ input: Scenario.text("x".repeat(2_000)) }))
      const exits = yield* Effect.forEach(jobs, (job) => Effect.exit(store.insert(job)))
      const kept = jobs.filter((_, index) => Exit.isSuccess(exits[index]!))
      assert.isAbove(kept.length, 0)
      assert.isBelow(kept.length, jobs.length)
      for (const [index, job] of jobs.entries()) {
        assert.strictEqual((yield* store.get(job.endpoint, job.id)) !== undefined, Exit.isSuccess(exits[index]!))
      }
      assert.strictEqual((yield* store.depth(endpoint)).waiting, 1 + kept.length)
      assert.include(
        (yield* Effect.flip(store.insert(jobs.find((job) => !kept.includes(job))!))).message,
        "the job store has too little free space for insert"
      )
      // Jobs that were stored before can still be claimed.
      const { jobs: [claimed] } = yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })
      assert.strictEqual(claimed?.id, first.id)

      yield* leavePages(1_000_000)
      const [next, ...rest] = jobs.filter((job) => !kept.includes(job))
      yield* Effect.retry(store.insert(next!), Schedule.spaced("5 millis"))
      for (const job of rest) yield* store.insert(job)
      assert.strictEqual((yield* store.depth(endpoint)).waiting, jobs.length)
    })
  )

  rule(
    "does not cache an endpoint that could not be written to disk",
    Effect.gen(function*() {
      const store = yield* EndpointStore
      yield* store.put(Scenario.endpoint({ leaseMs: 1_000 }))
      yield* leavePages(0)
      const large = Scenario.endpoint({ leaseMs: 2_000, env: { TEXT: "x".repeat(100_000) } })
      assert.strictEqual(yield* Scenario.reasonOf(store.put(large)), "StoreFull")
      assert.strictEqual((yield* store.get(large.id))?.leaseMs, 1_000)
      yield* leavePages(1_000)
      yield* store.put(large)
      assert.deepStrictEqual(yield* store.get(large.id), large)
    })
  )
})

describe("unreadable rows", () => {
  rule(
    "are reported as an error, not as a missing job",
    Effect.gen(function*() {
      const store = yield* JobStore
      const db = yield* SqliteDatabase.SqliteDatabase
      const job = Scenario.record()
      yield* store.insert(job)
      yield* db.write("tamper", () => db.statement("UPDATE jobs SET status = 'DANCING'").run())
      const error = yield* Effect.flip(store.get(job.endpoint, job.id))
      assert.include(error.message, `a row of job ${job.id} is invalid`)
      assert.include(error.message, `["status"]`)
    })
  )
})

describe.skipIf(process.platform === "win32")("permissions", () => {
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)
  const beside = (file: string) => [file, `${file}-wal`, `${file}.holder`]

  it.live("lets only the owner read the file, its WAL and its holder, whatever the umask", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const umask = process.umask(0)
      yield* open(
        file,
        Effect.gen(function*() {
          yield* (yield* SqliteDatabase.SqliteDatabase).write("write", () => {})
          assert.deepStrictEqual(beside(file).map(modeOf), ["600", "600", "600"])
        })
      ).pipe(Effect.ensuring(Effect.sync(() => process.umask(umask))))
    }))

  it.live("corrects files that other users can read, including those that a killed process left behind", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(file, Effect.void)
      writeFileSync(`${file}-wal`, "")
      for (const path of [file, `${file}-wal`]) chmodSync(path, 0o666)
      yield* open(file, Effect.sync(() => assert.deepStrictEqual(beside(file).map(modeOf), ["600", "600", "600"])))
    }))

  it.live("leaves the permissions of another program's file as they are", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      alter(file, "PRAGMA application_id = 7; CREATE TABLE theirs (x)")
      chmodSync(file, 0o644)
      assert.strictEqual((yield* refusal(file)).reason._tag, "NotStintDatabase")
      assert.strictEqual(modeOf(file), "644")
    }))
})
