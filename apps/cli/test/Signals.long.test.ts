/**
 * Ways besides SIGTERM in which a platform ends: none of them may leave the platform or a worker running.
 */
import { spawn } from "node:child_process"
import { chmod, mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const BIN = resolve(import.meta.dirname, "../src/bin.ts")
const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const pidOf = (output: unknown): number => {
  if (typeof output === "object" && output !== null && "pid" in output && typeof output.pid === "number") return output.pid
  throw new Error(`no pid in ${JSON.stringify(output)}`)
}

const gone = (pid: number) => until(`the end of process ${pid}`, () => isAlive(pid) ? undefined : true)

/** Runs a job, so that the endpoint has a worker, and starts a second job that runs for a minute. Returns the worker's pid. */
const busyWorker = async (platform: PlatformProcess): Promise<number> => {
  const pid = pidOf((await platform.runSync("one", { n: 1 })).output)
  const id = await platform.run("one", { n: 2, ms: 60_000 })
  await until("the second job", async () => (await platform.job("one", id)).status === "IN_PROGRESS" ? true : undefined)
  return pid
}

describe("the end of a platform", () => {
  it("shuts down in order on SIGHUP", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const worker = pidOf((await platform.runSync("one", { n: 1 })).output)
    expect(await platform.end("SIGHUP")).toEqual({ code: 0, signal: null })
    expect(platform.output).toContain("SIGHUP: no new jobs are started")
    await gone(worker)
  }, 60_000)

  it("is not ready after SIGTERM, but serves callers until the shutdown delay has passed", async () => {
    await using platform = await PlatformProcess.create(CONFIG, { STINT_SHUTDOWN_DELAY: "5 seconds" })
    const statusOf = async (path: string) => (await platform.request("GET", path)).status
    expect(await statusOf("/readyz")).toBe(200)
    const sent = performance.now()
    const ended = platform.end("SIGTERM")
    await until("a platform that is not ready", async () => await statusOf("/readyz") === 503 ? true : undefined)
    expect(await platform.runSync("one", { n: 1 })).toMatchObject({ status: "COMPLETED" })
    expect(await ended).toEqual({ code: 0, signal: null })
    expect(performance.now() - sent).toBeGreaterThanOrEqual(5_000)
  }, 60_000)

  it("kills its workers on a second Ctrl-C, but not when the first one arrives twice", async () => {
    await using platform = await PlatformProcess.create(CONFIG)
    const worker = await busyWorker(platform)
    const ended = platform.end("SIGINT")
    void platform.end("SIGINT")
    await until("the shutdown", () => platform.output.includes("SIGINT: no new jobs are started") ? true : undefined)
    await new Promise((next) => setTimeout(next, 500))
    expect(isAlive(worker)).toBe(true)
    void platform.end("SIGINT")
    expect(await ended).toEqual({ code: 130, signal: null })
    await gone(worker)
  }, 60_000)

  it.skipIf(process.platform !== "linux")(
    "shuts down in order when the package manager that started it is killed",
    async () => {
      const folder = await mkdtemp(join(tmpdir(), "stint-launcher-"))
      const npm = join(folder, "npm")
      await writeFile(npm, `#!/bin/sh\nsh -c '"$0" "$@"; true' "$@" &\nwait\n`)
      await chmod(npm, 0o755)
      const launcher = spawn(npm, [process.execPath, BIN, ...CONFIG], {
        stdio: ["ignore", "pipe", "pipe"],
        env: { PATH: process.env["PATH"], HOME: process.env["HOME"], PORT: "0", STINT_DATA_DIR: join(folder, "data") }
      })
      let output = ""
      for (const stream of [launcher.stdout, launcher.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()))
      const url = await until("the platform", () => /Stint is up at +(\S+)[\s\S]*Endpoints /.exec(output)?.[1])
      launcher.kill("SIGKILL")
      await until(
        "the shutdown",
        () => output.includes("The package manager that started Stint has exited: no new jobs") ? true : undefined
      )
      await until("the end of the platform", () => fetch(url).then(() => undefined, () => true as const))
    },
    60_000
  )
})
