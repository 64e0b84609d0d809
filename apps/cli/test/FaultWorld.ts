/**
 * A platform with one endpoint, its workers behind a recording proxy, and the history of all their calls, for tests of faults between real
 * processes. The platform is one process, or several nodes with one PostgreSQL database, each with a connection to it that a test can cut. Each call of a
 * caller or of a worker then goes to the next node.
 */
import { isTerminal, JobStatus } from "@stint/contract/Job"
import { History } from "@stint/store-testing"
import * as Schema from "effect/Schema"
import { type ChildProcess, spawn } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import { DatabaseLink } from "./DatabaseLink.ts"
import * as JsonLines from "./JsonLines.ts"
import { FIXTURES, PlatformProcess } from "./PlatformProcess.ts"
import { RecordingProxy, throughProxy } from "./RecordingProxy.ts"
import { type SharedDatabase, startDatabase } from "./SharedDatabase.ts"

/**
 * How long a platform takes to start on an idle machine, in milliseconds. If it takes twice as long, every measured limit doubles, so that the
 * figures depend on the platform and not on other load on the machine.
 */
const START_MILLIS = 2_000

export const pause = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

const isReceipt = (body: unknown): body is { readonly id: string } =>
  typeof body === "object" && body !== null && "id" in body && typeof body.id === "string"

/** The longest time that a reader's connection stays open. Milliseconds. */
const MAX_OPEN_MILLIS = 10_000

const isSeen = Schema.is(Schema.Struct({ status: JobStatus, output: Schema.optional(Schema.Unknown) }))

export interface Worker {
  readonly name: string
  readonly process: ChildProcess
}

/** A platform that is one of several. */
export interface Node {
  readonly platform: PlatformProcess
  readonly link: DatabaseLink
}

/** The database and the nodes of a platform that consists of several. */
export interface Nodes {
  readonly database: SharedDatabase
  readonly all: ReadonlyArray<Node>
}

/** A call without a response within this time counts as lost. Milliseconds. */
const CALL_MILLIS = 15_000

const SERVE = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** Whether the connection was cut, or no response came in time. */
const isLost = (error: unknown): boolean => error instanceof TypeError || error instanceof DOMException

/** A platform with one endpoint, its workers behind a recording proxy, and the history of all calls. */
export class FaultWorld implements AsyncDisposable {
  readonly history: History.History
  readonly workers = new Set<Worker>()
  /** Background tasks, awaited at the end of the test. */
  readonly background: Array<Promise<void>> = []
  /** The log file of the handlers. */
  readonly log: string
  /** Undefined when the platform is one process. */
  readonly nodes: Nodes | undefined
  /** Slowdown of this machine compared with an idle one; at least 1. */
  slowness = 1
  /**
   * Whether workers listen for stop signals at the first node alone, and jobs are cancelled through the others. Heartbeats go to the others too,
   * because the first node would learn of a cancel from one.
   */
  cancelsElsewhere = false
  /** The number of times that the platform was started again. */
  restarts = 0
  /** The number of submissions that the platform refused because it could not store them. */
  refusals = 0
  readonly #platforms: ReadonlyArray<PlatformProcess>
  /** Closed at the end, in reverse order. */
  readonly #parts: AsyncDisposableStack
  #proxy: RecordingProxy | undefined
  #variables: Readonly<Record<string, string>> = {}
  /** The address of the platform in these variables. */
  #origin = ""
  #closed = false
  #made = 0
  #readers = 0
  #turn = 0

  private constructor(
    platforms: readonly [PlatformProcess, ...ReadonlyArray<PlatformProcess>],
    nodes: Nodes | undefined,
    history: History.History,
    parts: AsyncDisposableStack
  ) {
    this.#platforms = platforms
    this.nodes = nodes
    this.history = history
    this.#parts = parts
    this.log = join(platforms[0].dataDir, "handlers.log")
  }

  /** The platform, or its next node. */
  get platform(): PlatformProcess {
    const platform = this.#platforms[this.#turn++ % this.#platforms.length]
    if (platform === undefined) throw new Error("there is no platform")
    return platform
  }

  #nodeFor(url: string): PlatformProcess {
    const [first] = this.#platforms
    if (!this.cancelsElsewhere || first === undefined) return this.platform
    return url.includes("/job-stop/") ? first : url.includes("/ping/") ? this.#canceller : this.platform
  }

  /** A node through which a job is cancelled: where workers listen elsewhere, not that one. */
  get #canceller(): PlatformProcess {
    const { platform } = this
    return this.cancelsElsewhere && platform === this.#platforms[0] ? this.platform : platform
  }

  get proxy(): RecordingProxy {
    if (this.#proxy === undefined) throw new Error("there is no proxy")
    return this.#proxy
  }

  /** `nodes`: their number. Default: one process without a PostgreSQL database, unless the variables name one. */
  static async create(settings: object, env: Readonly<Record<string, string>> = {}, nodes?: number): Promise<FaultWorld> {
    const parts = new AsyncDisposableStack()
    let slowness = 1
    const start = async (variables: Readonly<Record<string, string>>): Promise<PlatformProcess> => {
      const begun = performance.now()
      const platform = parts.use(await PlatformProcess.create(SERVE, { ...variables, ...env }))
      slowness = Math.max(slowness, (performance.now() - begun) / START_MILLIS)
      return platform
    }
    const history = History.make()
    let world: FaultWorld
    if (nodes === undefined) {
      world = new FaultWorld([await start({})], undefined, history, parts)
    } else {
      // With fsync, because what PostgreSQL has acknowledged must survive a kill.
      const database = parts.use(await startDatabase({ fsync: true }))
      const all: Array<Node> = []
      while (all.length < nodes) {
        const link = parts.use(await DatabaseLink.open(database.cluster.folder))
        all.push({ platform: await start({ ...database.settings, STINT_DATABASE: link.url }), link })
      }
      const [first, ...others] = all.map(({ platform }) => platform)
      if (first === undefined) throw new Error("a world needs a node")
      world = new FaultWorld([first, ...others], { database, all }, history, parts)
    }
    world.#proxy = parts.use(await RecordingProxy.listen((url) => world.#nodeFor(url).url, history))
    const { platform } = world
    const { status } = await platform.request("PUT", "/api/v1/endpoints/storm", { source: { type: "external" }, ...settings })
    if (status !== 200) throw new Error(`the endpoint could not be created: ${status}`)
    const answered = await platform.request("GET", "/api/v1/endpoints/storm/worker-env?prefix=RUNPOD_")
    world.slowness = slowness
    world.#origin = platform.url
    world.#variables = (answered.body as { readonly variables: Record<string, string> }).variables
    return world
  }

  startWorker(): Worker {
    const name = `worker-${++this.#made}`
    const child = spawn(process.execPath, [join(FIXTURES, "storm.ts")], {
      stdio: "ignore",
      env: throughProxy(this.#variables, this.#origin, this.proxy, name)
    })
    const worker = { name, process: child }
    this.workers.add(worker)
    child.once("exit", () => this.workers.delete(worker))
    return worker
  }

  /** Whether a node responds that it has no database, as it does during a partition. Waits before the next call. */
  async #isRefused(status: number): Promise<boolean> {
    if (status !== 503 || this.nodes === undefined) return false
    this.refusals += 1
    await pause(100)
    return true
  }

  /** Submits a job until the call is acknowledged, and records it. `patient`: also while the platform responds with 503. */
  async submit(
    input: object,
    { key, patient = false, webhook }: { readonly key?: string; readonly patient?: boolean; readonly webhook?: string } = {}
  ): Promise<string> {
    while (true) {
      if (this.#closed) throw new Error("the world is closed")
      try {
        const response = await fetch(`${this.proxy.url}/v2/storm/run`, {
          method: "POST",
          signal: AbortSignal.timeout(CALL_MILLIS),
          headers: {
            authorization: `Bearer ${this.platform.key}`,
            "content-type": "application/json",
            ...(key === undefined ? {} : { "idempotency-key": key })
          },
          body: JSON.stringify({ input: { log: this.log, ...input }, ...(webhook === undefined ? {} : { webhook }) })
        })
        const body: unknown = await response.json()
        if (patient && response.status === 503) {
          this.refusals += 1
          await pause(100)
          continue
        }
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
        if (!isLost(error) || key === undefined) throw error
        await pause(20)
      }
    }
  }

  /** Cancels a job until the call is acknowledged. Returns whether the call ended the job. */
  async cancel(job: string): Promise<boolean> {
    while (true) {
      try {
        const { body, status } = await this.#canceller.request("POST", `/v2/storm/cancel/${job}`)
        if (await this.#isRefused(status)) continue
        if (status === 404) {
          this.history.record({ _tag: "Unknown", at: Date.now(), job })
          return false
        }
        if (status !== 200) throw new Error(`cancel returned ${status}: ${JSON.stringify(body)}`)
        const ended = (body as { readonly status: string }).status === "CANCELLED"
        if (ended) this.history.record({ _tag: "Cancelled", at: Date.now(), job })
        return ended
      } catch (error) {
        if (!isLost(error)) throw error
        await pause(20)
      }
    }
  }

  /** Waits until a job has ended, or until `isOver`, also while the platform responds with 503 or not at all. */
  async waitForEnd(job: string, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      try {
        const { body, status } = await this.platform.request("GET", `/v2/storm/status/${job}`)
        if (status === 404 || (isSeen(body) && isTerminal(body.status))) return
      } catch (error) {
        if (!isLost(error)) throw error
      }
      await pause(100)
    }
  }

  /** Kills the platform, or the next node, and starts it again on the same data. */
  async killPlatform(platform = this.platform): Promise<void> {
    await platform.end("SIGKILL")
    const begun = performance.now()
    await platform.start()
    this.slowness = Math.max(this.slowness, (performance.now() - begun) / START_MILLIS)
    this.restarts += 1
  }

  /** Reads a job and records the platform's response. Returns the job's status; undefined when the job does not exist. */
  async observe(job: string): Promise<string | undefined> {
    const askedAt = Date.now()
    const { body, status: code } = await this.platform.request("GET", `/v2/storm/status/${job}`)
    if (code === 404) {
      this.history.record({ _tag: "Unknown", at: Date.now(), job })
      return undefined
    }
    if (code !== 200 || !isSeen(body)) throw new Error(`status returned ${code}: ${JSON.stringify(body)}`)
    const { output, status } = body
    this.history.record({
      _tag: "Seen",
      at: Date.now(),
      askedAt,
      job,
      status,
      output: output === undefined || status === "IN_PROGRESS" ? null : JSON.stringify(output)
    })
    return status
  }

  /** Waits until a job has ended, but not beyond `deadline`, and records its state. */
  async observeEnd(job: string, deadline: number): Promise<void> {
    while (Date.now() < deadline) {
      const { body, status } = await this.platform.request("GET", `/v2/storm/status-sync/${job}?wait=5000`)
      if (status === 404 || (isSeen(body) && isTerminal(body.status))) break
    }
    await this.observe(job)
  }

  /** The job that a worker took last, unless its result was delivered or it was cancelled. */
  runningJob({ name }: Worker): string | undefined {
    let running: string | undefined
    for (const event of this.history.events()) {
      if (event._tag === "Started" && event.worker === name) running = event.job
      else if (event._tag === "Delivered" && event.worker === name && event.job === running) running = undefined
      else if (event._tag === "Cancelled" && event.job === running) running = undefined
    }
    return running
  }

  /** The workers that are running a job. */
  busyWorkers(): ReadonlyArray<Worker> {
    return [...this.workers].filter((worker) => this.runningJob(worker) !== undefined)
  }

  /** Reads all events of a job over connections that are cut after `cutMs`. Returns the number of connections. */
  async follow(job: string, cutMs: number): Promise<number> {
    const reader = `reader ${++this.#readers}`
    let last = ""
    // A connection that is cut before its first event makes no progress. On a busy machine, the next one therefore stays open for longer.
    let openMs = cutMs
    for (let connections = 1;; connections++) {
      // A reader of a job that never ends, which only a planted bug causes.
      if (this.#closed) return connections
      const before = last
      const controller = new AbortController()
      const timer = setTimeout(() => controller.abort(), openMs)
      const connect = async (): Promise<boolean> => {
        const response = await fetch(`${this.platform.url}/v2/storm/events/${job}`, {
          signal: controller.signal,
          headers: { authorization: `Bearer ${this.platform.key}`, ...(last === "" ? {} : { "last-event-id": last }) }
        })
        if (response.status === 204) return true
        if (await this.#isRefused(response.status)) return false
        if (response.status === 404) {
          this.history.record({ _tag: "Unknown", at: Date.now(), job })
          return true
        }
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
              return true
            }
          }
        }
        return false
      }
      try {
        // An aborted body does not always end its reader.
        if (await Promise.race([connect(), pause(openMs + CALL_MILLIS).then(() => false)])) return connections
      } catch (error) {
        if (error instanceof Error && error.message.startsWith("events returned")) throw error
        // The connection was cut. The next one resumes after the last event.
        await pause(5)
      } finally {
        clearTimeout(timer)
        controller.abort()
        openMs = last === before ? Math.min(2 * openMs, MAX_OPEN_MILLIS) : cutMs
      }
    }
  }

  /** The log lines of the handlers. */
  handlers(): Promise<ReadonlyArray<{ readonly event: string; readonly id: string; readonly at: number }>> {
    return JsonLines.read(this.log)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    for (const worker of this.workers) {
      worker.process.kill("SIGCONT")
      worker.process.kill("SIGKILL")
    }
    await this.#parts[Symbol.asyncDispose]()
  }
}
