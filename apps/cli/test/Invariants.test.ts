/**
 * docs/reference/invariants.md lists the tests of every invariant. These tests check that the listed tests exist.
 */
import { existsSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"

const page = resolve(import.meta.dirname, "../../../docs/reference/invariants.md")

interface Row {
  readonly invariant: string
  readonly rule: string
  readonly heldBy: string
}

const rows = readFileSync(page, "utf8").split("\n").filter((line) => /^\| R\d+ /.test(line)).map((line): Row => {
  const [invariant = "", rule = "", heldBy = ""] = line.slice(1, -1).split("|").map((cell) => cell.trim())
  return { invariant, rule, heldBy }
})

/** A test in a cell: `[name](path) "title"`. The title may be a prefix. */
const REFERENCE = /\[[^\]]+\]\(([^)]+)\) "([^"]+)"/g

const referencesOf = ({ heldBy }: Row) => Array.from(heldBy.matchAll(REFERENCE), ([, path = "", title = ""]) => ({ path, title }))

/** Whether a test file or suite contains a test whose title has this prefix. Long titles are concatenated from two strings. */
const hasTest = (path: string, title: string): boolean => {
  const file = join(page, "..", path)
  if (!/(?:\.test|\/src\/testing\/\w+|-testing\/src\/(?:\w+\/)*\w+)\.ts$/.test(file) || !existsSync(file)) return false
  const source = readFileSync(file, "utf8").replaceAll(/["`] \+\s+["`]/g, "")
  return source.includes(`"${title}`) || source.includes(`\`${title}`)
}

describe("the invariants", () => {
  it.each(rows)("$invariant: $rule", (row) => {
    const references = referencesOf(row)
    expect(references.length, "the row names no test").toBeGreaterThan(0)
    expect(references.filter(({ path, title }) => !hasTest(path, title)), "tests that are not there").toEqual([])
    const rest = row.heldBy.replaceAll(REFERENCE, "").replaceAll("<br>", "").trim()
    expect(rest, "something that is no reference to a test").toBe("")
  })

  it.each(["R1", "R2", "R3", "R5", "R8", "R9", "R10"])("%s has a row", (invariant) => {
    expect(rows.map((row) => row.invariant)).toContain(invariant)
  })

  it("detects a row without a test", () => {
    expect(referencesOf({ invariant: "R99", rule: "a rule that nothing holds", heldBy: "a promise" })).toEqual([])
    expect(hasTest("../../apps/cli/test/Invariants.test.ts", ["a", "title", "of", "none"].join(" "))).toBe(false)
    expect(hasTest("../../apps/cli/test/Invariants.test.ts", "detects a row without a test")).toBe(true)
    expect(hasTest("../../apps/cli/test/Invariants.ts", "detects a row without a test")).toBe(false)
  })
})
