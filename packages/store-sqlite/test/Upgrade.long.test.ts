/**
 * The queue is upgraded from every version that a file can have. A process that migrates the file is killed after a random statement; then callers
 * and workers use the queue while its timers run. apps/cli/test/Upgrade.long.test.ts does the same with a complete platform for a few versions,
 * because two processes for every version would take minutes.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario, SeededRandom } from "@stint/store-testing"
import { BatchStore } from "@stint/store/BatchStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import * as SqliteStores from "../src/index.ts"
import * as Migrations from "../src/Migrations.ts"
import { columnsOf, rowsOf } from "./KeptRows.ts"
import { brokenByKill, brokenByMigration, fillOld, type OldJob, oldJobs, SCHEMAS, statementFrom, writeOld } from "./OldFiles.ts"
import { tempFile } from "./TestDatabase.ts"

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}.ts`, import.meta.url))

/** Opens a file in a process that dies after a statement of the migration. Returns the signal that ended it; null when it was not killed. */
const openAndDie = (file: string, statement: number) =>
  Effect.promise(async () => {
    const command = ["--require", fixture("dying"), fixture("opener"), file]
    const child = spawn(process.execPath, command, { stdio: "ignore", env: { ...process.env, DIES_AFTER: String(statement) } })
    const [, signal] = await once(child, "exit")
    return signal
  })

/** How long a job may take to end. Milliseconds. */
const LIMIT = 60_000
/** Callers of each endpoint, and the jobs that each submits. */
const CALLERS = 3
const JOBS = 20

const world = (file: string, lines: Array<string>) =>
  Layer.mergeAll(JobTimers.layer(), BatchTimers.layer({ interval: "100 millis" })).pipe(
    Layer.provideMerge(BatchQueue.layer),
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(Layer.mergeAll(SqliteStores.layer({ file, lockWaitMs: 0 }), WorkerRegistry.layer)),
    Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
  )

/** Uses the queue until every old job and every new one has ended. */
const use = Effect.fnUntraced(function*(old: ReadonlyArray<OldJob>, hasBatches: boolean) {
  const queue = yield* JobQueue.JobQueue
  const endpoints = yield* Effect.forEach(["red", "blue"], (id) => Scenario.make({ id }))
  /** The jobs that workers ended, with what they returned. */
  const delivered = new Map<string, string>()
  const worker = ({ endpoint, finish, take }: Scenario.Scenario) =>
    Effect.gen(function*() {
      const jobs = yield* take("ann", { limit: 20, waitMs: 1_000, holding: false })
      yield* Effect.forEach(jobs, (job) => {
        assert.isFalse(delivered.has(job.id), `${job.id} ran although it had ended`)
        delivered.set(job.id, `${endpoint.id} ${job.input}`)
        return finish(job, `${endpoint.id} ${job.input}`)
      })
    }).pipe(Effect.forever)
  const workers = yield* Effect.forEach(endpoints, (endpoint) => Effect.forkChild(worker(endpoint)))
  const caller = ({ endpoint, submit }: Scenario.Scenario, n: number) =>
    Effect.forEach(Array.from({ length: JOBS }, (_, at) => toJsonText(`${n} ${at}`)), (input) =>
      Effect.gen(function*() {
        const { id } = yield* submit({ input })
        const { output, status } = yield* queue.awaitEnd(endpoint.id, id, LIMIT)
        assert.deepStrictEqual([status, output], ["COMPLETED", toJsonText(`${endpoint.id} ${input}`)])
      }))
  const callers = yield* Effect.forkChild(Effect.all(
    endpoints.flatMap((endpoint) => Array.from({ length: CALLERS }, (_, n) => caller(endpoint, n))),
    { concurrency: "unbounded" }
  ))
  yield* Effect.forEach(old, ({ endpoint, error, hasEnded, id, input, isHeld, output, status }) =>
    Effect.gen(function*() {
      const isKept = hasEnded || isHeld
      const job = yield* isKept ? queue.get(endpoint, id) : queue.awaitEnd(endpoint, id, LIMIT)
      const expected = isKept ? [status, output, error] : ["COMPLETED", toJsonText(`${endpoint} ${input}`), null]
      assert.deepStrictEqual([job.status, job.output, job.error], expected, id)
    }), { concurrency: "unbounded", discard: true })
  yield* Fiber.join(callers)
  if (hasBatches) {
    // A request of this batch was not a job yet.
    const batch = Effect.flatMap(BatchStore, (store) => store.get(EndpointId.make("blue"), "batch_1"))
    const ended = yield* Effect.repeat(batch, {
      schedule: Schedule.spaced("20 millis"),
      until: (found) => found?.endedAt !== null
    })
    assert.deepInclude(ended, { status: "COMPLETED", total: 2, completed: 2 })
  }
  for (const fiber of workers) {
    assert.isUndefined(fiber.pollUnsafe(), "the worker failed")
    yield* Fiber.interrupt(fiber)
  }
  for (const { endpoint } of endpoints) {
    const { delayed, running, waiting } = yield* queue.depth(endpoint.id)
    assert.deepStrictEqual({ delayed, running, waiting }, { delayed: 0, running: 0, waiting: 0 })
  }
})

// Each test waits for timers and for another process.
vi.setConfig({ maxConcurrency: 4 })

describe.concurrent("an upgrade", () => {
  for (const schema of SCHEMAS) {
    it.live(
      `R1: keeps and ends every job of a file with the tables of ${schema}, after a kill -9 of its migration`,
      () =>
        Effect.gen(function*() {
          const seed = SeededRandom.runSeed()
          const file = yield* tempFile
          const version = writeOld(file, schema)
          fillOld(file, 10, 1_000)
          const columns = columnsOf(file)
          const before = rowsOf(file, columns)
          const old = oldJobs(file)
          const statement = statementFrom(version, SeededRandom.seededRandom(seed))
          // The current version has no migration.
          assert.strictEqual(yield* openAndDie(file, statement), version === Migrations.LATEST ? null : "SIGKILL")
          assert.deepStrictEqual(brokenByKill(file, version, columns, before), [], `killed after statement ${statement}`)
          const lines: Array<string> = []
          yield* use(old, before.has("batches")).pipe(Effect.provide(world(file, lines), { local: true }))
          assert.deepStrictEqual(lines.filter((line) => !line.includes("were migrated from")), [])
          assert.deepStrictEqual(brokenByMigration(file, version, columns, before), [])
        }),
      120_000
    )
  }
})
