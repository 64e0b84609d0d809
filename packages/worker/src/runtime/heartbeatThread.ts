/**
 * The program of the heartbeat thread. It sends the heartbeats and the progress of the jobs.
 *
 * The thread evaluates the source text of this function, so it needs no separate file and works in a bundle. The function must therefore be
 * self-contained: it must not use imports, outer variables, or syntax for which bundlers insert helpers. That is why its functions are
 * methods of one object (bundlers wrap named functions to keep their names) and why it uses no spread syntax.
 */

import type { MessagePort } from "node:worker_threads"
import type { MakeProgressSender, ProgressSender } from "../transport/ProgressSender.ts"
import type { ProgressAddress, ProgressCommand, ProgressEvent } from "../transport/ProgressThread.ts"

/** The input of the thread. */
export interface ThreadData {
  readonly url: string
  readonly form: "json" | "query"
  /** Milliseconds between heartbeats. */
  readonly interval: number
  readonly headers: { readonly [name: string]: string }
  readonly version: string
  /** How the handler collects jobs. Only heartbeats in JSON contain it, because RunPod's have no such key. */
  readonly batch?: { readonly max: number; readonly wait: number }
  /** The list of {@link file://./InFlightJobs.ts} and its slot layout. */
  readonly memory: SharedArrayBuffer
  readonly slot: number
  readonly header: number
  /** The port of {@link file://../transport/ProgressThread.ts}; absent when the main thread sends the progress. */
  readonly progress?: MessagePort
  /** Milliseconds without a response after which a progress request fails. */
  readonly progressTimeout: number
}

/** A message from the thread: heartbeats have started to fail, or succeed again. */
export interface ThreadReport {
  /** Undefined: heartbeats succeed again. */
  readonly failure: string | undefined
}

/**
 * Sends a heartbeat at once, then once per interval, at the times of {@link file://./HeartbeatTimes.ts}. Retries a failed heartbeat after a quarter of
 * the interval. A heartbeat that has no response by the next interval may use that interval too, and is then aborted
 * (docs/spec/worker-protocol.md#heartbeat).
 */
export const heartbeatThread = (
  makeProgressSender: MakeProgressSender,
  untilNextHeartbeat: (now: number, interval: number) => number
): void => {
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads")
  const data: ThreadData = workerData
  const http = process.getBuiltinModule(data.url.startsWith("https:") ? "node:https" : "node:http")
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const words = new Int32Array(data.memory)
  const bytes = new Uint8Array(data.memory)
  const decoder = new TextDecoder()

  const thread = {
    busy: false,
    succeeding: true,

    idAt(start: number): string {
      for (;;) {
        const version = Atomics.load(words, start / 4)
        const length = Atomics.load(words, start / 4 + 1)
        const id = decoder.decode(bytes.slice(start + data.header, start + data.header + length))
        if (version % 2 === 0 && Atomics.load(words, start / 4) === version) return id
      }
    },

    /** Each job as its id and, if it has one, its lease token. */
    readJobs(): Array<Array<string>> {
      const jobs: Array<Array<string>> = []
      for (let start = 0; start < data.memory.byteLength; start += data.slot) {
        const id = this.idAt(start)
        if (id !== "") jobs.push(id.split("\n"))
      }
      return jobs
    },

    ended(heartbeat: { ended: boolean }, failure: string | undefined): void {
      if (heartbeat.ended) return
      heartbeat.ended = true
      this.busy = false
      const succeeded = failure === undefined
      if (this.succeeding !== succeeded) {
        this.succeeding = succeeded
        const report: ThreadReport = { failure }
        parentPort?.postMessage(report)
      }
      if (!succeeded) setTimeout(() => this.sendHeartbeat(), data.interval / 4)
    },

    sendHeartbeats(): void {
      // Scheduled before it sends, so that the time that sending takes does not shift the next heartbeat.
      setTimeout(() => this.sendHeartbeats(), untilNextHeartbeat(Date.now(), data.interval))
      this.sendHeartbeat()
    },

    sendHeartbeat(): void {
      if (this.busy) return
      this.busy = true
      const heartbeat = { ended: false }
      const held = this.readJobs()
      const jobs = held.map((job) => job[0] ?? "")
      // The platform pairs tokens with ids by their position.
      const tokens = held.some((job) => job.length > 1) ? held.map((job) => job[1] ?? "") : []
      const headers: Record<string, string | number> = Object.assign({}, data.headers)
      let url = data.url
      let body: string | undefined
      if (data.form === "json") {
        // JSON omits a key whose value is undefined, so an idle worker sends no job_id.
        body = JSON.stringify({
          job_id: jobs.length > 0 ? jobs : undefined,
          lease_token: tokens.length > 0 ? tokens : undefined,
          runpod_version: data.version,
          batch_max: data.batch?.max,
          batch_wait: data.batch?.wait
        })
        headers["content-type"] = "application/json"
        headers["content-length"] = Buffer.byteLength(body)
      } else {
        const query = new URLSearchParams({ runpod_version: data.version })
        if (jobs.length > 0) query.set("job_id", jobs.join(","))
        if (tokens.length > 0) query.set("lease_token", tokens.join(","))
        url += `${/[?&]$/.test(url) ? "" : "&"}${query.toString()}`
      }
      const call = http.request(url, { method: body === undefined ? "GET" : "POST", agent, headers }, (response) => {
        const status = response.statusCode ?? 0
        response.on("error", (error: NodeJS.ErrnoException) => this.ended(heartbeat, error.code ?? error.message))
        response.on(
          "end",
          () => this.ended(heartbeat, status >= 200 && status < 300 ? undefined : `the platform answered ${status}`)
        )
        response.resume()
      })
      call.setTimeout(Math.max(1_000, 2 * data.interval), () => call.destroy(new Error("no answer")))
      call.on("error", (error: NodeJS.ErrnoException) => this.ended(heartbeat, error.code ?? error.message))
      call.end(body)
    }
  }

  const progress = {
    senders: new Map<number, ProgressSender>(),
    /** Modules and connection pools by protocol. */
    clients: new Map<string, { readonly request: typeof http.request; readonly agent: InstanceType<typeof http.Agent> }>(),

    clientFor(url: string) {
      const name = url.startsWith("https:") ? "node:https" : "node:http"
      const known = this.clients.get(name)
      if (known !== undefined) return known
      const { Agent, request } = process.getBuiltinModule(name)
      const client = { request, agent: new Agent({ keepAlive: true, maxFreeSockets: 16 }) }
      this.clients.set(name, client)
      return client
    },

    tell(event: ProgressEvent): void {
      data.progress?.postMessage(event)
    },

    /** The message of an error body, on one line and truncated. */
    detailOf(text: string): string {
      let message = text
      try {
        const { error }: { readonly error?: unknown } = JSON.parse(text) ?? {}
        if (typeof error === "string") message = error
      } catch {
        // The body is not JSON.
      }
      return message.replaceAll(/\s+/g, " ").trim().slice(0, 500)
    },

    /** Sends one value. Retries once if the platform closed the keep-alive connection at that moment. */
    post(
      { headers, url }: ProgressAddress,
      body: string,
      again: boolean,
      abort: { request: () => void },
      ended: (failure?: { readonly status: number | undefined; readonly message: string }) => void
    ): void {
      const client = this.clientFor(url)
      const over = { done: false }
      const length = { "content-length": Buffer.byteLength(body) }
      const call = client.request(
        url,
        { method: "POST", agent: client.agent, headers: Object.assign(length, headers) },
        (response) => {
          const status = response.statusCode ?? 0
          const chunks: Array<Buffer> = []
          response.on("error", (error: NodeJS.ErrnoException) => call.emit("error", error))
          response.on("data", (chunk: Buffer) => chunks.push(chunk))
          response.on("end", () => {
            if (over.done) return
            over.done = true
            if (status >= 200 && status < 300) return ended()
            const detail = this.detailOf(Buffer.concat(chunks).toString())
            ended({ status, message: `the platform answered ${status}${detail === "" ? "" : `: ${detail}`}` })
          })
        }
      )
      abort.request = () => {
        over.done = true
        call.destroy()
      }
      call.setTimeout(data.progressTimeout, () => call.destroy(new Error("no answer")))
      call.on("error", (error: NodeJS.ErrnoException) => {
        if (over.done) return
        over.done = true
        if (again && call.reusedSocket && error.code === "ECONNRESET") {
          return this.post({ headers, url }, body, false, abort, ended)
        }
        ended({ status: undefined, message: `${new URL(url).origin} does not answer (${error.code ?? error.message})` })
      })
      call.end(body)
    },

    open({ address, interval, key, stopped }: ProgressCommand & { readonly command: "open" }): void {
      this.senders.set(
        key,
        makeProgressSender({
          now: () => performance.now(),
          random: () => Math.random(),
          after: (millis, callback) => {
            const timer = setTimeout(callback, millis)
            return () => clearTimeout(timer)
          },
          send: (text, ended) => {
            const abort = { request: () => {} }
            if (Atomics.load(stopped, 0) === 1) ended()
            else this.post(address, `{"status":"IN_PROGRESS","output":${text}}`, true, abort, ended)
            return () => abort.request()
          },
          log: (level, message) => this.tell({ key, level, message })
        }, interval)
      )
    },

    receive(command: ProgressCommand): void {
      const { key } = command
      if (command.command === "open") return this.open(command)
      const sender = this.senders.get(key)
      if (command.command === "update") return sender?.update(command.text)
      if (command.command === "end") {
        return sender?.end(() => {
          this.senders.delete(key)
          this.tell({ key })
        })
      }
      sender?.abort()
      this.senders.delete(key)
    }
  }

  data.progress?.on("message", (command: ProgressCommand) => progress.receive(command))
  thread.sendHeartbeats()
}
