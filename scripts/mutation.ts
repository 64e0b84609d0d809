/**
 * `pnpm mutate TARGET`: mutation testing with StrykerJS. Changes the sources of a target in hundreds of small ways, one at a time, and runs the target's
 * tests for each change. A change that no test notices shows a behaviour that is not tested. Takes 5 to 40 minutes on two cores, so it is part of no
 * other command.
 *
 * ```
 *   pnpm mutate                 lists the targets
 *   pnpm mutate guard           prints the changes that no test noticed, and the score
 *   pnpm mutate jobs --report   also records the score in docs/reliability/mutants.json
 * ```
 *
 * Runs in a worktree of the current commit, because it changes the sources in place. Text is not changed: most of it is in messages.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { commitOf } from "./long-tests.ts"
import { type MutationScore, recordScore } from "./reliability-page.ts"
import { root } from "./workspace.ts"

interface Target {
  readonly title: string
  /** The sources, as globs. */
  readonly files: ReadonlyArray<string>
  /** The tests, as globs. */
  readonly tests: ReadonlyArray<string>
}

const TARGETS: Readonly<Record<string, Target>> = {
  jobs: {
    title: "the state machine of jobs, and the rules of claims",
    files: ["packages/store/src/jobs/{JobMachine,ClaimRule}.ts"],
    tests: [
      "packages/store/test/ClaimRule.test.ts",
      "packages/store/test/Job*.test.ts",
      "packages/store-testing/test/NodeSearch.test.ts"
    ]
  },
  runs: {
    title: "the rules of a pipeline run's journal",
    files: ["packages/store/src/runs/RunMachine.ts"],
    tests: ["packages/store/test/RunMachine.test.ts", "packages/store-testing/test/MemoryJobStore.test.ts"]
  },
  addresses: {
    title: "the rules of the address guard",
    files: ["packages/http-guard/src/AddressGuard.ts"],
    tests: ["packages/http-guard/test/AddressGuard.test.ts"]
  },
  guard: {
    title: "lookups, redirects and URLs of guarded requests",
    files: ["packages/http-guard/src/{GuardedLookup,Redirect,RequestUrl}.ts"],
    tests: ["packages/http-guard/test/*.test.ts"]
  },
  cursors: {
    title: "the cursors of job events",
    files: ["packages/queue/src/events/JobEventCursor.ts"],
    tests: ["packages/store-testing/test/JobEventCursor.test.ts"]
  }
}

const { positionals: [name = ""], values: { report } } = parseArgs({
  allowPositionals: true,
  options: { report: { type: "boolean", default: false } }
})
const target = TARGETS[name]
if (target === undefined) {
  for (const [id, { title }] of Object.entries(TARGETS)) process.stdout.write(`${id.padEnd(8)} ${title}\n`)
  process.exit(name === "" ? 0 : 1)
}

const run = (command: string, args: ReadonlyArray<string>, cwd: string, env: NodeJS.ProcessEnv = process.env): void => {
  const { status } = spawnSync(command, args, { cwd, env, stdio: "inherit" })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with code ${status}`)
}

const folder = mkdtempSync(join(tmpdir(), "stint-mutants-"))
const copy = join(folder, "checkout")
const results = join(folder, "mutants.json")
try {
  run("git", ["worktree", "add", "--detach", copy, "HEAD"], root)
  run("npx", ["-y", "pnpm@12", "install", "--frozen-lockfile", "--prefer-offline", "--reporter=silent"], copy)
  const settings = {
    testRunner: "vitest",
    plugins: ["@stryker-mutator/vitest-runner"],
    vitest: { configFile: "scripts/vitest.mutation.config.ts", related: false },
    mutate: target.files,
    mutator: { excludedMutations: ["StringLiteral"] },
    inPlace: true,
    concurrency: Math.max(1, availableParallelism() - 1),
    coverageAnalysis: "perTest",
    // A change may make a loop endless.
    timeoutMS: 20_000,
    reporters: ["clear-text", "progress-append-only", "json"],
    jsonReporter: { fileName: results },
    clearTextReporter: { allowColor: false, reportTests: false },
    tempDirName: join(folder, "stryker")
  }
  writeFileSync(join(copy, "stryker.config.json"), JSON.stringify(settings))
  run(join(copy, "node_modules/.bin/stryker"), ["run"], copy, {
    ...process.env,
    PATH: `${join(copy, "node_modules/.bin")}:${process.env["PATH"]}`,
    MUTATION_TESTS: target.tests.join(","),
    STINT_PROPERTY_RUNS: "100",
    // Every change meets the same random sequences.
    STINT_PROPERTY_SEED: "1"
  })
  const { files }: {
    readonly files: Readonly<Record<string, { readonly mutants: ReadonlyArray<{ readonly status: string }> }>>
  } = JSON.parse(readFileSync(results, "utf8"))
  const statuses = Object.values(files).flatMap(({ mutants }) => mutants.map(({ status }) => status))
  const count = (...wanted: ReadonlyArray<string>) => statuses.filter((status) => wanted.includes(status)).length
  const score: MutationScore = {
    target: name,
    title: target.title,
    date: new Date().toISOString().slice(0, 10),
    commit: commitOf().slice(0, 8),
    killed: count("Killed", "Timeout"),
    survived: count("Survived"),
    uncovered: count("NoCoverage"),
    invalid: count("RuntimeError", "CompileError")
  }
  process.stdout.write(`${JSON.stringify(score)}\n`)
  if (report) recordScore(score)
} finally {
  run("git", ["worktree", "remove", "--force", copy], root)
  rmSync(folder, { recursive: true, force: true })
}
