import * as Effect from "effect/Effect"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** An unused path in a folder that is removed with the scope. */
export const tempFolder = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "stint-payloads-"))),
    (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
  ),
  (path) => join(path, "store", "here")
)
