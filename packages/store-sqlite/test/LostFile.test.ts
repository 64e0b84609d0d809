import { assert, describe, it, vi } from "@effect/vitest"
import { layer as sqliteLayer } from "@stint/store-sqlite"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { dirname } from "node:path"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import { tempFile } from "./TestDatabase.ts"

/** Runs `use` on the stores of a file. `lines` receives the log. */
const open = <A, E>(file: string, use: Effect.Effect<A, E, JobStore | Scope.Scope>, lines: Array<string> = []) =>
  Effect.provide(
    Effect.scoped(use),
    sqliteLayer({ file, lockWaitMs: 0, space: { intervalMs: 5 } }).pipe(
      Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
    ),
    { local: true }
  )

const refusal = (file: string) => Effect.flip(open(file, Effect.void)).pipe(Effect.orDie)

const records = (count: number) => Array.from({ length: count }, () => Scenario.record())

const { id: endpoint } = Scenario.endpoint()

const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.retry(effect, Schedule.spaced("5 millis"))

const waitFor = (condition: () => boolean) => eventually(Effect.suspend(() => condition() ? Effect.void : Effect.fail("not yet")))

/** The problem of a broken store; the tag of every other reason. */
const problemOf = ({ reason }: StoreError) => reason._tag === "StoreBroken" ? reason.problem : reason._tag

/** Overwrites all pages from the page `from` on. */
const damage = (file: string, from: number) => {
  const handle = openSync(file, "r+")
  for (let page = from; page < statSync(file).size / 4096; page++) {
    writeSync(handle, new Uint8Array(4096).fill(0xab), 0, 4096, page * 4096)
  }
  closeSync(handle)
}

/** Advances the clock that decides how long the folder and the WAL count as confirmed, by more than that. */
const waitConfirmed = Effect.acquireRelease(
  Effect.sync(() => {
    const now = performance.now.bind(performance)
    return vi.spyOn(performance, "now").mockImplementation(() => now() + 3)
  }),
  (spy) => Effect.sync(() => spy.mockRestore())
)

/** What someone does to the open file, and the problem that the store reports. */
const accidents: ReadonlyArray<readonly [string, "missing" | "replaced", (file: string) => void]> = [
  ["its folder is deleted", "missing", (file) => rmSync(dirname(file), { recursive: true })],
  ["it is deleted", "missing", (file) => rmSync(file)],
  ["its WAL is deleted", "missing", (file) => rmSync(`${file}-wal`)],
  ["its folder is moved", "missing", (file) => renameSync(dirname(file), `${dirname(file)}.moved`)],
  ["another file takes its place", "replaced", (file) => {
    writeFileSync(`${file}.other`, readFileSync(file))
    renameSync(`${file}.other`, file)
  }],
  ["it is truncated", "replaced", (file) => truncateSync(file)],
  ["its WAL is truncated", "replaced", (file) => truncateSync(`${file}-wal`)]
]

describe("a file that is lost while it is open", () => {
  for (const [title, problem, accident] of accidents) {
    it.live(`R1: acknowledges no write after ${title}, and logs that once`, () =>
      Effect.gen(function*() {
        const file = yield* tempFile
        const lines: Array<string> = []
        yield* open(
          file,
          Effect.gen(function*() {
            const store = yield* JobStore
            for (const job of records(20)) yield* store.insert(job)
            const [held] = (yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })).jobs
            accident(file)
            if (title.includes("WAL")) yield* waitConfirmed
            for (const job of records(50)) {
              const error = yield* Effect.flip(store.insert(job))
              assert.strictEqual(problemOf(error), problem)
            }
            const finish = { _tag: "Finish", now: 1, endpoint, worker: "ann", output: null, error: null } as const
            assert.strictEqual(yield* Scenario.reasonOf(store.apply(endpoint, held!.id, finish)), "StoreBroken")
            assert.strictEqual(yield* Scenario.reasonOf(store.depth(endpoint)), "StoreBroken")
          }),
          lines
        )
        assert.strictEqual(lines.filter((line) => line.includes("Every write is rejected")).length, 1, lines.join("\n"))
      }))
  }

  it.live("R1: acknowledges no write whose file is deleted during its commit", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const layer = SqliteDatabase.layer({ file, lockWaitMs: 0 })
      yield* Effect.gen(function*() {
        const db = yield* SqliteDatabase.SqliteDatabase
        yield* db.write("prepare", () => db.statement("CREATE TABLE t (a)").run())
        const exit = yield* Effect.exit(db.write("insert", () => {
          db.statement("INSERT INTO t VALUES (1)").run()
          rmSync(dirname(file), { recursive: true })
        }))
        assert.isTrue(Exit.isFailure(exit))
      }).pipe(Effect.provide(layer))
    }))

  it.live("continues when the file is moved back", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const moved = `${dirname(file)}.moved`
      const [before, during, after] = [Scenario.record(), Scenario.record(), Scenario.record()]
      const lines: Array<string> = []
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          yield* store.insert(before)
          renameSync(dirname(file), moved)
          yield* waitConfirmed
          assert.strictEqual(yield* Scenario.reasonOf(store.insert(during)), "StoreBroken")
          yield* waitFor(() => existsSync(`${file}.rescued`))
          rmSync(dirname(file), { recursive: true })
          renameSync(moved, dirname(file))
          yield* store.insert(after)
          assert.strictEqual((yield* store.depth(endpoint)).waiting, 2)
        }),
        lines
      )
      assert.strictEqual(lines.filter((line) => line.includes("is in its place again")).length, 1)
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          assert.isDefined(yield* store.get(endpoint, before.id))
          assert.isUndefined(yield* store.get(endpoint, during.id))
          assert.isDefined(yield* store.get(endpoint, after.id))
        })
      )
    }))

  it.live("R1: saves every acknowledged job of a deleted folder, and names the copy at the next start", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const jobs = records(50)
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          for (const job of jobs) yield* store.insert(job)
          rmSync(dirname(file), { recursive: true })
          // No write notices the loss.
          yield* waitFor(() => existsSync(`${file}.rescued`))
        })
      )
      assert.strictEqual(statSync(`${file}.rescued`).mode & 0o777, 0o600)
      assert.include((yield* refusal(file)).message, `mv ${file}.rescued ${file}`)
      renameSync(`${file}.rescued`, file)
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          for (const job of jobs) assert.isDefined(yield* store.get(endpoint, job.id))
          assert.strictEqual((yield* store.depth(endpoint)).waiting, 50)
        })
      )
    }))
})

describe("a damaged file", () => {
  it.live("accepts no job after a claim has found damage", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(
        file,
        Effect.flatMap(JobStore, (store) => Effect.forEach(records(2_000), (job) => store.insert(job), { concurrency: 100 }))
      )
      const lines: Array<string> = []
      yield* Effect.gen(function*() {
        const db = yield* SqliteDatabase.SqliteDatabase
        yield* db.write("any", () => db.statement("SELECT 1").get())
        const corrupt = () => {
          throw Object.assign(new Error("database disk image is malformed"), { errcode: 267 })
        }
        assert.strictEqual(yield* Scenario.reasonOf(db.read("claim", corrupt)), "StoreBroken")
        const error = yield* Effect.flip(db.write("insert", () => db.statement("SELECT 1").get()))
        assert.strictEqual(problemOf(error), "damaged")
        assert.isDefined(yield* db.read("get", () => db.statement("SELECT 1").get()))
      }).pipe(
        Effect.provide(SqliteDatabase.layer({ file, lockWaitMs: 0 }), { local: true }),
        Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
      )
      assert.strictEqual(lines.length, 1, lines.join("\n"))
      assert.include(lines[0], `${file} is damaged: database disk image is malformed. Every write is rejected.`)
      assert.notInclude(lines[0], "free space")
    }))

  it.live("accepts no job soon after another program has overwritten some of its pages", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          yield* Effect.forEach(records(200), (job) => store.insert(job), { concurrency: 100 })
        })
      )
      yield* open(
        file,
        Effect.gen(function*() {
          const store = yield* JobStore
          damage(file, 4)
          const error = yield* eventually(Effect.suspend(() => Effect.flip(store.insert(Scenario.record()))))
          assert.strictEqual(problemOf(error), "damaged")
        })
      )
    }))

  it.live("is rejected at the start, with advice", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(
        file,
        Effect.flatMap(JobStore, (store) => Effect.forEach(records(200), (job) => store.insert(job), { concurrency: 100 }))
      )
      damage(file, 8)
      const error = yield* refusal(file)
      assert.strictEqual(error._tag === "SqliteOpenError" ? error.reason._tag : error._tag, "FileDamaged")
      assert.include(error.message, "restore a backup, or recover the file")
      assert.notInclude(error.message, "free space")
    }))
})

describe("a missing or empty file", () => {
  it.live("is rejected at the start when a database was there before, and accepted when its traces are moved away", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open(file, Effect.void)
      for (const lose of [() => rmSync(file), () => writeFileSync(file, "")]) {
        lose()
        const error = yield* refusal(file)
        assert.strictEqual(error._tag === "SqliteOpenError" ? error.reason._tag : error._tag, "DatabaseLost")
        assert.include(
          error.message,
          `${file} is ${existsSync(file) ? "empty" : "missing"}, but ${file}.created shows that a database was here`
        )
        assert.include(error.message, `To start with an empty database instead, move ${file}.created away`)
      }
      rmSync(`${file}.created`)
      yield* open(file, Effect.void)
    }))

  it.live("is rejected beside a WAL with content, which stays unchanged", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(`${file}-wal`, "the last jobs")
      assert.include((yield* refusal(file)).message, `${file}-wal shows that a database was here`)
      assert.strictEqual(readFileSync(`${file}-wal`, "utf8"), "the last jobs")
    }))
})
