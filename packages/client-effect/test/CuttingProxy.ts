/**
 * A proxy that closes the connections of `events` requests after a given number of bytes, which may be in the middle of a line, a
 * character or the headers.
 */
import { once } from "node:events"
import { createServer, request as send } from "node:http"

/** The proxy. Dispose it after the test. */
export class CuttingProxy {
  readonly url: string
  /** The number of closed connections. */
  cuts = 0
  readonly #server: ReturnType<typeof createServer>

  private constructor(server: ReturnType<typeof createServer>, url: string) {
    this.#server = server
    this.url = url
  }

  /** `after` returns how many bytes of the next response to pass on. Undefined: the whole response. */
  static async start(platform: string, after: () => number | undefined): Promise<CuttingProxy> {
    const server = createServer()
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("no port")
    const proxy = new CuttingProxy(server, `http://127.0.0.1:${address.port}`)
    server.on("request", (request, response) => {
      const upstream = send(`${platform}${request.url}`, {
        method: request.method,
        headers: request.headers
      })
      const disconnect = () => {
        upstream.destroy()
        response.destroy()
      }
      upstream.on("error", disconnect)
      response.on("close", disconnect)
      request.pipe(upstream)
      upstream.on("response", (answer) => {
        let left = request.url?.includes("/events/") === true ? after() : undefined
        if (left === 0) {
          proxy.cuts += 1
          return disconnect()
        }
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.flushHeaders()
        answer.on("error", disconnect)
        answer.on("end", () => response.end())
        answer.on("data", (bytes: Buffer) => {
          if (left === undefined) return void response.write(bytes)
          response.write(bytes.subarray(0, left))
          left -= Math.min(left, bytes.length)
          if (left === 0) {
            proxy.cuts += 1
            // Flush the written bytes before closing.
            response.write("", disconnect)
          }
        })
      })
    })
    return proxy
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }
}
