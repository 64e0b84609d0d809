import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "@effect/vitest"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as VolumeCache from "../src/VolumeCache.ts"
import * as Trees from "./FileTrees.ts"

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))

beforeAll(() => void vi.stubEnv("PLATFORM_LOG_LEVEL", "ERROR"))
afterAll(() => void vi.unstubAllEnvs())

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const start = (name: string, options: WorkerProcess.Options) => {
  const worker = WorkerProcess.start(fixture(name), options)
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return worker
}

const folders = () => {
  const folder = mkdtempSync(join(tmpdir(), "stint-volume-cache-"))
  opened.push(async () => rmSync(folder, { recursive: true }))
  const [volume, directory] = [join(folder, "volume"), join(folder, "directory")]
  mkdirSync(volume)
  return { folder, volume, directory }
}

/** Waits for a condition that another process fulfils. */
const until = (holds: () => boolean) => expect.poll(holds, { timeout: 20_000, interval: 20 }).toBe(true)

// docs/spec/worker-lifecycle.md#shutdown, docs/spec/volume-cache.md#using-a-cache
describe("a worker", () => {
  const platform = async () => {
    const stub = await PlatformStub.start()
    opened.push(() => stub.down())
    const { directory, volume } = folders()
    const worker = (env: { readonly [name: string]: string } = {}) =>
      start("worker", {
        env: { ...stub.environment(), PLATFORM_VOLUME_PATH: volume, TEST_DIRECTORY: directory, ...env }
      })
    return { stub, directory, volume, worker }
  }

  it("fills its directories before the first take and syncs after the last result, before it exits", async () => {
    const { directory, stub, worker } = await platform()
    const first = worker()
    const id = stub.submit({ name: "model", text: "downloaded", after: "SIGTERM" })
    await stub.until(() => stub.of("job-take").some(({ status }) => status === 200))
    await until(() => first.stdout().includes("takes jobs"))
    first.kill("SIGTERM")
    expect(await stub.resultOf(id)).toEqual({ output: null })
    const { code, stdout } = await first.ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/Stopping: SIGTERM.*Volume cache: 1 file \(10 B\) of .*copied to the volume/s)

    // The disk of the first worker no longer exists.
    rmSync(directory, { recursive: true })
    const second = worker()
    const next = stub.submit({ name: "model", text: "changed" })
    expect(await stub.resultOf(next)).toEqual({ output: "downloaded" })
    expect(second.stdout()).toMatch(/Volume cache: .* was filled with 1 file .*takes jobs/s)
    second.kill("SIGTERM")
    expect(await second.ended).toMatchObject({ code: 0 })
  })

  it("with VolumeCache.syncAfterJobs loses no files of earlier jobs on a kill -9", async () => {
    const { directory, stub, worker } = await platform()
    const first = worker({ TEST_SYNC_AFTER: "job" })
    await stub.resultOf(stub.submit({ name: "model", text: "downloaded" }))
    await until(() => first.stdout().includes("copied to the volume"))
    first.kill("SIGKILL")
    await first.ended
    rmSync(directory, { recursive: true })
    worker()
    expect(await stub.resultOf(stub.submit({ name: "model", text: "changed" }))).toEqual({ output: "downloaded" })
  })

  it("without a volume runs as without a cache, with one DEBUG line", async () => {
    const { stub, volume, worker } = await platform()
    rmSync(volume, { recursive: true })
    const cold = worker({ PLATFORM_VOLUME_PATH: "" })
    const id = stub.submit({ name: "model", text: "downloaded" })
    expect(await stub.resultOf(id)).toEqual({ output: "no cache" })
    cold.kill("SIGTERM")
    const { code, stdout } = await cold.ended
    expect(code).toBe(0)
    expect(stdout.split("\n").filter((line) => line.includes("Volume cache"))).toEqual([
      expect.stringMatching(/no network volume.*"level":"DEBUG"/)
    ])
  })
})

/** Reads the files of a cold worker; every file must be complete. */
const cold = async (folder: string, volume: string, number: number) => {
  const directory = join(folder, `cold-${number}`)
  // The mirror is identified by the name `directory`, although this process has another working directory.
  mkdirSync(directory)
  const { hydrated } = await openIn(directory, volume)
  const root = join(directory, "directory")
  const names = existsSync(root) ? readdirSync(root) : []
  for (const name of names) {
    const [writer, file, turn] = name.split("-")
    const text = `${writer} ${file} ${turn} `.repeat(file === "small" ? 20 : 2000)
    expect(readFileSync(join(root, name), "utf8") === text, name).toBe(true)
  }
  return { hydrated: hydrated[0], names }
}

const openIn = async (directory: string, volume: string) => {
  const before = process.cwd()
  process.chdir(directory)
  try {
    const opening = VolumeCache.open({ dirs: ["directory"], volume, endpoint: "endpoint" })
    return await opening
  } finally {
    process.chdir(before)
  }
}

describe("concurrent processes", () => {
  const writer = (folder: string, volume: string, name: string, turns: number) => {
    const cwd = join(folder, name)
    mkdirSync(cwd)
    return start("writer", { cwd, args: ["directory", volume, name, String(turns)], env: { PLATFORM_LOG_LEVEL: "WARN" } })
  }

  it("lose none of each other's files when they sync the same mirror continuously", async () => {
    const { folder, volume } = folders()
    const writers = ["a", "b", "c"].map((name) => writer(folder, volume, name, 15))
    let reader = 0
    const all = Promise.all(writers.map(({ ended }) => ended))
    const writing = new Set(writers)
    for (const one of writers) void one.ended.finally(() => writing.delete(one))
    while (writing.size > 0) {
      const { hydrated } = await cold(folder, volume, reader++)
      expect(hydrated).toMatchObject({ damaged: 0, complete: true, firstError: undefined })
    }
    for (const { code, stderr, stdout } of await all) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      expect(stdout).not.toContain("false")
    }
    const { hydrated, names } = await cold(folder, volume, reader)
    expect(hydrated).toMatchObject({ damaged: 0, firstError: undefined })
    expect(names).toHaveLength(3 * 2 * 10)
    expect(reader).toBeGreaterThan(1)
  })

  it("leave a readable mirror with all synced files after a kill -9 at any moment", async () => {
    const { folder, volume } = folders()
    for (let round = 0; round < 6; round++) {
      const victim = writer(folder, volume, `v${round}`, 1000)
      await until(() => victim.stdout().includes(`synced ${round}`))
      victim.kill("SIGKILL")
      const { stdout } = await victim.ended
      const { hydrated, names } = await cold(folder, volume, round)
      expect(hydrated).toMatchObject({ damaged: 0, complete: true, firstError: undefined })
      const synced = stdout.match(/synced \d+ true/g) ?? []
      for (let turn = 0; turn < Math.min(synced.length, 10); turn++) {
        expect(names).toEqual(expect.arrayContaining([`v${round}-small-${turn}`, `v${round}-large-${turn}`]))
      }
    }
  })
})

describe("a volume that does not respond", () => {
  it("does not keep the process from exiting", async () => {
    const { directory, folder, volume } = folders()
    const pipe = join(folder, "pipe")
    Trees.makePipe(pipe)
    const { signal, stdout } = await start("stuck", { args: [directory, volume, pipe] }).ended
    expect(stdout).toMatch(/active: false/)
    expect(signal).toBe("SIGKILL")
  })
})
