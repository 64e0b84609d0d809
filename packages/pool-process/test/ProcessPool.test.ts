import { afterAll } from "@effect/vitest"
import * as ProcessPool from "@stint/pool-process/ProcessPool"
import { suite } from "@stint/pool/testing"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const dataDir = mkdtempSync(join(tmpdir(), "stint-pool-"))
afterAll(() => rmSync(dataDir, { recursive: true, force: true }))

suite("process", {
  layer: ProcessPool.layer({ dataDir }),
  source: { type: "handler", file: join(import.meta.dirname, "fixtures/scripted-worker.ts") },
  broken: { type: "handler", file: join(dataDir, "no such handler.ts") }
})
