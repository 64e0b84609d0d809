/**
 * A third-party worker, in Python, against the real platform (docs/spec/compatibility.md#worker-sdks). Skipped without `python3`.
 */
import { spawn, spawnSync } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const WORKER = join(FIXTURES, "worker.py")
const hasPython = spawnSync("python3", ["--version"]).status === 0
const withPython = describe.skipIf(!hasPython && process.env["CI"] === undefined)

const create = async (platform: PlatformProcess, spec: object) => {
  const { body, status } = await platform.request("POST", "/api/v1/endpoints", spec)
  if (status !== 201) throw new Error(`create returned ${status}: ${JSON.stringify(body)}`)
}

/** Starts a worker with the variables that `stint worker-env` prints. */
const joinWorker = async (platform: PlatformProcess, endpoint: string, without: RegExp | undefined) => {
  const { stdout } = await stint(platform, ["worker-env", endpoint, "--prefix", "RUNPOD_"])
  const variables = stdout.trim().split("\n").filter((line) => without?.test(line) !== true)
  const child = spawn("env", [...variables, "python3", WORKER], { stdio: "ignore" })
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  return {
    pid: child.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL")
      await ended
    }
  }
}

withPython("a worker of another make", () => {
  it.each([
    ["with its heartbeats", undefined],
    ["by its other calls when it sends no heartbeats", /^RUNPOD_POD_ID=/]
  ])("keeps a job that runs for longer than the lease %s", async (_, without) => {
    await using platform = await PlatformProcess.create(["serve"])
    await create(platform, { id: "joined", source: { type: "external" }, leaseMs: 3_000 })
    await using worker = await joinWorker(platform, "joined", without)
    const job = await platform.runSync("joined", { ms: 8_000 })
    expect(job).toMatchObject({ status: "COMPLETED", output: { pid: worker.pid } })
    expect(job).not.toHaveProperty("retries")
  }, 60_000)

  it("is replaced within seconds when it asks to be, and leaves within seconds when it is idle", async () => {
    await using platform = await PlatformProcess.create(["serve"])
    await create(platform, {
      id: "python",
      source: { type: "command", command: ["python3", WORKER] },
      workers: { max: 1, idleTimeoutMs: 1_000 }
    })
    const first = await platform.runSync("python", { refresh: true })
    const refreshedAt = performance.now()
    const second = await platform.runSync("python", {})
    const replaced = performance.now() - refreshedAt
    expect(first.workerId).not.toBe(second.workerId)
    expect(replaced).toBeLessThan(8_000)
    const idleAt = performance.now()
    await until(
      "the worker to leave",
      async () =>
        JSON.stringify((await platform.request("GET", "/v2/python/health")).body).includes(
            "\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0"
          )
          ? true
          : undefined,
      15_000
    )
    expect(performance.now() - idleAt).toBeLessThan(8_000)
  }, 60_000)

  it("loses no large text that it streams", async () => {
    await using platform = await PlatformProcess.create(["serve"])
    await create(platform, { id: "joined", source: { type: "external" } })
    await using worker = await joinWorker(platform, "joined", undefined)
    const { id, output } = await platform.runSync("joined", { chunks: [1, 1_500_000, 2] })
    expect(output).toEqual({ pid: worker.pid })
    const { body } = await platform.request("GET", `/v2/joined/stream/${id}`)
    expect(JSON.stringify(body).match(/#+/g)?.map((text) => text.length)).toEqual([1, 1_048_574, 451_426, 2])
  }, 60_000)
})
