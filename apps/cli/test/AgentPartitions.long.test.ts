/**
 * Partitions between a platform and a machine with an agent: packets are dropped in one direction or in both, without a word to either side
 * (docs/operations/agents.md#what-happens-when-something-fails).
 *
 * ```
 *   machine 1, agent "one"     the job begins ---- dropped ---- the worker finishes it, and cannot say so ---- healed: its result is refused
 *   machine 2, agent "two"                           the job begins again, within its lease and 5 s ---------------------- it completes
 * ```
 */
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { agentIn, AgentProcess, agentsOf } from "./AgentProcess.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"
import { type Dropped, missingNetwork, TestNetwork } from "./TestNetwork.ts"

/** How long a test may take on a busy machine. Milliseconds. */
const LIMIT = 180_000

/** The lease of the endpoint `one`. Milliseconds. */
const LEASE = 10_000

/** Longer than the lease and 5 s, so that the lost worker finishes the job after it has begun again. Milliseconds. */
const RUNS = 18_000

interface LogEvent {
  readonly event: string
  readonly pid: number
}

describe("a partition of an agent's machine", () => {
  beforeEach(({ skip }) => skip(missingNetwork !== undefined, missingNetwork))
  let network: TestNetwork | undefined
  let platform: PlatformProcess
  let token = ""
  let folder = ""

  beforeAll(async () => {
    if (missingNetwork !== undefined) return
    network = new TestNetwork()
    folder = await mkdtemp(join(tmpdir(), "stint-partitions-test-"))
    platform = await PlatformProcess.create(["serve"], { STINT_LOCAL_WORKERS: "0", STINT_HOST: network.host })
    const created = await platform.request("POST", "/api/v1/keys", { name: "racks", scopes: ["agent"], endpoints: "all" })
    token = (created.body as { readonly secret: string }).secret
    const deployed = await stint(platform, ["deploy", "--config", join(FIXTURES, "agents.config.ts"), "--yes"])
    expect(deployed.code, deployed.stderr + deployed.stdout).toBe(0)
  }, LIMIT)
  afterAll(async () => {
    await platform?.[Symbol.asyncDispose]()
    network?.[Symbol.dispose]()
    if (folder !== "") await rm(folder, { recursive: true, force: true })
  }, LIMIT)

  const events = async (log: string): Promise<ReadonlyArray<LogEvent>> =>
    (await readFile(log, "utf8").catch(() => "")).split("\n").filter((line) => line !== "").map((line) =>
      JSON.parse(line) as LogEvent
    )
  const nth = (log: string, event: string, count: number) =>
    until(`${event} ${count} of the job`, async () => (await events(log)).filter((one) => one.event === event)[count - 1], 60_000)

  // A request that is under way when the responses are dropped still extends the lease.
  const cases: ReadonlyArray<readonly [Dropped, number]> = [
    ["both", LEASE + 5_000],
    ["requests", LEASE + 5_000],
    ["responses", 2 * LEASE + 5_000]
  ]
  it.each(cases)("%s dropped: the job runs on another machine in time, and the late result is refused", async (what, most) => {
    if (network === undefined) throw new Error("no network")
    const [machine, other] = [network.machine(), network.machine()]
    const [one, two] = [`${what}-1`, `${what}-2`]
    await using first = await AgentProcess.create(one, platform.url, token, machine.within)
    await agentIn(platform, one, "connected", 60_000)
    const log = join(folder, `${what}.log`)
    const id = await platform.run("one", { ms: RUNS, log })
    const lost = await nth(log, "started", 1)
    await using second = await AgentProcess.create(two, platform.url, token, other.within)
    await agentIn(platform, two, "connected", 60_000)

    machine.drop(what)
    const droppedAt = Date.now()
    const again = await nth(log, "started", 2)
    const took = Date.now() - droppedAt
    expect(await second.workerPids()).toContain(again.pid)
    await nth(log, "finished", 1)
    machine.heal()
    expect(await platform.ended("one", id)).toMatchObject({ status: "COMPLETED", retries: 1, output: { pid: again.pid } })
    expect(took).toBeLessThan(most)
    expect(took, "it still had its lease").toBeGreaterThan(2_000)

    await agentIn(platform, one, "connected", 60_000)
    await until("the lost worker to exit", async () => (await first.workerPids()).includes(lost.pid) ? undefined : true, 60_000)
    expect((await events(log)).filter(({ event }) => event === "started")).toHaveLength(2)
    expect((await agentsOf(platform)).filter(({ state }) => state === "connected").map(({ name }) => name)).toEqual(
      expect.arrayContaining([one, two])
    )
  }, LIMIT)
})
