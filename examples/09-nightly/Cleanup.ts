/**
 * Deletes old files in a folder and the folders in it. A schedule's job may run twice, like any other job: the second run finds fewer files and
 * deletes nothing else.
 *
 * The worker's variable `CLEANUP_FOLDER` names the folder, because a caller who could name it would delete files anywhere.
 */
import { Handler } from "@stint/worker"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readdir, rm, rmdir, stat } from "node:fs/promises"
import { dirname, join, relative, resolve } from "node:path"

const DAY_MILLIS = 86_400_000

/** The files in a folder, sorted. None if the folder does not exist yet. Does not follow links, as `readdir` with `recursive` would. */
const filesIn = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return []
    throw error
  })
  const files = await Promise.all(entries.map(async (entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? await filesIn(path) : entry.isFile() ? [path] : []
  }))
  return files.flat().sort()
}

/** Deletes a file, and its folder if that is now empty and not the whole folder. */
const remove = async (file: string, folder: string): Promise<void> => {
  await rm(file, { force: true })
  if (dirname(file) !== folder) await rmdir(dirname(file)).catch(() => {})
}

export const Cleanup = Handler.make("cleanup", {
  input: Schema.Struct({ olderThanDays: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3_650 })) }),
  output: Schema.Struct({ deleted: Schema.Array(Schema.String) }),
  run: Effect.fn("cleanup")(function*({ olderThanDays }) {
    const folder = resolve(yield* Effect.orDie(Config.NonEmptyString("CLEANUP_FOLDER")))
    const before = (yield* Clock.currentTimeMillis) - olderThanDays * DAY_MILLIS
    const deleted: Array<string> = []
    for (const file of yield* Effect.promise(() => filesIn(folder))) {
      const found = yield* Effect.promise(() => stat(file))
      if (found.mtimeMs >= before) continue
      yield* Effect.promise(() => remove(file, folder))
      deleted.push(relative(folder, file))
    }
    return { deleted }
  })
})
