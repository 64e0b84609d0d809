import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { copyFileSync, mkdirSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import { FULL_SIZE } from "../src/WalSpace.ts"
import { tempFile } from "./TestDatabase.ts"

const open = <A, E>(
  options: SqliteDatabase.Options,
  use: (db: SqliteDatabase.SqliteDatabase["Service"]) => Effect.Effect<A, E>
) =>
  Effect.provide(
    Effect.flatMap(SqliteDatabase.SqliteDatabase, use),
    Layer.fresh(SqliteDatabase.layer({ lockWaitMs: 0, ...options })),
    { local: true }
  )

const walSize = (file: string) => statSync(`${file}-wal`).size

/** A table that is not part of the migrations. */
const add = (db: SqliteDatabase.SqliteDatabase["Service"], value: string) =>
  db.write("add", () => db.statement("INSERT INTO t VALUES (?)").run(value))

const prepare = (db: SqliteDatabase.SqliteDatabase["Service"]) =>
  db.write("prepare", () => db.statement("CREATE TABLE IF NOT EXISTS t (a)").run())

describe("the space of the WAL", () => {
  it.live("is written at the start, and neither commits nor checkpoints make it larger", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      yield* open({ file, fullWal: true }, (db) =>
        Effect.gen(function*() {
          assert.strictEqual(walSize(file), FULL_SIZE)
          yield* prepare(db)
          // More than a whole WAL: 30 transactions of 1 MiB.
          for (let n = 0; n < 30; n++) yield* add(db, "x".repeat(1024 * 1024))
          assert.isBelow(walSize(file), FULL_SIZE + 2 * 1024 * 1024)
        }))
    }))

  it.live("R12: hides no committed transaction from the next start after a crash", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const copy = join(`${dirname(file)}-copy`, "copy.db")
      yield* open({ file, fullWal: true }, (db) =>
        Effect.gen(function*() {
          yield* prepare(db)
          yield* add(db, "one")
          yield* add(db, "two")
          mkdirSync(dirname(copy))
          for (const end of ["", "-wal"]) copyFileSync(file + end, copy + end)
        }))
      const rows = yield* open(
        { file: copy, fullWal: true },
        (db) => db.read("read", () => db.statement("SELECT a FROM t").all())
      )
      assert.deepStrictEqual(rows.map((row) => row["a"]), ["one", "two"])
    }))

  it.live("is not written with D1, when little space is free, and unless it is requested", () =>
    Effect.gen(function*() {
      const low = { readSpace: () => ({ free: 600 * 1024 * 1024, size: 1e12 }), minFreeBytes: 550 * 1024 * 1024 }
      for (const more of [{ durability: "D1" as const, fullWal: true }, { space: low, fullWal: true }, {}]) {
        const file = yield* tempFile
        yield* open({ file, ...more }, () => Effect.sync(() => assert.isBelow(walSize(file), FULL_SIZE / 2)))
      }
    }))
})
