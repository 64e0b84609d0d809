import { assert, it } from "@effect/vitest"
import { BatchId } from "@stint/contract/Batch"
import { Endpoint } from "@stint/contract/Endpoint"
import { toJsonText } from "@stint/contract/Json"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as JobQueue from "@stint/queue/JobQueue"
import { toJobRecord } from "@stint/queue/Submission"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import { created } from "@stint/store/BatchMachine"
import { BatchStore } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { NO_OWNER } from "@stint/store/Owner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { tempFile } from "./TestDatabase.ts"

const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "red", source: { type: "external" }, createdAt: 0 })
const id = BatchId.make("batch_1")
const limits = { maxOpen: 10, maxRequests: 100 }

/** Opens the file as a platform process would, runs `body`, and closes the file. */
const life = <A, E>(
  file: string,
  body: Effect.Effect<
    A,
    E,
    BatchStore | BatchQueue.BatchQueue | JobQueue.JobQueue | EndpointStore | SqliteDatabase.SqliteDatabase
  >
) => {
  const stores = Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(
    Layer.provideMerge(SqliteDatabase.layer({ file, lockWaitMs: 0 }))
  )
  const world = BatchQueue.layer.pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(Layer.merge(stores, WorkerRegistry.layer))
  )
  return Effect.provide(body, world)
}

it.effect("R1: continues a batch that was partly enqueued, run or cancelled after a restart", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    const requests = Array.from(
      { length: 10 },
      (_, n) => ({ id: Scenario.jobId(), input: toJsonText({ n }), s3Config: null, options: {} })
    )

    yield* life(
      file,
      Effect.gen(function*() {
        const batches = yield* BatchStore
        yield* (yield* EndpointStore).put(endpoint)
        const batch = created({
          id,
          endpoint: endpoint.id,
          owner: NO_OWNER,
          name: null,
          webhook: null,
          policy: null,
          createdAt: 0,
          retentionMs: 1_000
        })
        yield* batches.create(batch, requests, limits)
        yield* batches.finalize(endpoint.id, id, 0, 100)
        yield* batches.enqueue(
          endpoint.id,
          id,
          4,
          (batch, { id, input }) => toJobRecord({ endpoint, id, input, batchId: batch.id }, 0)
        )
      })
    )

    yield* life(
      file,
      Effect.gen(function*() {
        const batches = yield* BatchQueue.BatchQueue
        const queue = yield* JobQueue.JobQueue
        assert.deepInclude(yield* batches.get(endpoint.id, id), { status: "FINALIZED", total: 10, notEnqueued: 6 })
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 4)
        yield* batches.tick
        assert.deepInclude(yield* batches.get(endpoint.id, id), { status: "FINALIZED", total: 10, notEnqueued: 0 })
        const taken = yield* queue.take({ endpoint: endpoint.id, worker: "ann", limit: 6, waitMs: 0, holding: true })
        assert.deepStrictEqual(
          taken.map((job) => job.id),
          requests.slice(0, 6).map((one) => one.id)
        )
        const [first] = taken
        yield* queue.finish(Scenario.holderOf(first ?? assert.fail()), { output: toJsonText("done"), error: null })
        // The first step of a cancel, after which the process ends.
        const { more } = yield* (yield* BatchStore).cancel(endpoint.id, id, 10, 2)
        assert.isTrue(more)
      })
    )

    yield* life(
      file,
      Effect.gen(function*() {
        const batches = yield* BatchQueue.BatchQueue
        const queue = yield* JobQueue.JobQueue
        assert.deepInclude(yield* batches.get(endpoint.id, id), { status: "CANCELLED", running: 5, completed: 1, cancelled: 2 })
        yield* batches.tick
        assert.deepInclude(yield* batches.get(endpoint.id, id), { running: 5, completed: 1, cancelled: 4, endedAt: null })
        assert.deepStrictEqual(
          yield* queue.take({ endpoint: endpoint.id, worker: "bob", limit: 9, waitMs: 0, holding: true }),
          []
        )
        yield* queue.workerGone(endpoint.id, "ann", undefined)
        assert.deepInclude(yield* batches.get(endpoint.id, id), {
          status: "CANCELLED",
          running: 0,
          completed: 1,
          cancelled: 9,
          endedAt: 0
        })
      })
    )
  }))

it.effect("R11: counts a result once when its transaction is rolled back and run again", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    yield* life(
      file,
      Effect.gen(function*() {
        const batches = yield* BatchQueue.BatchQueue
        const queue = yield* JobQueue.JobQueue
        const db = yield* SqliteDatabase.SqliteDatabase
        yield* (yield* EndpointStore).put(endpoint)
        const most = { requests: 10, open: 10, queued: 10 }
        const requests = [1, 2].map((n) => ({ id: Scenario.jobId(), input: toJsonText(n), s3Config: null, options: {} }))
        const batch = yield* batches.create({ endpoint, requests }, most)
        yield* batches.finalize(endpoint, batch.id, most)
        const [first, second] = yield* queue.take({ endpoint: endpoint.id, worker: "ann", limit: 2, waitMs: 0, holding: true })
        const broken = db.write("break", () => {
          throw new Error("the disk is full")
        })
        const finish = (job: typeof first) =>
          queue.finish(Scenario.holderOf(job ?? assert.fail()), { output: toJsonText("done"), error: null })
        const commits = yield* db.commits
        yield* Effect.all([finish(first), Effect.ignore(broken)], { concurrency: "unbounded" })
        assert.strictEqual((yield* db.commits) - commits, 1)
        assert.deepInclude(yield* batches.get(endpoint.id, batch.id), { running: 1, completed: 1, endedAt: null })
        yield* Effect.all([Effect.ignore(broken), finish(second)], { concurrency: "unbounded" })
        assert.deepInclude(yield* batches.get(endpoint.id, batch.id), { running: 0, completed: 2, status: "COMPLETED" })
      })
    )
  }))
