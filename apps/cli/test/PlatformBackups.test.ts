import { assert, it } from "@effect/vitest"
import { Backups } from "@stint/server/Backups"
import * as Sqlite from "@stint/store-sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PlatformBackups from "../src/backup/PlatformBackups.ts"

it.live("makes one backup at a time, keeps orphaned payloads until its end, and removes every copy of the database", () =>
  Effect.gen(function*() {
    const dataDir = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "stint-platform-backups-"))),
      (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
    )
    const copies = Effect.promise(async () => (await readdir(dataDir)).filter((name) => name.startsWith("stint.db.backup-")))
    // What a killed platform leaves behind.
    yield* Effect.promise(() => writeFile(join(dataDir, "stint.db.backup-old"), ""))
    const sweepLock = yield* Semaphore.make(1)
    yield* Effect.gen(function*() {
      assert.deepStrictEqual(yield* copies, [])
      const { open } = yield* Backups
      yield* Effect.scoped(Effect.gen(function*() {
        const archive = yield* open
        assert.strictEqual((yield* copies).length, 1)
        assert.isFalse(yield* sweepLock.takeIfAvailable(1), "a sweep could run")
        assert.strictEqual((yield* Effect.flip(Effect.scoped(open))).reason, "running")
        assert.isAbove(yield* Stream.runFold(archive, () => 0, (sum, chunk) => sum + chunk.length), 10_000)
      }))
      assert.deepStrictEqual(yield* copies, [])
      assert.isTrue(yield* sweepLock.takeIfAvailable(1))
      yield* sweepLock.release(1)
      // The next backup works, even when its archive is not read.
      yield* Effect.asVoid(Effect.scoped(open))
      assert.deepStrictEqual(yield* copies, [])
    }).pipe(
      Effect.provide(
        PlatformBackups.layer({ dataDir, sweepLock }).pipe(
          Layer.provide(Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" }))
        )
      )
    )
  }))
