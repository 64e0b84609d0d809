/**
 * Disk errors and power failures, as many as the reliability figures require (docs/spec/figures.md#reliability). `strace` makes system calls on
 * the database file and its WAL fail.
 */
import { assert, describe, it } from "@effect/vitest"
import { JobId } from "@stint/contract/Ids"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { beforeEach } from "vitest"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as WalSpace from "../src/WalSpace.ts"
import { tempFile } from "./TestDatabase.ts"
import { cutWal } from "./WalCuts.ts"

/**
 * Which calls fail, and with which error: first a range of calls, then every n-th call, forever. The numbers count the calls of the whole process on
 * the file and its WAL.
 */
const faults = [
  "pwrite64:error=ENOSPC:when=60..160",
  "pwrite64:error=ENOSPC:when=200+97",
  "pwrite64:error=EIO:when=60..160",
  "pwrite64:error=EIO:when=200+97",
  "fsync:error=ENOSPC:when=20..60",
  "fsync:error=EIO:when=20..60",
  "fsync:error=EIO:when=20+7"
]

const straceProblem = (): string | undefined => {
  const { error, status, stderr } = spawnSync("strace", ["-o", "/dev/null", "-e", "inject=getcwd:error=EIO", "true"], {
    encoding: "utf8"
  })
  return error === undefined && status === 0 ? undefined : error?.message ?? stderr
}

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url))

/** Submits jobs while system calls fail. Returns what the submitter printed, and the acknowledged jobs that are not stored. */
const submitUnder = Effect.fnUntraced(function*(fault: string, nodeOptions: ReadonlyArray<string> = []) {
  const file = yield* tempFile
  // The migrations run before the faults: a failed migration would be a startup error.
  yield* Effect.provide(Effect.void, SqliteDatabase.layer({ file }), { local: true })
  const strace = ["-f", "-qq", "-o", "/dev/null", "-P", file, "-P", `${file}-wal`, "-e", `inject=${fault}`]
  const command = [process.execPath, ...nodeOptions, fixture("faultySubmitter"), file]
  const { signal, status, stderr, stdout } = spawnSync("strace", [...strace, ...command], { encoding: "utf8", timeout: 60_000 })
  assert.deepStrictEqual({ signal, status }, { signal: null, status: 0 }, stderr)
  const lines = stdout.split("\n")
  const acknowledged = lines.filter((line) => line.startsWith("+")).map((line) => JobId.make(line.slice(1)))
  const missing = yield* Effect.gen(function*() {
    const store = yield* JobStore
    return yield* Effect.filter(
      acknowledged,
      (id) => Effect.map(store.get(Scenario.endpoint().id, id), (job) => job === undefined)
    )
  }).pipe(Effect.provide(SqliteJobStore.layer.pipe(Layer.provide(SqliteDatabase.layer({ file })))))
  return {
    acknowledged,
    missing,
    rejected: lines.filter((line) => line.startsWith("-")),
    logged: lines.filter((line) => line.startsWith("log "))
  }
})

describe("R11: system calls that fail", () => {
  const problem = straceProblem()
  beforeEach(({ skip }) => skip(problem !== undefined, `strace cannot inject errors: ${problem}`))

  for (const fault of faults) {
    it.live(`acknowledges no job that is not stored, and recovers: ${fault}`, () =>
      Effect.gen(function*() {
        const { acknowledged, logged, missing, rejected } = yield* submitUnder(fault)
        assert.isAtLeast(acknowledged.length, 100)
        // Single failures may pass unnoticed: after a failed transaction, each of its jobs gets its own transaction.
        if (fault.includes("..")) assert.isAbove(rejected.length, 0)
        assert.isAtMost(logged.length, 2 * (rejected.length + 1))
        assert.deepStrictEqual(missing, [])
        yield* Console.log(`${fault}: ${acknowledged.length} acknowledged, ${rejected.length} rejected, ${missing.length} lost`)
      }), 90_000)
  }

  it.live("detects a store that acknowledges jobs although COMMIT failed", () =>
    Effect.gen(function*() {
      const { missing } = yield* submitUnder("pwrite64:error=EIO:when=60..160", [`--import=${fixture("failedCommits")}`])
      assert.isAbove(missing.length, 0)
    }), 90_000)
})

describe("R12: power failures", () => {
  it.live("keeps every acknowledged job in 500 random cuts of the WAL after the job's commit", () =>
    Effect.gen(function*() {
      for (const size of [0, WalSpace.FULL_SIZE]) {
        const lookedUp = yield* cutWal(500, size)
        assert.isAbove(lookedUp, 500)
        yield* Console.log(`500 cuts of a WAL with ${size} bytes from the start: ${lookedUp} acknowledged jobs looked up, 0 lost`)
      }
    }), 300_000)
})
