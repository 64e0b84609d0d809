import { assert, describe, it } from "@effect/vitest"
import * as HandlerBundle from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { importersFrom, nodeOptionsFor } from "../src/StintPackages.ts"

const run = promisify(execFile)

/** A program in a folder outside every installation, which prints whether it finds Effect. */
const withProgram = <A>(use: (file: string, folder: string) => Promise<A>) =>
  Effect.promise(async () => {
    const folder = mkdtempSync(join(tmpdir(), "stint-packages-"))
    const file = join(folder, "program.ts")
    writeFileSync(file, `import * as Effect from "effect/Effect"\nconsole.log(typeof Effect.succeed, "mark")\n`)
    try {
      return await use(file, folder)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

const importers = importersFrom(import.meta.url)

describe("StintPackages", () => {
  it.live("finds Effect in the platform's installation for a program that runs from its sources", () =>
    withProgram(async (file) => {
      const { stdout } = await run(process.execPath, [...nodeOptionsFor(file, importers), file])
      assert.strictEqual(stdout, "function mark\n")
    }))

  it.live("finds Effect in the platform's installation for a bundle", () =>
    withProgram(async (file, folder) => {
      const bundle = await Effect.runPromise(HandlerBundle.bundle(file, join(folder, "bundles"), { importers }))
      const { stdout } = await run(process.execPath, [bundle])
      assert.strictEqual(stdout, "function mark\n")
    }))

  it.live("does not find other packages in the platform's installation", () =>
    withProgram(async (file) => {
      writeFileSync(file, `import "fast-check"\n`)
      const failure = await run(process.execPath, [...nodeOptionsFor(file, importers), file]).then(() => "", String)
      assert.include(failure, "Cannot find package 'fast-check'")
    }))

  it.live("leaves the resolution of a handler with its own installation alone", () =>
    withProgram(async (file, folder) => {
      mkdirSync(join(folder, "node_modules/@stint/sdk"), { recursive: true })
      assert.deepStrictEqual(nodeOptionsFor(file, importers), [])
    }))
})
