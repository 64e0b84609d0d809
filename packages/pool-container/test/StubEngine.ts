/**
 * A stub of the documented engine API, on a real unix socket. Its containers run no program: tests print their lines and end them.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { machinePlatform } from "../src/Images.ts"

/** One frame of multiplexed output. */
export const frame = (stream: 1 | 2, text: string): Buffer => {
  const payload = Buffer.from(text)
  const header = Buffer.alloc(8)
  header.writeUInt8(stream, 0)
  header.writeUInt32BE(payload.length, 4)
  return Buffer.concat([header, payload])
}

export class StubContainer {
  readonly body: Readonly<Record<string, unknown>>
  readonly name: string
  readonly signals: Array<string> = []
  status: "created" | "running" | "exited" = "created"
  code = 0
  outOfMemory = false
  cpuNanos = 0
  memory: { readonly usage?: number; readonly stats?: Readonly<Record<string, number>> | null } | undefined
  output: Buffer = Buffer.alloc(0)
  readonly #waiting = new Set<() => void>()
  readonly #following = new Set<ServerResponse>()

  constructor(name: string, body: Readonly<Record<string, unknown>>) {
    this.name = name
    this.body = body
  }

  print(bytes: Buffer): void {
    this.output = Buffer.concat([this.output, bytes])
    for (const response of this.#following) response.write(bytes)
  }

  exit(code: number, outOfMemory = false): void {
    this.status = "exited"
    this.code = code
    this.outOfMemory = outOfMemory
    for (const done of this.#waiting) done()
    for (const response of this.#following) response.end()
  }

  wait(response: ServerResponse): void {
    const done = () => response.end(JSON.stringify({ StatusCode: this.code }))
    if (this.status === "running") this.#waiting.add(done)
    else done()
  }

  logs(response: ServerResponse, follow: boolean): void {
    response.write(this.output)
    if (!follow || this.status !== "running") response.end()
    else this.#following.add(response)
  }
}

const IMAGE = /^\/images\/(.+)\/json$/
const CONTAINER = /^\/containers\/([^/]+)(\/\w+)?$/

export class StubEngine {
  readonly folder = mkdtempSync(join(tmpdir(), "stint-engine-"))
  readonly socket = join(this.folder, "engine.sock")
  readonly containers = new Map<string, StubContainer>()
  /** All containers that were created. */
  readonly created: Array<StubContainer> = []
  readonly images = new Map<string, { Id: string; Architecture: string; Os: string; RepoDigests: ReadonlyArray<string> }>()
  /** The answer to `/version`. */
  version: { readonly Version: string; readonly Components?: ReadonlyArray<{ readonly Name: string }> } = { Version: "28.2.2" }
  /** `METHOD path` of each request. */
  readonly requests: Array<string> = []
  /** Answers a pull. */
  pull: (image: string, request: IncomingMessage, response: ServerResponse) => void = (_, __, response) => {
    response.writeHead(404).end(JSON.stringify({ message: "manifest unknown" }))
  }
  /** A response that replaces the next one to `METHOD path`. */
  readonly overrides = new Map<string, { readonly status: number; readonly message: string }>()
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined

  addImage(
    reference: string,
    more: { readonly architecture?: string; readonly digest?: string; readonly id?: string } = {}
  ): void {
    const [Os = "", architecture = ""] = machinePlatform().split("/")
    this.images.set(reference, {
      Id: more.id ?? `sha256:${reference.length}`,
      Architecture: more.architecture ?? architecture,
      Os,
      RepoDigests: more.digest === undefined ? [] : [more.digest]
    })
  }

  /** The only container. */
  get only(): StubContainer {
    const [container, ...others] = this.containers.values()
    if (container === undefined || others.length > 0) throw new Error(`there are ${this.containers.size} containers`)
    return container
  }

  /** Starts to listen, also after {@link vanish}. */
  appear(): Promise<void> {
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => this.#answer(request, Buffer.concat(chunks).toString(), response))
    })
    server.on("connection", (socket) => {
      this.#sockets.add(socket)
      socket.once("close", () => this.#sockets.delete(socket))
    })
    this.#server = server
    return new Promise((listening) => server.listen(this.socket, listening))
  }

  /** Closes all connections and the socket; the containers continue. */
  vanish(): Promise<void> {
    const server = this.#server
    const closed = new Promise<void>((done) => server === undefined ? done() : server.close(() => done()))
    for (const socket of this.#sockets) socket.destroy()
    return closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.vanish()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #answer(request: IncomingMessage, body: string, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://engine")
    const path = decodeURIComponent(pathname)
    const key = `${request.method} ${path}`
    this.requests.push(key)
    const refuse = (status: number, message: string) => response.writeHead(status).end(JSON.stringify({ message }))
    const override = this.overrides.get(key)
    if (override !== undefined) {
      this.overrides.delete(key)
      return void refuse(override.status, override.message)
    }
    const json = (value: unknown) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value))
    if (path === "/version") return void json(this.version)
    const image = IMAGE.exec(path)?.[1]
    if (image !== undefined) {
      const found = this.images.get(image)
      return void (found === undefined ? refuse(404, `no such image: ${image}`) : json(found))
    }
    if (path === "/images/create") return this.pull(searchParams.get("fromImage") ?? "", request, response)
    if (path === "/containers/create") {
      const name = searchParams.get("name") ?? ""
      if (this.containers.has(name)) return void refuse(409, `the container name "${name}" is already in use`)
      const container = new StubContainer(name, JSON.parse(body))
      this.containers.set(name, container)
      this.created.push(container)
      return void json({ Id: name })
    }
    if (path === "/containers/json") {
      const filters: unknown = JSON.parse(searchParams.get("filters") ?? "{}")
      const [label = ""] = (filters as { readonly label: ReadonlyArray<string> }).label
      const listed = [...this.containers.values()].map(({ body, name }) => ({
        Id: name,
        Labels: body["Labels"] as Record<string, string>
      }))
      return void json(
        listed.filter(({ Labels }) => Object.entries(Labels).some(([name, value]) => `${name}=${value}` === label))
      )
    }
    const [, name = "", action = ""] = CONTAINER.exec(path) ?? []
    const container = this.containers.get(name)
    if (container === undefined) return void refuse(404, `no such container: ${name}`)
    switch (`${request.method} ${action}`) {
      case "POST /start":
        container.status = "running"
        return void response.writeHead(204).end()
      case "GET /json":
        return void json({
          Id: name,
          State: {
            Status: container.status,
            Running: container.status === "running",
            OOMKilled: container.outOfMemory,
            Pid: 0,
            ExitCode: container.code
          }
        })
      case "GET /stats":
        return void json({ cpu_stats: { cpu_usage: { total_usage: container.cpuNanos } }, memory_stats: container.memory })
      case "POST /wait":
        return container.wait(response)
      case "POST /kill": {
        const signal = searchParams.get("signal") ?? ""
        if (container.status !== "running") return void refuse(409, `container ${name} is not running`)
        container.signals.push(signal)
        response.writeHead(204).end()
        if (signal === "SIGKILL") container.exit(137)
        return
      }
      case "GET /logs":
        return container.logs(response, searchParams.get("follow") === "true")
      case "DELETE ":
        if (container.status === "running") container.exit(137)
        this.containers.delete(name)
        return void response.writeHead(204).end()
      default:
        refuse(404, `the stub does not know ${key}`)
    }
  }
}
