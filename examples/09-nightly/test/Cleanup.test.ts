/**
 * Tests a schedule's handler like any other handler, and tests that a second run changes nothing.
 */
import { expect, it } from "@effect/vitest"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Cleanup } from "../Cleanup.ts"

const temporaryFolder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-cleanup-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

it.live("deletes the old files in a folder, once", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    yield* Effect.promise(async () => {
      await writeFile(join(folder, "new.txt"), "new")
      await writeFile(join(folder, "old.txt"), "old")
      await utimes(join(folder, "old.txt"), 0, 0)
    })
    const run = WorkerTest.run(Cleanup, { folder, olderThanDays: 30 })
    expect(yield* run).toMatchObject({ status: "COMPLETED", output: { deleted: ["old.txt"] } })
    expect(yield* run).toMatchObject({ status: "COMPLETED", output: { deleted: [] } })
    expect(yield* Effect.promise(() => readdir(folder))).toEqual(["new.txt"])
  }).pipe(Effect.scoped))
