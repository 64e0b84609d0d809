/**
 * P10 (docs/spec/figures.md#performance): what runs cost that sleep.
 *
 * ```
 *   prepared once:  a platform whose worker begins 100,000 runs that sleep until tomorrow
 *   each round:     start a platform without runs, then one with the sleeping runs; each is idle, then runs jobs one at a time; stop it
 * ```
 *
 * Both platforms have just started, so the memory does not contain what the platform used to begin the runs. `--runs N` (default 100000),
 * `--rounds N` (default 3). Linux only. Takes about 8 minutes.
 */
import * as Schema from "effect/Schema"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { call, type Platform, source, startPlatform, writeHandlers } from "./BenchmarkPlatform.ts"
import { usageOf } from "./ProcessUsage.ts"
import { median, spreadOf, tableOf } from "./Rounds.ts"

const { values } = parseArgs({
  options: { runs: { type: "string", default: "100000" }, rounds: { type: "string", default: "3" } }
})
const RUNS = Number(values.runs)
const ROUNDS = Number(values.rounds)

/** The maximum number of requests in a call to `batch`. */
const PAGE = 10_000
const SLEEP_MILLIS = 24 * 3_600_000
/** Time for the work of the start to end. */
const SETTLING_MILLIS = 15_000
const IDLE_MILLIS = 20_000
/** The platform is quiet when it uses less than 1 % of a core for this time. */
const QUIET_MILLIS = 10_000
const JOBS = 300

const HANDLERS = {
  echo: `import { Handler, Worker } from ${source("worker")}
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
const echo = Handler.make("echo", { input: Schema.Int, output: Schema.Int, run: Effect.succeed })
Worker.layer(echo).pipe(Worker.launch)
`,
  nap: `import { Pipeline } from ${source("pipelines")}
import * as Schema from "effect/Schema"
const nap = Pipeline.make("nap", { input: Schema.Int }).sleep("nap", ${SLEEP_MILLIS}).end(Schema.Void)
Pipeline.launch(nap, { main: import.meta, concurrency: 64 })
`
}

const decodeBatch = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))
const decodeRun = Schema.decodeUnknownSync(Schema.Struct({ status: Schema.Literal("COMPLETED") }))
const decodeHealth = Schema.decodeUnknownSync(
  Schema.Struct({ jobs: Schema.Struct({ inQueue: Schema.Int, inProgress: Schema.Int }) })
)

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const config = await writeHandlers(folder, HANDLERS)

const start = async (name: string): Promise<Platform> => {
  await mkdir(join(folder, name), { recursive: true })
  return startPlatform(config, join(folder, name), {
    PLATFORM_LOG_LEVEL: "WARN",
    STINT_BATCH_REQUESTS: String(PAGE),
    STINT_BATCH_QUEUED: String(RUNS + PAGE)
  })
}

/** Begins the runs, and waits until all of them sleep. */
const prepare = async (): Promise<void> => {
  const platform = await start("asleep")
  for (let begun = 0; begun < RUNS; begun += PAGE) {
    const requests = Array.from({ length: Math.min(PAGE, RUNS - begun) }, (_, at) => ({ input: begun + at }))
    const { id } = decodeBatch(await call(platform, "/v2/nap/batch", requests))
    await call(platform, `/v2/nap/batch/${id}/finalize`, {})
  }
  while (true) {
    const { jobs } = decodeHealth(await call(platform, "/v2/nap/health"))
    if (jobs.inQueue === 0) break
    await pause(500)
  }
  // The index of words reads the jobs after they have begun.
  while (true) {
    const before = await usageOf(platform.pid)
    await pause(QUIET_MILLIS)
    const after = await usageOf(platform.pid)
    if ((after.seconds - before.seconds) * 1_000 < QUIET_MILLIS / 100) break
  }
  await platform.stop()
}

interface Figures {
  readonly memory: Array<number>
  readonly cpu: Array<number>
  readonly latency: Array<number>
}

const measure = async (name: string, figures: Figures): Promise<void> => {
  const platform = await start(name)
  for (let n = 0; n < JOBS; n++) decodeRun(await call(platform, "/v2/echo/runsync", { input: n }))
  await pause(SETTLING_MILLIS)
  const before = await usageOf(platform.pid)
  await pause(IDLE_MILLIS)
  const after = await usageOf(platform.pid)
  const times: Array<number> = []
  for (let n = 0; n < JOBS; n++) {
    const begun = performance.now()
    decodeRun(await call(platform, "/v2/echo/runsync", { input: n }))
    times.push(performance.now() - begun)
  }
  figures.memory.push(after.memory)
  figures.cpu.push((after.seconds - before.seconds) / IDLE_MILLIS * 1_000 * 100)
  figures.latency.push(median(times))
  await platform.stop()
}

try {
  const started = performance.now()
  await prepare()
  const begun = (performance.now() - started) / 1_000
  const subjects = ["empty", "asleep"].map((name) => ({ name, figures: { memory: [], cpu: [], latency: [] } satisfies Figures }))
  for (let round = 0; round < ROUNDS; round++) for (const { figures, name } of subjects) await measure(name, figures)
  process.stdout.write(
    `${RUNS} sleeping runs, begun in ${begun.toFixed(0)} s (${ROUNDS} rounds, Node ${process.versions.node})\n\n${
      tableOf([
        ["", "memory, MiB", "idle, % of a core", "runsync p50, ms"],
        ...subjects.map(({ figures: { cpu, latency, memory }, name }) => [
          name === "empty" ? "no runs" : `${RUNS} sleeping runs`,
          spreadOf(memory),
          spreadOf(cpu),
          spreadOf(latency)
        ])
      ])
    }\n`
  )
} finally {
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
