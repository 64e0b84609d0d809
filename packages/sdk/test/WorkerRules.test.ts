/**
 * Checks docs/reference/worker-rules.md: each rule names at least one test, and each named test exists.
 */
import { existsSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"

const page = resolve(import.meta.dirname, "../../../docs/reference/worker-rules.md")

interface Row {
  readonly section: string
  readonly rule: string
  readonly heldBy: string
}

/** The cells of a table row. `\|` is a literal bar within a cell. */
const cellsOf = (line: string) => line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim())

const rows = readFileSync(page, "utf8").split("\n").filter((line) => line.startsWith("|")).map((line): Row => {
  const [section = "", rule = "", heldBy = ""] = cellsOf(line)
  return { section, rule, heldBy }
}).filter(({ section }) => section !== "section" && !/^[-\s]*$/.test(section))

/** Matches a test reference in a cell: `[name](path) "title"`. */
const REFERENCE = /\[[^\]]+\]\(([^)]+)\) "([^"]+)"/g

const referencesOf = ({ heldBy }: Row) =>
  Array.from(heldBy.matchAll(REFERENCE), ([, path = "", title = ""]) => ({ path, title: title.replaceAll("\\|", "|") }))

/** Whether a file has a test, or a row of `it.each`, with this title. */
const hasTest = (path: string, title: string): boolean => {
  const file = join(page, "..", path)
  if (!file.endsWith(".test.ts") || !existsSync(file)) return false
  const source = readFileSync(file, "utf8")
  return source.includes(JSON.stringify(title)) || source.includes(`"${title}"`) || source.includes(`\`${title}\``)
}

describe("the rules of the worker", () => {
  it.each(rows)("$section: $rule", (row) => {
    const references = referencesOf(row)
    expect(references.length, "the row names no test").toBeGreaterThan(0)
    expect(references.filter(({ path, title }) => !hasTest(path, title)), "the tests do not exist").toEqual([])
    const rest = row.heldBy.replaceAll(REFERENCE, "").replaceAll("<br>", "").trim()
    expect(rest, "text that is not a reference to a test").toBe("")
  })

  it.each([
    "handler",
    "streaming",
    "environment",
    "worker-protocol",
    "worker-lifecycle",
    "local-test-mode",
    "fitness-checks",
    "validator",
    "progress",
    "volume-cache",
    "downloads",
    "uploads",
    "debugger",
    "logging"
  ])(
    "at least one rule cites the page %s",
    (section) => {
      expect(rows.filter((row) => row.section.includes(`(../spec/${section}.md#`)).length).toBeGreaterThan(0)
    }
  )

  it("detects a row without a test", () => {
    expect(referencesOf({ section: "9", rule: "a rule without a test", heldBy: "no reference" })).toEqual([])
    expect(hasTest("../../packages/sdk/test/WorkerRules.test.ts", ["a", "title", "of", "none"].join(" "))).toBe(false)
    expect(hasTest("../../packages/sdk/test/WorkerRules.test.ts", "detects a row without a test")).toBe(true)
  })
})
