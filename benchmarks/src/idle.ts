/**
 * P6 (docs/spec/figures.md#performance):
 * the cost of an idle platform with 100 endpoints and 1,000 workers that wait for jobs.
 *
 * ```
 *   platform (SQLite, D2)   <--- 1,000 x job-take, a long poll      a separate process with plain sockets
 *     CPU time and memory,  <--- 1,000 x job-stop, a long poll      job-stop and ping only in the last two parts, which have every call of an
 *     from /proc            <--- 1,000 x ping, once per interval    idle worker
 * ```
 *
 * Stint's workers send their heartbeats when the clock is a multiple of 250 ms. The last part shows workers that do not, like RunPod's SDK. `--minutes N`
 * per part (default 1: about five minutes in all; 10 for the full figure). `--only none,takes,aligned,spread`: some of the parts. Linux only: it reads
 * /proc.
 */
import { type ChildProcess, fork } from "node:child_process"
import { mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
import { usageOf } from "./ProcessUsage.ts"
import { formatFigure, tableOf } from "./Rounds.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "1" }, only: { type: "string", default: "none,takes,aligned,spread" } }
})
const wanted = new Set(values.only.split(","))
const MINUTES = Number(values.minutes)
const ENDPOINTS = 100
const WORKERS_EACH = 10
/** Time for all workers to connect, and for the garbage from their start to be collected. */
const SETTLING_MILLIS = 10_000
const SAMPLE_MILLIS = 1_000

/** The slope of the regression line through equidistant points. */
const slopeOf = (points: ReadonlyArray<number>): number => {
  const middle = (points.length - 1) / 2
  const mean = points.reduce((sum, point) => sum + point, 0) / points.length
  const above = points.reduce((sum, point, n) => sum + (n - middle) * (point - mean), 0)
  return above / points.reduce((sum, _, n) => sum + (n - middle) ** 2, 0)
}

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const names = Array.from({ length: ENDPOINTS }, (_, n) => `idle-${n}`)
await writeFile(
  join(folder, "stint.config.ts"),
  `export default { endpoints: ${JSON.stringify(Object.fromEntries(names.map((name) => [name, { external: true }])))} }\n`
)
const platform = await startPlatform(join(folder, "stint.config.ts"), folder, { PLATFORM_LOG_LEVEL: "WARN" })

/** The environment variables of an endpoint's workers. */
const environmentOf = async (endpoint: string): Promise<unknown> => {
  const response = await fetch(`${platform.url}/api/v1/endpoints/${endpoint}/worker-env`, {
    headers: { authorization: `Bearer ${KEY}` }
  })
  if (!response.ok) throw new Error(`worker-env of ${endpoint}: ${response.status} ${await response.text()}`)
  return await response.json()
}

const startWorkers = async (heartbeats: "none" | "aligned" | "spread"): Promise<ChildProcess> => {
  const environments = await Promise.all(names.map(environmentOf))
  const child = fork(fileURLToPath(import.meta.resolve("./idle-workers.ts")), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"]
  })
  await new Promise<void>((ready, failed) => {
    child.once("exit", (code) => failed(new Error(`the workers exited with code ${code}`)))
    child.once("message", () => ready())
    child.send({ environments, workersEach: WORKERS_EACH, heartbeats })
  })
  return child
}

const measure = async (): Promise<ReadonlyArray<string>> => {
  await pause(SETTLING_MILLIS)
  const before = await usageOf(platform.pid)
  const started = performance.now()
  const memory: Array<number> = []
  while (performance.now() - started < MINUTES * 60_000) {
    await pause(SAMPLE_MILLIS)
    memory.push((await usageOf(platform.pid)).memory)
  }
  const seconds = (performance.now() - started) / 1000
  const after = await usageOf(platform.pid)
  return [
    `${formatFigure((after.seconds - before.seconds) / seconds * 100)} %`,
    `${formatFigure(memory[0] ?? 0)} MiB`,
    `${formatFigure(memory.at(-1) ?? 0)} MiB`,
    `${(slopeOf(memory) * 60_000 / SAMPLE_MILLIS).toFixed(2)} MiB/min`
  ]
}

const rows = [["", "of a core", "memory at start", "at end", "slope"]]
try {
  if (wanted.has("none")) rows.push(["no workers", ...await measure()])
  const all = ENDPOINTS * WORKERS_EACH
  const parts = [
    ["takes", "none", `${all} job-take polls`],
    ["aligned", "aligned", `${all} job-take and job-stop polls, and pings`],
    ["spread", "spread", "the same, pings at any time"]
  ] as const
  for (const [part, heartbeats, title] of parts) {
    if (!wanted.has(part)) continue
    const workers = await startWorkers(heartbeats)
    rows.push([title, ...await measure()])
    const ended = new Promise((gone) => workers.once("exit", gone))
    workers.disconnect()
    await ended
  }
} finally {
  await platform.end()
}
process.stdout.write(`Idle, ${ENDPOINTS} endpoints, ${MINUTES} min each (Node ${process.versions.node})\n\n${tableOf(rows)}\n`)
