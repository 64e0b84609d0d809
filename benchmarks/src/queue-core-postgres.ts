/**
 * P4 for PostgreSQL (docs/spec/figures.md#performance): jobs per second through enqueue -> claim -> complete, with 32 jobs in flight, one node.
 *
 * ```
 *   one cluster, fsync and synchronous_commit on; a database for each subject
 *   each round, each subject in turn: as in queue-core.ts
 * ```
 *
 * The cost of a job includes the server, which is one for all: while a subject runs, it may still write what another one left. Stint over SQLite (D2)
 * runs in the same rounds. The peers store less: graphile-worker deletes completed jobs, and returns no outputs.
 * `--seconds N`: duration per subject and round (default 1), `--rounds N` (default 7), `--no-peers`. Takes about 2 minutes. Needs PostgreSQL's
 * programs (Debian: `postgresql`).
 */
import { execute, missing, startCluster } from "@stint/store-postgres/testing"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { startCore } from "./CoreSubject.ts"
import { installPeers, PEERS } from "./Peers.ts"
import { compare } from "./Rounds.ts"
import type { Running } from "./SubjectProcess.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "1" },
    rounds: { type: "string", default: "7" },
    peers: { type: "boolean", default: true }
  },
  allowNegative: true
})
const LANES = 32
const seconds = Number(values.seconds)

if (missing !== undefined) {
  process.stdout.write(`The queue over PostgreSQL was not measured: ${missing}.\n`)
  process.exit(0)
}

const STINT_POSTGRES = fileURLToPath(import.meta.resolve("./subjects/stint-postgres.ts"))
const STINT_SQLITE = fileURLToPath(import.meta.resolve("./subjects/stint.ts"))
// Each peer has up to 40 connections.
const cluster = await startCluster({ fsync: true, settings: ["max_connections = 400"] })
const running: Array<Running> = []
try {
  const start = (name: string, file: string, args: ReadonlyArray<string>, pids: ReadonlyArray<number> = []) =>
    startCore({ lanes: LANES, seconds, running }, name, file, args, pids)
  const server = Number.parseInt(readFileSync(join(cluster.folder, "data/postmaster.pid"), "utf8"), 10)
  const onDatabase = async (database: string, name: string, file: string, mode?: string) => {
    await execute(cluster.url("postgres"), `CREATE DATABASE ${database}`)
    return start(name, file, [cluster.url(database), ...(mode === undefined ? [] : [mode])], [server])
  }
  const subjects = [
    await onDatabase("stint", "Stint, PostgreSQL", STINT_POSTGRES),
    await start("Stint, SQLite D2", STINT_SQLITE, ["D2"])
  ]
  if (values.peers && installPeers()) {
    const graphile = join(PEERS, "graphile-worker.mjs")
    const boss = join(PEERS, "pg-boss.mjs")
    subjects.push(
      await onDatabase("graphile", "graphile-worker 0.18, default", graphile, "default"),
      await onDatabase("graphile_batched", "graphile-worker 0.18, batched", graphile, "batched"),
      await onDatabase("graphile_grouped", "graphile-worker 0.18, batched, grouped addJobs", graphile, "grouped"),
      await onDatabase("boss", "pg-boss 12.33, 32 workers", boss, "default"),
      await onDatabase("boss_batched", "pg-boss 12.33, batched", boss, "batched")
    )
  }
  await compare(`Queue core, PostgreSQL, ${LANES} in flight`, "jobs/s", Number(values.rounds), subjects)
} finally {
  for (const one of running) await one.end()
  await cluster.stop()
}
