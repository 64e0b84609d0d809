/**
 * P3 (docs/spec/figures.md#performance):
 * `/run` (a durable acknowledgement) and `/runsync` (the result) with a no-op handler, compared with alternative stacks, at 1, 16 and 64
 * connections.
 *
 * ```
 *   load generator ----256 B----> Stint: platform on SQLite (D2) + one worker process, 64 jobs at once
 *                      --256 B--> BullMQ: node:http + Redis + one worker process, 64 at once; waitUntilFinished. `always` is D2, `everysec` D1
 *                      --256 B--> Restate: its server, which syncs its log (D2) + one service process; `/send`, and request-response
 * ```
 *
 * `--rounds N` (default 5), `--seconds N` per figure (default 1.5), `--only stint,always,everysec,restate`. Takes about 5 minutes.
 */
import process from "node:process"
import { parseArgs } from "node:util"
import { bullmq, restate, stint } from "./HttpStacks.ts"
import { hasRedis, installPeers } from "./Peers.ts"
import { compareStacks } from "./StackLoad.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "1.5" },
    only: { type: "string", default: "stint,always,everysec,restate" }
  }
})
const wanted = new Set(values.only.split(","))
const peers = installPeers()
const redis = hasRedis()
if (peers && !redis) process.stdout.write("Skipping BullMQ: redis-server is not installed.\n")

await compareStacks([
  ...(wanted.has("stint") ? [() => stint()] : []),
  ...(peers && redis && wanted.has("always") ? [() => bullmq("always")] : []),
  ...(peers && redis && wanted.has("everysec") ? [() => bullmq("everysec")] : []),
  ...(peers && wanted.has("restate") ? [restate] : [])
], {
  operations: ["run", "runsync"],
  connections: [1, 16, 64],
  rounds: Number(values.rounds),
  millis: Number(values.seconds) * 1000
})
