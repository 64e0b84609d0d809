/**
 * `pnpm test` runs every check, then every test of the first tier. `pnpm test:long` (`--long`) runs the tests of the second tier,
 * `*.long.test.ts`, without the checks. The last line is machine-readable: `N passed, N failed`, followed by `, N skipped` when tests were
 * skipped.
 *
 * The line counts tests. A failed check, a test file that cannot be loaded, and an error outside a test each count as one failure. In CI, a
 * skipped test is a failure too: `.ci/run` installs everything that the tests need, so a skipped test means that something is missing.
 *
 * In CI, a failed test gets a second try, because many tests kill, freeze and restart real processes on a machine with two cores. Each test
 * that needed it is named with its first error. More than {@link MAX_SECOND_TRIES} of them are failures.
 */
import process from "node:process"
import type { Reporter } from "vitest/node"
import { line, runChecks } from "./checks.ts"
import { root } from "./workspace.ts"

const isLong = process.argv.includes("--long")
const isCi = process.env["CI"] === "true"
process.env["STINT_TIER"] = isLong ? "long" : "quick"

/** The number of tests of a tier that may pass at their second try. */
const MAX_SECOND_TRIES = 4

const counts = { passed: 0, failed: isLong ? 0 : await runChecks(), skipped: 0 }

/** The tests that passed at their second try. */
const secondTries: Array<string> = []

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
        if (test.diagnostic()?.flaky === true) {
          const [error] = test.result().errors ?? []
          secondTries.push(`${module.relativeModuleId} > ${test.fullName}: ${error?.message.split("\n")[0] ?? "no error"}`)
        }
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
    retry: isCi ? 1 : 0,
    // The long tier measures durations of real processes, and two files that run at the same time would slow each other down.
    ...(isLong ? { maxWorkers: 1, passWithNoTests: false } : {})
  })
  await vitest.close()
} catch (error) {
  counts.failed += 1
  console.log("vitest could not run. Check vitest.config.ts, then run `pnpm install`.", error)
}
for (const test of secondTries) console.log(`Passed at the second try: ${test}`)
if (secondTries.length > MAX_SECOND_TRIES) {
  counts.failed += secondTries.length
  console.log(`${secondTries.length} tests needed a second try; at most ${MAX_SECOND_TRIES} may.`)
}
console.log(
  line(isLong ? "long tests" : "tests", counts.failed === failedBefore ? "ok" : "FAILED", (performance.now() - start) / 1000)
)
console.log(`${counts.passed} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`)
// Not `exitCode`, because a handle that a test leaves open would keep this process alive.
process.exit(counts.failed === 0 ? 0 : 1)
