/**
 * Stint's queue over SQLite, embedded: concurrent callers, and one worker that takes one job per free lane, like the worker runtime. The first argument
 * is the durability class; with `indexed` as the second, the words of jobs are indexed.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as TextIndexer from "@stint/queue/TextIndexer"
import * as UsageMeter from "@stint/queue/UsageMeter"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import { mkdtempSync } from "node:fs"
import { rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { INPUT, type Load, OUTPUT, serveSubject } from "../SubjectProcess.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-benchmark-"))
const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "bench", source: { type: "external" }, createdAt: 0 })
const worker = "bench"

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

const run = Effect.fnUntraced(function*({ jobs, lanes }: Load) {
  const queue = yield* JobQueue.JobQueue
  const db = yield* Sqlite.SqliteDatabase.SqliteDatabase
  const completed = db.read("count", () => db.statement("SELECT count(*) AS n FROM jobs WHERE status = 'COMPLETED'").get()?.["n"])
  const before = yield* completed

  const submit = Effect.suspend(() => queue.submit({ endpoint, input: toJsonText(INPUT), id: JobId.make(uuidV7At(Date.now())) }))
  let sent = 0
  const caller: Effect.Effect<void, unknown> = Effect.whileLoop({
    while: () => sent < jobs,
    body: () => {
      sent += 1
      return submit
    },
    step: () => {}
  })

  const count = { done: 0, running: 0 }
  const finish = Effect.fnUntraced(function*(id: JobId, attempt: number, input: string) {
    JSON.parse(input)
    yield* queue.finish({ endpoint: endpoint.id, worker, job: id, attempt }, { output: toJsonText(OUTPUT), error: null })
    count.running -= 1
    count.done += 1
  })
  const working = Effect.gen(function*() {
    while (count.done < jobs) {
      const free = lanes - count.running
      if (free === 0 || count.done + count.running === jobs) {
        // Waits for the next turn of the event loop, after the current commit.
        yield* Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))
        continue
      }
      const taken = yield* queue.take({ endpoint: endpoint.id, worker, limit: free, waitMs: 1_000, holding: count.running > 0 })
      count.running += taken.length
      for (const { attempt, id, input } of taken) yield* Effect.forkChild(finish(id, attempt, input))
    }
  })

  const started = performance.now()
  yield* Effect.all([Effect.all(Array.from({ length: lanes }, () => caller), { concurrency: lanes, discard: true }), working], {
    concurrency: 2,
    discard: true
  })
  const millis = performance.now() - started
  const after = yield* completed
  if (Number(after) - Number(before) !== jobs) throw new Error(`${String(after)} of ${jobs} jobs are stored as completed`)
  return millis
})

serveSubject((load) => runtime.runPromise(run(load)), async () => {
  await runtime.dispose()
  await rm(folder, { recursive: true, force: true })
})
