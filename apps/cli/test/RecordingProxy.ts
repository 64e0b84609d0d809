/**
 * A proxy between workers and a platform. It records every call in a history and can cut connections.
 *
 * ```
 *   worker process --> RecordingProxy --> platform
 *                        |  job-take 200    Started
 *                        |  job-stream 200  ChunkWritten
 *                        |  job-stream 409  ChunkRefused
 *                        |  job-done        Delivered: answered, or refused (409)
 *                        |  job-done-batch  Delivered, for each of its results
 * ```
 *
 * It records the platform's response even if the worker never receives it, because the platform has acted on the call. Faults are methods.
 */
import { DeliveredResult, DeliveryStatus, type JobDone } from "@stint/contract/WorkerProtocol"
import type { History } from "@stint/store-testing"
import * as Schema from "effect/Schema"
import { once } from "node:events"
import { createServer, type IncomingMessage, request as httpRequest, type Server, type ServerResponse } from "node:http"
import process from "node:process"

const ROUTES = ["job-take", "job-take-batch", "job-done", "job-done-batch", "job-stream", "job-stop", "ping"] as const

type Route = typeof ROUTES[number] | "other"

/** The bodies and the response of job-done-batch. */
const decodeResults = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(DeliveredResult)))
const decodeStatuses = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(DeliveryStatus)))

/** Parses the path of a worker's call. */
const readCall = (
  url: string
): { readonly route: Route; readonly worker: string; readonly job: string; readonly query: URLSearchParams } => {
  const [, name = "", worker = "", job = "", query = ""] =
    /^\/v2\/[^/]+\/([a-z-]+)\/([^/?&]+)(?:\/([^/?&]+))?[?&]?(.*)$/.exec(url) ?? []
  const route = ROUTES.find((one) => one === name) ?? "other"
  return { route, worker: decodeURIComponent(worker), job: decodeURIComponent(job), query: new URLSearchParams(query) }
}

const readBody = async (message: IncomingMessage): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  for await (const part of message) parts.push(Buffer.from(part))
  return Buffer.concat(parts)
}

/** A call at the moment before the platform receives it, or after it has processed it. */
export interface Intercepted {
  readonly moment: "before" | "after"
  readonly url: string
  readonly body: string
  /** The platform's response; 0 and "" before there is one. */
  readonly status: number
  readonly answer: string
}

export class RecordingProxy implements AsyncDisposable {
  readonly #server: Server
  /** The open calls. */
  readonly #open = new Map<ServerResponse, { readonly route: Route; readonly worker: string }>()
  /** The workers whose `job-stop` calls are cut. */
  readonly #deaf = new Set<string>()
  readonly #target: (url: string) => string
  readonly #history: History.History | undefined
  #cuts: (() => boolean) | undefined
  /**
   * Called twice for each call, which waits for the result. With the result true, the call is cut: the platform does not receive it, or the worker
   * does not receive the response.
   */
  intercept: ((call: Intercepted) => Promise<boolean>) | undefined

  private constructor(target: (url: string) => string, history: History.History | undefined) {
    this.#target = target
    this.#history = history
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
  }

  /** Listens on a free port and forwards to the current address of the platform. */
  static async listen(target: (url: string) => string, history?: History.History): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(target, history)
    proxy.#server.listen(0, "127.0.0.1")
    await once(proxy.#server, "listening")
    return proxy
  }

  get url(): string {
    const address = this.#server.address()
    if (address === null || typeof address === "string") throw new Error("not listening")
    return `http://127.0.0.1:${address.port}`
  }

  /** From now on cuts this share of all responses, after the platform has processed the calls. `random` selects them. */
  cutResponses(share: number, random: () => number): void {
    this.#cuts = share === 0 ? undefined : () => random() < share
  }

  /** Cuts the open calls of a route. Returns their number. */
  cutOpen(route: Route): number {
    let cut = 0
    for (const [response, call] of this.#open) {
      if (call.route !== route) continue
      response.destroy()
      cut += 1
    }
    return cut
  }

  /**
   * Cuts the worker's `job-stop` calls until `allowStops`, so that the worker does not learn that it lost a job. A frozen worker that
   * continues would otherwise receive its stop signal before it sends its late result.
   */
  withholdStops(worker: string): void {
    this.#deaf.add(worker)
    for (const [response, call] of this.#open) if (call.route === "job-stop" && call.worker === worker) response.destroy()
  }

  /** Forwards the worker's `job-stop` calls again. */
  allowStops(worker: string): void {
    this.#deaf.delete(worker)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? "/"
    const call = readCall(url)
    if (call.route === "job-stop" && this.#deaf.has(call.worker)) return void response.destroy()
    this.#open.set(response, call)
    const askedAt = Date.now()
    const body = await readBody(request)
    const text = body.toString()
    if (await this.intercept?.({ moment: "before", url, body: text, status: 0, answer: "" })) return void response.destroy()
    const upstream = httpRequest(this.#target(url) + url, { method: request.method, headers: request.headers, agent: false })
    response.once("close", () => {
      this.#open.delete(response)
      // The worker has disconnected, so the call to the platform is aborted too.
      if (!response.writableFinished) upstream.destroy()
    })
    upstream.end(body)
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      upstream.once("response", resolve).once("error", reject)
    )
    const answered = await readBody(answer)
    const answerText = answered.toString()
    const status = answer.statusCode ?? 0
    const isIntercepted = await this.intercept?.({ moment: "after", url, body: text, status, answer: answerText })
    const cut = isIntercepted === true || this.#cuts?.() === true
    this.#record(call, askedAt, text, status, answerText, cut)
    if (cut) return void response.destroy()
    const { connection: _, "transfer-encoding": __, ...headers } = answer.headers
    response.writeHead(answer.statusCode ?? 502, { ...headers, "content-length": answered.length }).end(answered)
  }

  #record(
    { job, query, route, worker }: ReturnType<typeof readCall>,
    askedAt: number,
    body: string,
    status: number,
    answer: string,
    cut: boolean
  ): void {
    const history = this.#history
    if (history === undefined) return
    const at = Date.now()
    if (route.startsWith("job-take") && status === 200 && !cut) {
      for (const one of [JSON.parse(answer)].flat()) {
        history.record({ _tag: "Started", at, job: one.id, worker, attempt: one.attempt })
      }
    }
    const attempt = Number(query.get("attempt"))
    if (route === "job-stream" && status === 200) {
      const output = JSON.stringify(JSON.parse(body).output)
      history.record({ _tag: "ChunkWritten", at, askedAt, job, attempt, number: Number(query.get("chunk")), output })
    }
    if (route === "job-stream" && status === 409) history.record({ _tag: "ChunkRefused", at, job, attempt })
    const recordResult = (job: string, attempt: number, { error, output, status: kind }: JobDone, status: number) => {
      if (kind === "IN_PROGRESS" || (status !== 200 && status !== 409)) return
      history.record({
        _tag: "Delivered",
        at,
        askedAt,
        job,
        worker,
        attempt,
        verdict: status === 200 ? "answered" : "refused",
        failed: error !== undefined && error !== null,
        output: output === undefined ? null : JSON.stringify(output)
      })
    }
    if (route === "job-done") recordResult(job, attempt, JSON.parse(body), status)
    if (route === "job-done-batch" && status === 200) {
      const statuses = decodeStatuses(answer)
      for (const [index, result] of decodeResults(body).entries()) {
        recordResult(result.id, result.attempt ?? 0, result, statuses[index]?.status ?? 0)
      }
    }
  }
}

/** The environment variables of a worker that calls the proxy instead of the platform. */
export const throughProxy = (
  variables: Readonly<Record<string, string>>,
  platform: string,
  proxy: RecordingProxy,
  worker: string
): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, value.replaceAll(platform, proxy.url)])),
  RUNPOD_POD_ID: worker
})
