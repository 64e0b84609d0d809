/**
 * `pnpm test` runs every check, then every test of the first tier. `pnpm test:long` (`--long`) runs the tests of the second tier,
 * `*.long.test.ts`, without the checks. The last line is machine-readable: `N passed, N failed`, followed by `, N skipped` when tests were
 * skipped.
 *
 * The line counts tests. A failed check, a test file that cannot be loaded, and an error outside a test each count as one failure. In CI, a
 * skipped test is a failure too: `.ci/run` installs everything that the tests need, so a skipped test means that something is missing.
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
          console.log(`Skipped in CI: ${module.relativeModuleId} > ${test.fullName}. Make .ci/run install what the test needs.`)
        }
        counts[verdict] += 1
      }
    }
  }
}

const start = performance.now()
const failedBefore = counts.failed
try {
  // Loaded after the checks, because loading takes a while.
  const { startVitest } = await import("vitest/node")
  const vitest = await startVitest([], {
    root,
    watch: false,
    reporters: ["minimal", counter],
    // The long tier measures durations of real processes, and two files that run at the same time would slow each other down.
    ...(isLong ? { maxWorkers: 1, passWithNoTests: false } : {})
  })
  await vitest.close()
} catch (error) {
  counts.failed += 1
  console.log("vitest could not run. Check vitest.config.ts, then run `pnpm install`.", error)
}
console.log(
  line(isLong ? "long tests" : "tests", counts.failed === failedBefore ? "ok" : "FAILED", (performance.now() - start) / 1000)
)
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`)
// Not `exitCode`, because a handle that a test leaves open would keep this process alive.
process.exit(counts.failed === 0 ? 0 : 1)
