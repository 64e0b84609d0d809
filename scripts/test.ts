/**
 * `pnpm test`: every check, then every test of the first tier. `pnpm test:long` (`--long`): the tests of the second tier, `*.long.test.ts`,
 * without the checks. The last line is for machines: `N passed, N failed`, with `, N skipped` where some were.
 *
 * It counts tests. A check that fails, a test file that cannot be loaded and an error outside every test each count as one more failure. In CI
 * a skipped test is a failure too: `.ci/run` installs all that tests look for, so a skip there hides a missing part.
 */
import process from "node:process"
import type { Reporter } from "vitest/node"
import { line, runChecks } from "./checks.ts"
import { root } from "./workspace.ts"

const isLong = process.argv.includes("--long")
const isCi = process.env["CI"] === "true"
process.env["STINT_TIER"] = isLong ? "long" : "quick"

const counts = { passed: 0, failed: isLong ? 0 : await runChecks(), skipped: 0 }

const counter: Reporter = {
  onTestRunEnd: (modules, errors) => {
    counts.failed += errors.length
    for (const module of modules) {
      counts.failed += module.errors().length
      for (const suite of module.children.allSuites()) counts.failed += suite.errors().length
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        const verdict = state === "pending" || (isCi && state === "skipped") ? "failed" : state
        if (verdict !== state) {
          console.log(`Skipped in CI: ${module.relativeModuleId} > ${test.fullName}. .ci/run has to install what it needs.`)
        }
        counts[verdict] += 1
      }
    }
  }
}

const start = performance.now()
const failedBefore = counts.failed
try {
  // After the checks: it takes a while to load.
  const { startVitest } = await import("vitest/node")
  const vitest = await startVitest([], {
    root,
    watch: false,
    reporters: ["minimal", counter],
    // The long tier measures times of real processes: two files at once would disturb each other.
    ...(isLong ? { maxWorkers: 1, passWithNoTests: false } : {})
  })
  await vitest.close()
} catch (error) {
  counts.failed += 1
  console.log("vitest could not run. If vitest.config.ts is in order, `pnpm install` brings what is missing.", error)
}
console.log(
  line(isLong ? "long tests" : "tests", counts.failed === failedBefore ? "ok" : "FAILED", (performance.now() - start) / 1000)
)
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`)
// Not `exitCode`: a handle that a test left open would keep this process alive.
process.exit(counts.failed === 0 ? 0 : 1)
