/**
 * Real agents in separate processes, and a TCP proxy between them and the platform that drops one direction.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { programFor } from "./BuiltCommand.ts"
import { type PlatformProcess, until } from "./PlatformProcess.ts"

/** An agent as `GET /api/v1/agents` shows it. */
export interface AgentView {
  readonly name: string
  readonly state: "connected" | "draining" | "lost"
  readonly workers: ReadonlyArray<{ readonly id: string; readonly endpoint: string; readonly state: string }>
}

/** The agents of a platform. */
export const agentsOf = async (platform: PlatformProcess): Promise<ReadonlyArray<AgentView>> =>
  ((await platform.request("GET", "/api/v1/agents")).body as { readonly agents: ReadonlyArray<AgentView> }).agents

export const agentIn = (
  platform: PlatformProcess,
  name: string,
  state: AgentView["state"],
  limitMs = 30_000
): Promise<AgentView> =>
  until(
    `agent ${name} to be ${state}`,
    async () => (await agentsOf(platform)).find((one) => one.name === name && one.state === state),
    limitMs
  )

export class AgentProcess implements AsyncDisposable {
  output = ""
  readonly dataDir: string
  readonly #args: ReadonlyArray<string>
  readonly #token: string
  readonly #within: ReadonlyArray<string>
  #child: ChildProcess | undefined

  private constructor(dataDir: string, args: ReadonlyArray<string>, token: string, within: ReadonlyArray<string>) {
    this.dataDir = dataDir
    this.#args = args
    this.#token = token
    this.#within = within
  }

  /** `within`: a command that becomes the agent, such as `ip netns exec NAME`. */
  static async create(
    name: string,
    url: string,
    token: string,
    within: ReadonlyArray<string> = []
  ): Promise<AgentProcess> {
    const dataDir = await mkdtemp(join(tmpdir(), "stint-agent-"))
    const agent = new AgentProcess(dataDir, ["agent", "--join", url, "--name", name, "--max-workers", "4"], token, within)
    await agent.start()
    return agent
  }

  async start(): Promise<void> {
    const [program = process.execPath, ...args] = [...this.#within, process.execPath, await programFor({}), ...this.#args]
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], STINT_DATA_DIR: this.dataDir, STINT_AGENT_TOKEN: this.#token }
    })
    this.#child = child
    const collect = (data: Buffer) => {
      this.output += data.toString()
    }
    child.stdout.on("data", collect)
    child.stderr.on("data", collect)
  }

  /** Sends a signal and waits for the exit. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const exit = new Promise<number | null>((resolve) => child.once("exit", resolve))
    child.kill(signal)
    return exit
  }

  /** The processes of its workers. */
  async workerPids(): Promise<ReadonlyArray<number>> {
    const folder = join(this.dataDir, "workers")
    const records = (await readdir(folder).catch((): ReadonlyArray<string> => [])).filter((name) => name.endsWith(".json"))
    const texts = await Promise.all(records.map((name) => readFile(join(folder, name), "utf8").catch(() => "{}")))
    return texts.flatMap((text) => (JSON.parse(text) as { readonly pid?: number }).pid ?? [])
  }

  /** Ends the agent and its workers at once, as when the machine loses power. */
  async crash(): Promise<void> {
    const pids = await this.workerPids()
    await this.end("SIGKILL")
    for (const pid of pids) {
      try {
        process.kill(-pid, "SIGKILL")
      } catch {
        // It has already exited.
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.crash()
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
}

/** Forwards connections. `drop` discards the bytes of one direction, or of both, without closing anything. */
export class DroppingProxy implements AsyncDisposable {
  drop: "none" | "requests" | "answers" | "both" = "none"
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(target: () => number) {
    this.#server = createServer((client) => {
      const platform = connect(target(), "127.0.0.1")
      for (const socket of [client, platform]) {
        this.#sockets.add(socket)
        socket.on("error", () => {})
        socket.on("close", () => {
          this.#sockets.delete(socket)
          if (this.drop === "none") {
            client.destroy()
            platform.destroy()
          }
        })
      }
      client.on("data", (data) => {
        if (this.drop === "none" || this.drop === "answers") platform.write(data)
      })
      platform.on("data", (data) => {
        if (this.drop === "none" || this.drop === "requests") client.write(data)
      })
    })
  }

  static async create(target: () => number): Promise<DroppingProxy> {
    const proxy = new DroppingProxy(target)
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve))
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Ends the partition. Connections that have lost bytes are closed, as TCP does after a while. */
  heal(): void {
    this.drop = "none"
    for (const socket of this.#sockets) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
