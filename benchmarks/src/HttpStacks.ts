/**
 * The stacks that the HTTP benchmarks compare: Stint, BullMQ behind node:http, and Restate. Each stack has its own processes.
 */
import * as Schema from "effect/Schema"
import { type ChildProcess, fork, spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { call, json, startPlatform } from "./BenchmarkPlatform.ts"
import { freePort, PEERS, startRedis } from "./Peers.ts"
import { OUTPUT } from "./SubjectProcess.ts"

/**
 * The operations that the load generator calls: `run` responds once the job is stored, `runsync` with the result of a no-op, and `pipeline` with the
 * result of three steps.
 */
export type Operation = "run" | "runsync" | "pipeline"

/** A running stack. */
export interface Stack {
  readonly name: string
  readonly host: string
  readonly path: (operation: Operation) => string
  /** The number of unfinished jobs in its storage. */
  readonly left: () => Promise<number>
  /** The processes of the stack. Their descendants are measured too. */
  readonly pids: ReadonlyArray<number>
  readonly end: () => Promise<void>
}

/** Stops a child process that exits when its IPC channel closes. */
export const endChild = async (child: ChildProcess): Promise<void> => {
  const ended = new Promise((gone) => child.once("exit", gone))
  child.disconnect()
  await ended
}

/** Starts a child process and waits for its first message. */
export const startChild = async (file: string, args: ReadonlyArray<string> = []) => {
  // By default Restate's SDK logs every invocation, which costs time.
  const env = { ...process.env, RESTATE_LOGGING: "ERROR" }
  const child = fork(file, args, { stdio: ["ignore", "inherit", "inherit", "ipc"], env })
  const message = await new Promise<unknown>((received, failed) => {
    child.once("exit", (code) => failed(new Error(`${file} exited with code ${code}`)))
    child.once("message", received)
  })
  return { child, message }
}

/** The port in the first message of a server's process. */
export const portOf = (message: unknown) => Schema.decodeUnknownSync(Schema.Struct({ port: Schema.Int }))(message).port

const sdk = JSON.stringify(resolve(import.meta.dirname, "../../packages/sdk/src/index.ts"))

/** The source of a handler that does nothing. */
const NO_OP = `import * as sdk from ${sdk}
sdk.serverless.start({ handler: () => (${JSON.stringify(OUTPUT)}), concurrency_modifier: () => 64 })
`

/** A platform with one worker of the handler. */
export const stint = async (): Promise<Stack> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const handler = join(folder, "handler.ts")
  await writeFile(handler, NO_OP)
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
    path: (operation) => `/v2/bench/${operation === "run" ? "run" : "runsync"}`,
    left: async () => {
      const { jobs } = decode(await call(platform, "/v2/bench/health"))
      return jobs.inQueue + jobs.inProgress
    },
    pids: [platform.pid],
    end: platform.end
  }
}

/** BullMQ behind node:http. It has no pipelines. */
export const bullmq = async (fsync: "always" | "everysec"): Promise<Stack> => {
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

/** Restate's server with one service. */
export const restate = async (): Promise<Stack> => {
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
    path: (operation) => ({ run: "/bench/work/send", runsync: "/bench/work", pipeline: "/bench/pipeline" })[operation],
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
