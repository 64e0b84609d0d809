/**
 * Agents on other machines (docs/operations/agents.md): a platform that runs no workers itself, real agents, lost machines, restarts and partitions.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import { agentIn, AgentProcess, agentsOf, DroppingProxy } from "./AgentProcess.ts"
import { FIXTURES, type JobObject, PlatformProcess, stint, until } from "./PlatformProcess.ts"

/** How long a test may take on a busy machine. Milliseconds. */
const LIMIT = 85_000

/** The lease of the endpoint `one`. Milliseconds. */
const LEASE = 10_000

/** A job that completed at its first attempt, in this process. A repeated job has the member `retries`. */
const whole = (pid: number): unknown =>
  expect.toSatisfy((job: JobObject) =>
    job.status === "COMPLETED" && (job.retries ?? 0) === 0 && (job.output as { readonly pid: number }).pid === pid
  )

interface LogEvent {
  readonly event: string
  readonly pid: number
}

describe("agents", () => {
  let platform: PlatformProcess
  let token = ""
  let folder = ""
  const agents: Array<AsyncDisposable> = []

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-agents-test-"))
    platform = await PlatformProcess.create(["serve"], { STINT_LOCAL_WORKERS: "0" })
    const created = await platform.request("POST", "/api/v1/keys", { name: "racks", scopes: ["agent"], endpoints: "all" })
    token = (created.body as { readonly secret: string }).secret
    const deployed = await stint(platform, ["deploy", "--config", join(FIXTURES, "agents.config.ts"), "--yes"])
    expect(deployed.code, deployed.stderr + deployed.stdout).toBe(0)
  }, LIMIT)
  afterEach(async () => {
    for (const one of agents.splice(0)) await one[Symbol.asyncDispose]()
    await until(
      "the agents of the test to be lost",
      async () => (await agentsOf(platform)).every(({ state }) => state === "lost") || undefined,
      30_000
    )
  }, LIMIT)
  afterAll(async () => {
    await platform?.[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  }, LIMIT)

  const join2 = async (name: string, url = platform.url): Promise<AgentProcess> => {
    const agent = await AgentProcess.create(name, url, token)
    agents.push(agent)
    await agentIn(platform, name, "connected", 60_000).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${agent.output}\n${platform.output.slice(-4_000)}`)
    })
    return agent
  }
  const events = async (log: string): Promise<ReadonlyArray<LogEvent>> =>
    (await readFile(log, "utf8").catch(() => "")).split("\n").filter((line) => line !== "").map((line) =>
      JSON.parse(line) as LogEvent
    )
  const started = (log: string, count: number) =>
    until(`start ${count} of the job`, async () => {
      const found = (await events(log)).filter(({ event }) => event === "started")
      return found.length >= count ? found[count - 1] : undefined
    }, 60_000)

  it("starts the first worker on the only agent, with the release's code from the platform", async () => {
    const agent = await join2("one")
    const job = await platform.runSync("one", { n: 7 })
    expect(job).toMatchObject({ status: "COMPLETED", output: { n: 7 } })
    expect(await agent.workerPids()).toContain((job.output as { readonly pid: number }).pid)
    expect(await readdir(join(agent.dataDir, "releases"))).toHaveLength(1)
    const text = (await stint(platform, ["agents"])).stdout
    expect(text).toMatch(/one +connected +\d\/4/)
  }, LIMIT)

  it("runs a lost machine's job on another machine within the job's lease plus 5 s", async () => {
    // Both have the same number of free slots, so the first by name gets the worker.
    const first = await join2("one")
    await join2("two")
    const log = join(folder, "lost.log")
    const id = await platform.run("one", { ms: 4_000, log })
    await started(log, 1)
    await first.crash()
    const lostAt = Date.now()
    await started(log, 2)
    const took = Date.now() - lostAt
    expect(await platform.ended("one", id)).toMatchObject({ status: "COMPLETED", retries: 1 })
    expect(took).toBeLessThan(LEASE + 5_000)
  }, LIMIT)

  it("lets a job finish on its worker when its agent is killed and started again", async () => {
    const agent = await join2("one")
    const log = join(folder, "restarted.log")
    const id = await platform.run("one", { ms: 8_000, log })
    const { pid } = await started(log, 1) ?? { pid: 0 }
    await agent.end("SIGKILL")
    await agent.start()
    await until("the agent to join again", () => agent.output.split("Joined the platform").length > 2 || undefined, 30_000)
    expect((await agentsOf(platform)).find(({ name }) => name === "one")?.workers).toHaveLength(1)
    expect(await platform.ended("one", id)).toEqual(whole(pid))
  }, LIMIT)

  it("adopts the workers of agents after a restart of the platform", async () => {
    const agent = await join2("one")
    const log = join(folder, "platform.log")
    const id = await platform.run("one", { ms: 12_000, log })
    const { pid } = await started(log, 1) ?? { pid: 0 }
    await platform.end("SIGKILL")
    await platform.start()
    await agentIn(platform, "one", "connected", 30_000)
    await until("the worker to be adopted", () => platform.output.includes("outlived an earlier run") || undefined, 30_000)
    expect(await platform.ended("one", id)).toEqual(whole(pid))
    await until("the adopted worker to exit", async () => (await agent.workerPids()).length === 0 || undefined, 30_000)
    expect(await platform.runSync("one", { n: 8 })).toMatchObject({ status: "COMPLETED", output: { n: 8 } })
  }, LIMIT)

  it("gives no workers to an agent that receives no responses, and accepts it again afterwards", async () => {
    await using proxy = await DroppingProxy.create(() => platform.port)
    const deaf = await join2("deaf", proxy.url)
    expect(await platform.runSync("one", { n: 1 })).toMatchObject({ status: "COMPLETED" })
    proxy.drop = "answers"
    await agentIn(platform, "deaf", "lost", 25_000)
    await join2("two")
    expect(await platform.runSync("one", { n: 2 })).toMatchObject({ status: "COMPLETED", output: { n: 2 } })
    proxy.heal()
    await agentIn(platform, "deaf", "connected", 30_000)
    expect(deaf.output.match(/does not answer/g)).toHaveLength(1)
  }, LIMIT)

  it("says in explain why no machine has room, and drains an agent", async () => {
    const agent = await join2("one")
    expect(await platform.runSync("one", { n: 1 })).toMatchObject({ status: "COMPLETED" })
    expect((await platform.request("POST", "/api/v1/agents/one/drain")).body).toMatchObject({ state: "draining" })
    await until("the machine to be empty", async () => (await agent.workerPids()).length === 0 || undefined, 30_000)
    const id = await platform.run("one", { n: 2 })
    const words = await until("the explanation", async () => {
      const { body } = await platform.request("GET", `/v2/one/status/${id}?explain=true`)
      const text = JSON.stringify(body)
      return text.includes("agent one is being drained") ? text : undefined
    }, 30_000)
    expect(words).toContain("STINT_LOCAL_WORKERS is 0")
    expect((await platform.request("POST", "/api/v1/agents/one/resume")).body).toMatchObject({ state: "connected" })
    expect(await platform.ended("one", id)).toMatchObject({ status: "COMPLETED" })
    // On SIGTERM, its workers finish, and then it exits.
    expect(await agent.end("SIGTERM")).toBe(0)
    expect(await agent.workerPids()).toEqual([])
  }, LIMIT)

  it("exits with a hint when the token is wrong, and keeps trying when the platform does not respond", async () => {
    const wrong = await stint(undefined, ["agent", "--join", platform.url, "--token", platform.key], {
      STINT_DATA_DIR: join(folder, "wrong")
    })
    expect(wrong.code).toBe(1)
    expect(wrong.stderr).toContain("stint keys create NAME --scope agent")
    const unjoined = await AgentProcess.create("nobody", "http://127.0.0.1:9", token)
    agents.push(unjoined)
    await until("the message", () => unjoined.output.includes("does not answer") || undefined, 40_000)
  }, LIMIT)
})
