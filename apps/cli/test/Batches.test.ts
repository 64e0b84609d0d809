/**
 * `stint batch`: creates a batch from a file, follows it and prints its results.
 */
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

describe("stint batch", () => {
  it("creates a batch from a file, shows its status, and prints its results in the order of the file", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
    const batch = (...args: ReadonlyArray<string>) => stint(platform, ["batch", ...args])
    const file = join(platform.dataDir, "requests.jsonl")
    const fill = async (count: number) => {
      const lines = Array.from({ length: count }, (_, n) => JSON.stringify({ input: { n }, tags: ["file"] }))
      await writeFile(file, `${lines.join("\n")}\n\n`)
    }
    // More requests than one call accepts.
    await fill(1_200)
    const draft = JSON.parse((await batch("create", "slow", file, "--draft", "--json")).stdout)
    expect(draft).toMatchObject({ status: "DRAFT", requestTotal: 1_200 })
    expect((await batch("cancel", "slow", draft.id)).stdout).toMatch(/status +CANCELLED/)

    await fill(250)
    const made = await batch("create", "slow", file, "--name", "nightly", "--json")
    expect(made).toMatchObject({ code: 0 })
    const { id, ...rest } = JSON.parse(made.stdout)
    expect(rest).toMatchObject({ status: "FINALIZED", requestTotal: 250, name: "nightly" })
    await until("the batch to end", async () => {
      const { stdout } = await batch("status", "slow", id)
      return /status +COMPLETED/.test(stdout) && /completed +250/.test(stdout) ? true : undefined
    }, 60_000)
    const { stdout } = await batch("results", "slow", id)
    expect(stdout.trim().split("\n").map((line) => JSON.parse(line).output.n)).toEqual(Array.from({ length: 250 }, (_, n) => n))
    expect((await batch("list", "slow")).stdout).toContain("nightly")
    expect((await batch("cancel", "slow", id)).stdout).toMatch(/status +COMPLETED/)
  }, 120_000)

  it("sends nothing when a line is not a request, and names the line", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
    const file = join(platform.dataDir, "requests.jsonl")
    await writeFile(file, "{\"input\":1}\n{\"input\":1,\"priority\":\"high\"}\n")
    const refused = await stint(platform, ["batch", "create", "slow", file])
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toMatch(/Line 2 .*priority/)
    expect(JSON.parse((await stint(platform, ["batch", "list", "slow", "--json"])).stdout)).toEqual([])
    expect((await stint(platform, ["batch", "status", "slow", "batch_none"])).stderr).toContain("no batch \"batch_none\"")
  }, 60_000)
})
