/**
 * A server that answers what it is told to, on a free port of the loopback address: every request takes the next line of the script, and the
 * last line stays.
 */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

/** One request as it came. */
export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

/** What to do with one request. */
export type Line = (response: ServerResponse, request: IncomingMessage) => void

export const says = (status: number, body: string, headers: Record<string, string> = {}): Line => (response) => {
  response.writeHead(status, headers).end(body)
}

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}): Line =>
  says(status, JSON.stringify(body), { "content-type": "application/json", ...headers })

/** The connection is lost before an answer. */
export const hangsUp: Line = (_, request) => {
  request.socket.destroy()
}

/** The connection is lost in the middle of the answer. */
export const breaksOff: Line = (response, request) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" })
  response.write("{\"id\":\"j1\",\"status\":\"COMPL", () => request.socket.destroy())
}

/** There is no such route: a platform without events. */
export const noEvents = says(404, "404 page not found")

/** Nothing ever comes. */
export const isSilent: Line = () => {}

/** What other servers show. */
export const BAD_GATEWAY = says(
  502,
  "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
  {
    "content-type": "text/html"
  }
)

export class HostileServer {
  readonly received: Array<Received> = []
  readonly url: string
  #script: Array<Line>
  readonly #server: ReturnType<typeof createServer>

  private constructor(server: ReturnType<typeof createServer>, url: string, script: Array<Line>) {
    this.#server = server
    this.url = url
    this.#script = script
    server.on("request", (request, response) => {
      void this.#answer(request, response)
    })
  }

  static async start(...script: ReadonlyArray<Line>): Promise<HostileServer> {
    const server = createServer()
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("no port")
    return new HostileServer(server, `http://127.0.0.1:${address.port}`, [...script])
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = ""
    for await (const part of request) body += String(part)
    this.received.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body })
    const line = this.#script.length > 1 ? this.#script.shift() : this.#script[0]
    line?.(response, request)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }
}
