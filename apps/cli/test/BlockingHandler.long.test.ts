/**
 * A handler that blocks its thread keeps its lease, because heartbeats run on a separate thread.
 */
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "everywhere.config.ts")]
const output = { greeting: "Hello, Ada" }

describe("a synchronous handler that blocks for 30 s", () => {
  it("keeps its job under a lease of 10 s", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const job = await platform.runSync("everywhere", { name: "Ada", block: 30_000 })
    expect(job).toMatchObject({ status: "COMPLETED", output })
    expect(job).not.toHaveProperty("retries")
    expect(job.executionTime).toBeGreaterThanOrEqual(30_000)
  }, 60_000)
})
