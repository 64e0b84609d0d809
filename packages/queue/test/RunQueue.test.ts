import { assert, describe, it } from "@effect/vitest"
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as EndpointStore from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { RunStore } from "@stint/store/RunStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as JobQueue from "../src/jobs/JobQueue.ts"
import * as RunQueue from "../src/runs/RunQueue.ts"
import * as WorkerRegistry from "../src/workers/WorkerRegistry.ts"

const CHILDREN = EndpointId.make("stamps")
const ENDPOINT = EndpointId.make("letters")
const HASH = "a".repeat(64)
const RUN = JobId.make(uuidV7At(0))

const lost = () =>
  Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "test", cause: new Error("no answer") }) }))

/** A store whose responses to writes are lost. */
const layerLost = Layer.effect(
  RunStore,
  Effect.map(RunStore, (store) => RunStore.of({ ...store, journal: lost, define: lost, send: lost, retry: lost }))
)

const world = RunQueue.layer.pipe(
  Layer.provideMerge(JobQueue.layer),
  Layer.provide(layerLost),
  Layer.provide(Layer.mergeAll(MemoryJobStore.layer, WorkerRegistry.layer, EndpointStore.layerMemory))
)

const working = RunQueue.layer.pipe(
  Layer.provideMerge(JobQueue.layer),
  Layer.provideMerge(Layer.merge(MemoryJobStore.layerWithEndpoints, WorkerRegistry.layer))
)

const endpoint = (id: EndpointId): Endpoint =>
  Schema.decodeUnknownSync(Endpoint)({
    id,
    source: { type: "external" },
    createdAt: 0,
    leaseMs: 10_000,
    executionTimeoutMs: 60_000,
    ttlMs: 300_000,
    retentionMs: 600_000,
    maxAttempts: 2
  })

describe("a child of a run", () => {
  it.effect("has the trace that the run's caller sent", () =>
    Effect.gen(function*() {
      const endpoints = yield* EndpointStore.EndpointStore
      const jobs = yield* JobStore
      const queue = yield* JobQueue.JobQueue
      const runs = yield* RunQueue.RunQueue
      const [pipeline, children] = [endpoint(ENDPOINT), endpoint(CHILDREN)]
      yield* endpoints.put(pipeline)
      yield* endpoints.put(children)
      yield* runs.define(ENDPOINT, [{ hash: HASH, graph: toJsonText({ name: "letters", nodes: [] }) }])
      const takeOne = (one: EndpointId) => queue.take({ endpoint: one, worker: "ann", limit: 1, waitMs: 0, holding: true })
      const traced = { traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01`, tracestate: "vendor=1" }
      for (const trace of [traced, undefined]) {
        yield* queue.submit({ endpoint: pipeline, id: JobId.make(uuidV7At(0)), input: toJsonText(1), trace })
        const [run = assert.fail()] = yield* takeOne(ENDPOINT)
        yield* runs.journal(ENDPOINT, "ann", [{
          run: run.id,
          attempt: run.attempt,
          start: { definition: HASH, ttlMs: 1_000, undo: false },
          records: [{ kind: "spawn", path: "stamp", endpoint: CHILDREN, input: toJsonText(1) }]
        }], 0)
        const [child = assert.fail()] = yield* takeOne(CHILDREN)
        const { traceparent, tracestate } = (yield* jobs.traceOf(CHILDREN, child.id)) ?? assert.fail()
        assert.deepStrictEqual([traceparent, tracestate], [trace?.traceparent ?? null, trace?.tracestate ?? null])
      }
    }).pipe(Effect.provide(working)))
})

describe("a write to a run whose response is lost", () => {
  const writes: ReadonlyArray<
    readonly [name: string, write: (runs: RunQueue.RunQueue["Service"]) => Effect.Effect<unknown, unknown>]
  > = [
    ["journal", (runs) => runs.journal(ENDPOINT, "ann", [{ run: RUN, attempt: 1, records: [] }], 0)],
    ["event", (runs) => runs.send(ENDPOINT, { name: "approval", key: "", body: toJsonText(1), id: null, ttlMs: 1_000 })],
    ["retry", (runs) => runs.retryFrom(ENDPOINT, RUN, "list")],
    ["definition", (runs) => runs.define(ENDPOINT, [{ hash: "a".repeat(64), graph: toJsonText({}) }])]
  ]

  for (const [name, write] of writes) {
    it.effect(`R5: wakes everyone who may wait for what it stored: ${name}`, () =>
      Effect.gen(function*() {
        const queue = yield* JobQueue.JobQueue
        const runs = yield* RunQueue.RunQueue
        const waiting = yield* Effect.forkChild(queue.awaitDemand(CHILDREN, 60_000), { startImmediately: true })
        const error = yield* Effect.flip(write(runs))
        assert.instanceOf(error, StoreError)
        // No time passes.
        yield* Fiber.join(waiting)
      }).pipe(Effect.provide(world)), 5_000)
  }
})
