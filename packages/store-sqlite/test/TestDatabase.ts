/** Database files for tests. Each file is in its own directory, which is removed when the scope closes. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type * as DiskSpace from "../src/DiskSpace.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"

/** A path for a new file. */
export const tempFile = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-sqlite-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  ),
  (directory) => join(directory, "data", "stint.db")
)

/** A new, empty database file. */
export const layerTemp = (durability: "D1" | "D2" = "D1", space: DiskSpace.Options = {}) =>
  Layer.unwrap(Effect.map(tempFile, (file) => SqliteDatabase.layer({ file, durability, lockWaitMs: 0, space })))
