/**
 * P4 (docs/spec/figures.md#performance): the throughput of the queue's core. Jobs per second through enqueue -> claim -> complete, with 32
 * jobs in flight.
 *
 * ```
 *   32 callers enqueue 256 B each --> queue --> one worker with 32 lanes reads the input, completes with 64 B
 *   the clock stops when the storage counts all jobs as completed
 * ```
 *
 * Each subject runs in a separate process and keeps its data between rounds. The cost of a job includes the subject's server. Only subjects of one durability class are compared: D2 survives a
 * power failure, D1 a killed process. `--seconds N`: duration per subject and round (default 1), `--rounds N` (default 7), `--only D2`,
 * `--no-peers`. Takes about 90 s.
 */
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { startCore } from "./CoreSubject.ts"
import { hasRedis, installPeers, PEERS, type Server, startRedis } from "./Peers.ts"
import { compare } from "./Rounds.ts"
import type { Running } from "./SubjectProcess.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "1" },
    rounds: { type: "string", default: "7" },
    only: { type: "string" },
    peers: { type: "boolean", default: true }
  },
  allowNegative: true
})
const LANES = 32
const seconds = Number(values.seconds)
const STINT = fileURLToPath(import.meta.resolve("./subjects/stint.ts"))
const PERSISTED_QUEUE = fileURLToPath(import.meta.resolve("./subjects/persisted-queue.ts"))

const hasPeers = values.peers && installPeers()
const redis = hasPeers && hasRedis()
if (hasPeers && !redis) process.stdout.write("Skipping BullMQ: redis-server is not installed.\n")

/** Measures all subjects of one durability class. */
const measure = async (durability: "D2" | "D1", fsync: "always" | "everysec"): Promise<void> => {
  const running: Array<Running> = []
  const servers: Array<Server> = []
  try {
    const subject = (name: string, file: string, args: ReadonlyArray<string>, pids: ReadonlyArray<number> = []) =>
      startCore({ lanes: LANES, seconds, running }, name, file, args, pids)
    const subjects = [
      await subject("Stint, SQLite", STINT, [durability]),
      await subject("Effect's PersistedQueue, SQLite", PERSISTED_QUEUE, [durability])
    ]
    if (hasPeers) subjects.push(await subject("plainjob, SQLite", join(PEERS, "plainjob.mjs"), [durability]))
    if (redis) {
      const server = await startRedis(fsync)
      servers.push(server)
      subjects.push(await subject(`BullMQ, Redis ${fsync}`, join(PEERS, "bullmq.mjs"), [String(server.port)], [server.pid]))
    }
    await compare(`Queue core, ${durability}, ${LANES} in flight`, "jobs/s", Number(values.rounds), subjects)
  } finally {
    for (const one of running) await one.end()
    for (const one of servers) await one.end()
  }
}

if (values.only !== "D1") await measure("D2", "always")
if (values.only !== "D2") await measure("D1", "everysec")
