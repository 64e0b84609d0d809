/**
 * The load generator of the HTTP route benchmark, a separate process. It uses plain sockets and prebuilt bytes, so that it costs less than any
 * server.
 *
 * It also runs the workers of `runsync`: one per caller, at most eight, each with one connection for takes and one for results.
 */
import * as Schema from "effect/Schema"
import process from "node:process"
import { KEY } from "./BenchmarkPlatform.ts"
import { type Answer, open, requestBytes } from "./HttpConnection.ts"
import { Load, type Measurement, type Operation } from "./HttpMessages.ts"

const WORKERS = 8

const input = JSON.stringify({ input: { text: "x".repeat(256 - "{\"input\":{\"text\":\"\"}}".length) } })
const output = JSON.stringify({ output: "x".repeat(64 - "{\"output\":\"\"}".length) })

const refuse = (what: string, { body, status }: Answer) => {
  throw new Error(`${what} returned ${status}: ${body}`)
}

/** Takes jobs and delivers results. Sends the next take only after the result is accepted. Returns a function that stops the worker. */
const work = async (host: string, key: string, name: string): Promise<() => void> => {
  const [takes, results] = await Promise.all([open(host), open(host)])
  const takeFirst = requestBytes(host, "GET", `/v2/runsync/job-take/${name}?job_in_progress=0`, key, undefined)
  const takeNext = requestBytes(host, "GET", `/v2/runsync/job-take/${name}?job_in_progress=1`, key, undefined)
  const next = (request: Buffer) =>
    takes.send(request, (answer) => {
      if (answer.status === 204) return next(takeFirst)
      if (answer.status !== 200) refuse("job-take", answer)
      const id = /"id":"([^"]+)"/.exec(answer.body)?.[1] ?? ""
      results.send(requestBytes(host, "POST", `/v2/runsync/job-done/${name}/${id}?attempt=1`, key, output), (delivered) => {
        if (delivered.status !== 200) refuse("job-done", delivered)
        next(takeNext)
      })
    })
  next(takeFirst)
  return () => {
    takes.close()
    results.close()
  }
}

const requestOf = (host: string, operation: Operation, workerKeys: Load["workerKeys"]): Buffer =>
  operation === "ping"
    ? requestBytes(host, "GET", "/v2/ping/ping/bench-1?runpod_version=1.8.1", workerKeys.ping, undefined)
    : requestBytes(host, "POST", `/v2/${operation}/${operation}`, KEY, input)

const quantile = (all: ReadonlyArray<number>, q: number): number =>
  all[Math.min(all.length - 1, Math.floor(q * all.length))] ?? Number.NaN

const measure = async (load: Load): Promise<Measurement> => {
  const { host } = new URL(load.baseUrl)
  const request = requestOf(host, load.operation, load.workerKeys)
  const callers = await Promise.all(Array.from({ length: load.connections }, () => open(host)))
  const names = load.operation === "runsync"
    ? Array.from({ length: Math.min(WORKERS, load.connections) }, (_, n) => `bench-${n}`)
    : []
  const workers = await Promise.all(names.map((name) => work(host, load.workerKeys.runsync, name)))
  const latencies: Array<number> = []
  const before = process.cpuUsage()
  const started = performance.now()
  await Promise.all(callers.map((caller) =>
    new Promise<void>((resolve) => {
      const next = () => {
        const sent = performance.now()
        caller.send(request, (answer) => {
          if (answer.status !== 200) refuse(load.operation, answer)
          const now = performance.now()
          latencies.push(now - sent)
          if (now - started < load.millis && latencies.length < load.most) next()
          else resolve()
        })
      }
      next()
    })
  ))
  const millis = performance.now() - started
  const { system, user } = process.cpuUsage(before)
  for (const end of workers) end()
  for (const caller of callers) caller.close()
  latencies.sort((a, b) => a - b)
  return {
    requests: latencies.length,
    millis,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    micros: system + user
  }
}

const decode = Schema.decodeUnknownSync(Load)

process.on("message", (load) => {
  void measure(decode(load)).then((measured) => process.send?.(measured))
})
