/**
 * A stub platform in the measuring process: every take is answered at once with a job, results are counted, stop polls are held.
 */
import { createServer } from "node:http"
import type { IncomingMessage, Server, ServerResponse } from "node:http"

/** A server on a free port of the loopback. */
export interface Listening {
  readonly server: Server
  readonly url: string
  readonly close: () => void
}

/** Serves until it is closed. */
export const listen = async (serve: (request: IncomingMessage, response: ServerResponse) => void): Promise<Listening> => {
  const server = createServer(serve)
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up))
  const address = server.address()
  return {
    server,
    url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

/** What comes to the stub. */
export interface Stub {
  /** Serves it; for {@link listen}. */
  readonly serve: (request: IncomingMessage, response: ServerResponse) => void
  /** Counts from nothing, and calls `onResult` with the count at each result. */
  readonly restart: (onResult: (results: number) => void) => void
}

/** A stub whose jobs are made of these fields and an id. */
export const makeStub = (job: { readonly [key: string]: unknown }): Stub => {
  let jobs = 0
  let results = 0
  let listener: (results: number) => void = () => {}
  const nextJob = () => ({ id: `job-${++jobs}`, ...job })
  return {
    restart: (onResult) => {
      results = 0
      listener = onResult
    },
    serve: (request, response) => {
      const url = request.url ?? ""
      const answer = (status: number, body?: unknown) => {
        response.writeHead(status, { "content-type": "application/json" })
        response.end(body === undefined ? undefined : JSON.stringify(body))
      }
      request.resume()
      request.once("end", () => {
        if (url.includes("/job-done/")) {
          listener(++results)
          answer(200, {})
        } else if (url.includes("/job-take-batch/")) {
          const size = Number(new URL(url, "http://stub").searchParams.get("batch_size") ?? 1)
          answer(200, Array.from({ length: size }, nextJob))
        } else if (url.includes("/job-take/")) answer(200, nextJob())
        else if (url.includes("/job-stop/")) return // A stop poll is held; nobody is stopped here.
        else answer(200, {})
      })
    }
  }
}
