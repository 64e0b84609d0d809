/**
 * An HTTP server for tests, on a free port of 127.0.0.1. Each request receives the next scripted response; the last response repeats.
 */
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

/** A received request. */
export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

/** Responds to a request. */
export type ScriptedResponse = (response: ServerResponse, request: IncomingMessage) => void

/** Responds with a status, a body and headers. */
export const respondWith =
  (status: number, body: string, headers: Record<string, string> = {}): ScriptedResponse => (response) => {
    response.writeHead(status, headers).end(body)
  }

/** Responds with JSON. */
export const json = (body: unknown, status = 200, headers: Record<string, string> = {}): ScriptedResponse =>
  respondWith(status, JSON.stringify(body), { "content-type": "application/json", ...headers })

/** Closes the connection without a response. */
export const resetConnection: ScriptedResponse = (_, request) => {
  request.socket.destroy()
}

/** Closes the connection in the middle of the response. */
export const truncateBody: ScriptedResponse = (response, request) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" })
  response.write("{\"id\":\"j1\",\"status\":\"COMPL", () => request.socket.destroy())
}

/** The response of a platform without events. */
export const noEvents = respondWith(404, "404 page not found")

/** Never responds. */
export const neverRespond: ScriptedResponse = () => {}

/** The error page of a proxy. */
export const BAD_GATEWAY = respondWith(
  502,
  "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
  {
    "content-type": "text/html"
  }
)

/** The server. Dispose it after the test. */
export class ScriptedServer {
  readonly received: Array<Received> = []
  readonly url: string
  #responses: Array<ScriptedResponse>
  readonly #server: ReturnType<typeof createServer>

  private constructor(server: ReturnType<typeof createServer>, url: string, script: Array<ScriptedResponse>) {
    this.#server = server
    this.url = url
    this.#responses = script
    server.on("request", (request, response) => {
      void this.#respond(request, response)
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

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = ""
    for await (const part of request) body += String(part)
    this.received.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers, body })
    const respond = this.#responses.length > 1 ? this.#responses.shift() : this.#responses[0]
    respond?.(response, request)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }
}
