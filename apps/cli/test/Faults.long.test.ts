/**
 * Faults between real processes. The recorded history of the wire is checked against R2, R3, R5, R8, R9 and R10
 * (docs/spec/figures.md#reliability). Each test has the size of an ordinary run; `pnpm chaos --minutes N` runs longer.
 */
import { History, SeededRandom } from "@stint/store-testing"
import { verify } from "@stint/webhooks/verify"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { readFile } from "node:fs/promises"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { RecordingProxy, throughProxy } from "./RecordingProxy.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

const minutes = SeededRandom.chaosMinutes()

/** The time limit of a test, in milliseconds. A long run extends it by its minutes. */
const LIMIT = 120_000 + (minutes ?? 0) * 60_000

/**
 * The start of a platform on an idle machine, in milliseconds. If the start takes twice as long, every measured limit doubles, so that the
 * figures depend on the platform and not on other load of the machine.
 */
const START_MILLIS = 2_000

const pause = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

const isReceipt = (body: unknown): body is { readonly id: string } =>
  typeof body === "object" && body !== null && "id" in body && typeof body.id === "string"

interface Worker {
  readonly name: string
  readonly process: ChildProcess
}

/** A platform with one endpoint, its workers behind a recording proxy, and the history of all calls. */
class World implements AsyncDisposable {
  readonly history = History.make()
  readonly workers = new Set<Worker>()
  /** Background tasks, awaited at the end of the test. */
  readonly background: Array<Promise<void>> = []
  /** The log file of the handlers. */
  readonly log: string
  readonly platform: PlatformProcess
  readonly proxy: RecordingProxy
  /** Slowdown of this machine compared with an idle one; at least 1. */
  slowness = 1
  #variables: Readonly<Record<string, string>> = {}
  #made = 0
  #readers = 0

  private constructor(platform: PlatformProcess, proxyOf: (history: History.History) => RecordingProxy) {
    this.platform = platform
    this.log = join(platform.dataDir, "handlers.log")
    this.proxy = proxyOf(this.history)
  }

  static async create(settings: object, env: Readonly<Record<string, string>> = {}): Promise<World> {
    const begun = Date.now()
    const platform = await PlatformProcess.create(CONFIG, env)
    const slowness = Math.max(1, (Date.now() - begun) / START_MILLIS)
    const waiting: Array<History.HistoryEvent> = []
    // The proxy and the world refer to each other. Events before the world exists go to `waiting`.
    const proxy = await RecordingProxy.listen(() => platform.url, {
      record: (event) => void (world === undefined ? waiting.push(event) : world.history.record(event)),
      events: () => waiting,
      check: () => []
    })
    const world: World | undefined = new World(platform, () => proxy)
    const { status } = await platform.request("PUT", "/api/v1/endpoints/storm", { source: { type: "external" }, ...settings })
    expect(status).toBe(200)
    const env1 = await platform.request("GET", "/api/v1/endpoints/storm/worker-env?prefix=RUNPOD_")
    world.slowness = slowness
    world.#variables = (env1.body as { readonly variables: Record<string, string> }).variables
    return world
  }

  startWorker(): Worker {
    const name = `worker-${++this.#made}`
    const child = spawn(process.execPath, [join(FIXTURES, "storm.ts")], {
      stdio: "ignore",
      env: throughProxy(this.#variables, this.platform.url, this.proxy, name)
    })
    const worker = { name, process: child }
    this.workers.add(worker)
    child.once("exit", () => this.workers.delete(worker))
    return worker
  }

  /** Submits a job until the call is acknowledged, and records it. */
  async submit(input: object, { key, webhook }: { readonly key?: string; readonly webhook?: string } = {}): Promise<string> {
    while (true) {
      try {
        const response = await fetch(`${this.proxy.url}/v2/storm/run`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${this.platform.key}`,
            "content-type": "application/json",
            ...(key === undefined ? {} : { "idempotency-key": key })
          },
          body: JSON.stringify({ input: { log: this.log, ...input }, ...(webhook === undefined ? {} : { webhook }) })
        })
        const body: unknown = await response.json()
        if (response.status !== 200 || !isReceipt(body)) {
          throw new Error(`run returned ${response.status}: ${JSON.stringify(body)}`)
        }
        this.history.record({
          _tag: "Submitted",
          at: Date.now(),
          job: body.id,
          attempts: 10,
          ...(key === undefined ? {} : { key }),
          ...(webhook === undefined ? {} : { webhook: true })
        })
        return body.id
      } catch (error) {
        // The connection was cut or the platform is down. Only a call with a key can be retried without a duplicate job.
        if (!(error instanceof TypeError) || key === undefined) throw error
        await pause(20)
      }
    }
  }

  /** Cancels a job until the call is acknowledged. Returns whether the call ended the job. */
  async cancel(job: string): Promise<boolean> {
    while (true) {
      try {
        const { body, status } = await this.platform.request("POST", `/v2/storm/cancel/${job}`)
        if (status !== 200) throw new Error(`cancel returned ${status}: ${JSON.stringify(body)}`)
        const ended = (body as { readonly status: string }).status === "CANCELLED"
        if (ended) this.history.record({ _tag: "Cancelled", at: Date.now(), job })
        return ended
      } catch (error) {
        if (!(error instanceof TypeError)) throw error
        await pause(20)
      }
    }
  }

  async observe(job: string): Promise<void> {
    const askedAt = Date.now()
    const { output, status } = await this.platform.job("storm", job)
    this.history.record({
      _tag: "Seen",
      at: Date.now(),
      askedAt,
      job,
      // The history rejects an unknown status.
      status: status as Extract<History.HistoryEvent, { readonly _tag: "Seen" }>["status"],
      output: output === undefined || status === "IN_PROGRESS" ? null : JSON.stringify(output)
    })
  }

  /** Reads all events of a job over connections that are cut after `cutMs`. Returns the number of connections. */
  async follow(job: string, cutMs: number): Promise<number> {
    const reader = `reader ${++this.#readers}`
    let last = ""
    for (let connections = 1;; connections++) {
      const controller = new AbortController()
      const timer = setTimeout(() => controller.abort(), cutMs)
      try {
        const response = await fetch(`${this.platform.url}/v2/storm/events/${job}`, {
          signal: controller.signal,
          headers: { authorization: `Bearer ${this.platform.key}`, ...(last === "" ? {} : { "last-event-id": last }) }
        })
        if (response.status === 204) return connections
        if (!response.ok || response.body === null) throw new Error(`events returned ${response.status}`)
        let text = ""
        for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
          text += part
          for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
            const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, "m").exec(text.slice(0, end))?.[1] ?? ""
            const [event, id, data] = [field("event"), field("id"), field("data")]
            text = text.slice(end + 2)
            if (id !== "") last = id
            if (event === "chunk") {
              const { attempt, number, output } = JSON.parse(data)
              this.history.record({
                _tag: "ChunkRead",
                at: Date.now(),
                job,
                reader,
                attempt,
                number,
                output: JSON.stringify(output)
              })
            }
            if (event === "end") {
              const completed = JSON.parse(data).status === "COMPLETED"
              const attempt = completed ? Number(id.split(".")[0]) : 0
              this.history.record({ _tag: "EndRead", at: Date.now(), job, reader, attempt })
              return connections
            }
          }
        }
      } catch (error) {
        if (error instanceof Error && error.message.startsWith("events returned")) throw error
        // The connection was cut. The next one continues at the last event.
        await pause(5)
      } finally {
        clearTimeout(timer)
        controller.abort()
      }
    }
  }

  /** The log lines of the handlers. */
  async handlers(): Promise<ReadonlyArray<{ readonly event: string; readonly id: string; readonly at: number }>> {
    const text = await readFile(this.log, "utf8").catch(() => "")
    return text.trim().split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.workers) {
      worker.process.kill("SIGCONT")
      worker.process.kill("SIGKILL")
    }
    await this.proxy[Symbol.asyncDispose]()
    await this.platform[Symbol.asyncDispose]()
  }
}

const LEASE = 3_000

const STORM = {
  leaseMs: LEASE,
  maxAttempts: 10,
  retry: { maxAttempts: 10, onError: true, backoff: { initialMs: 100, maxMs: 1_000 } }
}

describe("chaos: a storm of faults between real processes", () => {
  it(
    "R1, R2, R3, R5, R9: workers killed and frozen past their lease, lost responses, readers cut every 200 ms, a kill -9 of the platform: " +
      "no stale result, no duplicate job, no gap, and every job has ended a lease and 5 s after the last fault",
    async () => {
      await using world = await World.create(STORM)
      const { history, platform, proxy } = world
      const seed = SeededRandom.runSeed()
      const random = SeededRandom.seededRandom(seed)
      const ids: Array<string> = []
      const callers: Array<Promise<void>> = []
      const frozen = new Set<Worker>()
      const pick = <A>(all: Iterable<A>): A | undefined => {
        const list = [...all]
        return list[Math.floor(random() * list.length)]
      }
      for (let count = 0; count < 3; count++) world.startWorker()
      proxy.cutResponses(0.02, random)
      let freezes = 0
      let kills = 0
      let connections = 0
      const until = Date.now() + 15_000 + (minutes ?? 0) * 60_000
      const half = Date.now() + (until - Date.now()) / 2
      let killed = false

      const thaw = async (worker: Worker) => {
        await pause(1.2 * LEASE)
        frozen.delete(worker)
        worker.process.kill("SIGCONT")
      }

      const caller = async (n: number) => {
        const input = { n, ms: Math.floor(random() * 600), chunks: Math.floor(random() * 5), fails: random() < 0.2 ? 1 : 0 }
        const key = `order ${n}`
        // Sometimes two concurrent submits with the same key.
        const [id = ""] = await Promise.all(
          random() < 0.3 ? [world.submit(input, { key }), world.submit(input, { key })] : [
            world.submit(input, { key })
          ]
        )
        ids.push(id)
        if (random() < 0.3) world.background.push(world.follow(id, 200).then((took) => void (connections += took)))
        if (random() < 0.15) {
          await pause(random() * 500)
          await world.cancel(id)
        }
      }

      for (let n = 0; Date.now() < until; n++) {
        callers.push(caller(n))
        await pause(120 + random() * 120)
        const dice = random()
        const worker = pick([...world.workers].filter((one) => !frozen.has(one)))
        if (worker !== undefined && dice < 0.05) {
          worker.process.kill("SIGKILL")
          kills += 1
          world.startWorker()
        } else if (worker !== undefined && dice < 0.12 && frozen.size < 2) {
          worker.process.kill("SIGSTOP")
          frozen.add(worker)
          freezes += 1
          world.background.push(thaw(worker))
        }
        if (!killed && Date.now() > half) {
          killed = true
          await platform.end("SIGKILL")
          const begun = Date.now()
          await platform.start()
          world.slowness = Math.max(world.slowness, (Date.now() - begun) / START_MILLIS)
        }
      }
      proxy.cutResponses(0, random)
      for (const worker of frozen) worker.process.kill("SIGCONT")
      const stoppedAt = Date.now()
      await Promise.all(callers)
      // Waits for the jobs that have not ended, so that the time of the last end is measured.
      await Promise.all(ids.map(async (id) => {
        await platform.ended("storm", id)
        await world.observe(id)
      }))
      const endedAfter = Date.now() - stoppedAt
      await Promise.all(world.background)
      for (const id of ids) await world.observe(id)
      const figures = { seed, jobs: ids.length, kills, freezes, connections, endedAfter, slowness: world.slowness }
      const endedBy = stoppedAt + (LEASE + 5_000) * world.slowness
      expect(history.check({ endedBy, cancelGrace: 1_000 }), JSON.stringify(figures)).toEqual([])
      expect(new Set(ids).size).toBe(ids.length)
      // The faults happened and had an effect.
      expect(freezes).toBeGreaterThan(0)
      expect(connections).toBeGreaterThan(0)
      const refused = history.events().filter((event) => event._tag === "Delivered" && event.verdict === "refused")
      if (minutes !== undefined) expect(refused.length).toBeGreaterThan(0)
      expect((await platform.request("GET", "/v2/storm/health")).body).toMatchObject({ jobs: { inQueue: 0, inProgress: 0 } })
    },
    LIMIT
  )
})

describe("chaos: a worker frozen past its lease, again and again", () => {
  it("R2: gets its late result refused; each job ends once, with the output of the accepted attempt", async () => {
    await using world = await World.create(STORM)
    const { history } = world
    const rounds = minutes === undefined ? 3 : 20 * minutes
    for (let round = 0; round < rounds; round++) {
      const first = world.startWorker()
      const id = await world.submit({ n: round, ms: 400, chunks: 2 })
      await until("the first attempt", () => history.events().find((event) => event._tag === "Started" && event.job === id))
      first.process.kill("SIGSTOP")
      world.startWorker()
      const job = await world.platform.ended("storm", id)
      expect(job).toMatchObject({ status: "COMPLETED", retries: 1 })
      await world.observe(id)
      first.process.kill("SIGCONT")
      // The worker sends its late chunks and result, or receives a stop signal for the job. Both are recorded.
      await until("the late result or the stop of the frozen worker", async () => {
        const stopped = (await world.handlers()).filter((line) => line.id === id && line.event === "aborted").length > 0
        const delivered = history.events().some((event) => event._tag === "Delivered" && event.job === id && event.attempt === 1)
        return stopped || delivered ? true : undefined
      })
      await world.observe(id)
      for (const { process } of world.workers) process.kill("SIGTERM")
      await until("the workers to exit", () => world.workers.size === 0 ? true : undefined)
    }
    expect(history.check()).toEqual([])
    const stale = history.events().filter((event) => event._tag === "Delivered" && event.attempt === 1)
    for (const event of stale) expect(event).toMatchObject({ verdict: "refused" })
  }, LIMIT)
})

describe("chaos: a cancel of a running job", () => {
  it(
    "R8: interrupts its handler within 3 s even when the worker's job-stop connection is cut, and starts no further attempt",
    async () => {
      await using world = await World.create({ ...STORM, leaseMs: 30_000 })
      const { history, proxy } = world
      const width = 4
      for (let count = 0; count < width; count++) world.startWorker()
      const random = SeededRandom.seededRandom(SeededRandom.runSeed())
      const cancels = minutes === undefined ? 24 : 200 * minutes
      // Cuts the connection repeatedly. The worker reconnects each time.
      const cutting = setInterval(() => proxy.cutOpen("job-stop"), 400)
      try {
        let n = 0
        await Promise.all(Array.from({ length: width }, async () => {
          while (n < cancels) {
            const id = await world.submit({ n: n++, ms: 60_000 })
            await until("the handler to run", async () => (await world.handlers()).find((line) => line.id === id))
            await pause(random() * 500)
            expect(await world.cancel(id)).toBe(true)
            await until("the handler to stop", async () => {
              const line = (await world.handlers()).find((line) => line.id === id && line.event === "aborted")
              if (line !== undefined) history.record({ _tag: "Interrupted", at: line.at, job: id })
              return line
            })
            await world.observe(id)
          }
        }))
      } finally {
        clearInterval(cutting)
      }
      expect(history.check({ interruptWithin: 3_000 * world.slowness })).toEqual([])
    },
    LIMIT
  )
})

describe("chaos: stream readers whose connection is cut", () => {
  it(
    "R9: every 200 ms, by a connection that is lost, while a worker writes: every chunk once and in order, for every reader",
    async () => {
      await using world = await World.create({ ...STORM, leaseMs: 10_000 })
      world.startWorker()
      const rounds = minutes === undefined ? 1 : 6 * minutes
      for (let round = 0; round < rounds; round++) {
        const id = await world.submit({ n: round, ms: 4_000, chunks: 600 })
        const connections = await Promise.all([200, 200, 50, 333].map((cutMs) => world.follow(id, cutMs)))
        await world.observe(id)
        expect(Math.min(...connections)).toBeGreaterThan(4)
      }
      expect(world.history.check()).toEqual([])
      const chunks = world.history.events().filter((event) => event._tag === "ChunkRead")
      expect(chunks.length).toBe(4 * 600 * rounds)
    },
    LIMIT
  )
})

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly response: ServerResponse
}

/** A receiver of webhooks on the loopback. */
const receiver = async (behave: (received: Received) => void) => {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => behave({ headers: request.headers, body: Buffer.concat(parts).toString(), response }))
    // The connections of a killed platform fail.
    request.on("error", () => {})
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("not listening")
  return {
    url: `http://127.0.0.1:${address.port}/hook`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, "close")
    }
  }
}

describe("chaos: webhooks", () => {
  const jobs = minutes === undefined ? 1_000 : 10_000

  it(
    "R10: delivers the end of every job at least once, signed, and never before its commit, from a platform that is killed twice to receivers " +
      `that fail, hang and reset (${jobs} jobs)`,
    async () => {
      await using world = await World.create(STORM, { STINT_WEBHOOKS_ALLOW: "127.0.0.1", STINT_WEBHOOKS_TIMEOUT: "1 second" })
      const { history, platform } = world
      const answered = await platform.request("GET", "/api/v1/endpoints/storm/webhooks/secret")
      const { secret } = answered.body as { readonly secret: string }
      const random = SeededRandom.seededRandom(SeededRandom.runSeed())
      const tried = new Set<string>()
      const notified = new Set<string>()
      let faults = 0

      const behave = ({ body, headers, response }: Received) => {
        const at = Date.now()
        const { id, status } = JSON.parse(body)
        let signed = true
        try {
          verify(secret, headers, body)
        } catch {
          signed = false
        }
        // Each delivery fails at most once, because the retry delays are too long for a test. An accepted delivery counts even without a response.
        const dice = tried.has(id) ? 1 : random()
        tried.add(id)
        const accepted = dice >= 0.3
        history.record({ _tag: "Notified", at, job: id, status, signed, accepted })
        if (accepted) notified.add(id)
        else faults += 1
        if (dice < 0.03) return
        if (dice < 0.15) return void response.destroy()
        response.writeHead(accepted ? 204 : 500 + Math.floor(random() * 4)).end()
      }
      await using first = await receiver(behave)
      await using second = await receiver(behave)
      await using third = await receiver(behave)
      const urls = [first.url, second.url, third.url]

      for (let count = 0; count < 2; count++) world.startWorker()
      const ids: Array<string> = []
      let n = 0
      const submitting = Promise.all(Array.from({ length: 8 }, async () => {
        while (n < jobs) {
          const own = n++
          const webhook = urls[own % urls.length] ?? first.url
          const id = await world.submit({ n: own, log: undefined, fails: own % 50 === 0 ? 1 : 0 }, {
            key: `order ${own}`,
            webhook
          })
          ids.push(id)
          if (own % 20 === 0) await world.cancel(id)
        }
      }))
      for (const share of [0.3, 0.7]) {
        await until("some jobs to be notified", () => notified.size >= share * jobs * 0.5 ? true : undefined, LIMIT)
        await platform.end("SIGKILL")
        await platform.start()
      }
      await submitting
      await until("all jobs to be notified", () => notified.size >= jobs ? true : undefined, LIMIT)
      for (const id of ids) await world.observe(id)
      expect(history.check({ notified: true, cancelGrace: 1_000 })).toEqual([])
      expect(faults).toBeGreaterThan(jobs * 0.2)
    },
    LIMIT
  )
})
