import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import * as TestInput from "../src/local/TestInput.ts"

describe("the example input of the local API", () => {
  const before = process.cwd()
  let folder = ""

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "stint-input-"))
    process.chdir(folder)
  })

  afterEach(() => {
    process.chdir(before)
    rmSync(folder, { recursive: true })
  })

  it.each<[string, string | undefined, string]>([
    ["the input of test_input.json", `{"webhook":"http://a/b","input":{"from":3}}`, `{"input":{"from":3}}`],
    ["an example without a file", undefined, TestInput.EXAMPLE],
    ["an example when the file is not JSON", `{"input":`, TestInput.EXAMPLE],
    ["an example when the file has no input", `{"from":3}`, TestInput.EXAMPLE],
    ["shows an example when the input is too long to paste", JSON.stringify({ input: "x".repeat(1_000) }), TestInput.EXAMPLE]
  ])("is %s", (_name, text, expected) => {
    if (text !== undefined) writeFileSync(join(folder, TestInput.FILE), text)
    expect(TestInput.sample()).toBe(expected)
  })

  it("is quoted as one word of a command line, whatever it contains", () => {
    const text = `{"input":{"text":"it's $HOME \`date\` \\"quoted\\""}}`
    expect(execFileSync("sh", ["-c", `printf %s ${TestInput.shellWord(text)}`], { encoding: "utf8" })).toBe(text)
  })
})
