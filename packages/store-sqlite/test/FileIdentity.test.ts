/** Tests what `LostFile.test.ts` cannot time: when the WAL is looked at, and when only the folder is. */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { appendFileSync, mkdirSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import * as FileIdentity from "../src/FileIdentity.ts"
import { tempFile } from "./TestDatabase.ts"

/** The size of the database according to the database itself. Bytes. */
const DATABASE_SIZE = 2

/** Files with the names of a database, in a folder that was last modified `age` milliseconds ago. The last check was just now. */
const openAt = Effect.fnUntraced(function*(age: number) {
  const file = yield* tempFile
  const wal = `${file}-wal`
  mkdirSync(dirname(file))
  writeFileSync(file, "file")
  writeFileSync(wal, "wal")
  // A whole number, so that the sum with a wait is exact.
  let now = Math.ceil(performance.now())
  yield* Effect.acquireRelease(
    Effect.sync(() => vi.spyOn(performance, "now").mockImplementation(() => now)),
    (spy) => Effect.sync(() => spy.mockRestore())
  )
  const modified = new Date(Date.now() - age)
  /** Gives the folder the same time of modification, as if all changes to it had happened within one tick of the clock. */
  const setFolder = () => utimesSync(dirname(file), modified, modified)
  setFolder()
  const identity = yield* Effect.acquireRelease(
    Effect.sync(() => FileIdentity.make(file, () => DATABASE_SIZE)),
    (one) => Effect.sync(one.close)
  )
  assert.strictEqual(identity.checkCommitted(), undefined)
  return { file, identity, setFolder, wal, wait: (millis: number) => void (now += millis) }
})

describe("the identity of a database file", () => {
  it.effect("R1: looks at the WAL when its folder was modified so recently that another change may have the same time", () =>
    Effect.gen(function*() {
      const { identity, setFolder, wait, wal } = yield* openAt(0)
      rmSync(wal)
      setFolder()
      wait(2)
      assert.strictEqual(identity.checkCommitted(), "missing")
    }))

  it.effect("R1: looks at its folder and its WAL at least every 2 ms", () =>
    Effect.gen(function*() {
      const { identity, wait, wal } = yield* openAt(60_000)
      rmSync(wal)
      wait(1.75)
      assert.strictEqual(identity.check(), undefined)
      assert.strictEqual(identity.checkCommitted(), undefined)
      wait(0.25)
      assert.strictEqual(identity.checkCommitted(), "missing")
      // A failed check is repeated at once.
      assert.strictEqual(identity.checkCommitted(), "missing")
    }))

  it.effect("R1: detects a WAL that was cut and has grown since", () =>
    Effect.gen(function*() {
      const { identity, wait, wal } = yield* openAt(60_000)
      wait(2)
      assert.strictEqual(identity.check(), undefined)
      assert.strictEqual(identity.checkCommitted(), undefined)
      truncateSync(wal)
      // As SQLite writes its next frame: after a hole.
      truncateSync(wal, 100)
      assert.strictEqual(identity.check(), undefined)
      wait(2)
      assert.strictEqual(identity.check(), "replaced")
    }))

  it.effect("R1: detects at each commit that it was cut, but not that a checkpoint made it as small as the database", () =>
    Effect.gen(function*() {
      const { file, identity } = yield* openAt(60_000)
      truncateSync(file, DATABASE_SIZE)
      assert.strictEqual(identity.checkCommitted(), undefined)
      truncateSync(file, DATABASE_SIZE - 1)
      assert.strictEqual(identity.checkCommitted(), "replaced")
      assert.strictEqual(identity.checkCommitted(), "replaced")
      assert.strictEqual(identity.check(), "replaced")
    }))

  it.effect("looks at the WAL at most every 100 ms while its folder stays as it is", () =>
    Effect.gen(function*() {
      const { identity, wait, wal } = yield* openAt(60_000)
      const accessed = () => statSync(wal).atimeMs
      const before = accessed()
      appendFileSync(wal, "more")
      assert.strictEqual(identity.checkCommitted(), undefined)
      assert.isFalse(identity.hasGrown())
      wait(101)
      assert.strictEqual(identity.checkCommitted(), undefined)
      assert.isTrue(identity.hasGrown())
      assert.strictEqual(identity.check(), undefined)
      assert.strictEqual(accessed(), before)
    }))
})
