/**
 * P10 (docs/spec/figures.md#performance):
 * a pipeline of three steps that do nothing, from the request to its result, compared with Restate, at 1 and 32 connections.
 *
 * ```
 *   load generator ----256 B----> Stint: platform on SQLite (D2) + one worker process, which records three steps in the journal
 *                      --256 B--> Restate: its server, which syncs its log (D2) + one service process with three `ctx.run`
 * ```
 *
 * In both stacks, a recorded step does not run again after a crash. `--rounds N` (default 5), `--seconds N` per figure (default 3),
 * `--only stint,restate`. Takes about 2 minutes.
 */
import { resolve } from "node:path"
import { parseArgs } from "node:util"
import { restate, stint } from "./HttpStacks.ts"
import { installPeers } from "./Peers.ts"
import { compareStacks } from "./StackLoad.ts"
import { OUTPUT } from "./SubjectProcess.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    only: { type: "string", default: "stint,restate" }
  }
})
const wanted = new Set(values.only.split(","))
const pipelines = resolve(import.meta.dirname, "../../packages/pipelines/src/index.ts")
const source = `import { Pipeline } from ${JSON.stringify(pipelines)}
import * as Schema from "effect/Schema"
const bench = Pipeline.make("bench", { input: Schema.Struct({ text: Schema.String }) })
  .step("first", () => ({ n: 1 }))
  .step("second", ({ n }) => ({ n: n + 1 }))
  .step("third", () => (${JSON.stringify(OUTPUT)}))
  .end(Schema.Struct({ text: Schema.String }))
Pipeline.launch(bench, { main: import.meta, concurrency: 64 })
`

await compareStacks([
  ...(wanted.has("stint") ? [() => stint(source)] : []),
  ...(wanted.has("restate") && installPeers() ? [restate] : [])
], {
  operations: ["pipeline"],
  connections: [1, 32],
  rounds: Number(values.rounds),
  millis: Number(values.seconds) * 1000
})
