/**
 * Existing clients and workers work unchanged, with only an address and a key.
 */
import { spawn } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import runpodSdk from "runpod-sdk"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { EXAMPLES, FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

/** An endpoint of a platform, as the client sees it. */
const endpointOf = ({ key, url }: PlatformProcess, id: string) => {
  const found = runpodSdk(key, { baseUrl: `${url}/v2` }).endpoint(id)
  if (found === null) throw new Error("no endpoint")
  return found
}

// The client logs its calls on the console.
beforeAll(() => void vi.spyOn(console, "log").mockImplementation(() => {}))
afterAll(() => void vi.restoreAllMocks())

describe("the runpod-sdk client", () => {
  let platform: PlatformProcess
  const endpoint = (id: string) => endpointOf(platform, id)

  beforeAll(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(EXAMPLES, "stint.config.ts")])
  })
  afterAll(() => platform[Symbol.asyncDispose]())

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

describe("the runpod-sdk client and a pipeline", () => {
  let platform: PlatformProcess
  const endpoint = (id: string) => endpointOf(platform, id)

  /** Starts a run that sleeps for an hour, and waits until no worker holds it. */
  const asleep = async (): Promise<string> => {
    const { id } = await endpoint("napping").run({ input: { log: join(platform.dataDir, "begun"), ms: 3_600_000 } })
    await until("the run to sleep", async () => {
      const { body } = await platform.request("GET", `/v2/napping/status/${id}?explain=true`)
      return JSON.stringify(body).includes("\"parked\"") ? true : undefined
    })
    return id
  }

  beforeAll(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "pipelines.config.ts")])
  })
  afterAll(() => platform[Symbol.asyncDispose]())

  it("runSync returns the output of the run", async () => {
    expect(await endpoint("summary").runSync({ input: { text: "a b a\n\nb c" } })).toMatchObject({
      status: "COMPLETED",
      completed: true,
      succeeded: true,
      output: { a: 2, b: 2, c: 1 }
    })
  }, 60_000)

  it("run, then status until the end, which has the error of a failed run", async () => {
    const { id, status } = await endpoint("undone").run({ input: { log: join(platform.dataDir, "undone") } })
    expect(status).toBe("IN_QUEUE")
    const ended = await until("the run to end", async () => {
      const job = await endpoint("undone").status(id)
      return job.status === "COMPLETED" || job.status === "FAILED" ? job : undefined
    })
    expect(ended).toMatchObject({ id, status: "FAILED", succeeded: false, error: expect.stringContaining("not approved") })
  }, 60_000)

  it("stream returns the chunks of the run", async () => {
    const { id } = await endpoint("answer").run({ input: { question: "Why not?" } })
    const seen: Array<unknown> = []
    for await (const chunk of endpoint("answer").stream(id)) seen.push(chunk)
    expect(seen).toEqual(["You ", "asked: ", "Why ", "not?"].map((output) => ({ output })))
    expect(await endpoint("answer").status(id)).toMatchObject({ status: "COMPLETED", output: "You asked: Why not?" })
  }, 60_000)

  it("status, health and cancel know a run that waits without a worker, and purgeQueue leaves it", async () => {
    const parked = await asleep()
    expect(await endpoint("napping").status(parked)).toMatchObject({ status: "IN_PROGRESS", started: true, completed: false })
    // Runs that no worker may take: the idle worker that ran the first one ends a moment after the update.
    expect((await stint(platform, ["endpoints", "update", "napping", "--workers-max", "0"])).code).toBe(0)
    await until("the workers to end", async () => {
      const { workers } = await endpoint("napping").health()
      return Object.values(workers).every((count) => count === 0) ? true : undefined
    })
    for (let n = 0; n < 2; n++) await endpoint("napping").run({ input: { log: join(platform.dataDir, "never"), ms: 1 } })
    expect(await endpoint("napping").health()).toMatchObject({
      jobs: { inQueue: 2, inProgress: 0, completed: 0, failed: 0 }
    })
    expect(await endpoint("napping").purgeQueue()).toEqual({ removed: 2, status: "completed" })
    expect(await endpoint("napping").health()).toMatchObject({ jobs: { inQueue: 0 } })
    expect(await endpoint("napping").status(parked)).toMatchObject({ status: "IN_PROGRESS" })
    expect(await endpoint("napping").cancel(parked)).toEqual({ id: parked, status: "CANCELLED" })
    expect(await endpoint("napping").status(parked)).toMatchObject({ status: "CANCELLED", completed: true, succeeded: false })
  }, 60_000)
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
