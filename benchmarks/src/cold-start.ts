/**
 * P7 and P8 (docs/spec/figures.md#performance): the cost of a cold start.
 *
 * - `bare`: `node handler.ts`, a handler without imports that prints. The lower bound of a cold start.
 * - `sources`, `bundle`: a Stint handler in local test mode in a separate process, from its sources and from the pool's bundle.
 * - `request`: `/runsync` to an endpoint without workers, until its result: HTTP, durable submit, autoscaler, process, take, handler, delivery.
 */
import { bundle } from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
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
const platform = await startPlatform(config, folder, environment)

const call = async (path: string, body?: string): Promise<unknown> => {
  const response = await fetch(`${platform.url}/v2/hello${path}`, {
    headers: { authorization: `Bearer ${KEY}` },
    ...(body === undefined ? {} : { method: "POST", body })
  })
  return response.json()
}

/** Waits until the endpoint has no workers, so that the next request starts one. */
const untilCold = async (): Promise<void> => {
  while (!JSON.stringify(await call("/health")).includes("\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0")) {
    await new Promise((next) => setTimeout(next, 20))
  }
}

const request = async (): Promise<number> => {
  await untilCold()
  const started = performance.now()
  const result = JSON.stringify(await call("/runsync", "{\"input\":{\"name\":\"Ada\"}}"))
  if (!result.includes("Hello, Ada!")) throw new Error(result)
  return performance.now() - started
}

try {
  await compare("Cold start", "ms", 15, [
    { name: "bare", run: () => timed([bare]) },
    { name: "sources", run: () => timed([handler]) },
    { name: "bundle", run: () => timed([bundled]) },
    { name: "request", run: request }
  ])
} finally {
  await platform.end()
}
