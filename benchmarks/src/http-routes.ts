/**
 * P3 (docs/spec/figures.md#performance): the cost of the hot routes, compared with a bare `node:http` server that reads the body and sends a
 * response of the same size.
 *
 * ```
 *   this process --starts--> server (echo | platform in memory | platform on SQLite, D2)   one after the other, restarted in each round
 *                --starts--> load: 1, 16, 64 connections, each with one request in flight
 * ```
 *
 * Throughput is meaningful when the server and the load generator have a core each. Otherwise the server's CPU time per request is the better
 * figure, so it is printed as well. It covers the whole process, including garbage collection and compilation. A `runsync` includes its
 * worker's take and result, so it is three requests to the server.
 *
 * Arguments: rounds (default 5), and the subjects, separated by commas (default `echo,memory,D2`).
 */
import process from "node:process"
import type { Operation } from "./HttpMessages.ts"
import { type LoadGenerator, measureLoad, startLoad, startServer } from "./HttpProcesses.ts"
import { formatFigure, median, tableOf } from "./Rounds.ts"

const [rounds = "5", subjects = "echo,memory,D2"] = process.argv.slice(2)
const ROUNDS = Number(rounds)
const SUBJECTS = subjects.split(",")
/** After fewer requests, V8 would still be compiling the server's code, which counts towards the server's CPU time. */
const WARM_UP = { millis: 12_000, most: 25_000 }
const MEASURED = { millis: 1_500, most: Number.MAX_SAFE_INTEGER }

const STEPS: ReadonlyArray<readonly [Operation, ReadonlyArray<number>]> = [["run", [1, 16, 64]], ["runsync", [1, 16, 64]], [
  "ping",
  [64]
]]

/** The figures of one round. */
interface Figures {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** CPU time of the server per request, in microseconds. */
  readonly server: number
  /** The user-mode part of `server`. */
  readonly own: number
  /** CPU time of the load generator per request, in microseconds. */
  readonly load: number
}

/** Starts and warms up a server, and returns its figures per step. */
const round = async (subject: string, load: LoadGenerator): Promise<ReadonlyMap<string, Figures>> => {
  const figures = new Map<string, Figures>()
  const server = await startServer(subject)
  try {
    for (const [operation, connections] of STEPS) {
      if (subject === "echo" && operation !== "run") continue
      await load.run({ ...server.listening, operation, connections: 64, ...WARM_UP })
      for (const count of connections) {
        const { cpu, measured } = await measureLoad(load, server, { operation, connections: count, ...MEASURED })
        figures.set(`${operation} ${count}`, {
          perSecond: measured.requests / measured.millis * 1_000,
          p50: measured.p50,
          p99: measured.p99,
          server: (cpu.user + cpu.system) / measured.requests,
          own: cpu.user / measured.requests,
          load: measured.micros / measured.requests
        })
      }
    }
  } finally {
    await server.end()
  }
  return figures
}

const all = new Map<string, Array<ReadonlyMap<string, Figures>>>(SUBJECTS.map((subject) => [subject, []]))
const load = startLoad()
for (let n = 0; n < ROUNDS; n++) {
  for (const subject of SUBJECTS) all.get(subject)?.push(await round(subject, load))
}
await load.end()

/** A figure of one step in all rounds. */
const of = (subject: string, step: string, pick: (figures: Figures) => number): ReadonlyArray<number> =>
  (all.get(subject) ?? []).map((figures) => {
    const found = figures.get(step)
    return found === undefined ? Number.NaN : pick(found)
  })

for (const [operation, connections] of STEPS) {
  for (const count of connections) {
    const rows = [[
      "",
      "requests/s",
      "range",
      "of echo",
      "p50 ms",
      "p99 ms",
      "server µs",
      "range",
      "of echo",
      "own µs",
      "load µs"
    ]]
    for (const subject of SUBJECTS) {
      const step = `${subject === "echo" ? "run" : operation} ${count}`
      const [perSecond, server] = [of(subject, step, (one) => one.perSecond), of(subject, step, (one) => one.server)]
      const ratio = (own: ReadonlyArray<number>, pick: (figures: Figures) => number) => {
        const bare = of("echo", `run ${count}`, pick)
        return `${median(own.map((figure, n) => figure / (bare[n] ?? Number.NaN))).toFixed(2)}x`
      }
      rows.push([
        subject,
        formatFigure(median(perSecond)),
        `${formatFigure(Math.min(...perSecond))} - ${formatFigure(Math.max(...perSecond))}`,
        ratio(perSecond, (one) => one.perSecond),
        formatFigure(median(of(subject, step, (one) => one.p50))),
        formatFigure(median(of(subject, step, (one) => one.p99))),
        formatFigure(median(server)),
        `${formatFigure(Math.min(...server))} - ${formatFigure(Math.max(...server))}`,
        ratio(server, (one) => one.server),
        formatFigure(median(of(subject, step, (one) => one.own))),
        formatFigure(median(of(subject, step, (one) => one.load)))
      ])
    }
    process.stdout.write(
      `/${operation}, ${count} connections (${ROUNDS} rounds, Node ${process.versions.node})\n\n${tableOf(rows)}\n\n`
    )
  }
}
