/**
 * The HTTP server of a peer that is a library: node:http on the loopback. Each POST runs the operation with the body, and responds with its result.
 */
import { createServer } from "node:http"
import process from "node:process"

/** Sends the port to the parent process when the server listens. */
export const serveOperation = async (operation: (body: unknown) => Promise<unknown>): Promise<void> => {
  const server = createServer((request, response) => {
    const respond = (status: number, body: unknown) => {
      const text = JSON.stringify(body)
      response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
      response.end(text)
    }
    let text = ""
    request.setEncoding("utf8")
    request.on("data", (data: string) => {
      text += data
    })
    request.on("end", () => {
      operation(JSON.parse(text)).then(
        (output) => respond(200, { status: "COMPLETED", output }),
        (cause: unknown) => respond(500, { error: String(cause) })
      )
    })
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const address = server.address()
  process.send?.({ port: typeof address === "object" ? address?.port : undefined })
}
