import { expect, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { HostileStorage } from "./HostileStorage.ts"

it("loads AWS neither on import nor for a folder, only by the first upload to a bucket (P8)", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-uploads-"))
  const storage = new HostileStorage()
  await storage.up()
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [join(import.meta.dirname, "fixtures/loaded.ts"), folder, storage.url],
      { env: { PATH: process.env["PATH"] } }
    )
    const lines = stdout.trim().split("\n")
    const { bucket, imported, local } = JSON.parse(lines.at(-1) ?? "")
    expect(imported.all).toBeGreaterThan(10)
    expect(imported).toMatchObject({ aws: 0, mime: 0 })
    expect(local).toMatchObject({ aws: 0 })
    expect(local.mime).toBeGreaterThan(0)
    expect(bucket.aws).toBeGreaterThan(0)
    expect(storage.of("put")).toHaveLength(1)
  } finally {
    await storage.down()
    await rm(folder, { recursive: true, force: true })
  }
})
