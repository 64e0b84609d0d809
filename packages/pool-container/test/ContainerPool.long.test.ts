import { afterAll, beforeAll, describe } from "@effect/vitest"
import { suite } from "@stint/pool/testing"
import { rmSync } from "node:fs"
import { join } from "node:path"
import * as ContainerPool from "../src/ContainerPool.ts"
import { missingEngine, TestEngine } from "../src/testing.ts"

const IMAGE = "localhost/stint-scripted:1"
const WORKER = join(import.meta.dirname, "../../pool-process/test/fixtures/scripted-worker.ts")

const missing = missingEngine()

describe.skipIf(missing !== undefined)(`with a real engine${missing === undefined ? "" : ` (${missing})`}`, () => {
  const engine = new TestEngine()
  const dataDir = `${engine.folder}-data`
  beforeAll(async () => {
    await engine.start()
    await engine.makeNodeImage(IMAGE, { "/app/worker.ts": WORKER })
  }, 180_000)
  afterAll(async () => {
    await engine[Symbol.asyncDispose]()
    rmSync(dataDir, { recursive: true, force: true })
  }, 180_000)

  suite("container", {
    layer: ContainerPool.layer({ dataDir, socket: engine.socket }),
    source: { type: "container", image: IMAGE, command: ["/app/worker.ts"], memoryBytes: 512 * 1024 * 1024, cpus: 1, pids: 64 },
    broken: { type: "container", image: "localhost/stint-no-such-image:1" },
    limitMillis: 180_000
  })
})
