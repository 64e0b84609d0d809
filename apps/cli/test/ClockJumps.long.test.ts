/**
 * The system clock of a real platform is set while jobs run, and a platform is suspended (docs/decisions/0019-clock-jumps.md). libfaketime
 * sets only the platform's wall clock: its monotonic clock, its workers and this test keep theirs.
 */
import { globSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { beforeEach, describe, expect, it } from "vitest"
import { STORM } from "./FaultScenarios.ts"
import { FaultWorld, pause, type Worker } from "./FaultWorld.ts"
import { linesOf } from "./JournalKills.ts"
import { endOf } from "./PipelineScenario.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const LEASE = 4_000

const [library] = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")

/** A file that sets the clock of a platform, such as "+1h". */
const clockFile = async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-clock-"))
  const file = join(folder, "clock")
  await writeFile(file, "+0\n")
  return {
    set: (offset: string) => writeFile(file, `${offset}\n`),
    env: {
      LD_PRELOAD: library ?? "",
      FAKETIME_TIMESTAMP_FILE: file,
      DONT_FAKE_MONOTONIC: "1",
      FAKETIME_CACHE_DURATION: "1"
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true })
  }
}

/** The worker that runs a job's first attempt, once the attempt has started. */
const workerOf = async ({ history, workers }: FaultWorld, job: string): Promise<Worker> => {
  const started = await until(
    "the job to start",
    () => history.events().flatMap((event) => event._tag === "Started" && event.job === job ? [event.worker] : [])[0]
  )
  const worker = [...workers].find(({ name }) => name === started)
  if (worker === undefined) throw new Error(`worker ${started} is gone`)
  return worker
}

/** The duration of a call in milliseconds. */
const timed = async (call: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now()
  await call()
  return performance.now() - begun
}

describe("a system clock that is set while jobs run", () => {
  beforeEach(({ skip }) => skip(library === undefined, "there is no libfaketime on this machine: apt-get install libfaketime"))

  it.each([["forward", "+1h"], ["back", "-1h"]])(
    "R5: set %s an hour: running jobs complete in their first attempt, a silent worker's lease ends in time, and waits end in time",
    async (_, offset) => {
      await using clock = await clockFile()
      await using world = await FaultWorld.create({ ...STORM, leaseMs: LEASE, executionTimeoutMs: 60_000 }, clock.env)
      const { platform } = world
      world.startWorker()
      world.startWorker()
      const running = await world.submit({ n: 1, ms: 12_000 })
      await workerOf(world, running)
      const silent = await world.submit({ n: 2, ms: 1_000 })
      const frozen = await workerOf(world, silent)
      frozen.process.kill("SIGSTOP")
      // This wait begins before the clock is set, and the next ones afterwards.
      const waiting = timed(() => platform.request("GET", `/v2/storm/status-sync/${running}?wait=6000`))

      await clock.set(offset)
      const setAt = performance.now()
      await until("the platform to notice", () => /The system clock moved/.test(platform.output) ? true : undefined)

      expect(await platform.job("storm", running)).toMatchObject({ status: "IN_PROGRESS" })
      expect(await waiting).toBeLessThan(6_000 + 2_000 * world.slowness)
      const slow = world.slowness
      expect(await timed(() => platform.request("GET", `/v2/storm/status-sync/${running}?wait=1500`))).toBeLessThan(
        1_500 + 2_000 * slow
      )
      expect(await timed(() => platform.request("GET", `/v2/storm/stream/${running}`))).toBeLessThan(12_000)
      world.startWorker()
      const moved = await platform.ended("storm", silent)
      expect(performance.now() - setAt).toBeLessThan((2 * LEASE + 7_000) * slow)
      expect(moved).toMatchObject({ status: "COMPLETED", retries: 1 })
      const completed = await platform.ended("storm", running)
      expect(completed).toMatchObject({ status: "COMPLETED" })
      expect(completed).not.toHaveProperty("retries")
      // New jobs start at once.
      const { id, status } = await platform.runSync("storm", { n: 3 })
      expect({ id, status }).toEqual({ id: expect.any(String), status: "COMPLETED" })
    },
    90_000
  )
})

const HOUR = 3_600_000

/** A platform whose clock is set, with a pipeline that sleeps. Its workers keep their clock. */
const sleeping = async () => {
  const clock = await clockFile()
  const platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "pipelines.config.ts")], clock.env)
  const log = (name: string) => join(platform.dataDir, `${name}.begun`)
  return {
    clock,
    platform,
    /** Starts a run, and waits until it sleeps and no worker holds it. */
    sleeps: async (name: string, ms: number): Promise<string> => {
      const id = await platform.run("napping", { log: log(name), ms })
      await until("the run to sleep without a worker", async () => {
        const { body } = await platform.request("GET", `/v2/napping/status/${id}?explain=true`)
        return JSON.stringify(body).includes("\"parked\"") ? true : undefined
      }, 60_000)
      return id
    },
    /** Whether the run still sleeps after another run has begun and ended. */
    stillSleeps: async (id: string): Promise<boolean> => {
      const other = await platform.run("napping", { log: log(id), ms: 1 })
      expect(await endOf(platform, "napping", other)).toMatchObject({ status: "COMPLETED" })
      return (await platform.job("napping", id)).status === "IN_PROGRESS"
    },
    /** Waits for the end. Each step has begun once. */
    wakes: async (name: string, id: string): Promise<void> => {
      expect(await endOf(platform, "napping", id)).toMatchObject({ status: "COMPLETED" })
      expect(await linesOf(log(name))).toEqual(["before#1", "after#1"])
    },
    [Symbol.asyncDispose]: async () => {
      await platform[Symbol.asyncDispose]()
      await clock[Symbol.asyncDispose]()
    }
  }
}

describe("a pipeline that sleeps while the system clock is set", () => {
  beforeEach(({ skip }) => skip(library === undefined, "there is no libfaketime on this machine: apt-get install libfaketime"))

  it(
    "R14: ends its sleep at the wall-clock time: at once when the clock is set forward, not before it when it is set back",
    async () => {
      await using world = await sleeping()
      const { clock, platform } = world
      const forward = await world.sleeps("forward", HOUR)
      await clock.set("+61m")
      const setAt = performance.now()
      await world.wakes("forward", forward)
      const late = performance.now() - setAt
      process.stdout.write(`a sleep of an hour whose time has come by a clock that was set: ended after ${Math.round(late)} ms\n`)

      const back = await world.sleeps("back", HOUR)
      await clock.set("+0")
      await until("the platform to notice", () => /The system clock moved back/.test(platform.output) ? true : undefined)
      expect(await world.stillSleeps(back)).toBe(true)
      // The sleep ends two hours and a minute after the time on the test's clock.
      await clock.set("+122m")
      await world.wakes("back", back)
    },
    180_000
  )

  it.each([["forward", "+61m"], ["back", "-61m"]])(
    "R14: a sleep survives kill -9 of the platform, whose clock is set %s meanwhile",
    async (direction, offset) => {
      await using world = await sleeping()
      const { clock, platform } = world
      const id = await world.sleeps("killed", HOUR)
      await platform.end("SIGKILL")
      await clock.set(offset)
      await platform.start()
      const upAt = performance.now()
      if (direction === "back") {
        expect(await world.stillSleeps(id)).toBe(true)
        await clock.set("+61m")
      }
      await world.wakes("killed", id)
      process.stdout.write(
        `a sleep over kill -9, with the clock set ${direction}: ended ${
          Math.round(performance.now() - upAt)
        } ms after the start\n`
      )
    },
    180_000
  )
})

describe("a platform that is suspended for longer than the lease", () => {
  it("R5: its running jobs complete in their first attempt", async () => {
    await using world = await FaultWorld.create({ ...STORM, leaseMs: LEASE })
    const { platform } = world
    world.startWorker()
    const id = await world.submit({ n: 1, ms: 12_000 })
    await workerOf(world, id)
    platform.signal("SIGSTOP")
    await pause(2.2 * LEASE)
    platform.signal("SIGCONT")
    const job = await platform.ended("storm", id)
    expect(job).toMatchObject({ status: "COMPLETED" })
    expect(job).not.toHaveProperty("retries")
    expect(platform.output).toMatch(/The platform did not run for \d+(\.\d)? s/)
  }, 90_000)
})
