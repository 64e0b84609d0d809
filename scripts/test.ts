/**
 * `pnpm test`: every check, then every test. The last line is for machines: `N passed, N failed`, with `, N skipped` where some were.
 *
 * It counts tests; a check that fails, a test file that cannot be loaded and an error outside every test each count as one more failure.
 */
import type { Reporter } from "vitest/node"
import { line, runChecks } from "./checks.ts"
import { root } from "./workspace.ts"

const counts = { passed: 0, failed: await runChecks(), skipped: 0 }

const counter: Reporter = {
  onTestRunEnd: (modules, errors) => {
    counts.failed += errors.length
    for (const module of modules) {
      counts.failed += module.errors().length
      for (const suite of module.children.allSuites()) counts.failed += suite.errors().length
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        counts[state === "pending" ? "failed" : state] += 1
      }
    }
  }
}

const start = performance.now()
const failedBefore = counts.failed
try {
  // After the checks: it takes a while to load.
  const { startVitest } = await import("vitest/node")
  const vitest = await startVitest([], { root, watch: false, reporters: ["minimal", counter] })
  await vitest.close()
} catch (error) {
  counts.failed += 1
  console.log("vitest could not run. If vitest.config.ts is in order, `pnpm install` brings what is missing.", error)
}
console.log(line("tests", counts.failed === failedBefore ? "ok" : "FAILED", (performance.now() - start) / 1000))
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`)
// Not `exitCode`: a handle that a test left open would keep this process alive.
process.exit(counts.failed === 0 ? 0 : 1)
