/**
 * `pnpm test` runs every check, then every test of the first tier. `pnpm test:long` (`--long`) runs the tests of the second tier,
 * `*.long.test.ts`, without the checks. The last line is machine-readable: `N passed, N failed`, followed by `, N skipped` when tests were
 * skipped.
 *
 * The line counts tests. A failed check, a test file that cannot be loaded, and an error outside a test each count as one failure. In CI, a
 * skipped test is a failure too: `.ci/run` installs everything that the tests need, so a skipped test means that something is missing.
 *
 * In CI, a file with a failed test is run again, three times at most, because many tests kill, freeze and restart real
 * processes on a machine with two cores. The whole file runs again, because the tests in a file often share a platform, and a failed test
 * leaves its state behind. A file that runs alone is repeated at once, the others after all of them, one after another. The output names each
 * failed test of each try, with its first error. At most {@link MAX_REPEATED_FILES} files are repeated.
 *
 * `STINT_TEST_END` is a time in seconds since 1970, which `.ci/run` sets: a run that is cut off reports nothing. After it, no file of the second
 * tier that runs alone is started, and no file is repeated. The output names the files that did not run. Their order depends on the
 * commit, so that a slow machine does not leave out the same files each time.
 */
import { relative } from "node:path"
import process from "node:process"
import type { Reporter, TestModule, TestSpecification } from "vitest/node"
import { line, runChecks } from "./checks.ts"
import { aloneTests, commitOf, orderOf, pairedTests } from "./long-tests.ts"
import { root } from "./workspace.ts"

const isLong = process.argv.includes("--long")
const isCi = process.env["CI"] === "true"
process.env["STINT_TIER"] = isLong ? "long" : "quick"

/** The maximum number of runs of a failing file. */
const maxTries = isCi ? 3 : 1

/** The maximum number of a tier's files that run again. */
const MAX_REPEATED_FILES = 4

/** The time after which no further file is started. Seconds since 1970. */
const end = Number(process.env["STINT_TEST_END"] ?? Number.POSITIVE_INFINITY)

const isOver = (): boolean => Date.now() / 1000 > end

interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** The results of the checks, and errors outside of test files. */
const outside: Counts = { passed: 0, failed: isLong ? 0 : await runChecks(), skipped: 0 }
const modules = new Map<string, Counts>()

/** The files of the second tier that no time was left for. */
const notRun: Array<string> = []

/** The files whose last run failed, and the tests of each with their first error. */
const failures = new Map<string, ReadonlyArray<string>>()

const countModule = (module: TestModule): void => {
  const counts: Counts = { passed: 0, failed: module.errors().length, skipped: 0 }
  const failed: Array<string> = module.errors().map((error) => error.message)
  for (const suite of module.children.allSuites()) {
    counts.failed += suite.errors().length
    failed.push(...suite.errors().map((error) => `${suite.fullName}: ${error.message}`))
  }
  for (const test of module.children.allTests()) {
    const { errors, state } = test.result()
    const verdict = state === "pending" || (isCi && state === "skipped") ? "failed" : state
    if (verdict !== state) {
      console.log(`Skipped in CI: ${module.relativeModuleId} > ${test.fullName}. Make .ci/run install what the test needs.`)
    }
    if (state === "failed") failed.push(`${test.fullName}: ${errors?.[0]?.message ?? "no error"}`)
    counts[verdict] += 1
  }
  modules.set(module.moduleId, counts)
  if (failed.length === 0) failures.delete(module.moduleId)
  else failures.set(module.moduleId, failed.map((text) => text.split("\n")[0] ?? ""))
}

const counter: Reporter = {
  // A file of the long tier takes up to sixteen minutes.
  onTestModuleEnd: (module) => {
    if (isLong) console.log(line(module.relativeModuleId, module.ok() ? "ok" : "FAILED", module.diagnostic().duration / 1000))
  },
  onTestRunEnd: (ended, errors) => {
    outside.failed += errors.length
    for (const module of ended) countModule(module)
  }
}

const start = performance.now()
const failedChecks = outside.failed
try {
  // Loaded after the checks, because loading takes a while.
  const { BaseSequencer, startVitest } = await import("vitest/node")

  /** Keeps the order of the list, so that the longest file does not run last and alone. Vitest would begin with the largest one. */
  class PairedSequencer extends BaseSequencer {
    override sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
      const place = ({ moduleId }: TestSpecification) => pairedTests.indexOf(relative(root, moduleId))
      return Promise.resolve(files.toSorted((one, other) => place(one) - place(other)))
    }
  }

  const run = async (files: ReadonlyArray<string>, sequencer?: typeof BaseSequencer): Promise<void> => {
    const vitest = await startVitest([...files], {
      root,
      watch: false,
      reporters: ["minimal", counter],
      ...(sequencer === undefined ? {} : { sequence: { sequencer } }),
      ...(isLong ? { passWithNoTests: false } : {})
    })
    await vitest.close()
  }
  /** The files that have been repeated. */
  const repeated = new Set<string>()
  /** Repeats the files that have just failed, before the time is over with the files that follow. */
  const repeatFailures = async (): Promise<void> => {
    const again = [...failures.keys()].filter((file) => !repeated.has(file))
    if (repeated.size + again.length > MAX_REPEATED_FILES) return
    for (const file of again) {
      repeated.add(file)
      for (let tries = 1; tries < maxTries; tries++) {
        const tests = failures.get(file)
        if (tests === undefined || isOver()) break
        for (const test of tests) console.log(`Failed at try ${tries} of ${maxTries}: ${relative(root, file)} > ${test}`)
        await run([relative(root, file)])
      }
    }
  }
  if (isLong) {
    await run(pairedTests, PairedSequencer)
    await repeatFailures()
    for (const file of orderOf(aloneTests(), commitOf())) {
      if (isOver()) notRun.push(file)
      else await run([file])
      await repeatFailures()
    }
  } else {
    await run([])
    await repeatFailures()
  }
} catch (error) {
  outside.failed += 1
  console.log("vitest could not run. Check vitest.config.ts, then run `pnpm install`.", error)
}
if (notRun.length > 0) console.log(`The time for tests was over before these files ran:\n${notRun.join("\n")}`)
const all = [outside, ...modules.values()]
const total = (kind: keyof Counts): number => all.reduce((sum, counts) => sum + counts[kind], 0)
const failed = total("failed")
console.log(line(isLong ? "long tests" : "tests", failed === failedChecks ? "ok" : "FAILED", (performance.now() - start) / 1000))
console.log(`${total("passed")} passed, ${failed} failed${total("skipped") === 0 ? "" : `, ${total("skipped")} skipped`}`)
// Not `exitCode`, because a handle that a test leaves open would keep this process alive.
process.exit(failed === 0 ? 0 : 1)
