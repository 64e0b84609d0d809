/**
 * Existing clients and workers work unchanged, with only an address and a key.
 */
import { spawn } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import runpodSdk from "runpod-sdk"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { EXAMPLES, FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

describe("the runpod-sdk client", () => {
  let platform: PlatformProcess
  const endpoint = (id: string) => {
    const found = runpodSdk(platform.key, { baseUrl: `${platform.url}/v2` }).endpoint(id)
    if (found === null) throw new Error("no endpoint")
    return found
  }

  beforeAll(async () => {
    // The client logs its calls on the console.
    vi.spyOn(console, "log").mockImplementation(() => {})
    platform = await PlatformProcess.create(["serve", "--config", join(EXAMPLES, "stint.config.ts")])
  })
  afterAll(async () => {
    vi.restoreAllMocks()
    await platform[Symbol.asyncDispose]()
  })

  it("runSync", async () => {
    const result = await endpoint("hello").runSync({ input: { name: "Ada" } })
    expect(result).toMatchObject({ status: "COMPLETED", completed: true, succeeded: true, output: { greeting: "Hello, Ada!" } })
  })

  it("run, then status until the end", async () => {
    const { id, status } = await endpoint("hello").run({ input: { name: "Grace" } })
    expect(status).toBe("IN_QUEUE")
    const ended = await until("the job to end", async () => {
      const job = await endpoint("hello").status(id)
      return job.status === "COMPLETED" || job.status === "FAILED" ? job : undefined
    })
    expect(ended).toMatchObject({ id, succeeded: true, output: { greeting: "Hello, Grace!" } })
  })

  it("stream", async () => {
    const { id } = await endpoint("countdown").run({ input: { from: 4 } })
    const seen: Array<unknown> = []
    for await (const chunk of endpoint("countdown").stream(id)) seen.push(chunk)
    expect(seen).toEqual([4, 3, 2, 1].map((output) => ({ output })))
  })

  it("cancel, health and purgeQueue", async () => {
    // Jobs of an endpoint without workers stay in the queue.
    expect((await stint(platform, ["endpoints", "create", "unserved", "--external"])).code).toBe(0)
    const { id } = await endpoint("unserved").run({ input: { n: 1 } })
    await endpoint("unserved").run({ input: { n: 2 } })
    expect(await endpoint("unserved").health()).toMatchObject({ jobs: { inQueue: 2 } })
    expect(await endpoint("unserved").cancel(id)).toEqual({ id, status: "CANCELLED" })
    expect(await endpoint("unserved").purgeQueue()).toEqual({ removed: 1, status: "completed" })
    expect(await endpoint("unserved").health()).toMatchObject({ jobs: { inQueue: 0 } })
  })
})

describe("an external worker", () => {
  it("connects with the environment of worker-env, takes jobs, and exits", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
    const { stdout } = await stint(platform, ["worker-env", "joined", "--prefix", "RUNPOD_"])
    const variables = Object.fromEntries(
      stdout.trim().split("\n").map((line) => {
        const at = line.indexOf("=")
        return [line.slice(0, at), line.slice(at + 1)]
      })
    )
    const worker = spawn(process.execPath, [join(FIXTURES, "slow.ts")], {
      stdio: "ignore",
      env: { PATH: process.env["PATH"], ...variables }
    })
    const ended = new Promise<number | null>((resolve) => worker.once("exit", resolve))
    try {
      expect(await platform.runSync("joined", { n: 8 })).toMatchObject({ status: "COMPLETED", output: { n: 8, pid: worker.pid } })
    } finally {
      worker.kill("SIGTERM")
    }
    expect(await ended).toBe(0)
  }, 60_000)
})
