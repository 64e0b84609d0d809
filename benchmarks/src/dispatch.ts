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
 *
 * With `--postgres`, two nodes share a PostgreSQL database with fsync. The requests go to each of the nodes in turn. The worker listens at one
 * of them, so the other node's jobs reach it through the database. Needs PostgreSQL's programs (Debian: `postgresql`).
 */
import { missing, startCluster } from "@stint/store-postgres/testing"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import { KEY, type Platform, startPlatform } from "./BenchmarkPlatform.ts"
import { quantiles } from "./Rounds.ts"

const REQUESTS = 2_000
const WARM_UP = 300
const { values } = parseArgs({
  options: { rounds: { type: "string", default: "5" }, postgres: { type: "boolean", default: false } }
})
const ROUNDS = Number(values.rounds)

if (values.postgres && missing !== undefined) {
  process.stdout.write(`The dispatch over PostgreSQL was not measured: ${missing}.\n`)
  process.exit(0)
}

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
const config = join(folder, "stint.config.ts")
const cluster = values.postgres ? await startCluster({ fsync: true }) : undefined
const shared = cluster === undefined
  ? {}
  : { STINT_DATABASE: cluster.url("postgres"), STINT_SECRETS_KEY: Buffer.alloc(32, 1).toString("base64") }
const nodes: Array<Platform> = []
for (const name of cluster === undefined ? ["node"] : ["node-1", "node-2"]) {
  nodes.push(await startPlatform(config, join(folder, name), { PLATFORM_LOG_LEVEL: "WARN", ...shared }))
}

const body = JSON.stringify({ input: { text: "x".repeat(200) } })

/** The time from just before the request to the handler's start, in milliseconds. */
const once = async ({ url }: Platform): Promise<number> => {
  const before = process.hrtime.bigint()
  const response = await fetch(`${url}/v2/clock/runsync`, {
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
  const rounds = nodes.map((): Array<ReadonlyArray<number>> => [])
  for (const node of nodes) for (let n = 0; n < WARM_UP; n++) await once(node)
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, node] of nodes.entries()) {
      const all: Array<number> = []
      for (let n = 0; n < REQUESTS; n++) all.push(await once(node))
      rounds[index]?.push(all)
    }
  }
  for (const [index, figures] of rounds.entries()) {
    const where = nodes.length === 1 ? "" : `, PostgreSQL, through node ${index + 1} of ${nodes.length}`
    quantiles(`Dispatch to a waiting worker${where}, ${REQUESTS} jobs one after the other`, "ms", figures)
  }
} finally {
  for (const node of nodes) await node.end()
  await cluster?.stop()
  await rm(folder, { recursive: true, force: true })
}
