/**
 * P10 (docs/spec/figures.md#performance):
 * a `forEach` of many jobs, compared with a batch of the same jobs, and how late sleeps end.
 *
 * ```
 *   list    one run: 10,000 jobs of the endpoint `child`, 64 at the same time
 *   batch   10,000 requests to `child`, whose only worker runs 64 at the same time
 *   sleeps  10,000 runs that sleep until times within the same five seconds, with a worker that is already running
 * ```
 *
 * `--items N` (default 10000), `--rounds N` (default 3), `--only lists,sleeps`. Takes about 4 minutes.
 */
import * as Schema from "effect/Schema"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { call, source, startHandlers } from "./BenchmarkPlatform.ts"
import { formatFigure, median, quantiles, tableOf } from "./Rounds.ts"

const { values } = parseArgs({
  options: {
    items: { type: "string", default: "10000" },
    rounds: { type: "string", default: "3" },
    only: { type: "string", default: "lists,sleeps" }
  }
})
const items = Number(values.items)
const rounds = Number(values.rounds)
const wanted = new Set(values.only.split(","))

/** All sleeps end within this time. Milliseconds. */
const SPREAD = 5_000
/** How many runs are submitted at the same time. */
const CALLERS = 32

const CHILD = `const child = Handler.make("child", { input: Schema.Int, output: Schema.Int, run: Effect.succeed })`

const HANDLERS = {
  child: `import { Handler, Worker } from ${source("worker")}
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
${CHILD}
Worker.layer(child, { concurrency: 64 }).pipe(Worker.launch)
`,
  list: `import { Pipeline } from ${source("pipelines")}
import { Handler } from ${source("worker")}
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
${CHILD}
const list = Pipeline.make("list", { input: Schema.Int })
  .select(({ input }) => Array.from({ length: input }, (_, n) => n))
  .forEach("item", child, { concurrency: 64 })
  .step("count", (all) => all.length)
  .end(Schema.Int)
Pipeline.launch(list, { main: import.meta })
`,
  nap: `import { Pipeline } from ${source("pipelines")}
import * as Schema from "effect/Schema"
import { appendFileSync } from "node:fs"
const nap = Pipeline.make("nap", { input: Schema.Struct({ until: Schema.Number, log: Schema.String }) })
  .sleep("nap", ({ input }) => Math.max(0, input.until - Date.now()))
  .step("late", (_, { input: { log, until } }) => appendFileSync(log, \`\${Date.now() - until}\\n\`))
  .end(Schema.Void)
Pipeline.launch(nap, { main: import.meta, concurrency: 64 })
`
}

const Batch = Schema.Struct({ id: Schema.String, requestTotal: Schema.Int, requestCompleted: Schema.Int })
const decodeBatch = Schema.decodeUnknownSync(Batch)
const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))
const decodeRun = Schema.decodeUnknownSync(Schema.Struct({ status: Schema.String, output: Schema.Int }))

const platform = await startHandlers(HANDLERS)

/** The time of a run with a list of this length. Seconds. */
const list = async (length: number): Promise<number> => {
  const started = performance.now()
  const { output } = decodeRun(await call(platform, "/v2/list/runsync?wait=300000", { input: length }))
  if (output !== length) throw new Error(`the run had ${output} items instead of ${length}`)
  return (performance.now() - started) / 1000
}

/** The time of a batch with this many requests. Seconds. */
const batch = async (length: number): Promise<number> => {
  const started = performance.now()
  const { id } = decodeId(await call(platform, "/v2/child/batch", Array.from({ length }, (_, input) => ({ input }))))
  await call(platform, `/v2/child/batch/${id}/finalize`, {})
  while (decodeBatch(await call(platform, `/v2/child/batch/${id}`)).requestCompleted < length) await pause(20)
  return (performance.now() - started) / 1000
}

const lists = async (): Promise<void> => {
  // The first jobs compile the code.
  await list(Math.min(items, 500))
  await batch(Math.min(items, 500))
  const figures = { list: new Array<number>(), batch: new Array<number>() }
  for (let round = 0; round < rounds; round++) {
    figures.list.push(await list(items))
    figures.batch.push(await batch(items))
  }
  const row = (name: string, seconds: ReadonlyArray<number>) => [
    name,
    formatFigure(items / median(seconds)),
    `${formatFigure(items / Math.max(...seconds))} - ${formatFigure(items / Math.min(...seconds))}`,
    `${median(seconds.map((one, at) => (figures.batch[at] ?? Number.NaN) / one)).toFixed(2)}x`
  ]
  process.stdout.write(`${items} jobs, 64 at the same time (${rounds} rounds, Node ${process.versions.node})\n\n${
    tableOf([
      ["", "jobs/s", "range", "ratio to the batch"],
      row("one run, forEach with concurrency 64", figures.list),
      row("a batch", figures.batch)
    ])
  }\n\n`)
}

/** Runs that sleep. Returns how late each sleep ended, in milliseconds, until the next step had begun in the worker. */
const sleeps = async (round: number): Promise<ReadonlyArray<number>> => {
  const log = join(platform.folder, `late-${round}`)
  await writeFile(log, "")
  // Longer than the submission takes, so that all runs sleep when the first sleep ends.
  const first = Date.now() + 10_000 + items * 10
  let next = 0
  const caller = async () => {
    while (next < items) {
      const n = next++
      await call(platform, "/v2/nap/run", { input: { until: first + Math.floor(n * SPREAD / items), log } })
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  if (Date.now() > first) throw new Error("the runs were submitted too slowly: pass fewer --items")
  while (true) {
    const late = (await readFile(log, "utf8")).split("\n").filter((line) => line !== "").map(Number)
    if (late.length >= items) return late
    await pause(200)
  }
}

try {
  if (wanted.has("lists")) await lists()
  if (wanted.has("sleeps")) {
    const late: Array<ReadonlyArray<number>> = []
    for (let round = 0; round < Math.max(1, Math.floor(rounds / 2)); round++) late.push(await sleeps(round))
    quantiles(`How late ${items} sleeps end that are due within ${SPREAD / 1000} s`, "ms", late)
  }
} finally {
  await platform.end()
}
