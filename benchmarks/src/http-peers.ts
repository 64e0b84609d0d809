/**
 * P3 (docs/spec/figures.md#performance):
 * `/run` (a durable acknowledgement) and `/runsync` (the result) of a no-op handler, compared with alternative stacks, at 1, 16 and 64
 * connections.
 *
 * ```
 *   load generator ----256 B----> Stint: platform on SQLite (D2) + one worker process, 64 jobs at once
 *                      --256 B--> BullMQ: node:http + Redis + one worker process, 64 at once; waitUntilFinished. `always` is D2, `everysec` D1
 *                      --256 B--> Restate: its server, which syncs its log (D2) + one service process; `/send`, and request-response
 * ```
 *
 * All stacks run throughout and are measured in turn. A measurement starts only after the previous stack has finished all its jobs. With few
 * cores, the CPU time of the whole stack per request is the better figure (Linux only). It includes the execution of the job, for `/run` too:
 * the stack executes accepted jobs while it accepts more. `--rounds N` (default 5), `--seconds N` per figure (default 1.5), `--only
 * stint,always,everysec,restate`. Takes about 5 minutes.
 */
import * as Schema from "effect/Schema"
import { type ChildProcess, fork, spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
import { type Load, Measurement } from "./PeerMessages.ts"
import { freePort, hasRedis, installPeers, PEERS, startRedis } from "./Peers.ts"
import { processTreeOf, usageOf } from "./ProcessUsage.ts"
import { formatFigure, median, tableOf } from "./Rounds.ts"
import { OUTPUT } from "./SubjectProcess.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "1.5" },
    only: { type: "string", default: "stint,always,everysec,restate" }
  }
})
const ROUNDS = Number(values.rounds)
const MILLIS = Number(values.seconds) * 1000
const wanted = new Set(values.only.split(","))
const CONNECTIONS = [1, 16, 64]
const OPERATIONS = ["run", "runsync"] as const
type Operation = (typeof OPERATIONS)[number]

/** A running stack. */
interface Stack {
  readonly name: string
  readonly host: string
  readonly path: (operation: Operation) => string
  /** The number of unfinished jobs in its storage. */
  readonly left: () => Promise<number>
  /** The processes of the stack. Their descendants are measured too. */
  readonly pids: ReadonlyArray<number>
  readonly end: () => Promise<void>
}

const json = async (url: string, init: RequestInit = {}): Promise<unknown> => {
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return await response.json()
}

/** Stops a child process that exits when its IPC channel closes. */
const endChild = async (child: ChildProcess): Promise<void> => {
  const ended = new Promise((gone) => child.once("exit", gone))
  child.disconnect()
  await ended
}

const startChild = async (file: string, args: ReadonlyArray<string> = []) => {
  // By default Restate's SDK logs every invocation, which costs time.
  const env = { ...process.env, RESTATE_LOGGING: "ERROR" }
  const child = fork(file, args, { stdio: ["ignore", "inherit", "inherit", "ipc"], env })
  const message = await new Promise<unknown>((received, failed) => {
    child.once("exit", (code) => failed(new Error(`${file} exited with code ${code}`)))
    child.once("message", received)
  })
  return { child, message }
}

const portOf = (message: unknown) => Schema.decodeUnknownSync(Schema.Struct({ port: Schema.Int }))(message).port

const stint = async (): Promise<Stack> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const handler = join(folder, "handler.ts")
  await writeFile(
    handler,
    `import * as sdk from ${JSON.stringify(resolve(import.meta.dirname, "../../packages/sdk/src/index.ts"))}
sdk.serverless.start({ handler: () => (${JSON.stringify(OUTPUT)}), concurrency_modifier: () => 64 })
`
  )
  await writeFile(
    join(folder, "stint.config.ts"),
    `export default { endpoints: { bench: { handler: ${JSON.stringify(handler)}, workers: { min: 1, max: 1 } } } }\n`
  )
  const platform = await startPlatform(join(folder, "stint.config.ts"), folder, { PLATFORM_LOG_LEVEL: "WARN" })
  const decode = Schema.decodeUnknownSync(Schema.Struct({
    jobs: Schema.Struct({ inQueue: Schema.Int, inProgress: Schema.Int })
  }))
  return {
    name: "Stint, SQLite D2",
    host: new URL(platform.url).host,
    path: (operation) => `/v2/bench/${operation}`,
    left: async () => {
      const { jobs } = decode(await json(`${platform.url}/v2/bench/health`, { headers: { authorization: `Bearer ${KEY}` } }))
      return jobs.inQueue + jobs.inProgress
    },
    pids: [platform.pid],
    end: platform.end
  }
}

const bullmq = async (fsync: "always" | "everysec"): Promise<Stack> => {
  const redis = await startRedis(fsync)
  const file = join(PEERS, "bullmq-http.mjs")
  const worker = await startChild(file, ["worker", String(redis.port)])
  const server = await startChild(file, ["server", String(redis.port)])
  const host = `127.0.0.1:${portOf(server.message)}`
  const decode = Schema.decodeUnknownSync(Schema.Struct({ left: Schema.Int }))
  return {
    name: `BullMQ, Redis ${fsync}`,
    host,
    path: (operation) => `/${operation}`,
    left: async () => decode(await json(`http://${host}/left`, { method: "POST" })).left,
    pids: [redis.pid, worker.child.pid ?? 0, server.child.pid ?? 0],
    end: async () => {
      await endChild(server.child)
      await endChild(worker.child)
      await redis.end()
    }
  }
}

const restate = async (): Promise<Stack> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-restate-"))
  const service = await startChild(join(PEERS, "restate-service.mjs"))
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()]
  const args = [
    "--no-logo",
    "--listen-mode",
    "tcp",
    "--base-dir",
    folder,
    "--node-name",
    "bench",
    "--bind-address",
    `127.0.0.1:${node}`
  ]
  const server = spawn(join(PEERS, "node_modules/.bin/restate-server"), args, {
    env: {
      PATH: process.env["PATH"],
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_AUTO_PROVISION: "true",
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RUST_LOG: "error"
    },
    stdio: "ignore"
  })
  process.once("exit", () => server.kill())
  const adminUrl = `http://127.0.0.1:${admin}`
  const post = (path: string, body: unknown) =>
    json(`${adminUrl}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body)
    })
  const until = performance.now() + 30_000
  for (;;) {
    try {
      await post("/deployments", { uri: `http://127.0.0.1:${portOf(service.message)}` })
      break
    } catch (cause) {
      if (performance.now() > until) throw cause
      await pause(100)
    }
  }
  const decode = Schema.decodeUnknownSync(Schema.Struct({ rows: Schema.Tuple([Schema.Struct({ n: Schema.Int })]) }))
  return {
    name: "Restate 1.7",
    host: `127.0.0.1:${ingress}`,
    path: (operation) => operation === "run" ? "/bench/work/send" : "/bench/work",
    left: async () =>
      decode(await post("/query", { query: "SELECT count(*) AS n FROM sys_invocation WHERE status <> 'completed'" })).rows[0].n,
    pids: [server.pid ?? 0, service.child.pid ?? 0],
    end: async () => {
      const ended = new Promise((gone) => server.once("exit", gone))
      server.kill("SIGTERM")
      await ended
      await endChild(service.child)
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    }
  }
}

/** CPU time of all processes of a stack, in seconds. */
const secondsOf = async ({ pids }: Stack): Promise<number> => {
  const trees = await Promise.all(pids.map(processTreeOf))
  const all = await Promise.all(trees.flat().map(usageOf))
  return all.reduce((sum, { seconds }) => sum + seconds, 0)
}

const settle = async (stack: Stack): Promise<void> => {
  const until = performance.now() + 60_000
  while (await stack.left() > 0) {
    if (performance.now() > until) throw new Error(`${stack.name} did not finish its jobs within 60 s`)
    await pause(20)
  }
}

/** The figures of one stack and step in one round. */
interface Figures {
  readonly perSecond: number
  readonly donePerSecond: number
  readonly p50: number
  readonly p99: number
  readonly micros: number
}

const load = fork(fileURLToPath(import.meta.resolve("./peers-load.ts")), [], { stdio: ["ignore", "inherit", "inherit", "ipc"] })

const runLoad = (request: Load): Promise<Measurement> =>
  new Promise((received, failed) => {
    const onExit = () => failed(new Error("the load generator exited"))
    load.once("exit", onExit)
    load.once("message", (message) => {
      load.off("exit", onExit)
      received(Schema.decodeUnknownSync(Measurement)(message))
    })
    load.send(request)
  })

const measure = async (stack: Stack, operation: Operation, connections: number, millis: number): Promise<Figures> => {
  const before = await secondsOf(stack)
  const started = performance.now()
  const measured = await runLoad({ host: stack.host, path: stack.path(operation), connections, millis })
  await settle(stack)
  const seconds = (performance.now() - started) / 1000
  const after = await secondsOf(stack)
  return {
    perSecond: measured.requests / measured.millis * 1000,
    donePerSecond: measured.requests / seconds,
    p50: measured.p50,
    p99: measured.p99,
    micros: (after - before) * 1e6 / measured.requests
  }
}

const stacks: Array<Stack> = []
const figures = new Map<string, Array<Figures>>()
const of = (stack: Stack, step: string): Array<Figures> => {
  const key = `${stack.name} ${step}`
  const all = figures.get(key) ?? []
  figures.set(key, all)
  return all
}
try {
  if (wanted.has("stint")) stacks.push(await stint())
  if (installPeers()) {
    if (hasRedis()) {
      for (const fsync of ["always", "everysec"] as const) if (wanted.has(fsync)) stacks.push(await bullmq(fsync))
    } else process.stdout.write("Skipping BullMQ: redis-server is not installed.\n")
    if (wanted.has("restate")) stacks.push(await restate())
  }
  for (const stack of stacks) for (const operation of OPERATIONS) await measure(stack, operation, 16, MILLIS)
  for (let round = 0; round < ROUNDS; round++) {
    for (const operation of OPERATIONS) {
      for (const connections of CONNECTIONS) {
        for (const stack of stacks) {
          of(stack, `${operation} ${connections}`).push(await measure(stack, operation, connections, MILLIS))
        }
      }
    }
  }
} finally {
  if (load.connected) load.disconnect()
  for (const stack of stacks) await stack.end()
}

for (const operation of OPERATIONS) {
  for (const connections of CONNECTIONS) {
    const step = `${operation} ${connections}`
    const head = ["", "requests/s", "range", "Stint's ratio", "done/s", "p50 ms", "Stint's ratio", "p99 ms", "stack µs"]
    const [first] = stacks
    const rows = stacks.map((stack) => {
      const own = of(stack, step)
      const base = first === undefined ? [] : of(first, step)
      const all = (pick: (one: Figures) => number) => own.map(pick)
      const ratio = (pick: (one: Figures) => number) =>
        `${median(own.map((one, n) => (base[n] === undefined ? Number.NaN : pick(base[n]) / pick(one)))).toFixed(2)}x`
      const rates = all((one) => one.perSecond)
      return [
        stack.name,
        formatFigure(median(rates)),
        `${formatFigure(Math.min(...rates))} - ${formatFigure(Math.max(...rates))}`,
        ratio((one) => one.perSecond),
        formatFigure(median(all((one) => one.donePerSecond))),
        formatFigure(median(all((one) => one.p50))),
        ratio((one) => one.p50),
        formatFigure(median(all((one) => one.p99))),
        formatFigure(median(all((one) => one.micros)))
      ]
    })
    process.stdout.write(
      `/${operation}, ${connections} connections (${ROUNDS} rounds, Node ${process.versions.node})\n\n${
        tableOf([head, ...rows])
      }\n\n`
    )
  }
}
