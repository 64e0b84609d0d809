/**
 * A stub platform in the measuring process: returns a job for every take at once, counts results and never responds to stop polls.
 */
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import type { IncomingMessage, Server, ServerResponse } from "node:http"

/** A server on a free loopback port. */
export interface Listening {
  readonly server: Server
  readonly url: string
  readonly close: () => void
}

/** Starts a server. */
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

export interface Stub {
  /** The request handler for {@link listen}. */
  readonly serve: (request: IncomingMessage, response: ServerResponse) => void
  /** Resets the count. From then on, `onResult` receives the count after each result. */
  readonly restart: (onResult: (results: number) => void) => void
}

const decodeResults = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(Schema.Unknown)))

/** A stub platform whose jobs have these fields and an id. */
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
      if (url.includes("/job-done-batch/")) {
        let text = ""
        request.setEncoding("utf8").on("data", (part: string) => {
          text += part
        })
        request.once("end", () => {
          const statuses = decodeResults(text).map(() => ({ status: 200 }))
          for (const _ of statuses) listener(++results)
          answer(200, statuses)
        })
        return
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
        else if (url.includes("/job-stop/")) return // Stop polls stay open: the stub stops no job.
        else answer(200, {})
      })
    }
  }
}
