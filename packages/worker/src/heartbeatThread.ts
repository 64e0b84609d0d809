/**
 * The program of the heartbeat's thread.
 *
 * Its text is what runs, in a thread made from a string, so that it needs no file of its own and survives bundling. It must
 * therefore stand alone: no imports, and nothing from outside the function.
 */

/** What the thread is given. */
export interface ThreadData {
  readonly url: string
  readonly form: "json" | "query"
  /** Milliseconds between beats. */
  readonly interval: number
  readonly headers: { readonly [name: string]: string }
  readonly version: string
  /** The list of {@link file://./HeldJobs.ts}, and how its slots are laid out. */
  readonly memory: SharedArrayBuffer
  readonly slot: number
  readonly header: number
}

/** What the thread says: how a beat went, when that changes. */
export interface ThreadReport {
  /** Undefined: beats arrive (again). */
  readonly failure: string | undefined
}

/**
 * Beats at once and then once an interval. A beat that fails is repeated after a quarter of the interval. One that is still
 * unanswered when the next is due is given that interval, too, and then dropped (wire-facts 5.7).
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

  const idAt = (start: number): string => {
    for (;;) {
      const version = Atomics.load(words, start / 4)
      const length = Atomics.load(words, start / 4 + 1)
      const id = decoder.decode(bytes.slice(start + data.header, start + data.header + length))
      if (version % 2 === 0 && Atomics.load(words, start / 4) === version) return id
    }
  }

  const held = (): Array<string> => {
    const ids: Array<string> = []
    for (let start = 0; start < data.memory.byteLength; start += data.slot) {
      const id = idAt(start)
      if (id !== "") ids.push(id)
    }
    return ids
  }

  let busy = false
  let failing: boolean | undefined

  const report = (failure: string | undefined) => {
    if (failing === (failure !== undefined)) return
    failing = failure !== undefined
    const message: ThreadReport = { failure }
    parentPort?.postMessage(message)
  }

  const beat = () => {
    if (busy) return
    busy = true
    let over = false
    const ended = (failure: string | undefined) => {
      if (over) return
      over = true
      busy = false
      report(failure)
      if (failure !== undefined) setTimeout(beat, data.interval / 4)
    }
    const jobs = held()
    const headers: Record<string, string | number> = { ...data.headers }
    let url = data.url
    let body: string | undefined
    if (data.form === "json") {
      body = JSON.stringify(jobs.length > 0 ? { job_id: jobs, runpod_version: data.version } : { runpod_version: data.version })
      headers["content-type"] = "application/json"
      headers["content-length"] = Buffer.byteLength(body)
    } else {
      const query = new URLSearchParams({ ...(jobs.length > 0 ? { job_id: jobs.join(",") } : {}), runpod_version: data.version })
      url += (/[?&]$/.test(url) ? "" : "&") + query
    }
    const call = request(url, { method: body === undefined ? "GET" : "POST", agent, headers }, (response) => {
      const status = response.statusCode ?? 0
      response.on("error", (error: NodeJS.ErrnoException) => ended(error.code ?? error.message))
      response.on("end", () => ended(status >= 200 && status < 300 ? undefined : `the platform answered ${status}`))
      response.resume()
    })
    call.setTimeout(Math.max(1_000, 2 * data.interval), () => call.destroy(new Error("no answer")))
    call.on("error", (error: NodeJS.ErrnoException) => ended(error.code ?? error.message))
    call.end(body)
  }

  setInterval(beat, data.interval)
  beat()
}
