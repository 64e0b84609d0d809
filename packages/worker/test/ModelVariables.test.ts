import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { warningOf } from "../src/runtime/ModelVariables.ts"
import * as WorkerProcess from "../src/testing/WorkerProcess.ts"

const hub = { HF_HOME: "/cache", HF_HUB_CACHE: "/cache/hub", HF_HUB_OFFLINE: "1" }

describe("the variables of a model", () => {
  it("give a warning that names each change, if the platform provides a model", () => {
    const now = { ...hub, PLATFORM_MODEL: "acme/whisper", HF_HOME: "/tmp/other" }
    expect(warningOf(hub, { ...hub, PLATFORM_MODEL: "acme/whisper" })).toBeUndefined()
    expect(warningOf(hub, { ...now, PLATFORM_MODEL: undefined })).toBeUndefined()
    expect(warningOf(hub, now)).toMatch(
      /^The worker's code changed HF_HOME from "\/cache" to "\/tmp\/other" after the process had started\./
    )
    expect(warningOf(hub, { ...now, HF_HUB_OFFLINE: undefined })).toContain("and HF_HUB_OFFLINE from \"1\" to unset after")
    expect(warningOf(hub, { RUNPOD_MODEL: "acme/whisper" })).toContain("copy of acme/whisper and download it again")
  })

  it("are compared with those at the start of the process", async () => {
    const file = fileURLToPath(new URL("./fixtures/lateVariables.ts", import.meta.url))
    const outputOf = async (env: Readonly<Record<string, string>>) =>
      (await WorkerProcess.start(file, { env, args: ["--test_input", `{"input":{}}`] }).ended).stdout
    const text = await outputOf({ HF_HOME: "/cache", PLATFORM_MODEL: "acme/whisper" })
    expect(text).toContain(`The worker's code changed HF_HOME from "/cache" to "/tmp/other"`)
    expect(await outputOf({ HF_HOME: "/tmp/other", PLATFORM_MODEL: "acme/whisper" })).not.toContain("changed HF_HOME")
  })

  it("are compared with those that a standby process received", async () => {
    const file = fileURLToPath(new URL("./fixtures/standbyVariables.ts", import.meta.url))
    const env = { PLATFORM_MODEL: "acme/whisper" }
    const { code, stdout } = await WorkerProcess.start(file, { env, args: ["--test_input", `{"input":{}}`] }).ended
    expect(stdout).not.toContain("changed HF_HOME")
    expect(code).toBe(0)
  })
})
