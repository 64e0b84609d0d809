/**
 * docs/reference/pipeline-tests.md lists the tests of pipelines. These tests check that the listed tests exist with exactly the titles that the page
 * has, and that a point without tests says what is missing.
 */
import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { hasTest, REFERENCE, referencesIn } from "./TestReferences.ts"

const page = resolve(import.meta.dirname, "../../../docs/reference/pipeline-tests.md")

const POINTS = 18

const rows = readFileSync(page, "utf8").split("\n").filter((line) => /^\| \d+ /.test(line)).map((line) => {
  const [point = "", what = "", shownBy = "", missing = ""] = line.slice(1, -1).split("|").map((cell) => cell.trim())
  return { point: Number(point), what, shownBy, missing }
})

/** With the quote at the end, because a test whose title only begins like this is a different test. */
const hasWholeTitle = (path: string, title: string): boolean => hasTest(page, path, `${title}"`)

describe("the tests of pipelines", () => {
  it("have a row for each point", () => {
    expect(rows.map(({ point }) => point)).toEqual(Array.from({ length: POINTS }, (_, at) => at + 1))
  })

  it.each(rows)("$point: $what", ({ missing, shownBy }) => {
    const references = referencesIn(shownBy)
    expect(references.length > 0 || missing !== "", "a row without tests that does not say what is missing").toBe(true)
    expect(references.filter(({ path, title }) => !hasWholeTitle(path, title)), "tests that are not there").toEqual([])
    const rest = shownBy.replaceAll(REFERENCE, "").replaceAll("<br>", "").trim()
    expect(rest, "something that is no reference to a test").toBe("")
  })

  it("detects a title that has changed", () => {
    const own = "../../apps/cli/test/PipelineTests.test.ts"
    expect(hasWholeTitle(own, "detects a title that has changed")).toBe(true)
    expect(hasWholeTitle(own, ["detects", "a", "title"].join(" "))).toBe(false)
  })
})
