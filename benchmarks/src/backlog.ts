/**
 * P5 (docs/spec/figures.md#performance):
 * the cost of a large backlog. Measures a single claim, and draining with 32 jobs in flight, with 1,000, 100,000 and a million ready jobs,
 * and with a million ready jobs together with 100,000 jobs in a backoff and two million ended jobs.
 *
 * ```
 *   a submitted job --copied in SQL--> one file per size, built once, with the ids, inputs and times that a queue would write
 *   each round, each file in turn:     single claims (p50), then take and finish (jobs/s), then submits to restore the number of jobs
 * ```
 *
 * Measures both durability classes: D2 is the platform's default, and on D1 no sync hides the cost of the claim itself. `--max N` (default
 * 1000000) skips files with more ready jobs, `--rounds N` (default 5). Takes about 4 minutes, mostly to build the files, and 4 GB of disk space.
 */
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { backlogTable, type Figures, round, type Size, SIZES, templates } from "./BacklogLoad.ts"

const { values } = parseArgs({
  options: { max: { type: "string", default: "1000000" }, rounds: { type: "string", default: "5" } }
})
const MAX = Number(values.max)
const ROUNDS = Number(values.rounds)

const open = (file: string, durability: "D1" | "D2") =>
  ManagedRuntime.make(
    JobQueue.layer.pipe(
      Layer.provide(WorkerRegistry.layer),
      Layer.provide(Sqlite.SqliteJobStore.layer),
      Layer.provide(Sqlite.SqliteDatabase.layer({ file, durability }))
    )
  )

const run = async <A>(
  file: string,
  durability: "D1" | "D2",
  program: Effect.Effect<A, unknown, JobQueue.JobQueue>
): Promise<A> => {
  const runtime = open(file, durability)
  try {
    return await runtime.runPromise(program)
  } finally {
    await runtime.dispose()
  }
}

/** Copies a row of each table `count` times. Columns that are not changed here keep the template's value, including columns that are added later. */
const multiply = (db: DatabaseSync, template: number, count: number): void => {
  if (count <= 0) return
  const next = Number(db.prepare("SELECT max(seq) AS seq FROM jobs").get()?.["seq"])
  const copy = (table: string, changes: { readonly [column: string]: string }) => {
    const columns = db.prepare(`PRAGMA table_info(${table})`).all().map((column) => String(column["name"]))
    const taken = columns.map((column) => changes[column] ?? `${table}.${column}`)
    db.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       INSERT INTO ${table} (${columns.join(", ")}) SELECT ${taken.join(", ")} FROM n, ${table} WHERE ${table}.seq = ${template}`
    )
  }
  const seq = `${next} + i`
  copy("jobs", {
    seq,
    id: `printf('%s-%012x', substr(id, 1, 23), ${seq})`,
    created_at: "created_at + i / 100",
    queued_at: "queued_at + i / 100",
    expires_at: "expires_at + i / 100",
    due_at: "due_at + i / 100"
  })
  copy("inputs", { seq })
  copy("outcomes", { seq })
}

const build = async (file: string, { delayed, ended, ready }: Size): Promise<void> => {
  await run(file, "D1", templates)
  const db = new DatabaseSync(file)
  try {
    db.exec("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN")
    multiply(db, 1, ended - 1)
    multiply(db, 2, delayed - 1)
    multiply(db, 3, ready - 1)
    db.exec(
      `UPDATE tallies SET waiting = (SELECT count(*) FROM jobs WHERE status = 'IN_QUEUE' AND not_before IS NULL),
         delayed = (SELECT count(*) FROM jobs WHERE status = 'IN_QUEUE' AND not_before IS NOT NULL),
         completed = (SELECT count(*) FROM jobs WHERE status = 'COMPLETED'),
         retried = (SELECT count(*) FROM jobs WHERE retries > 0);
       COMMIT; PRAGMA wal_checkpoint(TRUNCATE)`
    )
  } finally {
    db.close()
  }
}

const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
try {
  const files = SIZES.filter(({ ready }) => ready <= MAX).map((size, index) => ({ size, file: join(folder, `${index}.db`) }))
  for (const { file, size } of files) await build(file, size)
  for (const durability of ["D2", "D1"] as const) {
    const all = files.map(({ size }): Figures => ({ name: size.name, claim: [], drain: [] }))
    for (let n = 0; n < ROUNDS; n++) {
      for (const [index, { file }] of files.entries()) {
        const { claim, drain } = await run(file, durability, round)
        all[index]?.claim.push(claim)
        all[index]?.drain.push(drain)
      }
    }
    process.stdout.write(
      `Backlog, ${durability} (${ROUNDS} rounds, Node ${process.versions.node})\n\n${backlogTable(all)}\n\n`
    )
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
