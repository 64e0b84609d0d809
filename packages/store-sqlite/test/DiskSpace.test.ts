import { assert, it } from "@effect/vitest"
import { jsonNull } from "@stint/contract/Json"
import { layer as sqliteLayer } from "@stint/store-sqlite"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import { RunStore } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, mkdirSync, statSync } from "node:fs"
import { dirname } from "node:path"
import * as DiskSpace from "../src/DiskSpace.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { tempFile } from "./TestDatabase.ts"

/** A file on a disk whose free space the test sets. Sizes are in bytes; the limit is 1,000. */
const onDisk = (settings: DiskSpace.Options) =>
  Effect.map(tempFile, (file) => {
    mkdirSync(dirname(file), { recursive: true })
    const disk = { free: 100_000 }
    const space = DiskSpace.make(file, { minFreeBytes: 1_000, readSpace: () => ({ ...disk, size: 1e9 }), ...settings })
    return { disk, space, reserve: DiskSpace.reservePath(file) }
  })

it.effect("rejects new jobs below the limit, and accepts them again at a tenth above it", () =>
  Effect.gen(function*() {
    const { disk, space } = yield* onDisk({})
    assert.isUndefined(space.update())
    disk.free = 999
    assert.deepStrictEqual(space.update(), { _tag: "Low", free: 999, minFree: 1_000, enough: 1_100 })
    assert.isTrue(space.isLow())
    disk.free = 1_099
    assert.isUndefined(space.update())
    assert.isTrue(space.isLow())
    disk.free = 1_100
    assert.deepStrictEqual(space.update(), { _tag: "Enough", free: 1_100 })
    assert.isFalse(space.isLow())
  }))

it.effect("uses a twentieth of a small disk as the limit, and no limit with 0", () =>
  Effect.gen(function*() {
    const { disk, space } = yield* onDisk({ minFreeBytes: undefined })
    disk.free = 5e7 - 1
    assert.strictEqual(space.update()?._tag, "Low")
    const without = yield* onDisk({ minFreeBytes: 0 })
    without.disk.free = 0
    assert.isUndefined(without.space.update())
  }))

it.live("deletes the reserve on a full disk, reports that once, and writes it again when there is room for it", () =>
  Effect.gen(function*() {
    const { disk, reserve, space } = yield* onDisk({ reserveBytes: 50_000 })
    yield* Effect.promise(space.fillReserve)
    assert.strictEqual(statSync(reserve).size, 50_000)
    assert.strictEqual(statSync(reserve).mode & 0o777, 0o600)
    disk.free = 0
    assert.deepStrictEqual(space.full(), { released: true, change: { _tag: "Full", reserve: 50_000, enough: 51_000 } })
    assert.isFalse(existsSync(reserve))
    assert.deepStrictEqual(space.full(), { released: false, change: undefined })
    disk.free = 50_999
    assert.isUndefined(space.update())
    yield* Effect.promise(space.fillReserve)
    assert.isFalse(existsSync(reserve))
    disk.free = 51_000
    assert.strictEqual(space.update()?._tag, "Enough")
    yield* Effect.promise(space.fillReserve)
    assert.strictEqual(statSync(reserve).size, 50_000)
  }))

it.effect("rejects new jobs for a while when a disk is full but reports enough free space", () =>
  Effect.gen(function*() {
    const held = yield* onDisk({ holdMs: 60_000 })
    assert.strictEqual(held.space.full().change?._tag, "Full")
    assert.isUndefined(held.space.update())
    assert.isTrue(held.space.isLow())
    const released = yield* onDisk({ holdMs: 0 })
    released.space.full()
    assert.strictEqual(released.space.update()?._tag, "Enough")
  }))

it.live("R11: runs a failed transaction again with the space of the reserve, so that its caller sees no error", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    // The database may grow again once the reserve is deleted.
    const world = SqliteJobStore.layer.pipe(Layer.provideMerge(SqliteDatabase.layer({
      file,
      lockWaitMs: 0,
      space: { minFreeBytes: 1, reserveBytes: 1_000, intervalMs: 5 }
    })))
    yield* Effect.gen(function*() {
      const db = yield* SqliteDatabase.SqliteDatabase
      const limit = (pages: number) => {
        const used = Number(db.statement("PRAGMA page_count").get()?.["page_count"])
        db.statement(`PRAGMA max_page_count = ${used + pages}`).all()
      }
      const reserved = Effect.sync(() => statSync(DiskSpace.reservePath(file), { throwIfNoEntry: false })?.size === 1_000)
      yield* Effect.repeat(Effect.delay(reserved, 5), { until: (isWritten) => isWritten })
      yield* db.read("limit", () => limit(0))
      let runs = 0
      yield* db.write("grow", () => {
        runs += 1
        if (!existsSync(DiskSpace.reservePath(file))) limit(1_000)
        db.statement("CREATE TABLE grown AS SELECT zeroblob(100000) AS body").run()
      })
      assert.strictEqual(runs, 2)
      const store = yield* JobStore
      assert.strictEqual(yield* Scenario.reasonOf(store.insert(Scenario.record())), "StoreFull")
    }).pipe(Effect.provide(world))
    assert.isFalse(existsSync(DiskSpace.reservePath(file)))
    yield* Effect.provide(Effect.void, sqliteLayer({ file, lockWaitMs: 0 }))
  }))

it.live("rejects new definitions of pipelines while there is too little space, and accepts those that are stored", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    const disk = { free: 1e9 }
    const space = { minFreeBytes: 1_000, reserveBytes: 0, intervalMs: 5, readSpace: () => ({ ...disk, size: 1e9 }) }
    const world = SqliteJobStore.layer.pipe(Layer.provideMerge(SqliteDatabase.layer({ file, lockWaitMs: 0, space })))
    yield* Effect.gen(function*() {
      const db = yield* SqliteDatabase.SqliteDatabase
      const store = yield* RunStore
      const { id } = Scenario.endpoint()
      const define = (hash: string) => store.define(id, hash, jsonNull, 0)
      yield* define("stored")
      disk.free = 0
      yield* Effect.repeat(Effect.delay(Effect.sync(db.isLow), 5), { until: (isLow) => isLow })
      assert.strictEqual(yield* Scenario.reasonOf(define("new")), "StoreFull")
      assert.isUndefined(yield* Scenario.reasonOf(define("stored")))
      disk.free = 1e9
      yield* Effect.repeat(Effect.delay(Effect.sync(db.isLow), 5), { until: (isLow) => !isLow })
      assert.isUndefined(yield* Scenario.reasonOf(define("new")))
    }).pipe(Effect.provide(world))
  }))
