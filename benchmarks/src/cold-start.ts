/**
 * P7 and P8 (docs/spec/figures.md#performance): the cost of a cold start.
 *
 * - `bare`: `node handler.ts`, a handler without imports that prints. The lower bound of a cold start.
 * - `sources`, `bundle`: a Stint handler in local test mode in a separate process, from its sources and from the pool's bundle.
 * - `request`: `/runsync` to an endpoint without workers, until its result: HTTP, durable submit, autoscaler, process, take, handler, delivery.
 * - `request, spare`: the same on a platform with `STINT_SPARE_WORKERS=1`, whose standby process is waiting when the request is sent.
 *
 * At the end, it prints the memory use of a standby. `STINT_BENCHMARK_ROUNDS`: rounds, default 15.
 */
import { bundle } from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout } from "node:timers/promises"
import { KEY, type Platform, startPlatform } from "./BenchmarkPlatform.ts"
import { compare } from "./Rounds.ts"

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const handler = resolve(import.meta.dirname, "../../examples/01-hello/handler.ts")
const environment = { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_COMPILE_CACHE: join(folder, "compile-cache") }

/** Runs Node until it exits. Returns milliseconds. */
const timed = (args: ReadonlyArray<string>): Promise<number> =>
  new Promise((done, failed) => {
    const started = performance.now()
    const child = spawn(process.execPath, args, { cwd: resolve(handler, ".."), env: environment, stdio: "ignore" })
    child.once("error", failed)
    child.once("exit", (code) =>
      code === 0 ? done(performance.now() - started) : failed(new Error(`${args.join(" ")} exited with code ${code}`)))
  })

const bare = join(folder, "bare.ts")
await writeFile(
  bare,
  "const handler = (job: { input: { name: string } }) => `Hello, ${job.input.name}!`\nconsole.log(handler({ input: { name: \"Ada\" } }))\n"
)
const bundled = await Effect.runPromise(bundle(handler, join(folder, "bundles")))

const config = join(folder, "stint.config.ts")
await writeFile(
  config,
  `export default { endpoints: { hello: { handler: ${JSON.stringify(handler)}, workers: { idleTimeout: 1 } } } }\n`
)

const call = async ({ url }: Platform, path: string, body?: string): Promise<unknown> => {
  const response = await fetch(`${url}/v2/hello${path}`, {
    headers: { authorization: `Bearer ${KEY}` },
    ...(body === undefined ? {} : { method: "POST", body })
  })
  return response.json()
}

/** The standby processes of a platform. */
const standbysOf = async ({ pid }: Platform): Promise<ReadonlyArray<string>> => {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ")
  const names = await Promise.all(children.map((child) => readFile(`/proc/${child}/cmdline`, "utf8").catch(() => "")))
  return children.filter((_, index) => names[index]?.includes("standby.mjs"))
}

/** Waits until the endpoint has no workers, so that the next request starts one, and until a standby is waiting. */
const untilCold = async (platform: Platform, spares: number): Promise<void> => {
  const none = "\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0"
  while (!JSON.stringify(await call(platform, "/health")).includes(none) || (await standbysOf(platform)).length < spares) {
    await setTimeout(20)
  }
  // A new standby needs a moment to load the runtime and become ready.
  if (spares > 0) await setTimeout(1_000)
}

const request = (platform: Platform, spares: number) => async (): Promise<number> => {
  await untilCold(platform, spares)
  const started = performance.now()
  const result = JSON.stringify(await call(platform, "/runsync", "{\"input\":{\"name\":\"Ada\"}}"))
  if (!result.includes("Hello, Ada!")) throw new Error(result)
  return performance.now() - started
}

const platform = await startPlatform(config, join(folder, "plain"), environment)
const prepared = await startPlatform(config, join(folder, "spare"), { ...environment, STINT_SPARE_WORKERS: "1" })

try {
  await compare("Cold start", "ms", Number(process.env["STINT_BENCHMARK_ROUNDS"] ?? 15), [
    { name: "bare", run: () => timed([bare]) },
    { name: "sources", run: () => timed([handler]) },
    { name: "bundle", run: () => timed([bundled]) },
    { name: "request", run: request(platform, 0) },
    { name: "request, spare", run: request(prepared, 1) }
  ])
  const [standby] = await standbysOf(prepared)
  const memory = await readFile(`/proc/${standby}/smaps_rollup`, "utf8")
  process.stdout.write(
    `Memory of a standby: ${memory.match(/^(?:Rss|Pss|Private_Dirty): .*$/gm)?.join(", ").replaceAll(/ +/g, " ")}\n`
  )
} finally {
  await Promise.all([platform.end(), prepared.end()])
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
