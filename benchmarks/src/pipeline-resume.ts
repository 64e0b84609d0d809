/**
 * P10 (docs/spec/figures.md#performance): how soon a run continues after kill -9.
 *
 * ```
 *   each round:  start a run --> its first step is recorded, its second step begins and waits
 *                kill -9 of the worker, of the platform, or of both; a killed platform starts again at once
 *                the second step begins again, in a new worker           (after a kill of the platform alone: its step ends and is recorded)
 * ```
 *
 * `--rounds N` (default 7) for each of the three. `--built`: starts the program that `pnpm build` has written, as a user does who installed it, instead
 * of the sources. Linux only. Takes about 2 minutes.
 */
import * as Schema from "effect/Schema"
import { access, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { BUILT, call, source, startPlatform, writeHandlers } from "./BenchmarkPlatform.ts"
import { freePort } from "./Peers.ts"
import { spreadOf, tableOf } from "./Rounds.ts"

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "7" }, built: { type: "boolean", default: false } }
})
const ROUNDS = Number(values.rounds)
if (values.built) {
  await access(BUILT).catch(() => {
    throw new Error(`${BUILT} does not exist. Build it: npx -y pnpm@12 build`)
  })
}

/** How often the log of the steps is read. Milliseconds. */
const POLL = 5
const LONGEST_WAIT = 60_000

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
const log = join(folder, "begun")
const gate = join(folder, "gate")

/** The second step waits until the gate exists. Each begin of it writes a line with its process and its time. */
const HANDLER = `import { Pipeline } from ${source("pipelines")}
import * as Schema from "effect/Schema"
import { appendFileSync, existsSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
const resumed = Pipeline.make("resumed", { input: Schema.Int })
  .step("first", (input) => input)
  .step("second", async (input) => {
    appendFileSync(${JSON.stringify(log)}, process.pid + " " + Date.now() + "\\n")
    while (!existsSync(${JSON.stringify(gate)})) await pause(5)
    return input
  })
  .end(Schema.Int)
Pipeline.launch(resumed, { main: import.meta })
`
const config = await writeHandlers(folder, { resumed: HANDLER })
const settings = { PLATFORM_LOG_LEVEL: "WARN", PORT: String(await freePort()) }
const start = () => startPlatform(config, folder, settings, values.built ? BUILT : undefined)
let platform = await start()

const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))
const decodeStatus = Schema.decodeUnknownSync(Schema.Struct({ status: Schema.String }))

const until = async <A>(what: string, find: () => Promise<A | undefined>): Promise<A> => {
  const last = Date.now() + LONGEST_WAIT
  while (Date.now() < last) {
    const found = await find()
    if (found !== undefined) return found
    await pause(POLL)
  }
  throw new Error(`${what} did not happen within ${LONGEST_WAIT / 1_000} s`)
}

/** The begins of the second step. */
const begins = async (): Promise<ReadonlyArray<{ readonly pid: number; readonly at: number }>> =>
  (await readFile(log, "utf8").catch(() => "")).split("\n").filter((line) => line !== "").map((line) => {
    const [pid, at] = line.split(" ").map(Number)
    return { pid: pid ?? 0, at: at ?? 0 }
  })

type Victim = "worker" | "platform" | "both"

/** How long the run stood still. Milliseconds; `answering` since the platform answers again. */
const resume = async (victim: Victim): Promise<{ readonly total: number; readonly answering: number }> => {
  await rm(log, { force: true })
  await rm(gate, { force: true })
  const { id } = decodeId(await call(platform, "/v2/resumed/run", { input: 1 }))
  const { pid } = await until("the second step", async () => (await begins())[0])
  const killed = Date.now()
  if (victim !== "worker") process.kill(platform.pid, "SIGKILL")
  if (victim !== "platform") process.kill(pid, "SIGKILL")
  if (victim !== "worker") platform = await start()
  const answering = Date.now()
  if (victim === "platform") await writeFile(gate, "")
  else {
    await until("the second step, again,", async () => (await begins())[1])
    await writeFile(gate, "")
  }
  await until("the end", async () => {
    const { status } = decodeStatus(await call(platform, `/v2/resumed/status/${id}`))
    if (status === "FAILED") throw new Error("the run failed")
    return status === "COMPLETED" ? true : undefined
  })
  const again = (await begins())[1]?.at ?? Date.now()
  return { total: again - killed, answering: again - answering }
}

try {
  const rows: Array<ReadonlyArray<string>> = []
  for (const victim of ["worker", "platform", "both"] as const) {
    const all: Array<{ readonly total: number; readonly answering: number }> = []
    // The first round compiles the code of the platform.
    for (let round = -1; round < ROUNDS; round++) {
      const one = await resume(victim)
      if (round >= 0) all.push(one)
    }
    rows.push([
      victim,
      spreadOf(all.map(({ total }) => total)),
      victim === "worker" ? "" : spreadOf(all.map(({ answering }) => answering))
    ])
  }
  process.stdout.write(
    `Until a run continues after kill -9 (${values.built ? "built, " : ""}${ROUNDS} rounds, Node ${process.versions.node})\n\n${
      tableOf([["", "from the kill, ms", "since the platform answers, ms"], ...rows])
    }\n`
  )
} finally {
  await platform.end()
}
