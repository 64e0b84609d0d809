/**
 * `pnpm chaos --minutes N`: the tests that look for rare faults, for about N minutes each instead of seconds. Everything else is left out.
 *
 * They draw their course from a seed, which a failure prints; `STINT_PROPERTY_SEED` runs it again.
 */
import process from "node:process"
import { parseArgs } from "node:util"
import { startVitest } from "vitest/node"
import { root } from "./workspace.ts"

const { values } = parseArgs({ options: { minutes: { type: "string", default: "5" } } })
const minutes = Number(values.minutes)
if (!(minutes > 0)) {
  console.log(`--minutes wants a number above 0, and got "${values.minutes}". For example: pnpm chaos --minutes 10`)
  process.exit(1)
}
process.env["STINT_CHAOS_MINUTES"] = String(minutes)

const vitest = await startVitest(
  ["packages/store-testing/test/MemoryJobStore", "packages/store-sqlite/test/SqliteConformance", "apps/cli/test/Faults.long"],
  // One after the other: what is measured is not to be disturbed.
  {
    root,
    watch: false,
    // Of both tiers.
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
