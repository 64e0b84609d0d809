/**
 * A real platform in a separate process, for tests that kill it. Started by the command that users run, on a free loopback port, with its own
 * data folder that survives restarts.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { programFor } from "./BuiltCommand.ts"

export const EXAMPLES = resolve(import.meta.dirname, "../../../examples")
export const FIXTURES = resolve(import.meta.dirname, "fixtures")

/** The exit of a process. */
export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A request without a response within this time fails. Longer than any wait of the platform. Milliseconds. */
const REQUEST_MILLIS = 120_000

/** How long a platform may take to start on a busy machine. Milliseconds. */
const START_MILLIS = 120_000

/** A port that nothing listens on, for a test that calls the platform before it listens. */
export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  if (address === null || typeof address === "string") throw new Error("no port")
  return address.port
}

/** Polls until `look` returns a value. Fails after `limitMs` with an error that contains `what`. */
export const until = async <A>(
  what: string,
  look: () => Promise<A | undefined> | A | undefined,
  limitMs = 20_000
): Promise<A> => {
  const deadline = Date.now() + limitMs
  while (true) {
    const found = await look()
    if (found !== undefined) return found
    if (Date.now() > deadline) throw new Error(`timed out after ${limitMs} ms waiting for ${what}`)
    await new Promise((next) => setTimeout(next, 20))
  }
}

export class PlatformProcess {
  /** Set once the platform is up. */
  url = ""
  key = ""
  port = 0
  /** Its complete output, across all restarts. */
  output = ""
  readonly dataDir: string
  /** The operator's configuration folder. */
  readonly configDir: string
  readonly #arguments: ReadonlyArray<string>
  readonly #env: Readonly<Record<string, string>>
  readonly #cwd: string
  #child: ChildProcess | undefined
  #ended: Promise<Ended> | undefined

  private constructor(dataDir: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>, cwd: string) {
    this.dataDir = dataDir
    this.configDir = `${dataDir}-config`
    this.#arguments = args
    this.#env = env
    this.#cwd = cwd
  }

  /** `prepare` receives the empty data folder before the platform starts. */
  static async create(
    args: ReadonlyArray<string>,
    env: Readonly<Record<string, string>> = {},
    prepare: (dataDir: string) => Promise<void> = () => Promise.resolve(),
    cwd = process.cwd()
  ): Promise<PlatformProcess> {
    const platform = new PlatformProcess(await mkdtemp(join(tmpdir(), "stint-e2e-")), args, env, cwd)
    try {
      await prepare(platform.dataDir)
      await platform.start()
    } catch (error) {
      await platform[Symbol.asyncDispose]()
      throw error
    }
    return platform
  }

  /** Starts the platform, or restarts it on the same port and data. */
  async start(): Promise<void> {
    const from = this.output.length
    const child = spawn(process.execPath, [await programFor(this.#env), ...this.#arguments], {
      stdio: ["ignore", "pipe", "pipe"],
      cwd: this.#cwd,
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        PORT: String(this.port),
        STINT_DATA_DIR: this.dataDir,
        XDG_CONFIG_HOME: this.configDir,
        ...this.#env
      }
    })
    this.#child = child
    this.#ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })))
    const collect = (data: Buffer) => {
      this.output += data.toString()
    }
    child.stdout?.on("data", collect)
    child.stderr?.on("data", collect)
    await until("the platform to be up", async () => {
      if (child.exitCode !== null) throw new Error(`the platform exited with code ${child.exitCode}:\n${this.output.slice(from)}`)
      const text = this.output.slice(from)
      const url = /Stint is up at +(\S+)/.exec(text)?.[1]
      if (url === undefined || !text.includes("Endpoints ")) return undefined
      const file = /API key +in (.+)/.exec(text)?.[1]
      this.url = url
      this.key = file === undefined ? this.#env["STINT_API_KEY"] ?? "" : (await readFile(file, "utf8")).trim()
      this.port = Number(new URL(url).port)
      return true
    }, START_MILLIS)
  }

  /** The platform's process id. */
  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Sends a signal that does not end the process. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal)
  }

  /** Sends a signal and waits until the process exits. */
  async end(signal: NodeJS.Signals): Promise<Ended> {
    this.#child?.kill(signal)
    return (await this.#ended) ?? { code: null, signal: null }
  }

  /** Stops the platform and removes its data. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null) {
      // A second SIGTERM ends the workers too. A worker whose platform was killed would run its job to the end.
      const immediate = setTimeout(() => this.#child?.kill("SIGTERM"), 5_000)
      const forced = setTimeout(() => this.#child?.kill("SIGKILL"), 20_000)
      await this.end("SIGTERM")
      clearTimeout(immediate)
      clearTimeout(forced)
    }
    // An exiting worker may still write its compile cache.
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    await rm(this.configDir, { recursive: true, force: true })
  }

  /** The key of external workers of an endpoint. */
  async workerKey(endpoint: string): Promise<string> {
    const { body } = await this.request("GET", `/api/v1/endpoints/${endpoint}/worker-env`)
    const { variables } = body as { readonly variables: Readonly<Record<string, string>> }
    return variables["RUNPOD_AI_API_KEY"] ?? ""
  }

  /** `key`: default: the platform's own key. */
  async request(
    method: string,
    path: string,
    body?: unknown,
    key = `Bearer ${this.key}`
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const response = await fetch(this.url + path, {
      method,
      signal: AbortSignal.timeout(REQUEST_MILLIS),
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) }
  }

  /** A job object from `/status`. */
  async job(endpoint: string, id: string): Promise<JobObject> {
    return jobOf((await this.request("GET", `/v2/${endpoint}/status/${id}`)).body)
  }

  async run(endpoint: string, input: unknown): Promise<string> {
    const { body, status } = await this.request("POST", `/v2/${endpoint}/run`, { input })
    if (status !== 200) throw new Error(`run returned ${status}: ${JSON.stringify(body)}`)
    return jobOf(body).id
  }

  async runSync(endpoint: string, input: unknown): Promise<JobObject> {
    return jobOf((await this.request("POST", `/v2/${endpoint}/runsync?wait=60000`, { input })).body)
  }

  /** Waits until a job has ended. */
  async ended(endpoint: string, id: string, limitMs = 60_000): Promise<JobObject> {
    return until(`job ${id} to end`, async () => {
      const job = jobOf((await this.request("GET", `/v2/${endpoint}/status-sync/${id}?wait=5000`)).body)
      return job.status === "IN_QUEUE" || job.status === "IN_PROGRESS" ? undefined : job
    }, limitMs)
  }
}

export interface JobObject {
  readonly id: string
  readonly status: string
  readonly output?: unknown
  readonly error?: string
  readonly retries?: number
  readonly workerId?: string
  readonly executionTime?: number
}

const isJob = (value: unknown): value is JobObject =>
  typeof value === "object" && value !== null && "id" in value && "status" in value && typeof value.id === "string"

const jobOf = (value: unknown): JobObject => {
  if (!isJob(value)) throw new Error(`not a job object: ${JSON.stringify(value)}`)
  return value
}

/** Runs the CLI until it exits. `program`: its file. Default: the one for these variables. */
export const stint = async (
  platform: PlatformProcess | undefined,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
  program?: string
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> => {
  const file = program ?? await programFor(env)
  return await new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [file, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        // Never the configuration folder of the user who runs the tests.
        XDG_CONFIG_HOME: platform?.configDir ?? `${env["STINT_DATA_DIR"] ?? join(tmpdir(), "stint-none")}-config`,
        ...(platform === undefined ? {} : { STINT_URL: platform.url, STINT_API_KEY: platform.key }),
        ...env
      }
    })
    let stdout = ""
    let stderr = ""
    child.stdout.on("data", (data: Buffer) => (stdout += data.toString()))
    child.stderr.on("data", (data: Buffer) => (stderr += data.toString()))
    child.once("error", reject)
    child.once("close", (code) => resolve({ code, stdout, stderr }))
  })
}
