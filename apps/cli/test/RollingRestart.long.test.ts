/**
 * R13 with several nodes: three platforms with one PostgreSQL database behind a load balancer are restarted with SIGTERM, one after another, again and again,
 * while callers submit jobs, wait for their results and stream them. No caller sees an error, and no job runs twice.
 */
import { missing } from "@stint/store-postgres/testing"
import { SeededRandom } from "@stint/store-testing"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { LoadBalancer } from "./LoadBalancer.ts"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"
import { startDatabase } from "./SharedDatabase.ts"
import { historyOf } from "./ShutdownScenario.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]
const NODES = 3
/** Every node seven times; in a long run, every node twenty times. */
const RESTARTS = NODES * (SeededRandom.chaosMinutes() === undefined ? 7 : 20)
const CALLERS = 6
const TERMINAL = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 120_000

describe.skipIf(missing !== undefined)(missing ?? "rolling restarts of three nodes under load", () => {
  it("R13: no caller sees an error, and each job runs once and ends once", async () => {
    await using database = await startDatabase()
    await using nodes = new AsyncDisposableStack()
    const platforms: Array<PlatformProcess> = []
    // Five probes of the load balancer.
    const settings = { ...database.settings, STINT_SHUTDOWN_DELAY: "1 second" }
    for (let n = 0; n < NODES; n++) platforms.push(nodes.use(await PlatformProcess.create(CONFIG, settings)))
    const [first] = platforms
    if (first === undefined) throw new Error("there is no node")
    await using balancer = await LoadBalancer.start(platforms.map(({ port }) => port))
    const log = join(first.dataDir, "log")

    const errors: Array<string> = []
    const ended = new Map<string, JobObject>()
    const state = { isOver: false, restarts: 0 }

    /** A request through the load balancer. A response other than 200 is an error of the caller. */
    const call = async (method: string, path: string, body?: unknown): Promise<string> => {
      const response = await fetch(balancer.url + path, {
        method,
        headers: { authorization: `Bearer ${first.key}`, "content-type": "application/json" },
        signal: AbortSignal.timeout(LIMIT),
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await response.text()
      if (response.status !== 200) errors.push(`restart ${state.restarts}: ${method} ${path}: ${response.status} ${text}`)
      return text
    }
    const input = () => ({ input: { ms: 20, log } })
    const finish = async (job: JobObject): Promise<void> => {
      let current = job
      const deadline = Date.now() + LIMIT
      while (!TERMINAL.has(current.status)) {
        if (Date.now() > deadline) throw new Error(`job ${job.id} does not end`)
        current = JSON.parse(await call("GET", `/v2/slow/status-sync/${job.id}?wait=5000`)) as JobObject
      }
      ended.set(current.id, current)
    }

    /** The ways in which callers wait, in turn: for the response, with a second request, and for events. */
    const ways: ReadonlyArray<() => Promise<void>> = [
      async () => finish(JSON.parse(await call("POST", "/v2/slow/runsync?wait=5000", input())) as JobObject),
      async () => finish(JSON.parse(await call("POST", "/v2/slow/run", input())) as JobObject),
      async () => {
        const job = JSON.parse(await call("POST", "/v2/slow/run", input())) as JobObject
        await call("GET", `/v2/slow/events/${job.id}`)
        await finish(job)
      }
    ]
    const caller = async (n: number) => {
      for (let turn = n; !state.isOver; turn++) {
        await ways[turn % ways.length]?.().catch((error: unknown) => errors.push(`restart ${state.restarts}: ${String(error)}`))
      }
    }
    const calling = Promise.all(Array.from({ length: CALLERS }, (_, n) => caller(n)))

    const more = (count: number) => until(`${count} ended jobs`, () => ended.size >= count ? true : undefined, LIMIT)
    await more(10)
    for (; state.restarts < RESTARTS; state.restarts++) {
      const node = platforms[state.restarts % NODES]
      const { code } = await node?.end("SIGTERM") ?? { code: -1 }
      if (code !== 0) errors.push(`restart ${state.restarts}: the node ended with code ${code}`)
      await node?.start()
      // The operator continues when the node receives requests and jobs end.
      await until("all nodes to be ready", () => balancer.ready === NODES ? true : undefined, LIMIT)
      await more(ended.size + 5)
    }
    state.isOver = true
    await calling

    expect([...errors, ...balancer.cut]).toEqual([])
    expect([...ended.values()].filter(({ status }) => status !== "COMPLETED")).toEqual([])
    const lines = await historyOf(log)
    const timesOf = (event: string, id: string) => lines.filter((line) => line.event === event && line.id === id).length
    const wrong = [...ended.keys()].filter((id) => timesOf("started", id) !== 1 || timesOf("finished", id) !== 1)
    expect(wrong, "jobs that did not run exactly once").toEqual([])
    process.stdout.write(`${RESTARTS} restarts of ${NODES} nodes: ${ended.size} jobs, 0 errors of callers, 0 ran twice\n`)
  }, 1_800_000)
})
