/**
 * Runs every block of the README, the introduction, the learning pages, and the pages about deploying, alerts and the audit, in both
 * settings.
 *
 * minimum-doc-blocks.json contains the number of blocks that ran when it was last changed. When a page loses a block, or a block is now
 * skipped, the test fails until the number is deliberately lowered.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runPagesOf } from "../doc-plan.ts"
import { type Outcome, runPage } from "../doc-runner.ts"
import { prepare, type PreparedSetting } from "../doc-settings.ts"
import { root } from "../workspace.ts"
import minimum from "./minimum-doc-blocks.json" with { type: "json" }

/**
 * The README starts in an empty clone, whose first `pnpm start` installs everything. pnpm tells the scripts that it runs not to install, and
 * this test is one of them, so the README runs only in the setting `packages`.
 */
const NOT_IN: Readonly<Record<string, ReadonlyArray<string>>> = {
  clone: ["README.md"],
  // The page about your own handler creates its project in both settings in the same way.
  packages: ["docs/operations/deploy.md"]
}

// The two settings share nothing, so they run at the same time. The pages of a setting share its folder and run one after the other.
describe.concurrent.each(["clone", "packages"] as const)("in the setting %s", (name) => {
  const pages = runPagesOf(root).filter((page) => NOT_IN[name]?.includes(page) !== true)
  const outcomes: Array<Outcome> = []
  let setting: PreparedSetting

  beforeAll(() => {
    setting = prepare(name)
  }, 300_000)
  afterAll(() => setting[Symbol.dispose](), 300_000)

  it.each(pages)("%s runs as shown", { concurrent: false, timeout: 600_000 }, async (page) => {
    const outcome = await runPage(page, readFileSync(join(root, page), "utf8"), setting.next())
    outcomes.push(outcome)
    expect(outcome.problems.join("\n\n")).toBe("")
  })

  it("runs and compares at least as many blocks as before", { concurrent: false }, ({ skip }) => {
    skip(outcomes.length < pages.length, "not every page ran")
    for (const { compared, page, run, skipped } of outcomes) {
      console.log(`${page}: ${run} run, ${compared} compared, ${skipped.length} skipped`)
    }
    const sum = (count: (outcome: Outcome) => number) => outcomes.reduce((total, outcome) => total + count(outcome), 0)
    const counts = { run: sum(({ run }) => run), compared: sum(({ compared }) => compared) }
    const skipped = outcomes.flatMap((outcome) => outcome.skipped)
    console.log(`${name}: ${counts.run} run, ${counts.compared} compared, ${skipped.length} skipped:\n${skipped.join("\n")}`)
    expect(counts.run).toBeGreaterThanOrEqual(minimum[name].run)
    expect(counts.compared).toBeGreaterThanOrEqual(minimum[name].compared)
  })
})
