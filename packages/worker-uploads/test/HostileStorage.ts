/**
 * A storage service on loopback that responds as S3 does, except to requests for which a test has set a fault.
 */
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"

/** The requests of an upload. */
export type Operation = "put" | "create" | "part" | "complete" | "abort"

/** The fault of a request. */
export type Fault =
  /** No response. */
  | "hang"
  /** The response is delayed until the test releases it. */
  | "hold"
  /** The connection is closed in the middle of the body. */
  | "cut"
  /** This response. */
  | { readonly status: number; readonly body: string; readonly headers?: { readonly [name: string]: string } }

/** One received request. */
export interface Recorded {
  readonly operation: Operation
  readonly url: URL
  readonly headers: IncomingMessage["headers"]
  /** Received bytes. */
  size: number
  /** The client disconnected before the response. */
  abandoned: boolean
}

const operationOf = (method: string, url: URL): Operation => {
  if (method === "POST") return url.searchParams.has("uploads") ? "create" : "complete"
  if (method === "DELETE") return "abort"
  return url.searchParams.has("partNumber") ? "part" : "put"
}

const ANSWERS: Record<Operation, { readonly status: number; readonly body: string }> = {
  put: { status: 200, body: "" },
  create: {
    status: 200,
    body: `<?xml version="1.0"?><InitiateMultipartUploadResult><UploadId>upload-1</UploadId></InitiateMultipartUploadResult>`
  },
  part: { status: 200, body: "" },
  complete: {
    status: 200,
    body: `<?xml version="1.0"?><CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`
  },
  abort: { status: 204, body: "" }
}

/** The body of an error as S3 writes it. */
export const errorBody = (code: string, message: string, more = ""): string =>
  `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${message}</Message>${more}</Error>`

/** The server. */
export class HostileStorage {
  readonly requests: Array<Recorded> = []
  /** The number of connections so far. */
  connections = 0
  #held: Array<() => void> = []
  readonly #faults = new Map<Operation, Array<Fault>>()
  readonly #always = new Map<Operation, Fault>()
  readonly #watchers = new Set<() => void>()
  readonly #server = createServer((request, response) => this.#serve(request, response))

  /** Listens on a free local port. */
  async up(): Promise<void> {
    this.#server.on("connection", () => void this.connections++)
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve))
  }

  async down(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  get url(): string {
    const address = this.#server.address()
    return typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}` : ""
  }

  /** Sets the faults for the next requests of this kind, in order. */
  fail(operation: Operation, ...faults: ReadonlyArray<Fault>): void {
    this.#faults.set(operation, [...this.#faults.get(operation) ?? [], ...faults])
  }

  /** Sets the fault of all requests of this kind. */
  failAlways(operation: Operation, fault: Fault): void {
    this.#always.set(operation, fault)
  }

  /** Responds to all delayed requests, and stops delaying. */
  release(): void {
    for (const [operation, fault] of this.#always) if (fault === "hold") this.#always.delete(operation)
    for (const answer of this.#held.splice(0)) answer()
  }

  of(operation: Operation): ReadonlyArray<Recorded> {
    return this.requests.filter((request) => request.operation === operation)
  }

  /** Waits for a condition. It is checked whenever a request arrives, completes, or is cancelled. */
  until(check: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const watcher = () => {
        if (!check()) return
        this.#watchers.delete(watcher)
        resolve()
      }
      this.#watchers.add(watcher)
      watcher()
    })
  }

  #look(): void {
    for (const watcher of [...this.#watchers]) watcher()
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", this.url)
    const operation = operationOf(request.method ?? "", url)
    const recorded: Recorded = { operation, url, headers: request.headers, size: 0, abandoned: false }
    this.requests.push(recorded)
    const fault = this.#faults.get(operation)?.shift() ?? this.#always.get(operation)
    response.on("close", () => {
      recorded.abandoned = !response.writableEnded
      this.#look()
    })
    request.on("error", () => {})
    request.on("data", (chunk: Buffer) => {
      recorded.size += chunk.byteLength
      if (fault === "cut") request.socket.destroy()
    })
    request.on("end", () => {
      this.#look()
      if (fault === "hang") return
      if (fault === "cut") {
        request.socket.destroy()
        return
      }
      if (fault !== "hold") answer(fault)
      else if (this.#always.get(operation) === "hold") this.#held.push(() => answer(undefined))
      else answer(undefined)
    })
    const answer = (fault: Exclude<Fault, string> | undefined) => {
      const { body, headers, status } = { headers: undefined, ...ANSWERS[operation], ...fault }
      const etag = fault === undefined && (operation === "put" || operation === "part") ? { etag: `"${recorded.size}"` } : {}
      response.writeHead(status, { "content-type": "application/xml", ...etag, ...headers })
      response.end(body)
    }
    this.#look()
  }
}
