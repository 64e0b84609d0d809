/**
 * The program of the heartbeat thread.
 *
 * The thread evaluates the source text of this function, so it needs no separate file and works in a bundle. The function must therefore be
 * self-contained: it must not use imports, outer variables, or syntax for which bundlers insert helpers. That is why its functions are
 * methods of one object (bundlers wrap named functions to keep their names) and why it uses no spread syntax.
 */

/** The input of the thread. */
export interface ThreadData {
  readonly url: string
  readonly form: "json" | "query"
  /** Milliseconds between heartbeats. */
  readonly interval: number
  readonly headers: { readonly [name: string]: string }
  readonly version: string
  /** The list of {@link file://./InFlightJobs.ts} and its slot layout. */
  readonly memory: SharedArrayBuffer
  readonly slot: number
  readonly header: number
}

/** A message from the thread: heartbeats have started to fail, or succeed again. */
export interface ThreadReport {
  /** Undefined: heartbeats succeed again. */
  readonly failure: string | undefined
}

/**
 * Sends a heartbeat at once, then once per interval. Retries a failed heartbeat after a quarter of the interval. A heartbeat that has no
 * response by the next interval may use that interval too, and is then aborted (docs/spec/worker-protocol.md#heartbeat).
 */
export const heartbeatThread = (): void => {
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads")
  const data: ThreadData = workerData
  const { Agent, request } = data.url.startsWith("https:")
    ? process.getBuiltinModule("node:https")
    : process.getBuiltinModule("node:http")
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
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

    readJobIds(): Array<string> {
      const ids: Array<string> = []
      for (let start = 0; start < data.memory.byteLength; start += data.slot) {
        const id = this.idAt(start)
        if (id !== "") ids.push(id)
      }
      return ids
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

    sendHeartbeat(): void {
      if (this.busy) return
      this.busy = true
      const heartbeat = { ended: false }
      const jobs = this.readJobIds()
      const headers: Record<string, string | number> = Object.assign({}, data.headers)
      let url = data.url
      let body: string | undefined
      if (data.form === "json") {
        // JSON omits a key whose value is undefined, so an idle worker sends no job_id.
        body = JSON.stringify({ job_id: jobs.length > 0 ? jobs : undefined, runpod_version: data.version })
        headers["content-type"] = "application/json"
        headers["content-length"] = Buffer.byteLength(body)
      } else {
        const query = new URLSearchParams({ runpod_version: data.version })
        if (jobs.length > 0) query.set("job_id", jobs.join(","))
        url += `${/[?&]$/.test(url) ? "" : "&"}${query.toString()}`
      }
      const call = request(url, { method: body === undefined ? "GET" : "POST", agent, headers }, (response) => {
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

  setInterval(() => thread.sendHeartbeat(), data.interval)
  thread.sendHeartbeat()
}
