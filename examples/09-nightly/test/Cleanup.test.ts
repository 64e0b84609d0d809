/**
 * Tests a schedule's handler like any other handler, and tests that a second run changes nothing.
 */
import { expect, it } from "@effect/vitest"
import { WorkerTest } from "@stint/worker/testing"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Cleanup } from "../Cleanup.ts"

const temporaryFolder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-cleanup-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

const run = (folder: string) =>
  WorkerTest.run(Cleanup, { olderThanDays: 30 }).pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ CLEANUP_FOLDER: folder })))
  )

it.live("deletes the old files in a folder, once", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    yield* Effect.promise(async () => {
      for (const name of ["a", "b"]) await mkdir(join(folder, name))
      await writeFile(join(folder, "new.txt"), "new")
      await writeFile(join(folder, "a", "new.txt"), "new")
      for (const name of ["old.txt", "a/old.txt", "b/old.txt"]) {
        await writeFile(join(folder, name), "old")
        await utimes(join(folder, name), 0, 0)
      }
    })
    expect(yield* run(folder)).toMatchObject({ status: "COMPLETED", output: { deleted: ["a/old.txt", "b/old.txt", "old.txt"] } })
    expect(yield* run(folder)).toMatchObject({ status: "COMPLETED", output: { deleted: [] } })
    // The folder without files is gone too.
    expect((yield* Effect.promise(() => readdir(folder, { recursive: true }))).sort()).toEqual(["a", "a/new.txt", "new.txt"])
  }).pipe(Effect.scoped))

it.live("deletes nothing behind a link, and nothing while there is no folder", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const other = yield* temporaryFolder
    yield* Effect.promise(async () => {
      await writeFile(join(other, "old.txt"), "old")
      await utimes(join(other, "old.txt"), 0, 0)
      await symlink(other, join(folder, "link"))
      await symlink(join(other, "old.txt"), join(folder, "link.txt"))
    })
    expect(yield* run(folder)).toMatchObject({ status: "COMPLETED", output: { deleted: [] } })
    expect(yield* Effect.promise(() => readdir(other))).toEqual(["old.txt"])
    expect(yield* run(join(folder, "missing"))).toMatchObject({ status: "COMPLETED", output: { deleted: [] } })
  }).pipe(Effect.scoped))
