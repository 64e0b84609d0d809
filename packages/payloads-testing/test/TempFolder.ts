import * as Effect from "effect/Effect"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A path in a folder that goes with the scope; nothing is there yet. */
export const tempFolder = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "stint-payloads-"))),
    (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
  ),
  (path) => join(path, "store", "here")
)
