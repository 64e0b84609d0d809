/**
 * docs/reference/invariants.md lists the tests of every invariant, and the planted bugs. These tests check that the listed tests exist, and that
 * every invariant and every bug is listed.
 */
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { PLANTS } from "./fixtures/plants.ts"
import { hasTest, REFERENCE, referencesIn } from "./TestReferences.ts"

const page = resolve(import.meta.dirname, "../../../docs/reference/invariants.md")

interface Row {
  readonly invariant: string
  readonly rule: string
  readonly heldBy: string
  readonly figures: string
}

const rows = readFileSync(page, "utf8").split("\n").filter((line) => /^\| R\d+ /.test(line)).map((line): Row => {
  const [invariant = "", rule = "", heldBy = "", figures = ""] = line.slice(1, -1).split("|").map((cell) => cell.trim())
  return { invariant, rule, heldBy, figures }
})

const referencesOf = ({ heldBy }: Row) => referencesIn(heldBy)

/** The table of planted bugs. */
const plantedRows = readFileSync(page, "utf8").split("\n").filter((line) => line.startsWith("| [")).map((line) => {
  const [planted = "", invariant = "", scenario = "", within = ""] = line.slice(1, -1).split("|").map((cell) => cell.trim())
  return { planted, invariant, scenario, within }
})

const INVARIANTS = Array.from({ length: 15 }, (_, at) => `R${at + 1}`)

describe("the invariants", () => {
  it.each(rows)("$invariant: $rule", (row) => {
    const references = referencesOf(row)
    expect(references.length, "the row names no test").toBeGreaterThan(0)
    expect(references.filter(({ path, title }) => !hasTest(page, path, title)), "tests that are not there").toEqual([])
    const rest = row.heldBy.replaceAll(REFERENCE, "").replaceAll("<br>", "").trim()
    expect(rest, "something that is no reference to a test").toBe("")
  })

  it.each(INVARIANTS)("%s has a row with a figure, and a planted bug", (invariant) => {
    expect(rows.filter((row) => row.invariant === invariant)).toEqual([
      expect.objectContaining({ figures: expect.stringMatching(/\d/) })
    ])
    expect(plantedRows.map((row) => row.invariant)).toContain(invariant)
  })

  it.each(plantedRows)("$planted is reported by a scenario that exists", ({ planted, scenario, within }) => {
    for (const cell of [planted, scenario]) {
      expect(referencesIn(cell).map(({ path, title }) => [title, hasTest(page, path, title)])).toEqual([[
        expect.any(String),
        true
      ]])
    }
    expect(within).toMatch(/^[\d.]+ s$/)
  })

  it("lists every bug that is planted between processes", () => {
    const source = readFileSync(join(import.meta.dirname, "PlantedBugs.long.test.ts"), "utf8")
    const described = Array.from(source.matchAll(/\bwhat: "([^"]+)"/g), ([, what]) => what)
    expect(described.length).toBeGreaterThanOrEqual(Object.keys(PLANTS).length)
    const listed = plantedRows.flatMap(({ planted }) => referencesIn(planted).map(({ title }) => title))
    expect(described.filter((what) => !listed.includes(what ?? ""))).toEqual([])
    expect(Object.keys(PLANTS).filter((name) => !source.includes(`bug: "${name}"`))).toEqual([])
  })

  it("detects a row without a test", () => {
    expect(referencesOf({ invariant: "R99", rule: "a rule that nothing holds", heldBy: "a promise", figures: "" })).toEqual([])
    expect(hasTest(page, "../../apps/cli/test/Invariants.test.ts", ["a", "title", "of", "none"].join(" "))).toBe(false)
    expect(hasTest(page, "../../apps/cli/test/Invariants.test.ts", "detects a row without a test")).toBe(true)
    expect(hasTest(page, "../../apps/cli/test/Invariants.ts", "detects a row without a test")).toBe(false)
  })
})
