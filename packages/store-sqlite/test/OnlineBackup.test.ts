import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { existsSync, readdirSync, statSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Migrations from "../src/Migrations.ts"
import { SqliteDatabase } from "../src/SqliteDatabase.ts"
import * as StoppedDatabase from "../src/StoppedDatabase.ts"
import { layerTemp } from "./TestDatabase.ts"

/** Inserts rows with 4 KB each: one page or more. */
const insert = (count: number) =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase
    yield* db.write("insert", () => {
      const statement = db.statement("INSERT INTO keys (id, body) VALUES (hex(randomblob(8)), ?)")
      for (let index = 0; index < count; index++) statement.run("x".repeat(4_000))
    })
  })

const countIn = (path: string): number => {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    assert.strictEqual(db.prepare("PRAGMA quick_check").get()?.["quick_check"], "ok")
    return Number(db.prepare("SELECT count(*) AS rows FROM keys").get()?.["rows"])
  } finally {
    db.close()
  }
}

it.live("copies every commit that was confirmed before the moment of the backup, while writes continue", () =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase
    yield* insert(4_000)
    const confirmed: Array<number> = []
    const running = yield* Deferred.make<void>()
    const writer = yield* insert(1).pipe(
      Effect.andThen(Effect.sync(() => confirmed.push(Date.now()))),
      Effect.andThen(Deferred.succeed(running, undefined)),
      Effect.forever,
      Effect.forkChild
    )
    yield* Deferred.await(running)
    const path = `${db.file}.copy`
    const before = confirmed.length
    const { moment, tables } = yield* db.backup(path)
    // Commits after the backup, which must not count as commits before its moment.
    const end = confirmed.length
    yield* Effect.repeat(Effect.yieldNow, { until: () => confirmed.length > end + 50 })
    yield* Fiber.interrupt(writer)
    const until = confirmed.filter((at) => at < moment).length
    assert.isAbove(until, before, "no write was confirmed during the backup")
    const found = countIn(path)
    assert.isAtLeast(found, 4_000 + until)
    assert.isAtMost(found, 4_000 + end + 1)
    assert.strictEqual(tables, Migrations.LATEST)
    assert.strictEqual(statSync(path).mode & 0o777, 0o600)
    yield* StoppedDatabase.check(path)
  }).pipe(Effect.provide(layerTemp("D2"))))

it.live("removes the incomplete copy when the backup is interrupted, and the database stays writable", () =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase
    yield* insert(4_000)
    const path = `${db.file}.copy`
    const running = yield* Effect.forkChild(db.backup(path))
    yield* Effect.repeat(Effect.yieldNow, { until: () => existsSync(path) && statSync(path).size > 0 })
    yield* Fiber.interrupt(running)
    assert.deepStrictEqual(readdirSync(dirname(path)).filter((name) => name.includes(".copy")), [])
    yield* insert(1)
    assert.strictEqual((yield* db.backup(path)).path, path)
    assert.strictEqual(countIn(path), 4_001)
  }).pipe(Effect.provide(layerTemp())))

it.live("reads the database of a stopped platform without migrating it, and refuses one that is in use", () =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase
    yield* insert(1)
    const error = yield* Effect.flip(StoppedDatabase.checkUnused(db.file))
    assert.strictEqual(error.reason._tag, "FileLocked")
    const stopped = `${db.file}.copy`
    yield* db.backup(stopped)
    const old = new DatabaseSync(stopped)
    old.exec(`DROP TABLE upgrades; PRAGMA user_version = ${Migrations.LATEST - 1}`)
    old.close()
    assert.deepInclude(yield* StoppedDatabase.backup(stopped, `${stopped}.again`), { tables: Migrations.LATEST - 1 })
    assert.strictEqual(countIn(`${stopped}.again`), 1)
    assert.strictEqual((yield* Effect.flip(StoppedDatabase.check(`${stopped}.none`))).reason._tag, "FileUnusable")
  }).pipe(Effect.provide(layerTemp())))
