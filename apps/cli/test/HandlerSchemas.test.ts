/** The conversion of a handler's Schemas to JSON Schema in a bundle, which gives it its own copies of Effect's modules. */
import * as HandlerBundle from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { FIXTURES } from "./PlatformProcess.ts"

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "stint-schemas-"))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const output = (program: string) => execFileSync(process.execPath, [program], { encoding: "utf8" })

it("makes the same JSON Schemas as without a bundle, and only one chunk contains it", { timeout: 60_000 }, async () => {
  const file = join(FIXTURES, "described.ts")
  const program = await Effect.runPromise(HandlerBundle.bundle(file, folder))
  const text = output(program)
  expect(text).toBe(output(file))
  expect(JSON.parse(text)).toMatchObject({
    input: { properties: { url: { type: "string" }, size: { $ref: "#/$defs/SizeEncoded" } } },
    output: { type: "array" },
    error: { required: ["reason"] },
    streams: false
  })
  const chunks = (await readdir(dirname(program))).filter((name) => name.endsWith(".mjs"))
  const texts = await Promise.all(
    chunks.map(async (name) => [name, await readFile(join(dirname(program), name), "utf8")] as const)
  )
  const converting = texts.flatMap(([name, chunk]) => chunk.includes("function toJsonSchemaDocument") ? [name] : [])
  expect(converting).toEqual([expect.stringMatching(/^HandlerSchemaText-/)])
})
