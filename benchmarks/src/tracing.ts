/**
 * P11 (docs/spec/figures.md#performance):
 * the cost of tracing. Jobs per second through take -> handler -> done, without traces and with every job traced: no-op jobs, one and 50 at a
 * time, and 10 ms jobs, 50 at a time.
 *
 * ```
 *   this process: a stub platform                     a separate process, restarted in each round: the same program
 *     returns a job at once, with 256 B         <---   off:  no OpenTelemetry variable
 *       and a recorded traceparent              <---   on:   OTEL_EXPORTER_OTLP_ENDPOINT, protobuf, otherwise defaults
 *     counts results: the figure
 *   and a collector, which counts spans         <---   three spans per job: process, handler, deliver
 * ```
 *
 * All processes share the cores of one machine. The first results of a process are not counted, because they measure Node's compilation. Lost
 * spans are printed: a worker that drops spans because it cannot export them fast enough would make tracing look cheap.
 *
 * `--profile FOLDER` writes a CPU profile of each worker.
 */
import { bundle } from "@stint/pool-process/HandlerBundle"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import type { IncomingMessage, ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { compare } from "./Rounds.ts"
import { listen, makeStub } from "./StubPlatform.ts"

const WARM_UP = 20_000
const COUNTED = 20_000
const { values } = parseArgs({ options: { profile: { type: "string" }, rounds: { type: "string", default: "5" } } })
const ROUNDS = Number(values.rounds)
const SPANS_A_JOB = 3

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const traceparent = `00-${TRACE}-b7ad6b7169203331-01`
const stub = makeStub({ input: { text: "x".repeat(130) }, delayTime: 1, traceparent })

/** Each span contains the trace id once, and its bytes occur nowhere else. */
const needle = Buffer.from(TRACE, "hex")
let spans = 0

const collect = (request: IncomingMessage, response: ServerResponse) => {
  const parts: Array<Buffer> = []
  request.on("data", (part: Buffer) => parts.push(part))
  request.once("end", () => {
    const body = Buffer.concat(parts)
    for (let at = body.indexOf(needle); at >= 0; at = body.indexOf(needle, at + needle.length)) spans++
    response.writeHead(200, { "content-type": "application/x-protobuf" })
    response.end()
  })
}

const platform = await listen(stub.serve)
const collector = await listen(collect)
const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const worker = await Effect.runPromise(bundle(fileURLToPath(import.meta.resolve("./traced-handler.ts")), folder))

let lost = 0
let sent = 0

/** Runs the worker until enough results have arrived. Returns results per second. */
const throughput = (concurrency: number, wait: number, variables: Record<string, string>) => async (): Promise<number> => {
  let results = 0
  spans = 0
  const base = `${platform.url}/v2/bench`
  const profiled = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`]
  const child = spawn(process.execPath, [...profiled, worker], {
    env: {
      PATH: process.env["PATH"],
      CONCURRENCY: String(concurrency),
      WAIT: String(wait),
      PLATFORM_WEBHOOK_GET_JOB: `${base}/job-take/$ID?gpu=none`,
      PLATFORM_WEBHOOK_POST_OUTPUT: `${base}/job-done/$PLATFORM_POD_ID/$ID?gpu=none`,
      PLATFORM_WEBHOOK_PING: `${base}/ping/$PLATFORM_POD_ID?gpu=none`,
      PLATFORM_SKIP_AUTO_SYSTEM_CHECKS: "true",
      PLATFORM_LOG_LEVEL: "WARN",
      PLATFORM_POD_ID: "bench",
      ...variables
    },
    stdio: ["ignore", "inherit", "inherit"]
  })
  const ended = new Promise<void>((gone) => child.once("exit", () => gone()))
  try {
    return await new Promise<number>((done, failed) => {
      let started = 0
      child.once("exit", (code) => failed(new Error(`the worker exited with code ${code}`)))
      stub.restart((count) => {
        results = count
        if (results === WARM_UP) started = performance.now()
        else if (results === WARM_UP + COUNTED) done(COUNTED / ((performance.now() - started) / 1000))
      })
    })
  } finally {
    // The worker finishes its jobs and sends its last spans.
    child.kill("SIGTERM")
    await ended
    if ("OTEL_EXPORTER_OTLP_ENDPOINT" in variables) {
      lost += results * SPANS_A_JOB - spans
      sent += spans
    }
  }
}

try {
  for (const [concurrency, wait] of [[1, 0], [50, 0], [50, 10]] as const) {
    lost = 0
    sent = 0
    await compare(`Tracing at concurrency ${concurrency}, jobs of ${wait} ms`, "jobs/s", ROUNDS, [
      { name: "off", run: throughput(concurrency, wait, {}) },
      { name: "on, every job", run: throughput(concurrency, wait, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }) }
    ])
    process.stdout.write(`${sent} spans arrived, ${lost} were lost.\n\n`)
  }
} finally {
  platform.close()
  collector.close()
  await rm(folder, { recursive: true, force: true })
}
