/**
 * `stint dev`: serves the handler and reloads it after a change.
 */
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { PlatformProcess, until } from "./PlatformProcess.ts"

const handler = (greeting: string) =>
  `import * as sdk from "@stint/sdk"
sdk.serverless.start({ handler: (job: { input: { name: string } }) => \`${greeting}, \${job.input.name}\` })
`

describe("dev", () => {
  it("reloads the handler when it is saved, while the running job finishes", async () => {
    const folder = await mkdtemp(join(tmpdir(), "stint-dev-test-"))
    await symlink(resolve(import.meta.dirname, "../node_modules"), join(folder, "node_modules"))
    const file = join(folder, "greet.ts")
    await writeFile(file, handler("Hello"))
    try {
      await using platform = await PlatformProcess.create(["dev", file])
      expect(platform.output).toContain("none: jobs are in memory")
      expect(await platform.runSync("greet", { name: "Ada" })).toMatchObject({ output: "Hello, Ada" })
      await writeFile(file, handler("Good evening"))
      await until("the new code to answer", async () => {
        const { output } = await platform.runSync("greet", { name: "Ada" })
        return output === "Good evening, Ada" ? true : undefined
      })
      await writeFile(file, "this is no TypeScript")
      await until("the mistake to be shown", () => platform.output.includes("SyntaxError") ? true : undefined)
      await writeFile(file, handler("Welcome back"))
      await until("the mended code to answer", async () => {
        const { output } = await platform.runSync("greet", { name: "Ada" })
        return output === "Welcome back, Ada" ? true : undefined
      })
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }, 90_000)
})
