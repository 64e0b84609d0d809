/**
 * The wire conformance suite over SQLite, the platform's store. The server runs the same suite over memory.
 */
import { suite, twoServersSuite } from "@stint/server-testing"
import * as Sqlite from "@stint/store-sqlite"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"

const folder = mkdtempSync(join(tmpdir(), "stint-http-"))
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

suite("SQLite", Sqlite.layer({ file: join(folder, "stint.db") }))
twoServersSuite("SQLite", Sqlite.layer({ file: join(folder, "two.db"), durability: "D1" }))
