/**
 * Deletes old files in a folder. A schedule's job may run twice, like any other job: the second run finds fewer files and deletes nothing else.
 */
import { Handler } from "@stint/worker"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"

const DAY_MILLIS = 86_400_000

export const Cleanup = Handler.make("cleanup", {
  input: Schema.Struct({
    folder: Schema.NonEmptyString,
    olderThanDays: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3_650 }))
  }),
  output: Schema.Struct({ deleted: Schema.Array(Schema.String) }),
  run: Effect.fn("cleanup")(function*({ folder, olderThanDays }) {
    const before = (yield* Clock.currentTimeMillis) - olderThanDays * DAY_MILLIS
    const deleted: Array<string> = []
    for (const name of (yield* Effect.promise(() => readdir(folder))).sort()) {
      const file = join(folder, name)
      const found = yield* Effect.promise(() => stat(file))
      if (!found.isFile() || found.mtimeMs >= before) continue
      yield* Effect.promise(() => rm(file, { force: true }))
      deleted.push(name)
    }
    return { deleted }
  })
})
