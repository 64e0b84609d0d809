/**
 * P8 (docs/spec/figures.md#performance): the time from a process's start to its first take, compared with `node` on an empty program.
 *
 * - `bare`: `node -e 0`, until it exits.
 * - `published`: a handler that imports the published build of the SDK, which is built first, until its first take from a stub platform.
 * - `bundle`: the same handler as the pool's bundle, with the pool's options for Node.
 *
 * All use V8's compile cache, like the pool's workers. The first round fills the cache and is not counted. `--rounds N`
 * (default 25).
 */
import { bundle, BUNDLE_NODE_OPTIONS } from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { execFileSync, spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { compare } from "./Rounds.ts"
import { listen } from "./StubPlatform.ts"

const { values } = parseArgs({ options: { rounds: { type: "string", default: "25" } } })

const packages = resolve(import.meta.dirname, "../../packages")
const built = join(packages, "sdk/dist/index.js")
// An earlier build may be older than the sources.
execFileSync("npx", ["-y", "pnpm@12", "exec", "turbo", "run", "build", "--filter=@stint/sdk", "--output-logs=errors-only"], {
  cwd: join(packages, ".."),
  stdio: ["ignore", "ignore", "inherit"]
})

let onTake = () => {}
const stub = await listen((request, response) => {
  request.resume()
  if (request.url?.includes("/job-take/") === true) onTake()
  else response.end()
})
const base = `${stub.url}/v2/bench`

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const environment = {
  PATH: process.env["PATH"],
  NODE_COMPILE_CACHE: join(folder, "compile-cache"),
  PLATFORM_WEBHOOK_GET_JOB: `${base}/job-take/$ID?gpu=none`,
  PLATFORM_WEBHOOK_POST_OUTPUT: `${base}/job-done/$PLATFORM_POD_ID/$ID?gpu=none`,
  PLATFORM_WEBHOOK_PING: `${base}/ping/$PLATFORM_POD_ID?gpu=none`,
  // Every platform sets the worker's id.
  PLATFORM_POD_ID: "bench",
  PLATFORM_MIN_MEMORY_GB: "0.1",
  PLATFORM_MIN_DISK_PERCENT: "0.1",
  PLATFORM_LOG_LEVEL: "WARN"
}

/** Milliseconds until a process exits. */
const toEnd = (args: ReadonlyArray<string>) => (): Promise<number> =>
  new Promise((done) => {
    const started = performance.now()
    spawn(process.execPath, args, { env: environment, stdio: "ignore" }).once("exit", () => done(performance.now() - started))
  })

/** Milliseconds until a worker's first take. */
const toTake = (file: string, nodeOptions: ReadonlyArray<string> = []) => async (): Promise<number> => {
  const started = performance.now()
  const taken = new Promise<number>((done) => {
    onTake = () => done(performance.now() - started)
  })
  const child = spawn(process.execPath, [...nodeOptions, file], { env: environment, stdio: ["ignore", "inherit", "inherit"] })
  const ended = new Promise<void>((gone) => child.once("exit", () => gone()))
  try {
    return await Promise.race([taken, ended.then(() => Promise.reject(new Error(`${file} ended before its first take`)))])
  } finally {
    // An orderly exit, so that Node writes its compile cache.
    child.kill("SIGTERM")
    await ended
  }
}

const handlerOf = (sdk: string) =>
  `import * as sdk from ${JSON.stringify(sdk)}\nsdk.serverless.start({ handler: () => "done" })\n`
const published = join(folder, "published.mjs")
await writeFile(published, handlerOf(built))
const source = join(folder, "source.ts")
await writeFile(source, handlerOf(join(packages, "sdk/src/index.ts")))
const bundled = await Effect.runPromise(bundle(source, join(folder, "bundles")))

try {
  await compare("From the start of a process to its first take", "ms", Number(values.rounds), [
    { name: "bare: `node -e 0`", run: toEnd(["-e", "0"]) },
    { name: "published", run: toTake(published) },
    { name: "bundle", run: toTake(bundled, BUNDLE_NODE_OPTIONS) }
  ])
} finally {
  stub.close()
  await rm(folder, { recursive: true, force: true })
}
