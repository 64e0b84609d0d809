/**
 * The load of the HTTP benchmark, as a process of its own: bare sockets and prepared bytes, so that it costs less than any server does.
 *
 * `runsync` has its workers here, too: as many as callers, up to eight, each with a connection to take and one to deliver.
 */
import * as Schema from "effect/Schema"
import { connect, type Socket } from "node:net"
import process from "node:process"
import { Load, type Measured, type Operation } from "./http-subject.ts"
import { KEY } from "./platform.ts"

const WORKERS = 8

const input = JSON.stringify({ input: { text: "x".repeat(256 - "{\"input\":{\"text\":\"\"}}".length) } })
const output = JSON.stringify({ output: "x".repeat(64 - "{\"output\":\"\"}".length) })

const requestBytes = (host: string, method: string, path: string, key: string, body: string | undefined): Buffer =>
  Buffer.from(
    `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n` +
      (body === undefined ? "\r\n" : `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  )

interface Answer {
  readonly status: number
  readonly body: string
}

/** A connection that answers one request at a time. */
interface Connection {
  readonly send: (request: Buffer, answered: (answer: Answer) => void) => void
  readonly close: () => void
}

const LENGTH = "content-length: "
const NO_CHUNKS = "0\r\n\r\n"

/** The answer at the beginning of a text, and how long it is; undefined where it is not all there. */
const parse = (text: string): { readonly answer: Answer; readonly length: number } | undefined => {
  const end = text.indexOf("\r\n\r\n")
  if (end === -1) return undefined
  const head = text.slice(0, end).toLowerCase()
  const status = Number(head.slice(9, 12))
  const at = head.indexOf(LENGTH)
  const start = end + 4
  if (at === -1) {
    if (status === 204) return { answer: { status, body: "" }, length: start }
    // Of bodies in chunks only an empty one is expected here.
    if (text.length < start + NO_CHUNKS.length) return undefined
    if (text.startsWith(NO_CHUNKS, start)) return { answer: { status, body: "" }, length: start + NO_CHUNKS.length }
    throw new Error(`an answer without a length: ${text}`)
  }
  const length = start + Number.parseInt(head.slice(at + LENGTH.length), 10)
  return text.length < length ? undefined : { answer: { status, body: text.slice(start, length) }, length }
}

const open = (host: string): Promise<Connection> =>
  new Promise((resolve, reject) => {
    const [hostname = "127.0.0.1", port] = host.split(":")
    const socket: Socket = connect(Number(port), hostname, () => {
      resolve({
        send: (request, answered) => {
          waiting = answered
          socket.write(request)
        },
        close: () => socket.destroy()
      })
    })
    let waiting: (answer: Answer) => void = () => {}
    let text = ""
    socket.setNoDelay(true)
    socket.setEncoding("latin1")
    socket.on("error", reject)
    socket.on("data", (data: string) => {
      text = text === "" ? data : text + data
      const parsed = parse(text)
      if (parsed === undefined) return
      text = text.slice(parsed.length)
      waiting(parsed.answer)
    })
  })

const refuse = (what: string, { body, status }: Answer) => {
  throw new Error(`${what} was answered ${status}: ${body}`)
}

/** Takes jobs and delivers results until it is told to end: the next take goes out together with the result, as workers do it. */
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

const measure = async (load: Load): Promise<Measured> => {
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
