/**
 * Compiles `fixtures/WrongConnections.ts` without its `@ts-expect-error` comments, and compares the compiler's messages with the comments above them.
 */
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, it } from "vitest"

const folder = import.meta.dirname
const root = join(folder, "../../..")

const compile = (project: string) =>
  new Promise<string>((resolve) => {
    execFile(
      join(root, "node_modules/.bin/tsc"),
      ["--noEmit", "--noErrorTruncation", "--pretty", "false", "-p", project],
      (_, stdout) => resolve(stdout)
    )
  })

it(
  "names the step, what it receives and what it takes, in two lines at the line of the connection",
  { timeout: 120_000 },
  async () => {
    const source = await readFile(join(folder, "fixtures/WrongConnections.ts"), "utf8")
    const lines = source.split("\n")
    const expected = lines.flatMap((line, index) =>
      line === "// @ts-expect-error" ? [{ line: index + 2, message: lines[index - 1]?.slice(3) ?? "" }] : []
    )
    expect(expected.length).toBeGreaterThan(10)

    // Inside the package, so that imports resolve.
    const copy = await mkdtemp(join(folder, "wrong-"))
    try {
      await writeFile(join(copy, "Wrong.ts"), lines.map((line) => line === "// @ts-expect-error" ? "//" : line).join("\n"))
      await writeFile(
        join(copy, "tsconfig.json"),
        JSON.stringify({
          extends: join(root, "tsconfig.base.json"),
          compilerOptions: { noEmit: true, typeRoots: [join(root, "node_modules/@types")] },
          include: ["Wrong.ts"]
        })
      )
      const output = await compile(join(copy, "tsconfig.json"))
      const errors = output.split(/\n(?=\S)/).map((text) => ({
        line: Number(/\((\d+),\d+\)/.exec(text)?.[1]),
        text,
        rows: text.trim().split("\n").length
      })).filter(({ line }) => !Number.isNaN(line))
      expect(errors.map(({ line }) => line)).toEqual(expected.map(({ line }) => line))
      for (const [index, { message }] of expected.entries()) {
        expect(errors[index]?.text).toContain(message)
        // The options for a step are an object, for which the compiler also prints the property.
        expect(errors[index]?.rows, errors[index]?.text).toBeLessThanOrEqual(message.includes("~undo") ? 12 : 3)
      }
    } finally {
      await rm(copy, { recursive: true })
    }
  }
)
