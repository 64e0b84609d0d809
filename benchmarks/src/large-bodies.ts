/**
 * How large bodies delay other callers: measures the latency of small `/run` requests to one endpoint, alone, and while four connections
 * continuously send large bodies to another endpoint. Two send 9.8 MB of nested JSON to `runsync`, two send 18 MB as the result of an unknown
 * job.
 *
 * ```
 *   this process --256 B, one at a time--> platform (SQLite, D2) <--9.8 and 18 MB, four connections-- a second process
 * ```
 *
 * The goal is a p99 of at most 50 ms with the large bodies. `--rounds N` (default 5), `--requests N` per figure (default 500).
 */
import { fork } from "node:child_process"
import { mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
import { type Connection, open, requestBytes } from "./HttpConnection.ts"
import { quantiles } from "./Rounds.ts"

const RUNSYNC_BYTES = 9_800_000
const RESULT_BYTES = 18_000_000

const { positionals: [sendTo, workerKey = ""], values } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "5" }, requests: { type: "string", default: "500" } }
})

const nested = (size: number) => `[${"[{}],".repeat(size / 5)}1]`

/** Sends a request repeatedly. Fails the benchmark if a response has a different status. */
const sendForever = async (host: string, request: Buffer, status: number) => {
  const connection = await open(host)
  const next = () =>
    connection.send(request, (answer) => {
      if (answer.status !== status) throw new Error(`a large body was answered with ${answer.status}: ${answer.body}`)
      next()
    })
  next()
}

/** The process that sends large bodies, until it is killed. */
const sendLargeBodies = async (host: string) => {
  const runsync = requestBytes(host, "POST", "/v2/large/runsync?wait=1000", KEY, `{"input":${nested(RUNSYNC_BYTES)}}`)
  const result = requestBytes(host, "POST", "/v2/large/job-done/w/unknown", workerKey, `{"output":${nested(RESULT_BYTES)}}`)
  await Promise.all([runsync, runsync].map((request) => sendForever(host, request, 200)))
  await Promise.all([result, result].map((request) => sendForever(host, request, 404)))
  process.send?.("sending")
}

const latenciesOf = async (connection: Connection, request: Buffer, count: number): Promise<ReadonlyArray<number>> => {
  const latencies: Array<number> = []
  while (latencies.length < count) {
    const sent = performance.now()
    const { status } = await new Promise<{ readonly status: number }>((answered) => connection.send(request, answered))
    if (status !== 200) throw new Error(`/run was answered with ${status}`)
    latencies.push(performance.now() - sent)
  }
  return latencies
}

const workerKeyOf = async (url: string): Promise<string> => {
  const response = await fetch(`${url}/api/v1/endpoints/large/worker-env`, { headers: { authorization: `Bearer ${KEY}` } })
  const key = /"PLATFORM_AI_API_KEY":"([^"]+)"/.exec(await response.text())?.[1]
  if (key === undefined) throw new Error("the platform printed no key for workers")
  return key
}

const measure = async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const config = join(folder, "stint.config.mjs")
  await writeFile(config, "export default { endpoints: { small: { external: true }, large: { external: true } } }\n")
  const platform = await startPlatform(config, folder)
  const { host } = new URL(platform.url)
  try {
    const key = await workerKeyOf(platform.url)
    const request = requestBytes(host, "POST", "/v2/small/run", KEY, JSON.stringify({ input: { text: "x".repeat(240) } }))
    const connection = await open(host)
    const count = Number(values.requests)
    // The first requests compile the platform's code.
    await latenciesOf(connection, request, 500)
    const alone: Array<ReadonlyArray<number>> = []
    const beside: Array<ReadonlyArray<number>> = []
    for (let round = 0; round < Number(values.rounds); round++) {
      alone.push(await latenciesOf(connection, request, count))
      const sender = fork(fileURLToPath(import.meta.url), [host, key], { stdio: ["ignore", "inherit", "inherit", "ipc"] })
      const ended = new Promise((gone) => sender.once("exit", gone))
      await new Promise((sending) => sender.once("message", sending))
      beside.push(await latenciesOf(connection, request, count))
      if (sender.exitCode !== null) throw new Error("the sender of large bodies has ended")
      sender.kill("SIGKILL")
      await ended
    }
    connection.close()
    quantiles("Small requests, alone", "ms", alone)
    process.stdout.write("\n")
    quantiles("Small requests, while large bodies arrive", "ms", beside)
  } finally {
    await platform.end()
  }
}

if (sendTo === undefined) await measure()
else await sendLargeBodies(sendTo)
