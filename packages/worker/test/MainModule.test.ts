import { afterAll, describe, expect, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { pathToFileURL } from "node:url"

const root = mkdtempSync(join(tmpdir(), "stint-main-"))
afterAll(() => rmSync(root, { recursive: true }))

const source = new URL("../src/runtime/MainModule.ts", import.meta.url)

/** Writes a module that prints its name and whether it is the program, for each way to pass the module. */
const write = (name: string, ...imports: ReadonlyArray<string>): string => {
  const file = join(root, name)
  const commonJs = name.endsWith(".cjs")
  const load = (path: string) => commonJs ? `require(${JSON.stringify(path)})` : `await import(${JSON.stringify(path)})`
  const forms = commonJs ? "[module]" : "[import.meta, { url: import.meta.url }]"
  writeFileSync(
    file,
    `${
      commonJs
        ? `const { isMain } = require(${JSON.stringify(source.pathname)})`
        : `import { isMain } from ${JSON.stringify(source.href)}`
    }
     ${imports.map((path) => load(commonJs ? path : pathToFileURL(path).href)).join(";")}
     console.log(${JSON.stringify(name)}, ...${forms}.map(isMain))`
  )
  return file
}

const run = (file: string): ReadonlyArray<string> =>
  execFileSync(process.execPath, [file], { encoding: "utf8" }).trim().split("\n")

describe("isMain", () => {
  it("is true for the program and false for a module that it imports", () => {
    expect(run(write("program.mjs", write("imported.mjs")))).toEqual(["imported.mjs false false", "program.mjs true true"])
  })

  it("is true for the program and false for a module that it requires, in CommonJS", () => {
    expect(run(write("program.cjs", write("required.cjs")))).toEqual(["required.cjs false", "program.cjs true"])
  })

  it("is true for a program that runs through a symbolic link", () => {
    const link = join(root, "link.mjs")
    symlinkSync(write("target.mjs"), link)
    expect(run(link)).toEqual(["target.mjs true true"])
  })

  it("is true for a program whose extension the command omits", () => {
    const file = join(root, "short.js")
    writeFileSync(
      file,
      `require(${JSON.stringify(source.pathname)}); console.log(require(${JSON.stringify(source.pathname)}).isMain(module),
      require(${JSON.stringify(source.pathname)}).isMain({ url: require("node:url").pathToFileURL(__filename).href }))`
    )
    expect(run(join(root, basename(file, ".js")))).toEqual(["true true"])
  })
})
