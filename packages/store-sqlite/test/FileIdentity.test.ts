/** Tests what `LostFile.test.ts` cannot time: when the WAL is looked at, and when only the folder is. */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { appendFileSync, mkdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import * as FileIdentity from "../src/FileIdentity.ts"
import { tempFile } from "./TestDatabase.ts"

/** Files with the names of a database, in a folder that was last modified `age` milliseconds ago. */
const openAt = Effect.fnUntraced(function*(age: number) {
  const file = yield* tempFile
  const wal = `${file}-wal`
  mkdirSync(dirname(file))
  writeFileSync(file, "file")
  writeFileSync(wal, "wal")
  let now = performance.now()
  yield* Effect.acquireRelease(
    Effect.sync(() => vi.spyOn(performance, "now").mockImplementation(() => now)),
    (spy) => Effect.sync(() => spy.mockRestore())
  )
  const modified = new Date(Date.now() - age)
  /** Gives the folder the same time of modification, as if all changes to it had happened within one tick of the clock. */
  const setFolder = () => utimesSync(dirname(file), modified, modified)
  setFolder()
  const identity = yield* Effect.acquireRelease(Effect.sync(() => FileIdentity.make(file)), (one) => Effect.sync(one.close))
  assert.strictEqual(identity.checkCommitted(), undefined)
  return { identity, setFolder, wal, wait: (millis: number) => void (now += millis) }
})

describe("the identity of a database file", () => {
  it.effect("R1: looks at the WAL when its folder was modified so recently that another change may have the same time", () =>
    Effect.gen(function*() {
      const { identity, setFolder, wal } = yield* openAt(0)
      rmSync(wal)
      setFolder()
      assert.strictEqual(identity.checkCommitted(), "missing")
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
