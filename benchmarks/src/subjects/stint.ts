/**
 * Stint's queue over SQLite, embedded. The first argument is the durability class; with `indexed` as the second, the words of jobs are indexed.
 */
import * as JobQueue from "@stint/queue/JobQueue"
import * as TextIndexer from "@stint/queue/TextIndexer"
import * as UsageMeter from "@stint/queue/UsageMeter"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { mkdtempSync } from "node:fs"
import { rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { serveSubject } from "../SubjectProcess.ts"
import { runLoad } from "./QueueLoad.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-benchmark-"))

const runtime = ManagedRuntime.make(
  JobQueue.layer.pipe(
    // As in the platform, each attempt is counted for billing.
    Layer.provide(UsageMeter.layer()),
    Layer.provide(WorkerRegistry.layer),
    Layer.merge(process.argv[3] === "indexed" ? TextIndexer.layer() : Layer.empty),
    Layer.provide([Sqlite.SqliteJobStore.layer, Sqlite.SqliteUsageStore.layer]),
    Layer.provideMerge(
      Sqlite.SqliteDatabase.layer({ file: join(folder, "jobs.db"), durability: process.argv[2] === "D1" ? "D1" : "D2" })
    )
  )
)

const completed = Sqlite.SqliteDatabase.SqliteDatabase.use((db) =>
  db.read("count", () => Number(db.statement("SELECT count(*) AS n FROM jobs WHERE status = 'COMPLETED'").get()?.["n"]))
)

serveSubject((load) => runtime.runPromise(runLoad(load, completed)), async () => {
  await runtime.dispose()
  await rm(folder, { recursive: true, force: true })
})
