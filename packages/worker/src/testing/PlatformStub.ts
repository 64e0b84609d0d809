/**
 * A small platform in this process, for testing real workers. Implements docs/spec/worker-protocol.md.
 *
 * ```
 *   submit --> waiting --job-take--> running --job-done----> results, or the latest progress
 *   stop   --> job-stop (long poll)        \--job-stream--> chunks
 * ```
 *
 * It stores everything in memory and records every request. Tests inject faults with `failNext`, `dropNext`, `holdNext`, `answerNext`,
 * `down` and `up`. Tests need no sleeps: `until` waits for a condition and checks it after each request.
 */
import { DeliveredResult, workerEnvironment } from "@stint/contract/WorkerProtocol"
import type { EnvPrefix } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { createServer } from "node:http"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"

/** The routes of the worker API. */
export type Route = "job-take" | "job-take-batch" | "job-done" | "job-done-batch" | "job-stream" | "job-stop" | "ping"

/** One request and its response. */
export interface RecordedRequest {
  readonly route: Route
  readonly method: string
  /** The requested path, with its query. */
  readonly url: string
  readonly worker: string
  /** Empty for routes without a job. */
  readonly job: string
  readonly query: { readonly [key: string]: string }
  readonly headers: { readonly [name: string]: string | ReadonlyArray<string> | undefined }
  readonly text: string
  /** When the whole request had arrived. Milliseconds since 1970. */
  readonly at: number
  /** The status of the response; 0 when the connection was dropped, or the worker closed it first. Undefined while the request is held. */
  status: number | undefined
}

/** Options for the stub. */
export interface Options {
  /** The key that workers must send. Default: `stub-key`. */
  readonly key?: string
  /** How long an empty take or stop poll is held. Default: 30 s. Milliseconds. */
  readonly hold?: number
  /** The status of the response to an empty take. Both values mean "no job". Default: 204. */
  readonly empty?: 204 | 400
  /** Whether job-take-batch and job-done-batch exist; if not, the stub responds with 404. Default: true. */
  readonly batch?: boolean
}

/** A job as the stub assigns it. */
export type StubJob = { readonly id: string; readonly [key: string]: unknown }

/** The response to a request with a fault: a status, a dropped connection, a delay, or any body. */
type Fault = number | "drop" | { readonly until: Promise<void> } | { readonly contentType: string; readonly body: string }

interface Poll {
  readonly worker: string
  readonly limit: number
  readonly answer: (body: string | undefined) => void
}

const ROUTES: ReadonlyArray<Route> = [
  "job-take",
  "job-take-batch",
  "job-done",
  "job-done-batch",
  "job-stream",
  "job-stop",
  "ping"
]
const PATH = /^\/v2\/([^/]+)\/([a-z-]+)\/([^/?&]+)(?:\/([^/?&]+))?[?&]?(.*)$/

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))

/** A body of job-done that is progress and not a result (docs/spec/worker-protocol.md#delivering-progress). */
const decodeProgress = Schema.decodeUnknownOption(
  Schema.Struct({ status: Schema.Literal("IN_PROGRESS"), output: Schema.Json })
)

const decodeResults = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(DeliveredResult)))

/** The body of job-done with the same result. */
const bodyOf = ({ attempt: _attempt, id: _id, leaseToken: _token, ...body }: DeliveredResult): Schema.Json => body

const readText = async (request: IncomingMessage): Promise<string> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(Buffer.from(part))
  return Buffer.concat(parts).toString()
}

/** The stub. Make it with {@link make} or {@link start}. */
export class PlatformStub {
  /** Every request in the order of its arrival. */
  readonly requests: Array<RecordedRequest> = []
  readonly endpoint = "stub"
  readonly #options: Required<Options>
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #faults = new Map<Route, Array<Fault>>()
  readonly #waiting: Array<StubJob> = []
  readonly #stops = new Map<string, Array<string>>()
  readonly #results = new Map<string, Schema.Json>()
  readonly #progress = new Map<string, Schema.Json>()
  readonly #chunks = new Map<string, Array<Schema.Json>>()
  readonly #owner = new Map<string, string>()
  #takers: Array<Poll> = []
  #stoppers: Array<Poll> = []
  #watchers: Array<() => void> = []
  #port = 0

  constructor(options: Options = {}) {
    this.#options = { key: "stub-key", hold: 30_000, empty: 204, batch: true, ...options }
    this.#server = createServer((request, response) => void this.#serve(request, response))
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket)
      socket.on("close", () => this.#sockets.delete(socket))
    })
  }

  /** Its address. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** The environment variables for a worker of this platform. */
  environment(options: { readonly prefix?: EnvPrefix; readonly worker?: string; readonly pingIntervalMs?: number } = {}) {
    return workerEnvironment({
      baseUrl: this.url,
      endpoint: this.endpoint,
      key: this.#options.key,
      pingIntervalMs: options.pingIntervalMs ?? 10_000,
      ...(options.prefix === undefined ? {} : { prefix: options.prefix }),
      worker: options.worker ?? "stub-worker"
    })
  }

  /** Starts listening, on the same port as before if there was one. */
  up(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject)
      this.#server.listen(this.#port, "127.0.0.1", () => {
        this.#server.off("error", reject)
        const address = this.#server.address()
        if (typeof address === "object" && address !== null) this.#port = address.port
        resolve()
      })
    })
  }

  /** Stops listening and drops all connections, like a killed platform. Its state is preserved. */
  down(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.#sockets) socket.destroy()
      this.#takers = []
      this.#stoppers = []
    })
  }

  /** Makes a job available. Returns its id. */
  submit(input: unknown, job: { readonly id?: string; readonly [key: string]: unknown } = {}): string {
    const id = job.id ?? crypto.randomUUID()
    this.#waiting.push({ delayTime: 0, ...job, id, input })
    this.#handOut()
    return id
  }

  /** Requests that the worker that holds the job stop it. */
  stop(id: string): void {
    const worker = this.#owner.get(id) ?? ""
    this.#stops.set(worker, [...this.#stops.get(worker) ?? [], id])
    this.#handOut()
  }

  /** Responds to the next `times` requests to this route with this status. */
  failNext(route: Route, times: number, status: number): void {
    this.#addFaults(route, times, status)
  }

  /** Drops the connections of the next `times` requests to this route. */
  dropNext(route: Route, times: number): void {
    this.#addFaults(route, times, "drop")
  }

  /**
   * Holds the next `times` requests to this route until the returned function is called. A request that the worker has closed by then has no
   * effect.
   */
  holdNext(route: Route, times: number): () => void {
    let release = () => {}
    const until = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#addFaults(route, times, { until })
    return release
  }

  /** Responds to the next request to this route with 200 and this body. */
  answerNext(route: Route, contentType: string, body: string): void {
    this.#addFaults(route, 1, { contentType, body })
  }

  /** The requests to one route, in order, limited to one job if given. */
  of(route: Route, job?: string): ReadonlyArray<RecordedRequest> {
    return this.requests.filter((one) => one.route === route && (job === undefined || one.job === job))
  }

  /** What workers sent for a job with job-done and job-done-batch, in order: results and progress. */
  deliveries(job: string): ReadonlyArray<{ readonly status: number | undefined; readonly body: Schema.Json }> {
    return this.requests.flatMap((one) => {
      if (one.route === "job-done" && one.job === job) return [{ status: one.status, body: decodeJson(one.text) }]
      if (one.route !== "job-done-batch") return []
      return decodeResults(one.text).filter(({ id }) => id === job).map((result) => ({
        status: one.status,
        body: bodyOf(result)
      }))
    })
  }

  /** The accepted result of a job; undefined until a result has been accepted. */
  result(id: string): Schema.Json | undefined {
    return this.#results.get(id)
  }

  /** The latest progress of a job before its result. */
  progress(id: string): Schema.Json | undefined {
    return this.#progress.get(id)
  }

  /** The accepted chunks of a job, in order of arrival. */
  chunks(id: string): ReadonlyArray<Schema.Json> {
    return this.#chunks.get(id) ?? []
  }

  /**
   * Waits until `check` returns true. Calls it after every request and in {@link recheck}. Rejects after `limit` ms with the requests so far.
   */
  until(check: () => boolean, limit = 15_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const watcher = () => {
        if (!check()) return
        clearTimeout(timer)
        this.#watchers = this.#watchers.filter((one) => one !== watcher)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#watchers = this.#watchers.filter((one) => one !== watcher)
        const seen = this.requests.map(({ method, status, url }) => `${method} ${url} ${status}`).join("\n")
        reject(new Error(`The condition did not hold within ${limit} ms. Requests:\n${seen}`))
      }, limit)
      this.#watchers.push(watcher)
      watcher()
    })
  }

  /**
   * Calls the checks of `until` again. Use it after a change that involves no request, such as one made by a handler in the same process.
   */
  recheck(): void {
    for (const watcher of [...this.#watchers]) watcher()
  }

  /** Waits for a job's accepted result. */
  async resultOf(id: string): Promise<Schema.Json> {
    await this.until(() => this.#results.has(id))
    return this.#results.get(id) ?? null
  }

  #addFaults(route: Route, times: number, fault: Fault): void {
    this.#faults.set(route, [...this.#faults.get(route) ?? [], ...Array.from({ length: times }, () => fault)])
  }

  #handOut(): void {
    while (this.#waiting.length > 0) {
      const taker = this.#takers.shift()
      if (taker === undefined) break
      const jobs = this.#waiting.splice(0, taker.limit)
      for (const job of jobs) this.#owner.set(job.id, taker.worker)
      taker.answer(taker.limit === 1 ? JSON.stringify(jobs[0]) : JSON.stringify(jobs))
    }
    for (const [worker, ids] of this.#stops) {
      const stopper = this.#stoppers.find((one) => one.worker === worker)
      if (stopper === undefined) continue
      this.#stops.delete(worker)
      this.#stoppers = this.#stoppers.filter((one) => one !== stopper)
      stopper.answer(JSON.stringify({ jobsToStop: ids }))
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request).catch(() => "")
    const [, , name = "", worker = "", job = "", query = ""] = PATH.exec(request.url ?? "") ?? []
    const route = ROUTES.find((one) => one === name)
    if (route === undefined) {
      response.writeHead(404).end()
      return
    }
    const recorded: RecordedRequest = {
      route,
      method: request.method ?? "",
      url: request.url ?? "",
      worker: decodeURIComponent(worker),
      job: decodeURIComponent(job),
      query: Object.fromEntries(new URLSearchParams(query)),
      headers: request.headers,
      text,
      at: Date.now(),
      status: undefined
    }
    this.requests.push(recorded)
    response.on("close", () => {
      if (recorded.status !== undefined) return
      recorded.status = 0
      this.recheck()
    })
    const answer = (status: number, body?: string, contentType = "application/json") => {
      if (recorded.status !== undefined) return
      recorded.status = status
      response.writeHead(status, body === undefined ? {} : { "content-type": contentType })
      response.end(body)
      this.recheck()
    }
    this.recheck()

    const fault = this.#faults.get(route)?.shift()
    if (fault === "drop") request.socket.destroy()
    else if (typeof fault === "object" && "until" in fault) {
      await fault.until
      if (recorded.status === undefined) this.#answer(recorded, response, answer)
    } else if (typeof fault === "object") answer(200, fault.body, fault.contentType)
    else if (fault !== undefined) answer(fault, JSON.stringify({ error: `the test set status ${fault}` }))
    else if (request.headers.authorization !== this.#options.key) answer(401, JSON.stringify({ error: "wrong key" }))
    else this.#answer(recorded, response, answer)
  }

  #answer(recorded: RecordedRequest, response: ServerResponse, answer: (status: number, body?: string) => void): void {
    const { job, route, text, worker } = recorded
    switch (route) {
      case "job-take":
      case "job-take-batch": {
        if (route === "job-take-batch" && !this.#options.batch) return answer(404)
        const limit = route === "job-take" ? 1 : Number(recorded.query["batch_size"] ?? 1)
        const poll: Poll = {
          worker,
          limit,
          answer: (body) => body === undefined ? answer(this.#options.empty) : answer(200, body)
        }
        this.#takers.push(poll)
        this.#hold(poll, response)
        return this.#handOut()
      }
      case "job-stop": {
        const poll: Poll = { worker, limit: 0, answer: (body) => body === undefined ? answer(204) : answer(200, body) }
        this.#stoppers.push(poll)
        this.#hold(poll, response)
        return this.#handOut()
      }
      case "job-done":
        this.#deliver(job, decodeJson(text))
        return answer(200)
      case "job-done-batch": {
        if (!this.#options.batch) return answer(404)
        const delivered = decodeResults(text)
        for (const result of delivered) this.#deliver(result.id, bodyOf(result))
        return answer(200, JSON.stringify(delivered.map(() => ({ status: 200 }))))
      }
      case "job-stream":
        this.#chunks.set(job, [...this.chunks(job), decodeJson(text)])
        return answer(200)
      case "ping":
        return answer(200)
    }
  }

  /** Stores a result or progress. Ignores a body that follows a result, as the platform does. */
  #deliver(job: string, body: Schema.Json): void {
    if (this.#results.has(job)) return
    const progress = decodeProgress(body)
    if (Option.isNone(progress)) this.#results.set(job, body)
    else this.#progress.set(job, progress.value.output)
  }

  #hold(poll: Poll, response: ServerResponse): void {
    const timer = setTimeout(() => poll.answer(undefined), this.#options.hold)
    response.on("close", () => {
      clearTimeout(timer)
      this.#takers = this.#takers.filter((one) => one !== poll)
      this.#stoppers = this.#stoppers.filter((one) => one !== poll)
    })
  }
}

/** A stub that listens until the caller calls `down`. */
export const start = async (options: Options = {}): Promise<PlatformStub> => {
  const stub = new PlatformStub(options)
  await stub.up()
  return stub
}

/** A stub that listens while the scope is open. */
export const make = (options: Options = {}): Effect.Effect<PlatformStub, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.promise(() => start(options)), (stub) => Effect.promise(() => stub.down()))
