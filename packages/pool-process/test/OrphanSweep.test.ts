import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as OrphanSweep from "../src/OrphanSweep.ts"
import { identityOf } from "../src/ProcessTable.ts"
import * as WorkerRecords from "../src/WorkerRecords.ts"
import { folder, fresh, gone, isAlive, script, until, withPool } from "./TestProcesses.ts"

const PLATFORM = join(import.meta.dirname, "fixtures/platform.ts")

/** A worker that writes its pids into a file. After SIGTERM it exits as soon as the file `permission` exists. */
const worker = (pids: string, permission: string) =>
  script(`
    import { spawn } from "node:child_process"
    import { existsSync, renameSync, writeFileSync } from "node:fs"
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" })
    process.on("SIGTERM", () => {
      setInterval(() => {
        if (existsSync(${JSON.stringify(permission)})) process.exit(0)
      }, 20)
    })
    writeFileSync(${JSON.stringify(`${pids}.new`)}, [process.pid, child.pid].join(" "))
    renameSync(${JSON.stringify(`${pids}.new`)}, ${JSON.stringify(pids)})
    setInterval(() => {}, 1000)
  `)

/** Starts a platform with a worker, and kills only the platform. */
const orphan = Effect.fnUntraced(function*(dataDir: string) {
  const pids = join(folder, fresh("pids"))
  const permission = join(folder, fresh("permission"))
  const id = fresh("w")
  const platform = spawn(process.execPath, [PLATFORM, dataDir, id, worker(pids, permission)], {
    stdio: ["ignore", "ignore", "inherit"]
  })
  yield* until("the worker", () => existsSync(pids) ? true : undefined)
  platform.kill("SIGKILL")
  yield* until("the end of the platform", () => platform.signalCode ?? undefined)
  const [leader = 0, child = 0] = readFileSync(pids, "utf8").split(" ").map(Number)
  return { id, leader, child, record: join(dataDir, "workers", `${id}.json`), permit: () => writeFileSync(permission, "") }
})

describe("OrphanSweep", () => {
  it.live("lets the workers of a killed platform finish their work, without delaying the start", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, leader, permit, record } = yield* orphan(dataDir)
      assert.isTrue(isAlive(leader) && existsSync(record))
      yield* withPool(
        Effect.gen(function*() {
          assert.isTrue(isAlive(leader), "the start does not wait for orphans")
          permit()
          yield* gone(leader)
          // Processes that remain in the worker's group are killed too.
          yield* gone(child)
          yield* until("the removal of the record", () => existsSync(record) ? undefined : true)
        }),
        { dataDir }
      )
    }))

  it.live("kills workers that remain after the grace period, with their descendants", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, leader, record } = yield* orphan(dataDir)
      yield* withPool(
        Effect.andThen(
          gone(leader),
          Effect.andThen(gone(child), until("the removal of the record", () => existsSync(record) ? undefined : true))
        ),
        {
          dataDir,
          orphanGrace: "300 millis"
        }
      )
    }))

  it.live("leaves no orphan behind when the platform that found it stops", () =>
    Effect.gen(function*() {
      const dataDir = join(folder, fresh("data"))
      const { child, leader, permit, record } = yield* orphan(dataDir)
      yield* withPool(Effect.sync(permit), { dataDir })
      assert.deepStrictEqual([isAlive(leader), isAlive(child), existsSync(record)], [false, false, false])
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
      yield* OrphanSweep.make(records, Duration.zero).run
      assert.isTrue(isAlive(pid))
      assert.deepStrictEqual(records.list().map((record) => record.worker), ["served"])

      // Shows that the sweep kills an actual orphan, so that the test cannot pass without a sweep:
      records.write({ worker: "orphan", endpoint: "tested", pid, identity, platform: dead })
      yield* OrphanSweep.make(records, Duration.zero).run
      yield* gone(pid)
    }))
})
