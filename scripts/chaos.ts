/**
 * `pnpm chaos --minutes N`: runs only the tests that search for rare faults, each for about N minutes instead of a few seconds.
 *
 * Each test prints its random seed when it fails. `STINT_PROPERTY_SEED=<seed>` repeats that run.
 */
import process from "node:process"
import { parseArgs } from "node:util"
import { startVitest } from "vitest/node"
import { root } from "./workspace.ts"

const { values } = parseArgs({ options: { minutes: { type: "string", default: "5" } } })
const minutes = Number(values.minutes)
if (!(minutes > 0)) {
  console.log(`--minutes must be a number above 0, got "${values.minutes}". Example: pnpm chaos --minutes 10`)
  process.exit(1)
}
process.env["STINT_CHAOS_MINUTES"] = String(minutes)

const vitest = await startVitest(
  ["packages/store-testing/test/MemoryJobStore", "packages/store-sqlite/test/SqliteConformance", "apps/cli/test/Faults.long"],
  // One file at a time, so that the files do not slow each other down.
  {
    root,
    watch: false,
    // The test files of both tiers.
    include: ["{packages,apps}/*/test/**/*.test.ts"],
    exclude: ["**/node_modules/**"],
    testNamePattern: "chaos",
    maxWorkers: 1,
    reporters: ["verbose"],
    hideSkippedTests: true
  }
)
const failed = vitest.state.getCountOfFailedTests()
await vitest.close()
process.exit(failed === 0 ? 0 : 1)
