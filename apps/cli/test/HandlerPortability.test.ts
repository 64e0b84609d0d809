/**
 * One unchanged handler file in every environment that runs handlers.
 */
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess } from "./PlatformProcess.ts"

const HANDLER = join(FIXTURES, "everywhere.ts")
const CONFIG = ["serve", "--config", join(FIXTURES, "everywhere.config.ts")]
const output = { greeting: "Hello, Ada" }

describe("the same handler file", () => {
  it("runs in local test mode", async () => {
    const { code, stdout } = await WorkerProcess.start(HANDLER, { args: ["--test_input", `{"input":{"name":"Ada"}}`] }).ended
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining("Hello, Ada") })
  })

  it("runs on this platform", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    expect(await platform.runSync("everywhere", { name: "Ada" })).toMatchObject({ status: "COMPLETED", output })
  })

  it.each(["RUNPOD_", "PLATFORM_"] as const)("runs on a stub of the RunPod wire, with variables under %s", async (prefix) => {
    const stub = new PlatformStub.PlatformStub()
    await stub.up()
    const worker = WorkerProcess.start(HANDLER, {
      env: { ...stub.environment({ prefix }), PLATFORM_MIN_MEMORY_GB: "0.1", PLATFORM_MIN_DISK_PERCENT: "1" }
    })
    try {
      expect(await stub.resultOf(stub.submit({ name: "Ada" }))).toEqual({ output })
      worker.kill("SIGTERM")
      expect(await worker.ended).toMatchObject({ code: 0 })
    } finally {
      worker.kill("SIGKILL")
      await stub.down()
    }
  })
})
