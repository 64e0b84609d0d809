/**
 * P6 for several nodes (docs/spec/figures.md#performance): what an idle platform of three nodes costs its PostgreSQL database.
 *
 * ```
 *   3 nodes, 100 endpoints  <--- 1,000 x job-take, job-stop and ping, a third of them to each node
 *     |
 *   PostgreSQL              statements a second from pg_stat_statements, CPU time of all its processes from /proc
 * ```
 *
 * First without workers, then with them. `--minutes N` per part (default 1), `--nodes N` (default 3). Linux only.
 */
import { execute, missing, startCluster } from "@stint/store-postgres/testing"
import { type ChildProcess, fork } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { KEY, type Platform, startPlatform } from "./BenchmarkPlatform.ts"
import { processTreeOf, usageOf } from "./ProcessUsage.ts"
import { formatFigure, tableOf } from "./Rounds.ts"

const { values } = parseArgs({ options: { minutes: { type: "string", default: "1" }, nodes: { type: "string", default: "3" } } })
const MINUTES = Number(values.minutes)
const NODES = Number(values.nodes)
const ENDPOINTS = 100
const WORKERS_EACH = 10
/** Time for all workers to connect, and for the work of the start to end. */
const SETTLING_MILLIS = 20_000
/** How many statements the report lists, the most frequent first. */
const LISTED = 12

if (missing !== undefined) {
  process.stdout.write(`The idle nodes were not measured: ${missing}.\n`)
  process.exit(0)
}

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-nodes-"))
const cluster = await startCluster({ fsync: true })
const url = cluster.url("postgres")
await execute(url, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
await cluster.ctl("restart")
await execute(url, "CREATE EXTENSION pg_stat_statements")
const postmaster = Number((await readFile(join(cluster.folder, "data/postmaster.pid"), "utf8")).split("\n")[0])

const names = Array.from({ length: ENDPOINTS }, (_, n) => `idle-${n}`)
const config = join(folder, "stint.config.ts")
await writeFile(
  config,
  `export default { endpoints: ${JSON.stringify(Object.fromEntries(names.map((name) => [name, { external: true }])))} }\n`
)
const settings = {
  PLATFORM_LOG_LEVEL: "WARN",
  STINT_DATABASE: url,
  STINT_SECRETS_KEY: Buffer.alloc(32, 1).toString("base64")
}
const nodes: Array<Platform> = []
for (let n = 0; n < NODES; n++) nodes.push(await startPlatform(config, join(folder, `node-${n}`), settings))

/** The environment variables of an endpoint's workers, which call one of the nodes. */
const environmentOf = async (endpoint: string, index: number): Promise<unknown> => {
  const node = nodes[index % nodes.length]
  const response = await fetch(`${node?.url}/api/v1/endpoints/${endpoint}/worker-env`, {
    headers: { authorization: `Bearer ${KEY}` }
  })
  if (!response.ok) throw new Error(`worker-env of ${endpoint}: ${response.status} ${await response.text()}`)
  return await response.json()
}

const startWorkers = async (): Promise<ChildProcess> => {
  const environments = await Promise.all(names.map(environmentOf))
  const child = fork(fileURLToPath(import.meta.resolve("./idle-workers.ts")), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"]
  })
  await new Promise<void>((ready, failed) => {
    child.once("exit", (code) => failed(new Error(`the workers exited with code ${code}`)))
    child.once("message", () => ready())
    child.send({ environments, workersEach: WORKERS_EACH, heartbeats: "aligned" })
  })
  return child
}

const cpuOf = async (pids: ReadonlyArray<number>): Promise<number> => {
  const all = await Promise.all(pids.map((pid) => usageOf(pid).catch(() => ({ seconds: 0 }))))
  return all.reduce((sum, { seconds }) => sum + seconds, 0)
}

interface Usage {
  readonly statements: number
  readonly database: number
  readonly nodes: number
}

const usage = async (): Promise<Usage> => {
  const [[calls] = []] = await execute(
    url,
    "SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"
  )
  return {
    statements: Number(calls),
    database: await cpuOf(processTreeOf(postmaster)),
    nodes: await cpuOf(nodes.map(({ pid }) => pid))
  }
}

/** Measures one part. Returns its row, and the most frequent statements with their number a second. */
const measure = async (
  title: string
): Promise<{ readonly row: ReadonlyArray<string>; readonly frequent: ReadonlyArray<string> }> => {
  await pause(SETTLING_MILLIS)
  await execute(url, "SELECT pg_stat_statements_reset()")
  const before = await usage()
  const started = performance.now()
  await pause(MINUTES * 60_000)
  const after = await usage()
  const seconds = (performance.now() - started) / 1000
  const found = await execute(
    url,
    `SELECT calls, query FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%' ORDER BY calls DESC LIMIT ${LISTED}`
  )
  const share = (cpu: number) => `${formatFigure(cpu / seconds * 100)} %`
  return {
    row: [
      title,
      ((after.statements - before.statements) / seconds).toFixed(1),
      ((after.statements - before.statements) / seconds / NODES).toFixed(1),
      share(after.database - before.database),
      share((after.nodes - before.nodes) / NODES)
    ],
    frequent: found.map(([calls, query]) =>
      `${(Number(calls) / seconds).toFixed(2)}  ${String(query).replaceAll(/\s+/g, " ").slice(0, 120)}`
    )
  }
}

try {
  const alone = await measure("no workers")
  const workers = await startWorkers()
  const busy = await measure(`${ENDPOINTS * WORKERS_EACH} job-take and job-stop polls, and pings`)
  const ended = new Promise((gone) => workers.once("exit", gone))
  workers.disconnect()
  await ended
  process.stdout.write(
    `Idle, ${NODES} nodes, ${ENDPOINTS} endpoints, ${MINUTES} min each (Node ${process.versions.node})\n\n${
      tableOf([["", "statements/s", "of each node", "CPU of PostgreSQL, of a core", "CPU of a node"], alone.row, busy.row])
    }\n\nThe most frequent statements a second:\n\n${busy.frequent.join("\n")}\n`
  )
} finally {
  await Promise.all(nodes.map(({ end }) => end()))
  await cluster.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
