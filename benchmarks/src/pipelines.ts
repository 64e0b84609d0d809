/**
 * P10 (docs/spec/figures.md#performance):
 * a pipeline of three steps that do nothing, from the request to its result, compared with Restate, DBOS and Effect's workflow engine, at 1 and 32
 * connections.
 *
 * ```
 *   load generator ----256 B----> Stint: platform on SQLite (D2) + one worker process, which records three steps in the journal
 *                      --256 B--> Stint: the same platform; the pipeline runs three jobs of another endpoint, one after the other
 *                      --256 B--> Stint: one job that does nothing, as a baseline
 *                      --256 B--> Restate: its server, which syncs its log (D2) + one service process with three `ctx.run`
 *                      --256 B--> DBOS: node:http and three `DBOS.runStep` in one process + PostgreSQL, which syncs each commit (D2)
 *                      --256 B--> Effect: node:http, a workflow of three activities and SQLite (D2) in one process
 * ```
 *
 * In all stacks, a recorded step does not run again after a crash. `--rounds N` (default 5), `--seconds N` per figure (default 3),
 * `--only stint,restate,dbos,effect`. Takes about 4 minutes.
 */
import process from "node:process"
import { parseArgs } from "node:util"
import { restate } from "./HttpStacks.ts"
import { installPeers } from "./Peers.ts"
import { dbos, effectWorkflow, noDatabase, stintPipelines } from "./PipelineStacks.ts"
import { compareStacks } from "./StackLoad.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    only: { type: "string", default: "stint,restate,dbos,effect" }
  }
})
const wanted = new Set(values.only.split(","))
const hasPeers = (wanted.has("restate") || wanted.has("dbos")) && installPeers()
if (wanted.has("dbos") && noDatabase !== undefined) process.stdout.write(`DBOS is ${noDatabase}\n`)

await compareStacks([
  ...(wanted.has("stint") ? [stintPipelines] : []),
  ...(hasPeers && wanted.has("restate") ? [restate] : []),
  ...(hasPeers && wanted.has("dbos") && noDatabase === undefined ? [dbos] : []),
  ...(wanted.has("effect") ? [effectWorkflow] : [])
], {
  operations: ["pipeline"],
  connections: [1, 32],
  rounds: Number(values.rounds),
  millis: Number(values.seconds) * 1000
})
