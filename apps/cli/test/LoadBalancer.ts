/**
 * A load balancer as operators configure one (docs/operations/many-nodes.md): it probes `/readyz` of each node, sends each request to the ready nodes in turn,
 * and tries another node only if a connection is refused, when no part of the request has been sent. It repeats no request.
 */
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** The time between two probes of a node. Milliseconds. */
const PROBE_MILLIS = 200

export class LoadBalancer implements AsyncDisposable {
  /** Connections that the nodes cut, with the request: errors of callers. */
  readonly cut: Array<string> = []
  readonly #ports: ReadonlyArray<number>
  readonly #ready = new Set<number>()
  readonly #server: Server
  readonly #probes: ReadonlyArray<NodeJS.Timeout>
  /** Nodes close idle connections when they stop, so none is used twice. */
  readonly #agent = new Agent({ keepAlive: false })
  #turn = 0

  private constructor(ports: ReadonlyArray<number>) {
    this.#ports = ports
    this.#server = createServer((incoming, outgoing) => this.#forward(incoming, outgoing, this.#order()))
    this.#probes = ports.map((port) => setInterval(() => void this.#probe(port), PROBE_MILLIS))
  }

  /** Starts it on a free port, and waits until all nodes are ready. */
  static async start(ports: ReadonlyArray<number>): Promise<LoadBalancer> {
    const balancer = new LoadBalancer(ports)
    await Promise.all(ports.map((port) => balancer.#probe(port)))
    await new Promise<void>((listening) => balancer.#server.listen(0, "127.0.0.1", listening))
    return balancer
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The number of nodes that receive requests. */
  get ready(): number {
    return this.#ready.size
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const probe of this.#probes) clearInterval(probe)
    this.#server.closeAllConnections()
    await new Promise((closed) => this.#server.close(closed))
    this.#agent.destroy()
  }

  async #probe(port: number): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined)
    await response?.body?.cancel()
    if (response?.status === 200) this.#ready.add(port)
    else this.#ready.delete(port)
  }

  /** The ready nodes, each request beginning with the next one. */
  #order(): ReadonlyArray<number> {
    const ports = this.#ports.filter((port) => this.#ready.has(port))
    const first = this.#turn++ % Math.max(1, ports.length)
    return [...ports.slice(first), ...ports.slice(0, first)]
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse, [port, ...others]: ReadonlyArray<number>): void {
    const words = `${incoming.method} ${incoming.url}`
    if (port === undefined) {
      this.cut.push(`${words}: no node is ready`)
      return void outgoing.writeHead(502).end()
    }
    const { headers, method, url: path } = incoming
    const sent = request({ agent: this.#agent, host: "127.0.0.1", port, method, path, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(outgoing)
      response.once("error", (error) => {
        this.cut.push(`${words}: ${error.message} in the middle of the response`)
        outgoing.destroy()
      })
    })
    sent.once("error", (error) => {
      if (outgoing.headersSent) return
      if ("code" in error && error.code === "ECONNREFUSED") return this.#forward(incoming, outgoing, others)
      this.cut.push(`${words}: ${error.message}`)
      outgoing.writeHead(502).end()
    })
    // The body is sent only over an open connection, so that another node can still receive it.
    sent.once("socket", (socket) => socket.once("connect", () => incoming.pipe(sent)))
  }
}
