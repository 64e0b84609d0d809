/**
 * Random pipelines that fail, wait, are cancelled and lose their worker, over the queue with a real store.
 */
import { EndpointId } from "@stint/contract/Ids"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import { Scenario } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, describe, it } from "vitest"
import { endsAlike, Job, undoesAll } from "../../../packages/pipelines/test/RandomPipelines.ts"
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

/** Each run has its own endpoints, so that an event reaches only its own run. */
let started = 0
const host = {
  start: (pipeline: Parameters<typeof StoreRuns.start>[0], crash: Parameters<typeof StoreRuns.start>[3]) =>
    Effect.suspend(() => {
      started++
      return StoreRuns.start(
        pipeline,
        Job,
        { pipeline: EndpointId.make(`random-${started}`), jobs: EndpointId.make("job") },
        crash
      )
    }).pipe(Effect.orDie),
  settle: Scenario.settle
}

const quiet = Layer.merge(TestClock.layer(), Layer.succeed(References.MinimumLogLevel, "None"))

const runs = Number(process.env["STINT_PROPERTY_RUNS"] ?? 20)

describe.each([{ name: "memory", world: memory }, { name: "SQLite", world: sqlite }])(
  "a random pipeline that fails, waits and is undone, over the queue in $name",
  ({ world }) => {
    const run: Parameters<typeof endsAlike<Effect.Services<ReturnType<typeof host.start>>>>[2] = (program) =>
      Effect.runPromise(Effect.scoped(Effect.provide(program, Layer.provideMerge(world(), quiet))))

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
