/**
 * A handler that a user writes in a folder of their own, in the clone or elsewhere, finds the packages of the clone.
 */
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { PlatformProcess, stint } from "./PlatformProcess.ts"

const run = promisify(execFile)

const CLONE = resolve(import.meta.dirname, "../../..")

const HANDLER = `import * as sdk from "@stint/sdk"
sdk.serverless.start({ handler: (job: { input: { name: string } }) => \`Good morning, \${job.input.name}\` })
`

describe("a handler of one's own", () => {
  let platform: PlatformProcess
  let outside: string

  beforeAll(async () => {
    outside = await mkdtemp(join(tmpdir(), "stint-own-"))
    await writeFile(join(outside, "morning.ts"), HANDLER)
    await writeFile(
      join(outside, "stint.config.ts"),
      `import { defineConfig } from "@stint/cli"\nexport default defineConfig({ endpoints: { configured: { handler: "./morning.ts" } } })\n`
    )
    platform = await PlatformProcess.create(["serve", "--config", join(outside, "stint.config.ts")])
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
    await rm(outside, { recursive: true, force: true })
  })

  it("runs as a program in any folder of the clone", async () => {
    // Ignored by git.
    await mkdir(join(CLONE, ".stint"), { recursive: true })
    const folder = await mkdtemp(join(CLONE, ".stint/own-"))
    try {
      const file = join(folder, "handler.ts")
      await writeFile(file, HANDLER)
      const { stdout } = await run(process.execPath, [file, "--test_input", `{"input":{"name":"Ada"}}`], { cwd: folder })
      expect(stdout).toContain("Good morning, Ada")
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it("runs from a configuration outside the clone, without an installation", async () => {
    expect(await platform.runSync("configured", { name: "Ada" })).toMatchObject({ output: "Good morning, Ada" })
  })

  it("becomes an endpoint by its path", async () => {
    const file = join(outside, "morning.ts")
    expect(await stint(platform, ["endpoints", "create", "morning", "--handler", file])).toMatchObject({ code: 0 })
    expect(await platform.runSync("morning", { name: "Grace" })).toMatchObject({ output: "Good morning, Grace" })
  })

  it("cannot become an endpoint when its file does not exist or is a folder", async () => {
    const missing = await stint(platform, ["endpoints", "create", "nowhere", "--handler", "nofile.ts"])
    expect(missing.code).toBe(1)
    expect(missing.stderr).toContain(`The handler of endpoint "nowhere" is not a file: ${resolve("nofile.ts")} does not exist.`)
    const folder = await stint(platform, ["endpoints", "create", "nowhere", "--handler", outside])
    expect(folder.stderr).toContain("is a folder.")
    expect((await platform.request("GET", "/v2/nowhere/health")).status).toBe(404)
  })

  it("keeps a platform from starting when its configuration names a file that does not exist", async () => {
    const config = join(outside, "wrong.config.ts")
    await writeFile(config, `export default { endpoints: { nowhere: { handler: "./nofile.ts" } } }\n`)
    const { code, stderr } = await stint(undefined, ["serve", "--config", config], {
      PORT: "0",
      STINT_DATA_DIR: join(outside, "data")
    })
    expect(code).toBe(1)
    expect(stderr).toContain(`${join(outside, "nofile.ts")} does not exist.`)
  })
})
