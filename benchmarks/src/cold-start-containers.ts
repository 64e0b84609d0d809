/**
 * P7 (docs/spec/figures.md#performance): the cost of a container's cold start.
 *
 * - `bare`: `podman run` of an image with Node and a handler without imports that prints. The lower bound of a cold start.
 * - `worker`: `podman run` of the same image with a Stint handler in local test mode.
 * - `request`: `/runsync` to an endpoint with this image and no workers, until its result.
 * - `request, process`: the same handler as a process on the machine, which shows what the container adds.
 *
 * The benchmark starts Podman with runc and its own storage. If it cannot, it says why and measures nothing.
 * `STINT_BENCHMARK_ROUNDS`: rounds, default 10.
 */
import { missingEngine, TestEngine } from "@stint/pool-container/testing"
import { build } from "esbuild"
import { writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import process from "node:process"
import { setTimeout } from "node:timers/promises"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
import { compare } from "./Rounds.ts"

const IMAGE = "localhost/stint-benchmark:1"

const handler = resolve(import.meta.dirname, "../../examples/01-hello/handler.ts")

/** Limits that this machine allows: by default, an engine raises them. */
const LIMITS = ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]

const measure = async (engine: TestEngine): Promise<void> => {
  const bare = join(engine.folder, "bare.mjs")
  const worker = join(engine.folder, "worker.mjs")
  await writeFile(
    bare,
    "const handler = (job) => `Hello, ${job.input.name}!`\nconsole.log(handler({ input: { name: \"Ada\" } }))\n"
  )
  await build({
    entryPoints: [handler],
    outfile: worker,
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "error",
    banner: { js: `const require = globalThis.process.getBuiltinModule("node:module").createRequire(import.meta.url);` }
  })
  await engine.makeNodeImage(IMAGE, { "/app/bare.mjs": bare, "/app/worker.mjs": worker })

  const config = join(engine.folder, "stint.config.ts")
  const scaling = "workers: { idleTimeout: 0 }"
  await writeFile(
    config,
    `export default { endpoints: {
  contained: { image: "${IMAGE}", command: ["/app/worker.mjs"], ${scaling} },
  started: { handler: ${JSON.stringify(handler)}, ${scaling} }
} }
`
  )
  const { end, url } = await startPlatform(config, join(engine.folder, "platform"), { STINT_ENGINE: engine.socket })

  const call = async (path: string, body?: string): Promise<string> => {
    const response = await fetch(url + path, {
      headers: { authorization: `Bearer ${KEY}` },
      ...(body === undefined ? {} : { method: "POST", body })
    })
    return response.text()
  }

  const podmanRun = (...args: ReadonlyArray<string>) => async (): Promise<number> => {
    const started = performance.now()
    await engine.podman("run", "--rm", "--network=none", ...LIMITS, IMAGE, ...args)
    return performance.now() - started
  }

  /** Waits until nothing is left of the previous round, so that its end does not slow down the next start. */
  const untilCold = async (endpoint: string): Promise<void> => {
    const none = "\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0"
    while (!(await call(`/v2/${endpoint}/health`)).includes(none)) await setTimeout(20)
    while ((await engine.podman("ps", "--all", "--quiet")).trim() !== "") await setTimeout(20)
  }

  const request = (endpoint: string) => async (): Promise<number> => {
    await untilCold(endpoint)
    const started = performance.now()
    const result = await call(`/v2/${endpoint}/runsync?wait=120000`, "{\"input\":{\"name\":\"Ada\"}}")
    const took = performance.now() - started
    if (!result.includes("Hello, Ada!")) throw new Error(result)
    await untilCold(endpoint)
    return took
  }

  try {
    await compare("Cold start of a container", "ms", Number(process.env["STINT_BENCHMARK_ROUNDS"] ?? 10), [
      { name: "bare", run: podmanRun("/app/bare.mjs") },
      { name: "worker", run: podmanRun("/app/worker.mjs", "--test_input", "{\"input\":{\"name\":\"Ada\"}}") },
      { name: "request", run: request("contained") },
      { name: "request, process", run: request("started") }
    ])
  } finally {
    await end()
  }
}

const missing = missingEngine()
if (missing === undefined) {
  await using engine = new TestEngine("overlay")
  await engine.start()
  await measure(engine)
} else process.stdout.write(`The cold start of a container was not measured: ${missing}.\n`)
