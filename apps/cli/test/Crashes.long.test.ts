/**
 * Killed servers and workers lose nothing (R1, R2, R6, R13, docs/spec/figures.md#reliability). Real processes and real signals.
 */
import { spawnSync } from "node:child_process"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"
import { historyOf, terminated } from "./ShutdownScenario.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** Runs `work` for each item, `width` at a time. */
const inParallel = async <A>(items: ReadonlyArray<A>, width: number, work: (item: A) => Promise<void>): Promise<void> => {
  const rest = [...items]
  await Promise.all(Array.from({ length: width }, async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item)
  }))
}

/** The messages in the log of a job. */
const linesOf = async (platform: PlatformProcess, endpoint: string, id: string): Promise<ReadonlyArray<string>> => {
  const { body } = await platform.request("GET", `/v2/${endpoint}/logs/${id}?limit=1000`)
  return (body as { readonly lines: ReadonlyArray<{ readonly message: string }> }).lines.map(({ message }) => message)
}

const hasPython = spawnSync("python3", ["--version"]).status === 0

const terminal = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])

describe("a job that ends its worker", () => {
  it.each(["abort", "kill"])("takes its seven neighbours down once, and never again (%s)", async (crash) => {
    await using platform = await PlatformProcess.create(CONFIG)
    const marker = join(platform.dataDir, "crashed")
    const culprit = await platform.run("crashing", { crash, beside: 7, marker })
    const neighbours = await Promise.all(Array.from({ length: 7 }, () => platform.run("crashing", { marker })))
    const ends = await Promise.all(neighbours.map((id) => platform.ended("crashing", id)))
    expect(ends.map(({ retries, status }) => ({ retries, status }))).toEqual(
      neighbours.map(() => ({ retries: 1, status: "COMPLETED" }))
    )
    const failed = await platform.ended("crashing", culprit)
    expect(failed).toMatchObject({ status: "FAILED", retries: 1 })
    expect(failed.error).toContain(crash === "abort" ? "SIGABRT" : "SIGKILL")
  }, 60_000)
})

describe("kill -9 of the server", () => {
  it("loses none of 2,000 acknowledged jobs, and ends no job twice", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const acknowledged: Array<string> = []
    const ends = new Map<string, JobObject>()
    /** Records the end of a job. A recorded end must never change. */
    const recordEnd = (job: JobObject) => {
      if (!terminal.has(job.status)) return
      const earlier = ends.get(job.id)
      if (earlier !== undefined) expect(job).toEqual(earlier)
      ends.set(job.id, job)
    }
    let killed = false
    const numbers = Array.from({ length: 2_000 }, (_, n) => n)
    await inParallel(numbers, 16, async (n) => {
      if (killed) return
      try {
        acknowledged.push(await platform.run("slow", { n }))
        if (n % 10 === 0) {
          // The oldest job without a recorded end. Some jobs end before the server is killed.
          const id = acknowledged.find((one) => !ends.has(one))
          if (id !== undefined) recordEnd(await platform.job("slow", id))
        }
      } catch {
        // Not acknowledged: the server was killed before it responded.
        expect(killed).toBe(true)
      }
      if (!killed && (acknowledged.length >= 1_900 || (acknowledged.length >= 1_000 && ends.size >= 5))) {
        killed = true
        expect(await platform.end("SIGKILL")).toMatchObject({ signal: "SIGKILL" })
      }
    })
    expect(killed).toBe(true)
    const before = ends.size

    await platform.start()
    await inParallel(Array.from({ length: 2_000 - acknowledged.length }, (_, n) => n), 16, async (n) => {
      acknowledged.push(await platform.run("slow", { n }))
    })
    expect(acknowledged.length).toBe(2_000)
    await inParallel(acknowledged, 16, async (id) => {
      const job = await platform.ended("slow", id)
      expect(job.status).toBe("COMPLETED")
      recordEnd(job)
    })
    await inParallel(acknowledged, 16, async (id) => recordEnd(await platform.job("slow", id)))
    expect(ends.size).toBe(2_000)
    expect(before).toBeGreaterThan(0)
    const { body } = await platform.request("GET", "/v2/slow/health")
    // Jobs that were stored but not acknowledged may have run, too. None waits forever.
    expect(body).toMatchObject({ jobs: { failed: 0, inQueue: 0, inProgress: 0 } })
  }, 180_000)

  it("keeps the result of a handler that ran while the server was down", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const log = join(platform.dataDir, "log")
    const id = await platform.run("one", { ms: 3_000, log, n: 1 })
    await until("the handler to run", async () => (await historyOf(log))[0])
    await platform.end("SIGKILL")
    await platform.start()
    expect(await platform.ended("one", id)).toMatchObject({ status: "COMPLETED", output: { n: 1 } })
    expect((await historyOf(log)).filter(({ event }) => event === "started")).toHaveLength(1)
  }, 60_000)

  it.skipIf(!hasPython)(
    "lets a worker that prints finish its job, and stores the lines printed while there was no server",
    async () => {
      await using platform = await PlatformProcess.create(CONFIG)
      const id = await platform.run("python", { n: 1, ms: 4_000, print: 50 })
      await until("the first lines", async () => (await linesOf(platform, "python", id)).length > 5 ? true : undefined)
      await platform.end("SIGKILL")
      const before = Date.now()
      await until("a second without a server", () => Date.now() - before > 1_000 ? true : undefined)
      await platform.start()
      const job = await platform.ended("python", id)
      expect(job).toMatchObject({ status: "COMPLETED", output: { n: 1 } })
      expect(job).not.toHaveProperty("retries")
      const lines = await linesOf(platform, "python", id)
      const { lines: printed } = job.output as { readonly lines: number }
      expect(lines.at(-1)).toBe(`line ${printed} of 1`)
      // The killed server loses at most the lines of its last 100 ms.
      expect(lines.length).toBeGreaterThan(printed - 5)
    },
    60_000
  )

  it.skipIf(!hasPython)("immediately returns the job of a worker that was killed together with the server", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const id = await platform.run("python", { n: 2, ms: 1_000 })
    const [line = ""] = await until("the first line", async () => {
      const lines = await linesOf(platform, "python", id)
      return lines.length > 0 ? lines : undefined
    })
    expect(line).toBe("line 1 of 2")
    const [record = ""] = (await readdir(join(platform.dataDir, "workers"))).filter((name) => name.endsWith(".json"))
    const { pid } = JSON.parse(await readFile(join(platform.dataDir, "workers", record), "utf8")) as { readonly pid: number }
    await platform.end("SIGKILL")
    process.kill(-pid, "SIGKILL")
    await platform.start()
    const before = Date.now()
    const job = await platform.ended("python", id)
    expect(job).toMatchObject({ status: "COMPLETED", retries: 1, output: { n: 2 } })
    expect(Date.now() - before).toBeLessThan(15_000)
  }, 60_000)
})

describe("kill -9 of a worker", () => {
  it("completes its job on another worker", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const log = join(platform.dataDir, "log")
    const id = await platform.run("slow", { ms: 1_500, log, n: 5 })
    const first = await until("the handler to run", async () => (await historyOf(log))[0])
    process.kill(first.pid, "SIGKILL")
    const job = await platform.ended("slow", id)
    expect(job).toMatchObject({ status: "COMPLETED", retries: 1, output: { n: 5 } })
    expect(job.output).not.toMatchObject({ pid: first.pid })
  }, 60_000)

  it("fails the job after the last attempt and names the signal as the cause", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const log = join(platform.dataDir, "log")
    const id = await platform.run("one", { ms: 30_000, log })
    for (const attempt of [0, 1]) {
      const started = await until("the handler to run", async () => (await historyOf(log))[attempt])
      process.kill(started.pid, "SIGKILL")
    }
    const job = await platform.ended("one", id)
    expect(job.status).toBe("FAILED")
    expect(job.error).toContain("SIGKILL")
    expect(job.error).toContain("attempt 2 of 2")
  }, 60_000)
})

describe("a worker that asks to be recycled", () => {
  it("delivers its result and is replaced by another process", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const first = await platform.runSync("one", { n: 1, refresh: true })
    expect(first).toMatchObject({ status: "COMPLETED", output: { n: 1 } })
    expect(first.output).not.toHaveProperty("refresh_worker")
    const second = await platform.runSync("one", { n: 2 })
    expect(second).toMatchObject({ status: "COMPLETED", output: { n: 2 } })
    expect(second).not.toHaveProperty("retries")
    expect(second.workerId).not.toBe(first.workerId)
  }, 60_000)
})

describe("a worker frozen past its lease", () => {
  it("loses its job to another worker, whose result stays when the frozen worker continues", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const log = join(platform.dataDir, "log")
    const id = await platform.run("slow", { ms: 1_000, log, n: 6 })
    const first = await until("the handler to run", async () => (await historyOf(log))[0])
    process.kill(first.pid, "SIGSTOP")
    const second = await until(
      "another worker to run it",
      async () => (await historyOf(log)).find(({ pid }) => pid !== first.pid)
    )
    process.kill(first.pid, "SIGCONT")
    const job = await platform.ended("slow", id)
    expect(job).toMatchObject({ status: "COMPLETED", retries: 1, output: { n: 6, pid: second.pid } })
    // The frozen handler finishes late or receives a stop signal. Faults.long.test.ts checks that its late result is refused.
    await until(
      "the frozen attempt to be over",
      async () => (await historyOf(log)).find(({ event, pid }) => pid === first.pid && event !== "started")
    )
    expect(await platform.job("slow", id)).toEqual(job)
  }, 60_000)
})

describe("SIGTERM under load", () => {
  it("lets running jobs finish, exits with code 0, and reruns no finished job", async () => {
    const { counts, violations } = await terminated({})
    expect(violations).toEqual([])
    expect(counts["finished before the end"]).toBeGreaterThanOrEqual(2)
    expect(counts["finished before the end"]).toBeLessThan(12)
  }, 60_000)

  it("cancels a running job and interrupts its handler", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const log = join(platform.dataDir, "log")
    const id = await platform.run("one", { ms: 30_000, log })
    await until("the handler to run", async () => (await historyOf(log))[0])
    expect((await platform.request("POST", `/v2/one/cancel/${id}`)).body).toEqual({ id, status: "CANCELLED" })
    await until("the handler to be aborted", async () => (await historyOf(log)).find(({ event }) => event === "aborted"), 5_000)
    expect(await platform.runSync("one", { n: 2 })).toMatchObject({ status: "COMPLETED" })
    expect(await platform.job("one", id)).toMatchObject({ status: "CANCELLED" })
  }, 60_000)
})
