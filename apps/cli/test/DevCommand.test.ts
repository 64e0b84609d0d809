/**
 * `stint dev`: serves handlers from a folder without an installation, reloads them when their sources change, and shows each job.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { PlatformProcess, until } from "./PlatformProcess.ts"

const handler = (greeting: string) =>
  `import * as sdk from "@stint/sdk"
import { writeFileSync } from "node:fs"
import { mark } from "./mark.ts"
sdk.serverless.start({
  handler: (job: { input: { name: string } }) => {
    writeFileSync(import.meta.dirname + "/" + job.input.name + ".json", "{}")
    if (job.input.name === "Nobody") throw new TypeError("nobody is there")
    return \`${greeting}, \${job.input.name}\${mark}\`
  }
})
`

const count = (text: string, part: string): number => text.split(part).length - 1

describe("dev with a handler file", () => {
  let folder: string
  let platform: PlatformProcess
  const save = (name: string, text: string) => writeFile(join(folder, name), text)

  /** The text after `from` characters, once it contains `part`. */
  const printed = (part: string, from = 0) =>
    until(`${part} to be printed`, () => platform.output.includes(part, from) ? platform.output.slice(from) : undefined)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-dev-test-"))
    await save("greet.ts", handler("Hello"))
    await save("mark.ts", `export const mark = "!"`)
    platform = await PlatformProcess.create(["dev", join(folder, "greet.ts")])
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })

  it("prints the address of the endpoint and a curl line", () => {
    expect(platform.output).toContain("none: jobs are in memory")
    expect(platform.output).toContain(`Endpoints          ${platform.url}/v2/greet`)
    expect(platform.output).toContain(`curl -s ${platform.url}/v2/greet/runsync`)
  })

  it("prints one line for each job, with its duration and outcome", async () => {
    const { id } = await platform.runSync("greet", { name: "Ada" })
    await printed(id)
    expect(platform.output).toMatch(new RegExp(`^\\d\\d:\\d\\d:\\d\\d  greet  COMPLETED in \\d+ ms.*  ${id}$`, "m"))
    const failed = await platform.runSync("greet", { name: "Nobody" })
    await printed(failed.id)
    expect(platform.output).toMatch(new RegExp(`greet  FAILED in \\d+ ms.*  ${failed.id}  TypeError: nobody is there$`, "m"))
    expect(platform.output).not.toContain("takes jobs of endpoint")
  })

  it("reloads the handler when a source changes, and not when the handler writes a file", async () => {
    const from = platform.output.length
    const workers: Array<string | undefined> = []
    for (const name of ["one", "two", "three"]) workers.push((await platform.runSync("greet", { name })).workerId)
    await save("mark.ts", `export const mark = "?"`)
    await printed("ready in", from)
    expect(await platform.runSync("greet", { name: "Ada" })).toMatchObject({ output: "Hello, Ada?" })
    expect(new Set(workers).size).toBe(1)
    expect(count(platform.output.slice(from), " changed")).toBe(1)
    expect(platform.output.slice(from)).toContain("mark.ts changed")
  })

  it("shows a syntax error once, keeps the previous version, and continues with the next save", async () => {
    const from = platform.output.length
    await save("greet.ts", "this is no TypeScript")
    await printed("The previous version keeps running.", from)
    expect(await platform.runSync("greet", { name: "Ada" })).toMatchObject({ output: "Hello, Ada?" })
    await save("greet.ts", handler("Welcome back"))
    const text = await printed("ready in", from)
    expect(await platform.runSync("greet", { name: "Ada" })).toMatchObject({ output: "Welcome back, Ada?" })
    expect(count(text, "[ERROR]")).toBe(1)
    expect(text).toContain("greet.ts:1:5:")
  })

  it("shows a handler that fails at startup once, and runs the waiting jobs after the correction", async () => {
    const from = platform.output.length
    await save("mark.ts", `export const mark = "?"; throw new Error("no model")`)
    const id = await platform.run("greet", { name: "Grace" })
    await printed("Jobs wait.", from)
    await save("mark.ts", `export const mark = "."`)
    expect(await platform.ended("greet", id)).toMatchObject({ output: expect.stringMatching(/^Welcome back, Grace/) })
    const text = await printed("ready in", from)
    expect(count(text, "Error: no model")).toBe(1)
    expect(count(text, "did not start")).toBe(1)
  })
})

describe("dev without arguments", () => {
  it("serves the endpoints of stint.config.ts with secrets from the shell, and waits when a handler has a mistake from the start", async () => {
    const folder = await mkdtemp(join(tmpdir(), "stint-dev-test-"))
    await writeFile(join(folder, "mark.ts"), `export const mark = "!"`)
    await writeFile(join(folder, "good.ts"), handler("${process.env.GREETING}"))
    await writeFile(join(folder, "bad.ts"), handler("Hello").replace("mark.ts", "marks.ts"))
    const good = `{ handler: "./good.ts", env: { GREETING: { secret: "greeting" } } }`
    const config = `export default { endpoints: { good: ${good}, bad: { handler: "./bad.ts" } } }`
    await writeFile(join(folder, "stint.config.ts"), config)
    try {
      await using platform = await PlatformProcess.create(["dev"], { GREETING: "Hello" }, undefined, folder)
      expect(platform.output).toContain(`${platform.url}/v2/good\n`)
      expect(await platform.runSync("good", { name: "Ada" })).toMatchObject({ output: "Hello, Ada!" })
      expect(platform.output).toContain(`Could not resolve "./marks.ts"`)
      const id = await platform.run("bad", { name: "Ada" })
      await writeFile(join(folder, "marks.ts"), `export const mark = "?"`)
      expect(await platform.ended("bad", id)).toMatchObject({ output: "Hello, Ada?" })
      expect(count(platform.output, "[ERROR]")).toBe(1)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
