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
export type ScriptedResponse = (response: ServerResponse, request: IncomingMessage) => void

export const respondWith =
  (status: number, body: string, headers: Record<string, string> = {}): ScriptedResponse => (response) => {
    response.writeHead(status, headers).end(body)
  }

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}): ScriptedResponse =>
  respondWith(status, JSON.stringify(body), { "content-type": "application/json", ...headers })

/** The connection is lost before an answer. */
export const resetConnection: ScriptedResponse = (_, request) => {
  request.socket.destroy()
}

/** The connection is lost in the middle of the answer. */
export const truncateBody: ScriptedResponse = (response, request) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" })
  response.write("{\"id\":\"j1\",\"status\":\"COMPL", () => request.socket.destroy())
}

/** There is no such route: a platform without events. */
export const noEvents = respondWith(404, "404 page not found")

/** Nothing ever comes. */
export const neverRespond: ScriptedResponse = () => {}

/** What other servers show. */
export const BAD_GATEWAY = respondWith(
  502,
  "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
  {
    "content-type": "text/html"
  }
)

export class ScriptedServer {
  readonly received: Array<Received> = []
  readonly url: string
  #script: Array<ScriptedResponse>
  readonly #server: ReturnType<typeof createServer>

  private constructor(server: ReturnType<typeof createServer>, url: string, script: Array<ScriptedResponse>) {
    this.#server = server
    this.url = url
    this.#script = script
    server.on("request", (request, response) => {
      void this.#answer(request, response)
    })
  }

  static async start(...script: ReadonlyArray<ScriptedResponse>): Promise<ScriptedServer> {
    const server = createServer()
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("no port")
    return new ScriptedServer(server, `http://127.0.0.1:${address.port}`, [...script])
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
