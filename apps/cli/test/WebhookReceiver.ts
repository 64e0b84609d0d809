/**
 * A webhook receiver on the loopback interface.
 */
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders } from "node:http"

/** A request that the receiver has read. */
export interface ReceivedWebhook {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Starts a receiver that records its requests, and responds with the status that `status` returns. */
export const receiveWebhooks = async (status: () => number = () => 200) => {
  const received: Array<ReceivedWebhook> = []
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("error", () => {})
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(parts).toString() })
      response.writeHead(status()).end()
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("not listening")
  return {
    received,
    url: `http://127.0.0.1:${address.port}/hook`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, "close")
    }
  }
}
