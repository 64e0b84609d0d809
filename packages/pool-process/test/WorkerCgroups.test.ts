import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as WorkerCgroups from "../src/WorkerCgroups.ts"
import { folder, fresh, gone, line, script, start, until, withPool } from "./TestProcesses.ts"

const MIB = 1024 ** 2

const machine = WorkerCgroups.support()
const cannot = machine.missing.length === 0 ? "" : ` (skipped: ${machine.missing.join(", ")}: ${machine.reason})`

/** A group of version 2 as a folder of ordinary files, whose content nothing enforces. */
const fake = ({ controllers = "cpuset cpu io memory pids", group = "/stint.service", processes = [process.pid] } = {}) => {
  const files = mkdtempSync(join(folder, "proc-"))
  const mount = mkdtempSync(join(folder, "cgroup-"))
  const own = join(mount, group)
  mkdirSync(own, { recursive: true })
  writeFileSync(join(files, "cgroup"), `0::${group}\n`)
  writeFileSync(
    join(files, "mountinfo"),
    `24 1 0:22 / /proc rw - proc proc rw\n30 1 0:26 / ${mount} rw,nosuid - cgroup2 cgroup2 rw\n`
  )
  for (const one of [own, join(own, "..")]) {
    writeFileSync(join(one, "cgroup.controllers"), `${controllers}\n`)
    writeFileSync(join(one, "cgroup.procs"), "")
    writeFileSync(join(one, "cgroup.type"), "domain\n")
    writeFileSync(join(one, "cgroup.subtree_control"), "")
  }
  writeFileSync(join(own, "cgroup.procs"), processes.map((pid) => `${pid}\n`).join(""))
  return { files, own }
}

const command = (file: string, limits: WorkerCgroups.WorkerLimits): Endpoint["source"] => ({
  type: "command",
  command: [process.execPath, file],
  directory: folder,
  ...limits
})

const read = (...path: ReadonlyArray<string>) => readFileSync(join(...path), "utf8").trim()

describe("control groups of version 2", () => {
  it("limit a worker and its children, after the platform has left the group that is to be divided", async () => {
    const { files, own } = fake()
    const shell = spawn("sh", ["-c", "sleep 100 & echo started; wait"], { stdio: ["ignore", "pipe", "ignore"], detached: true })
    const pid = shell.pid ?? 0
    try {
      await once(shell.stdout, "data")
      const groups = WorkerCgroups.make("/data", () => false, files)
      assert.isUndefined(groups.limit("w-1", pid, { cpus: 1.5, memoryBytes: 64 * MIB, pids: 50 }))
      assert.strictEqual(read(own, "stint-platform/cgroup.procs"), String(process.pid))
      assert.strictEqual(read(own, "cgroup.subtree_control"), "+cpu +memory +pids")
      const workers = readdirSync(own).find((name) => /^stint-[0-9a-f]{12}$/.test(name)) ?? ""
      assert.strictEqual(read(own, workers, "cgroup.subtree_control"), "+cpu +memory +pids")
      const worker = join(own, workers, "w-1")
      assert.deepStrictEqual(
        ["cpu.max", "memory.max", "memory.oom.group", "pids.max", "cgroup.procs"].map((file) => read(worker, file)),
        // An ordinary file contains only the last process that was written to it.
        ["150000 100000", String(64 * MIB), "1", "50", read("/proc", String(pid), "task", String(pid), "children")]
      )
      assert.isFalse(groups.ranOutOfMemory("w-1"))
      writeFileSync(join(worker, "memory.events"), "low 0\nmax 7\noom 1\noom_kill 0\n")
      assert.isFalse(groups.ranOutOfMemory("w-1"))
      writeFileSync(join(worker, "memory.events"), "low 0\nmax 7\noom 1\noom_kill 2\n")
      assert.isTrue(groups.ranOutOfMemory("w-1"))
    } finally {
      process.kill(-pid, "SIGKILL")
    }
  })

  it("are found above the group that systemd or an earlier start has made for the platform", () => {
    const { files, own } = fake({ group: "/stint.service/stint-platform" })
    assert.deepStrictEqual(WorkerCgroups.support(files).parents.map((parent) => parent.folder), [join(own, "..")])
  })

  it("are not used when other programs run in the platform's group", () => {
    const { files, own } = fake({ processes: [process.pid, process.ppid] })
    const { enforced, missing, reason } = WorkerCgroups.support(files)
    assert.deepStrictEqual([enforced, missing], [[], ["CPU time", "memory", "number of processes"]])
    assert.strictEqual(
      reason,
      `Other programs run in the platform's control group ${own}, for example process ${process.ppid}. Run the platform as a service of ` +
        "systemd with Delegate=yes."
    )
    const groups = WorkerCgroups.make("/data", () => false, files)
    assert.strictEqual(
      groups.limit("w-1", process.pid, { memoryBytes: 64 * MIB, pids: 9 }),
      `The limits of memory, number of processes are not enforced. ${reason}`
    )
    assert.isUndefined(groups.limit("w-1", process.pid, {}))
    assert.isFalse(existsSync(join(own, "stint-platform")))
  })

  it("limit what the delegated controllers can limit", () => {
    const { files, own } = fake({ controllers: "memory pids" })
    const { enforced, missing, reason } = WorkerCgroups.support(files)
    assert.deepStrictEqual([enforced, missing], [["memory", "number of processes"], ["CPU time"]])
    assert.strictEqual(
      reason,
      `The platform's control group ${own} does not have all controllers. Run the platform as a service of systemd with Delegate=yes.`
    )
  })

  it("say that a system has none", () => {
    const { missing, reason } = WorkerCgroups.support(join(folder, "no-such-folder"))
    assert.strictEqual(missing.length, 3)
    assert.strictEqual(reason, "This system has no control groups.")
  })

  it("say that the platform may not write to its group", () => {
    const { files, own } = fake()
    rmSync(join(own, "cgroup.procs"))
    assert.include(WorkerCgroups.support(files).reason, `may not create groups in ${own}`)
  })
})

describe.skipIf(cannot !== "")(`limits that the kernel enforces${cannot}`, () => {
  it.live("end a worker that exceeds its memory, and say so", () =>
    withPool(Effect.gen(function*() {
      const hungry = script(`
        const kept = []
        setInterval(() => kept.push(Buffer.alloc(${8 * MIB}, 1)), 1)
      `)
      const { exit } = yield* start(command(hungry, { memoryBytes: 96 * MIB }))
      const ended = yield* exit
      assert.deepInclude(ended, { _tag: "Killed", signal: "SIGKILL", outOfMemory: true })
    })), 30_000)

  it.live("do not call a worker out of memory that was killed for another reason", () =>
    withPool(Effect.gen(function*() {
      const { exit, kill } = yield* start(command(script("setInterval(() => {}, 1000)"), { memoryBytes: 96 * MIB }))
      yield* kill
      assert.deepInclude(yield* exit, { _tag: "Killed", signal: "SIGKILL", outOfMemory: false })
    })))

  it.live(
    "keep a worker from starting more processes, also those that its children start",
    () =>
      withPool(Effect.gen(function*() {
        const mark = fresh("forks")
        const forks = script(`
        import { spawn } from "node:child_process"
import { once } from "node:events"
        let started = 0
        for (let count = 0; count < 60; count += 1) {
          const child = spawn("sleep", ["100"], { stdio: "ignore" })
          child.on("error", () => {})
          if (child.pid !== undefined) started += 1
        }
        console.log("${mark}", started)
        setInterval(() => {}, 1000)
      `)
        yield* start(command(forks, { pids: 40 }))
        const started = Number(yield* line(`${mark} `))
        assert.isAbove(started, 0)
        assert.isBelow(started, 40)
      })),
    30_000
  )

  it.live("remove the group with the worker", () =>
    withPool(Effect.gen(function*() {
      const mark = fresh("pid")
      const { exit, id, kill } = yield* start(
        command(script(`console.log("${mark}", process.pid); setInterval(() => {}, 1000)`), {
          cpus: 0.5,
          memoryBytes: 256 * MIB,
          pids: 99
        })
      )
      const pid = Number(yield* line(`${mark} `))
      const groups = read("/proc", String(pid), "cgroup").split("\n").filter((one) => one.endsWith(`/${id}`))
      assert.isAbove(groups.length, 0)
      const folders = machine.parents.flatMap((parent) =>
        readdirSync(parent.folder).filter((name) => name.startsWith("stint-")).map((name) => join(parent.folder, name, id))
      ).filter((path) => existsSync(path))
      assert.strictEqual(folders.length, groups.length)
      yield* kill
      yield* exit
      yield* gone(pid)
      yield* until("the removal of its groups", () => folders.some((path) => existsSync(path)) ? undefined : true)
    })), 30_000)
})
