/**
 * Random pipelines that fail, wait, are cancelled and lose their worker, over the queue with a real store.
 */
import { EndpointId } from "@stint/contract/Ids"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Postgres from "@stint/store-postgres"
import { execute, missing } from "@stint/store-postgres/testing"
import * as Sqlite from "@stint/store-sqlite"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, beforeAll, beforeEach, describe, it } from "vitest"
import { endsAlike, Job, undoesAll } from "../../../packages/pipelines/test/RandomPipelines.ts"
import { type SharedDatabase, startDatabase } from "./SharedDatabase.ts"
import * as StoreRuns from "./StoreRuns.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-random-runs-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const queue = RunQueue.layer.pipe(Layer.provideMerge(JobQueue.layer), Layer.provideMerge(WorkerRegistry.layer))

const memory = () => queue.pipe(Layer.provideMerge(Layer.merge(MemoryJobStore.layer, EndpointStore.layerMemory)))

let files = 0
const sqlite = () => {
  files++
  return queue.pipe(Layer.provideMerge(Layer.orDie(Sqlite.layer({ file: join(folder, `${files}.db`), durability: "D1" }))))
}

let cluster: SharedDatabase | undefined
beforeAll(async () => {
  if (missing === undefined) cluster = await startDatabase()
}, 120_000)
afterAll(() => cluster?.[Symbol.asyncDispose](), 120_000)

/** Each run has an empty database, because the jobs of an earlier run must not be claimed. */
const postgres = () => {
  const name = `random${++databases}`
  const made = Effect.promise(async () => {
    if (cluster === undefined) throw new Error("the cluster is not running")
    await execute(cluster.url, `CREATE DATABASE ${name}`)
    return Postgres.layer({ url: Redacted.make(cluster.cluster.url(name)) })
  })
  return queue.pipe(Layer.provideMerge(Layer.orDie(Layer.unwrap(made))))
}
let databases = 0

/** Each run has its own endpoint, so that an event reaches only its own run. */
let started = 0
const activity = StoreRuns.makeActivity()
const host = {
  start: (pipeline: Parameters<typeof StoreRuns.start>[0], crash: Parameters<typeof StoreRuns.start>[3]) =>
    Effect.suspend(() => {
      started++
      const ids = { pipeline: EndpointId.make(`random-${started}`), jobs: EndpointId.make("job") }
      return StoreRuns.start(pipeline, Job, ids, crash, activity)
    }).pipe(Effect.orDie),
  settle: StoreRuns.settled(activity)
}

const quiet = Layer.merge(TestClock.layer(), Layer.succeed(References.MinimumLogLevel, "None"))

const runs = Number(process.env["STINT_PROPERTY_RUNS"] ?? 20)

describe.each([
  { name: "memory", world: memory, skipped: undefined },
  { name: "SQLite", world: sqlite, skipped: undefined },
  { name: "PostgreSQL", world: postgres, skipped: missing }
])(
  "a random pipeline that fails, waits and is undone, over the queue in $name",
  ({ skipped, world }) => {
    beforeEach(({ skip }) => skip(skipped !== undefined, skipped))

    // The workers stop first, because a store that closes waits for the calls of its users.
    const run: Parameters<typeof endsAlike<Effect.Services<ReturnType<typeof host.start>>>>[2] = (program) =>
      Effect.runPromise(Effect.provide(Effect.scoped(program), Layer.provideMerge(world(), quiet)))

    it(
      "R14: ends alike when its worker is killed at random records, and its journal is consistent",
      () => endsAlike(host, runs, run),
      600_000
    )

    it(
      "R14: undoes everything that it has done when a caller cancels it at a random record",
      () => undoesAll(host, runs, run),
      600_000
    )
  }
)
