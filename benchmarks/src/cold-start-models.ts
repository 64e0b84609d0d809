/**
 * What the place of a model costs a cold start (docs/operations/models.md): one model of 200 MB from a hub on this machine, in each of the four places.
 *
 * ```
 *   download   the handler's setup downloads the model from the hub
 *   image      the model is in the image, which is already on the machine; only with an engine
 *   model      the endpoint's `model`: the platform has it in its cache
 *   volume     the handler's setup fills a folder from a volume cache; the first worker downloads the model
 * ```
 *
 * Each handler reads the whole model in its setup. `first`: the first worker on the machine. `later`: the following ones, in turns, each when the endpoint
 * has no worker. `--rounds N` (default 5), `--megabytes N` (default 200).
 */
import { makeTestHub } from "@stint/models/testing"
import { missingEngine, TestEngine } from "@stint/pool-container/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { build } from "esbuild"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { parseArgs } from "node:util"
import { KEY, source, startPlatform } from "./BenchmarkPlatform.ts"
import { formatFigure, median, tableOf } from "./Rounds.ts"

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "5" }, megabytes: { type: "string", default: "200" } }
})
const rounds = Number(values.rounds)
const size = Number(values.megabytes) * 1e6

const MODEL = "acme/whisper"
const FILE = "model.safetensors"
const COMMIT = "a".repeat(40)
const IMAGE = "localhost/stint-benchmark-model:1"

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-models-"))
const scope = await Effect.runPromise(Scope.make())
const hub = await Effect.runPromise(Scope.provide(makeTestHub, scope))
hub.models.set(MODEL, { commit: COMMIT, files: { [FILE]: { content: Buffer.alloc(size, 7), lfs: true } } })
const address = `${hub.url}/${MODEL}/resolve/${COMMIT}/${FILE}`

/** A handler that loads the model in its setup. `load` returns the path of the file; it may use `download` and `scratch`. */
const handlerOf = (load: string): string => `
import * as sdk from ${source("sdk")}
import { createReadStream, createWriteStream, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
const download = async (file) => pipeline(Readable.fromWeb((await fetch(${
  JSON.stringify(address)
})).body), createWriteStream(file))
const scratch = (name) => {
  const folder = join(${JSON.stringify(folder)}, name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  return folder
}
let size = 0
sdk.serverless.start({
  setup: async () => {
    ${load}
    for await (const part of createReadStream(file, { highWaterMark: 1 << 20 })) size += part.length
  },
  handler: () => size
})
`

const HANDLERS = {
  download: handlerOf(`const file = join(scratch("downloaded"), "model"); await download(file)`),
  model: handlerOf(`const file = join(process.env.PLATFORM_MODEL_PATH, ${JSON.stringify(FILE)})`),
  volume: handlerOf(`
    const dir = scratch("from-volume")
    const file = join(dir, "model")
    await using cache = await sdk.serverless.VolumeCache({ dirs: [dir] })
    if (!existsSync(file)) await download(file)`),
  image: handlerOf(`const file = "/model/model"`)
} as const

const fileOf = (name: string) => join(folder, `${name}.ts`)
for (const [name, text] of Object.entries(HANDLERS)) await writeFile(fileOf(name), text)

/** Makes the image with the model, and returns the settings of its endpoint. */
const makeImage = async (engine: TestEngine): Promise<object> => {
  const program = join(folder, "image.mjs")
  await build({
    entryPoints: [fileOf("image")],
    outfile: program,
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "error",
    banner: { js: `const require = globalThis.process.getBuiltinModule("node:module").createRequire(import.meta.url);` }
  })
  const model = join(folder, "model")
  await writeFile(model, Buffer.alloc(size, 7))
  await engine.makeNodeImage(IMAGE, { "/app/worker.mjs": program, "/model/model": model })
  return { image: IMAGE, command: ["/app/worker.mjs"] }
}

const missing = missingEngine()
await using engine = missing === undefined ? new TestEngine("overlay") : undefined
await engine?.start()

const workers = { idleTimeout: 1 }
await mkdir(join(folder, "volume"))
const endpoints = {
  download: { handler: fileOf("download"), workers },
  ...(engine === undefined ? {} : { image: { ...await makeImage(engine), workers } }),
  model: { handler: fileOf("model"), model: MODEL, workers },
  volume: { handler: fileOf("volume"), volumes: [{ source: "models" }], workers }
}
const config = join(folder, "stint.config.ts")
await writeFile(config, `export default ${JSON.stringify({ endpoints })}\n`)
const platform = await startPlatform(config, folder, {
  PLATFORM_LOG_LEVEL: "WARN",
  STINT_MODELS_HUB: hub.url,
  STINT_VOLUMES: `models=${join(folder, "volume")}`,
  ...(engine === undefined ? {} : { STINT_ENGINE: engine.socket })
})

const call = async (path: string, body?: string): Promise<string> => {
  const response = await fetch(platform.url + path, {
    headers: { authorization: `Bearer ${KEY}` },
    ...(body === undefined ? {} : { method: "POST", body })
  })
  return response.text()
}

/** The time of a request to an endpoint without workers. Milliseconds. */
const request = async (endpoint: string): Promise<number> => {
  const none = "\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0"
  while (!(await call(`/v2/${endpoint}/health`)).includes(none)) await setTimeout(20)
  const started = performance.now()
  const result = await call(`/v2/${endpoint}/runsync?wait=120000`, "{\"input\":{}}")
  if (!result.includes(`"output":${size}`)) throw new Error(result)
  return performance.now() - started
}

try {
  const found = new Map(Object.keys(endpoints).map((name) => [name, new Array<number>()]))
  for (let round = 0; round <= rounds; round++) {
    for (const [name, times] of found) times.push(await request(name))
  }
  process.stdout.write(
    `Cold start with a model of ${values.megabytes} MB (${rounds} rounds, Node ${process.versions.node}), ms\n\n`
  )
  const rows = Array.from(found, ([name, [first = Number.NaN, ...later]]) => [
    name,
    formatFigure(first),
    formatFigure(median(later)),
    `${formatFigure(Math.min(...later))} - ${formatFigure(Math.max(...later))}`
  ])
  process.stdout.write(`${tableOf([["", "first", "later, median", "range"], ...rows])}\n`)
  if (missing !== undefined) process.stdout.write(`\nThe image was not measured: ${missing}.\n`)
} finally {
  await platform.end()
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
