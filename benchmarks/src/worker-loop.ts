/**
 * P1 (docs/spec/figures.md#performance): the cost of the worker runtime. Jobs per second through take -> no-op handler -> done, at concurrency
 * 1 and 50.
 *
 * ```
 *   this process: a stub platform                     a separate process, restarted in each round
 *     returns a job at once, with 256 B        <---   bare:    undici, a loop of take and done; 50 such loops
 *     counts results: the figure               <---   worker:  @stint/sdk, from the pool's bundle, a handler that returns 64 B
 * ```
 *
 * Both processes share the cores of one machine, like a worker and its platform on one machine. The first results of a process are not
 * counted, because they measure Node's compilation. `--rounds N` (default 7). `--base PATH` compares with the worker of another checkout of this
 * repository instead of the bare loop. `--profile FOLDER` writes CPU profiles of the worker.
 */
import { bundle } from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { startCost } from "./ProcessUsage.ts"
import { compare, type Measurement } from "./Rounds.ts"
import { listen, makeStub } from "./StubPlatform.ts"

const WARM_UP = 4_000
const COUNTED = 12_000
const { values } = parseArgs({
  options: { base: { type: "string" }, profile: { type: "string" }, rounds: { type: "string", default: "7" } }
})
const ROUNDS = Number(values.rounds)

const stub = makeStub({ input: { text: "x".repeat(200) } })
const platform = await listen(stub.serve)

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))

/** Runs a program against the stub until enough results have arrived. Returns results per second, and what a job cost the program. */
const throughput = (file: string, concurrency: number) => async (): Promise<Measurement> => {
  const base = `${platform.url}/v2/bench`
  const profiled = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`]
  const child = spawn(process.execPath, [...profiled, file], {
    env: {
      PATH: process.env["PATH"],
      CONCURRENCY: String(concurrency),
      STUB: base,
      PLATFORM_WEBHOOK_GET_JOB: `${base}/job-take/$ID?gpu=none`,
      PLATFORM_WEBHOOK_POST_OUTPUT: `${base}/job-done/$PLATFORM_POD_ID/$ID?gpu=none`,
      PLATFORM_WEBHOOK_PING: `${base}/ping/$PLATFORM_POD_ID?gpu=none`,
      PLATFORM_SKIP_AUTO_SYSTEM_CHECKS: "true",
      PLATFORM_LOG_LEVEL: "WARN",
      PLATFORM_POD_ID: "bench"
    },
    stdio: ["ignore", "inherit", "inherit"]
  })
  const ended = new Promise<void>((gone) => child.once("exit", () => gone()))
  try {
    return await new Promise<Measurement>((done, failed) => {
      let started = 0
      let costOf: ReturnType<typeof startCost>
      child.once("exit", (code) => failed(new Error(`${file} exited with code ${code}`)))
      stub.restart((results) => {
        if (results === WARM_UP) {
          costOf = startCost([child.pid ?? 0])
          started = performance.now()
        } else if (results === WARM_UP + COUNTED) {
          done({ figure: COUNTED / ((performance.now() - started) / 1000), cost: costOf(COUNTED) })
        }
      })
    })
  } finally {
    stub.restart(() => {})
    // A process writes its profile at an orderly end.
    child.kill(values.profile === undefined ? "SIGKILL" : "SIGTERM")
    await ended
  }
}

const bare = join(folder, "bare.mjs")
await writeFile(
  bare,
  `import { Pool } from ${JSON.stringify(import.meta.resolve("undici"))}
const pool = new Pool(${JSON.stringify(platform.url)}, { connections: Number(process.env.CONCURRENCY), pipelining: 1 })
const loop = async () => {
  for (;;) {
    const taken = await pool.request({ method: "GET", path: "/v2/bench/job-take/bench?gpu=none&job_in_progress=0" })
    const job = await taken.body.json()
    const body = JSON.stringify({ output: { text: "y".repeat(50) } })
    const done = await pool.request({
      method: "POST", path: "/v2/bench/job-done/bench/" + job.id + "?gpu=none&isStream=false", body,
      headers: { "content-type": "application/json" }
    })
    await done.body.dump()
  }
}
for (let n = 0; n < Number(process.env.CONCURRENCY); n++) void loop()
`
)

/** Bundles a worker with the SDK of a checkout. */
const workerOf = async (checkout: string, name: string): Promise<string> => {
  const source = join(folder, `${name}.ts`)
  await writeFile(
    source,
    `import * as sdk from ${JSON.stringify(join(checkout, "packages/sdk/src/index.ts"))}
sdk.serverless.start({
  handler: () => ({ text: "y".repeat(50) }),
  concurrency_modifier: () => Number(process.env["CONCURRENCY"])
})
`
  )
  return Effect.runPromise(bundle(source, join(folder, "bundles", name)))
}

const worker = await workerOf(resolve(import.meta.dirname, "../.."), "handler")
const peer = values.base === undefined
  ? { name: "bare undici loop", file: bare }
  : { name: "worker of the other checkout", file: await workerOf(resolve(values.base), "base") }

try {
  for (const concurrency of [1, 50]) {
    await compare(`Worker loop at concurrency ${concurrency}`, "jobs/s", ROUNDS, [
      { name: peer.name, run: throughput(peer.file, concurrency) },
      { name: "worker", run: throughput(worker, concurrency) }
    ])
  }
} finally {
  platform.close()
  await rm(folder, { recursive: true, force: true })
}
