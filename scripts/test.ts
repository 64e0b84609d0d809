/**
 * `pnpm test`: runs every check, then every test. The last line is machine-readable: `N passed, N failed`, followed by `, N skipped` when tests
 * were skipped.
 *
 * The line counts tests. A failed check, a test file that cannot be loaded, and an error outside a test each count as one failure.
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
  // Loaded after the checks because loading takes a while.
  const { startVitest } = await import("vitest/node")
  const vitest = await startVitest([], { root, watch: false, reporters: ["minimal", counter] })
  await vitest.close()
} catch (error) {
  counts.failed += 1
  console.log("vitest could not run. Check vitest.config.ts, then run `pnpm install`.", error)
}
console.log(line("tests", counts.failed === failedBefore ? "ok" : "FAILED", (performance.now() - start) / 1000))
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`)
// Not `exitCode`: a handle left open by a test would keep this process alive.
process.exit(counts.failed === 0 ? 0 : 1)
