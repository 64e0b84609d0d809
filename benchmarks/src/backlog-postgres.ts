/**
 * P5 for PostgreSQL (docs/spec/figures.md#performance): the cost of a large backlog, as in backlog.ts, over PostgreSQL with fsync.
 *
 * ```
 *   a submitted job --copied in SQL--> one database per size, built once
 *   each round, each database in turn: single claims (p50), then take and finish (jobs/s), then submits to restore the number of jobs
 * ```
 *
 * `--max N` (default 1000000) skips databases with more ready jobs, `--rounds N` (default 5). Takes about 5 minutes and 4 GB of disk space. Needs
 * PostgreSQL's programs (Debian: `postgresql`).
 */
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Postgres from "@stint/store-postgres"
import { execute, missing, startCluster } from "@stint/store-postgres/testing"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import process from "node:process"
import { parseArgs } from "node:util"
import { backlogTable, type Figures, round, type Size, SIZES, templates } from "./BacklogLoad.ts"

const { values } = parseArgs({
  options: { max: { type: "string", default: "1000000" }, rounds: { type: "string", default: "5" } }
})
const MAX = Number(values.max)
const ROUNDS = Number(values.rounds)

if (missing !== undefined) {
  process.stdout.write(`The backlog in PostgreSQL was not measured: ${missing}.\n`)
  process.exit(0)
}

const run = async <A>(url: string, program: Effect.Effect<A, unknown, JobQueue.JobQueue>): Promise<A> => {
  const runtime = ManagedRuntime.make(
    JobQueue.layer.pipe(
      Layer.provide(WorkerRegistry.layer),
      Layer.provide(Postgres.PostgresJobStore.layer),
      Layer.provide(Postgres.PostgresDatabase.layer({ url: Redacted.make(url) }))
    )
  )
  try {
    return await runtime.runPromise(program)
  } finally {
    await runtime.dispose()
  }
}

/** Copies the job of a table `count` times. Columns that are not changed here keep the job's value, including columns that are added later. */
const multiply = async (url: string, table: string, count: number, first: number): Promise<void> => {
  if (count <= 0) return
  const changes: { readonly [column: string]: string } = {
    id: `substr(t.id, 1, 24) || lpad(to_hex(${first} + i), 12, '0')`,
    seq: `${first} + i`,
    created_at: "t.created_at + i / 100",
    queued_at: "t.queued_at + i / 100",
    expires_at: "t.expires_at + i / 100",
    due_at: "t.due_at + i / 100"
  }
  const copy = async (name: string, where: string) => {
    const found = await execute(
      url,
      `SELECT column_name FROM information_schema.columns WHERE table_schema = 'stint' AND table_name = '${name}'`
    )
    const columns = found.map(([column]) => String(column))
    const taken = columns.map((column) => changes[column] ?? `t.${column}`)
    await execute(
      url,
      `INSERT INTO stint.${name} (${columns.join(", ")}) SELECT ${
        taken.join(", ")
      } FROM stint.${name} t, generate_series(1, ${count}) i
       WHERE ${where}`
    )
  }
  await copy("jobs", `t.id = (SELECT id FROM stint.${table})`)
  await copy(table, "true")
}

const build = async (url: string, { delayed, ended, ready }: Size): Promise<void> => {
  await run(url, templates)
  await multiply(url, "ended", ended - 1, 10)
  await multiply(url, "delayed", delayed - 1, 10 + ended)
  await multiply(url, "ready", ready - 1, 10 + ended + delayed)
  const counts = { waiting: ready - 1, delayed: Math.max(0, delayed - 1), completed: Math.max(0, ended - 1) }
  const added = Object.entries(counts).map(([column, count]) => `${column} = ${column} + ${count}`)
  await execute(url, `UPDATE stint.tallies SET ${added.join(", ")} WHERE id = 'bench'`)
  await execute(url, `SELECT setval('stint.job_seq', ${10 + ended + delayed + ready})`)
  await execute(url, "VACUUM ANALYZE")
}

const cluster = await startCluster({ fsync: true })
try {
  const databases: Array<{ readonly size: Size; readonly url: string }> = []
  for (const size of SIZES.filter(({ ready }) => ready <= MAX)) {
    const name = `backlog_${databases.length}`
    await execute(cluster.url("postgres"), `CREATE DATABASE ${name}`)
    databases.push({ size, url: cluster.url(name) })
    await build(cluster.url(name), size)
  }
  const all = databases.map(({ size }): Figures => ({ name: size.name, claim: [], drain: [] }))
  for (let n = 0; n < ROUNDS; n++) {
    for (const [index, { url }] of databases.entries()) {
      const { claim, drain } = await run(url, round)
      all[index]?.claim.push(claim)
      all[index]?.drain.push(drain)
    }
  }
  process.stdout.write(`Backlog, PostgreSQL (${ROUNDS} rounds, Node ${process.versions.node})\n\n${backlogTable(all)}\n\n`)
} finally {
  await cluster.stop()
}
