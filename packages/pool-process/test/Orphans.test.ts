import { assert, describe, it } from "@effect/vitest"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { identityOf } from "../src/ProcessTable.ts"
import * as WorkerRecords from "../src/WorkerRecords.ts"
import { folder, fresh, gone, isAlive, line, printed, script, until, withPool } from "./TestProcesses.ts"

const PLATFORM = join(import.meta.dirname, "fixtures/platform.ts")

/**
 * A worker with two child processes, one of which has its own session. It prints a numbered line every 5 ms and ignores SIGTERM until
 * the file `permission` exists. When the file `flood` exists, it prints 20 MiB at once.
 */
const worker = (mark: string, files: { readonly pids: string; readonly permission: string; readonly flood: string }) =>
  script(`
    import { spawn } from "node:child_process"
    import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs"
    const { flood, permission, pids } = ${JSON.stringify(files)}
    const [child, detached] = [false, true].map((detached) =>
      spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore", detached }))
    let count = 0
    setInterval(() => {
      console.log("${mark}", ++count)
      if (existsSync(flood)) {
        rmSync(flood)
        for (let index = 0; index < 20; index++) process.stdout.write(("x".repeat(1023) + "\\n").repeat(1024))
        console.log("${mark}-flooded")
      }
    }, 5)
    process.on("SIGTERM", () => {
      setInterval(() => {
        if (existsSync(permission)) {
          console.error("${mark}-leaves")
          process.exit(0)
        }
      }, 20)
    })
    writeFileSync(pids + ".new", [process.pid, child.pid, detached.pid].join(" "))
    renameSync(pids + ".new", pids)
  `)

/** Starts a platform with a worker, and kills only the platform. */
const orphan = Effect.fnUntraced(
  function*(
    dataDir: string,
    options: { readonly abandonAfter?: string; readonly end?: "SIGKILL" | "SIGUSR2"; readonly unrecorded?: true } = {}
  ) {
    const mark = fresh("orphan")
    const files = {
      pids: join(folder, fresh("pids")),
      permission: join(folder, fresh("permission")),
      flood: join(folder, fresh("flood"))
    }
    const id = fresh("w")
    const platform = spawn(process.execPath, [PLATFORM, dataDir, id, worker(mark, files), options.abandonAfter ?? "30"], {
      stdio: ["ignore", "ignore", "inherit"]
    })
    yield* until("the worker", () => existsSync(files.pids) ? true : undefined)
    // As if the platform was killed before it wrote the record.
    if (options.unrecorded) rmSync(join(dataDir, "workers", `${id}.json`))
    platform.kill(options.end ?? "SIGKILL")
    yield* until("the end of the platform", () => platform.signalCode ?? platform.exitCode ?? undefined)
    const [leader = 0, child = 0, detached = 0] = readFileSync(files.pids, "utf8").split(" ").map(Number)
    const workers = join(dataDir, "workers")
    return {
      id,
      leader,
      child,
      /** The child with its own session. */
      detached,
      mark,
      /** The files of the worker in the data folder, without its record. */
      outputFiles: () => readdirSync(workers).filter((name) => name.startsWith(`${id}.`) && !name.endsWith(".json")),
      /** The sizes of the files in which its output is kept. */
      sizes: () =>
        readdirSync(workers).filter((name) => name.startsWith(`${id}.out.`)).flatMap((name) => {
          const file = statSync(join(workers, name), { throwIfNoEntry: false })
          return file === undefined ? [] : [file.size]
        }),
      record: join(workers, `${id}.json`),
      permit: () => writeFileSync(files.permission, ""),
      flood: () => writeFileSync(files.flood, ""),
      /** The numbers that it printed and that the pool received. */
      numbers: () => printed.flatMap((text) => text.startsWith(`${mark} `) ? [Number(text.slice(mark.length + 1))] : [])
    }
  }
)

/** Adopts the only orphan. */
const adopt = Effect.gen(function*() {
  const [found, ...others] = (yield* WorkerPool).orphans
  assert.lengthOf(others, 0)
  if (found === undefined) return yield* Effect.die(new Error("no orphan was found"))
  const mask = (text: string) => text.replaceAll("-leaves", "-[secret]")
  return { found, handle: yield* found.adopt({ RUNPOD_AI_API_KEY: "a-secret-key" }, mask) }
})

describe("Orphans", () => {
  it.live("lets a worker outlive its platform and print, and passes all of its lines to the next platform", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, detached, id, leader, mark, numbers, outputFiles, permit, record, sizes } = yield* orphan(dataDir)
      yield* until("output without a platform", () => (sizes()[0] ?? 0) > 500 ? true : undefined)
      assert.isTrue(isAlive(leader) && existsSync(record))
      yield* withPool(
        Effect.gen(function*() {
          const { found, handle } = yield* adopt
          assert.deepStrictEqual([found.id, found.isRunning], [id, true])
          yield* until("its next lines", () => numbers().length > 50 ? true : undefined)
          yield* handle.drain
          permit()
          const exit = yield* handle.exit
          assert.strictEqual(
            exit._tag === "Lost" && exit.reason,
            "it ended after its platform had been killed, so its exit code is unknown."
          )
          assert.include(exit.log, `${mark}-[secret]`, "its output is masked like that of other workers")
          const [first = 0] = numbers()
          const gaps = numbers().slice(1).map((number, index) => number - (numbers()[index] ?? 0) - 1).filter((gap) => gap !== 0)
          // The keeper may be stopped between reading and writing a block.
          assert.isTrue(gaps.length <= 1 && (gaps[0] ?? 0) >= 0 && (gaps[0] ?? 0) <= 5, `gaps: ${gaps.join(", ")}`)
          assert.isBelow(first, 200)
          yield* gone(child)
          yield* gone(detached)
          assert.deepStrictEqual([existsSync(record), outputFiles()], [true, []])
          yield* handle.forget ?? Effect.void
          assert.isFalse(existsSync(record))
        }),
        { dataDir }
      )
    }))

  it.live("keeps the newest 8 MiB of a worker's output while no platform runs", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { flood, leader, mark, outputFiles, sizes } = yield* orphan(dataDir)
      yield* until("output without a platform", () => (sizes()[0] ?? 0) > 0 ? true : undefined)
      flood()
      yield* until("the removal of the oldest file", () =>
        outputFiles().some((name) => name.endsWith(".out.1000")) ? undefined : true)
      const kept = sizes()
      assert.isAtMost(Math.max(...kept), 1_048_576)
      assert.isAtMost(
        kept.reduce((a, b) =>
          a + b, 0),
        9 * 1_048_576
      )
      yield* withPool(Effect.andThen(adopt, line(`${mark}-flooded`)), { dataDir })
      yield* gone(leader)
    }))

  it.live("requests that a worker exit when no other platform starts in time, and kills what it left behind", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const bystander = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore", detached: true })
      const records = yield* WorkerRecords.make(dataDir)
      const { child, detached, leader, permit } = yield* orphan(dataDir, { abandonAfter: "0.5" })
      // The record of a worker whose pid now belongs to another process.
      records.write({ worker: "reused", endpoint: "tested", pid: bystander.pid ?? 0, identity: null, platform: null })
      permit()
      yield* gone(leader)
      yield* gone(child)
      yield* gone(detached)
      assert.isTrue(isAlive(bystander.pid ?? 0))
      bystander.kill("SIGKILL")
    }))

  it.live("requests that a worker exit even after the data folder was deleted", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, detached, leader, permit } = yield* orphan(dataDir, { abandonAfter: "1" })
      permit()
      rmSync(dataDir, { recursive: true, maxRetries: 10, retryDelay: 20 })
      yield* gone(leader)
      yield* gone(child)
      yield* gone(detached)
    }))

  it.live("ends a worker whose platform was killed before it wrote the record: by the next platform, or without one", () =>
    Effect.gen(function*() {
      for (const next of [true, false]) {
        const dataDir = join(folder, fresh("data"))
        const { child, detached, leader, record } = yield* orphan(dataDir, { abandonAfter: next ? "30" : "1", unrecorded: true })
        assert.isFalse(existsSync(record))
        if (next) {
          yield* withPool(
            Effect.gen(function*() {
              assert.lengthOf((yield* WorkerPool).orphans, 0)
            }),
            { dataDir }
          )
        }
        yield* gone(leader)
        yield* gone(child)
        yield* gone(detached)
      }
    }))

  it.live("does not disturb a worker while it waits for the next platform", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { leader, mark, permit } = yield* orphan(dataDir, { abandonAfter: "1" })
      permit()
      yield* withPool(
        Effect.gen(function*() {
          yield* adopt
          // Longer than the earlier platform's workers would have waited.
          yield* Effect.sleep("1200 millis")
          assert.isTrue(isAlive(leader))
          assert.isFalse(printed.some((text) => text === `${mark}-leaves` || text === `${mark}-[secret]`))
        }),
        { dataDir }
      )
    }))

  it.live("kills the workers of a platform that is stopped without waiting", () =>
    Effect.gen(function*() {
      const { child, detached, leader } = yield* orphan(join(folder, fresh("data")), { end: "SIGUSR2" })
      yield* gone(leader)
      yield* gone(child)
      yield* gone(detached)
    }))

  it.live("kills an adopted worker and its descendants when its scope closes", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, detached, leader, record } = yield* orphan(dataDir)
      yield* withPool(adopt, { dataDir })
      assert.deepStrictEqual([leader, child, detached].map(isAlive), [false, false, false])

      // Its exit has not been processed, so the next platform finds it again.
      assert.isTrue(existsSync(record))
      yield* withPool(
        Effect.gen(function*() {
          const { found, handle } = yield* adopt
          assert.isFalse(found.isRunning)
          assert.strictEqual((yield* handle.exit)._tag, "Lost")
          yield* handle.forget ?? Effect.void
        }),
        { dataDir }
      )
      assert.isFalse(existsSync(record))
    }))

  it.live("reports a worker that ended without a platform at once, with its last output, and kills what it left behind", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, detached, leader, mark, outputFiles, record, sizes } = yield* orphan(dataDir)
      yield* until("output without a platform", () => (sizes()[0] ?? 0) > 0 ? true : undefined)
      process.kill(leader, "SIGKILL")
      yield* gone(leader)
      assert.isTrue(isAlive(child))
      yield* withPool(
        Effect.gen(function*() {
          const { found, handle } = yield* adopt
          assert.isFalse(found.isRunning)
          const exit = yield* handle.exit
          assert.strictEqual(
            exit._tag === "Lost" && exit.reason,
            `its process (pid ${leader}) had ended before the platform started.`
          )
          assert.isTrue(exit.log.some((text) => text.startsWith(mark)))
          yield* gone(child)
          yield* gone(detached)
          assert.deepStrictEqual([existsSync(record), outputFiles()], [true, []])
          yield* handle.forget ?? Effect.void
          assert.isFalse(existsSync(record))
        }),
        { dataDir }
      )
    }))

  it.live("leaves other processes alone: reused pids, workers of a running platform, invalid records", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const records = yield* WorkerRecords.make(dataDir)
      const bystander = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore", detached: true })
      const pid = bystander.pid ?? 0
      const identity = yield* until("the bystander", () => identityOf(pid))
      const dead = { pid: 4_000_000, start: "1@no-boot" }
      records.write({ worker: "reused", endpoint: "tested", pid, identity: { ...identity, start: "1@no-boot" }, platform: dead })
      records.write({ worker: "served", endpoint: "tested", pid, identity, platform: identityOf(process.pid) ?? null })
      records.write({ worker: "unknown", endpoint: "tested", pid, identity: null, platform: dead })
      writeFileSync(join(dataDir, "workers", "half.json"), `{"worker":"ha`)
      yield* withPool(
        Effect.gen(function*() {
          const { found, handle } = yield* adopt
          assert.deepStrictEqual([found.id, found.isRunning], ["reused", false])
          yield* handle.kill
          yield* handle.exit
          yield* handle.forget ?? Effect.void
        }),
        { dataDir }
      )
      assert.isTrue(isAlive(pid))
      assert.deepStrictEqual(records.list().map((record) => record.worker), ["served"])

      // Shows that the pool kills an actual orphan, so that the test cannot pass without killing:
      records.write({ worker: "orphan", endpoint: "tested", pid, identity, platform: dead })
      yield* withPool(adopt, { dataDir })
      yield* gone(pid)
    }))
})
