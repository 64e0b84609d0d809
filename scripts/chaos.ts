/**
 * Runs only the tests that search for rare faults, each for about N minutes instead of a few seconds, and the tests that prove that those tests detect
 * planted bugs. Prints the counts of every scenario and their sums. The last line is `N lost`, the number of acknowledged jobs that were lost.
 *
 * ```
 *   pnpm chaos --minutes 10                          every scenario
 *   pnpm chaos --minutes 10 --only "R15|webhooks"    the scenarios whose name matches a regular expression
 *   pnpm chaos --minutes 10 --seed 1234              with the faults and calls of an earlier run: each test prints its seed when it fails
 *   pnpm chaos --minutes 10 --report                 records the run in docs/reliability
 * ```
 */
import { availableParallelism } from "node:os"
import process from "node:process"
import { parseArgs } from "node:util"
import { startVitest } from "vitest/node"
import { commitOf, isChanged } from "./long-tests.ts"
import { recordRuns } from "./reliability-page.ts"
import { root } from "./workspace.ts"

const { values: { minutes: given, only, report, seed } } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    only: { type: "string" },
    report: { type: "boolean", default: false },
    seed: { type: "string" }
  }
})
const minutes = Number(given)
if (!(minutes > 0)) {
  console.log(`--minutes must be a number above 0, got "${given}". Example: pnpm chaos --minutes 10`)
  process.exit(1)
}
if (seed !== undefined && !/^\d+$/.test(seed)) {
  console.log(`--seed must be a whole number, got "${seed}". A failed test prints its seed.`)
  process.exit(1)
}
process.env["STINT_CHAOS_MINUTES"] = String(minutes)
if (seed !== undefined) process.env["STINT_PROPERTY_SEED"] = seed

const commit = `${commitOf().slice(0, 8)}${isChanged() ? " with changes" : ""}`

const vitest = await startVitest(
  [
    "packages/store-testing/test/MemoryJobStore",
    "packages/store-testing/test/PlantedBugs",
    "packages/store-testing/test/NodeSearch.long",
    "packages/store-testing/test/PlantedSearch.long",
    "packages/store-sqlite/test/SqliteConformance",
    "packages/webhooks-testing/test/PlantedBugs",
    "apps/cli/test/Faults.long",
    "apps/cli/test/ManyKills.long",
    "apps/cli/test/Pipelines.long",
    "apps/cli/test/Outages.long",
    "apps/cli/test/Upgrade.long",
    "apps/cli/test/Soak.long",
    "apps/cli/test/PlantedBugs.long",
    "packages/server-testing/test/Fuzz.long"
  ],
  // One file at a time, so that the files do not slow each other down.
  {
    root,
    watch: false,
    // The test files of both tiers.
    include: ["{packages,apps}/*/test/**/*.test.ts"],
    exclude: ["**/node_modules/**"],
    testNamePattern: only === undefined ? "chaos" : `chaos.*(?:${only})`,
    maxWorkers: 1,
    reporters: ["verbose"],
    hideSkippedTests: true
  }
)

/** Counts of jobs, faults, connections and requests, which are summed up. Other counts are extremes, which appear only on the scenario's own line. */
const SUMMED = [
  "jobs",
  "old jobs",
  "new jobs",
  "runs",
  "sequences",
  "keys",
  "duplicate jobs",
  "cancels",
  "worker kills",
  "platform kills",
  "outages",
  "freezes",
  "stale writes refused",
  "failed writes",
  "clock jumps",
  "connections",
  "requests",
  "chunks read",
  "webhooks accepted"
]
const format = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts).map(([name, count]) => `${name} ${count.toLocaleString("en")}`).join(", ")

const tests = vitest.state.getTestModules()
  .flatMap((module) => [...module.children.allTests()])
  .filter((test) => test.result().state !== "skipped")
const failed = tests.filter((test) => test.result().state !== "passed")
const planted = tests.filter((test) => test.fullName.includes("planted bug"))
const scenarios = tests.filter((test) => !planted.includes(test))
const sums: Record<string, number> = {}
let lost = 0
console.log("Counts of each scenario:")
for (const test of scenarios) {
  const counts = test.meta().chaos
  console.log(`  ${test.fullName.slice(0, 100)}: ${counts === undefined ? "none, the scenario did not finish" : format(counts)}`)
  lost += counts?.["lost"] ?? 0
  for (const name of SUMMED) if (counts?.[name] !== undefined) sums[name] = (sums[name] ?? 0) + counts[name]
}
const unfinished = scenarios.filter((test) => test.meta().chaos === undefined).length
console.log(`All scenarios: ${format(sums)}`)
console.log(`Planted bugs: ${planted.filter((test) => test.ok()).length} of ${planted.length} tests passed`)
console.log(`${tests.length - failed.length} passed, ${failed.length} failed`)
console.log(unfinished === 0 ? `${lost} lost` : `${lost} lost, and unknown in ${unfinished} scenarios that did not finish`)
if (report) {
  const date = new Date().toISOString().slice(0, 10)
  recordRuns(scenarios.map((test) => ({
    scenario: test.fullName.replace(/^chaos: /, ""),
    date,
    commit,
    minutes: Math.max(0.1, Math.round((test.diagnostic()?.duration ?? 0) / 6_000) / 10),
    cores: availableParallelism(),
    ...(seed === undefined ? {} : { seed }),
    passed: test.ok(),
    counts: test.meta().chaos ?? {}
  })))
}
await vitest.close()
process.exit(failed.length === 0 && tests.length > 0 && lost === 0 && unfinished === 0 ? 0 : 1)
