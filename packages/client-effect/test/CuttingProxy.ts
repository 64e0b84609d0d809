/**
 * Stands between a client and a platform and cuts the connections of event readers after a number of bytes: in the middle of a line, of a
 * character, of the head.
 */
import { once } from "node:events"
import { createServer, request as send } from "node:http"

export class CuttingProxy {
  readonly url: string
  /** How many connections were cut so far. */
  cuts = 0
  readonly #server: ReturnType<typeof createServer>

  private constructor(server: ReturnType<typeof createServer>, url: string) {
    this.#server = server
    this.url = url
  }

  /** `after` says how many bytes of the next answer to let through; undefined lets all of it through. */
  static async start(platform: string, after: () => number | undefined): Promise<CuttingProxy> {
    const server = createServer()
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("no port")
    const cutter = new CuttingProxy(server, `http://127.0.0.1:${address.port}`)
    server.on("request", (request, response) => {
      const upstream = send(`${platform}${request.url}`, {
        method: request.method,
        headers: request.headers
      })
      const hangUp = () => {
        upstream.destroy()
        response.destroy()
      }
      upstream.on("error", hangUp)
      response.on("close", hangUp)
      request.pipe(upstream)
      upstream.on("response", (answer) => {
        let left = request.url?.includes("/events/") === true ? after() : undefined
        if (left === 0) {
          cutter.cuts += 1
          return hangUp()
        }
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        response.flushHeaders()
        answer.on("error", hangUp)
        answer.on("end", () => response.end())
        answer.on("data", (bytes: Buffer) => {
          if (left === undefined) return void response.write(bytes)
          response.write(bytes.subarray(0, left))
          left -= Math.min(left, bytes.length)
          if (left === 0) {
            cutter.cuts += 1
            // What was written goes out first: it is the middle of something that is to be cut.
            response.write("", hangUp)
          }
        })
      })
    })
    return cutter
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }
}
