import { readdirSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { goals } from "../src/Goals.ts"
import { charts, GOALS_FOLDER, goalsPage, REPORTS } from "../src/GoalsPage.ts"
import { rows } from "../src/Rows.ts"

const root = resolve(import.meta.dirname, "../..")
const read = (path: string) => readFileSync(join(root, path), "utf8")

describe("docs/benchmarks", () => {
  it("has the goals and charts that `pnpm bench goals` writes", () => {
    expect(read("docs/benchmarks/README.md")).toBe(goalsPage())
    const drawn = charts()
    expect(readdirSync(GOALS_FOLDER).toSorted()).toEqual(["README.md", REPORTS, ...drawn.keys()].toSorted())
    for (const [file, chart] of drawn) expect(read(`docs/benchmarks/${file}`), file).toBe(chart)
  })

  it("names a goal of every row, and no other row", () => {
    expect([...new Set(goals.map(({ row }) => row))]).toEqual(rows.map(({ id }) => id))
  })

  it.each(goals)("$row, $goal: has a reason if it is missed, and figures that its source has", (goal) => {
    const { against, date, measured, met, ratio, reason, source } = goal
    expect(reason === undefined).toBe(met)
    expect(met && measured === undefined && ratio === undefined).toBe(false)
    const [path = "", section] = source.split("#")
    const page = read(path)
    const anchor = (heading: string) => heading.toLowerCase().replaceAll(/[^\w -]/g, "").replaceAll(" ", "-")
    const text = section === undefined
      ? page
      : page.split(/^#+ /m).find((one) => anchor(one.split("\n")[0] ?? "") === section)
    expect(text, `there is no section ${section}`).toBeDefined()
    const flat = text?.replaceAll(",", "") ?? ""
    const numbers = [measured, against].flatMap((figure) => figure?.replaceAll(",", "").match(/\d+(?:\.\d+)?/g) ?? [])
    expect(numbers.filter((number) => !flat.includes(number)), "figures that the source does not have").toEqual([])
    if (date?.length === 10 && section !== undefined) expect(text).toContain(date)
  })
})
