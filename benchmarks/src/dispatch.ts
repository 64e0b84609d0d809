/**
 * P2 (docs/spec/figures.md#performance):
 * the time from a caller's request to the start of the handler in a waiting worker. Embedded platform, separate processes, one job at a time.
 *
 * ```
 *   this process        --POST /runsync-->   platform (SQLite, D2)   --take-->   worker
 *   clock before the request                                                     clock in the handler, returned as the output
 * ```
 *
 * The figure includes the request's transfer to the platform and its durable commit. The goal starts when the job is available, so the figure
 * is an upper bound. All processes read the system's monotonic clock. `--rounds N` (default 5).
 */
import { mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { KEY, startPlatform } from "./BenchmarkPlatform.ts"
import { quantiles } from "./Rounds.ts"

const REQUESTS = 2_000
const WARM_UP = 300
const { values } = parseArgs({ options: { rounds: { type: "string", default: "5" } } })
const ROUNDS = Number(values.rounds)

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const sdk = resolve(import.meta.dirname, "../../packages/sdk/src/index.ts")
await writeFile(
  join(folder, "handler.ts"),
  `import * as sdk from ${JSON.stringify(sdk)}
sdk.serverless.start({ handler: () => ({ at: String(process.hrtime.bigint()) }) })
`
)
await writeFile(
  join(folder, "stint.config.ts"),
  `export default { endpoints: { clock: { handler: ${
    JSON.stringify(join(folder, "handler.ts"))
  }, workers: { min: 1, max: 1 } } } }\n`
)
const platform = await startPlatform(join(folder, "stint.config.ts"), folder, { PLATFORM_LOG_LEVEL: "WARN" })

const body = JSON.stringify({ input: { text: "x".repeat(200) } })

/** The time from just before the request to the handler's start, in milliseconds. */
const once = async (): Promise<number> => {
  const before = process.hrtime.bigint()
  const response = await fetch(`${platform.url}/v2/clock/runsync`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}` },
    body
  })
  const text = await response.text()
  const at = /"at":"(\d+)"/.exec(text)?.[1]
  if (at === undefined) throw new Error(text)
  return Number(BigInt(at) - before) / 1e6
}

try {
  for (let n = 0; n < WARM_UP; n++) await once()
  const rounds: Array<ReadonlyArray<number>> = []
  for (let round = 0; round < ROUNDS; round++) {
    const all: Array<number> = []
    for (let n = 0; n < REQUESTS; n++) all.push(await once())
    rounds.push(all)
  }
  quantiles(`Dispatch to a waiting worker, ${REQUESTS} jobs one after the other`, "ms", rounds)
} finally {
  await platform.end()
}
