import { assert, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { JobPayloads, MemoryPayloadStore, PayloadJobStore, PayloadSweep } from "@stint/payloads"
import { TestPayloads } from "@stint/payloads-testing"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"

/** The sweep, over the stores beneath the payloads. Returns the number of removed objects. */
class Sweep extends Context.Service<Sweep, Effect.Effect<number, unknown>>()("test/Sweep") {}

const layerSweep = Layer.effect(
  Sweep,
  Effect.map(
    Effect.context<JobStore | WebhookStore | PayloadStore | JobPayloads.JobPayloads>(),
    (context) => Effect.provideContext(PayloadSweep.sweep(-1), context)
  )
)

const stores = Layer.merge(PayloadJobStore.layer, layerSweep).pipe(
  Layer.provide(JobPayloads.layer(TestPayloads.OFFLOAD_ALL)),
  Layer.provideMerge(Layer.merge(MemoryJobStore.layerWithEndpoints, MemoryPayloadStore.layer))
)

const world = RunQueue.layer.pipe(
  Layer.provideMerge(JobQueue.layer),
  Layer.provideMerge(WorkerRegistry.layer),
  Layer.provideMerge(stores)
)

const keys = Effect.map(
  Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(PayloadKey.make("test")))),
  (all) => [...all]
)

const HASH = "a".repeat(64)

it.effect("the objects of a run and of its jobs are kept until the run is removed, and then removed together", () =>
  Effect.gen(function*() {
    const endpoints = yield* EndpointStore
    const queue = yield* JobQueue.JobQueue
    const runs = yield* RunQueue.RunQueue
    const sweep = yield* Sweep
    const { endpoint: pipeline, submit, takeOne } = yield* Scenario.make()
    // The job ends an hour before its run, and its own retention is short.
    const child = Scenario.endpoint({ id: "stamps", retentionMs: 60_000, ttlMs: 300_000 })
    yield* endpoints.put(pipeline)
    yield* endpoints.put(child)
    yield* runs.define(pipeline.id, [{ hash: HASH, graph: toJsonText({ name: "letters", nodes: [] }) }])
    const { id } = yield* submit({ input: toJsonText("a letter") })
    const { attempt } = yield* takeOne("ann")
    yield* runs.journal(pipeline.id, "ann", [{
      run: id,
      attempt,
      start: { definition: HASH, ttlMs: 1_000_000_000, undo: false },
      records: [{ kind: "spawn", path: "stamp", endpoint: "stamps", input: toJsonText("a stamp") }],
      park: { seen: 1, wakeAfter: 1, until: null }
    }], 0)
    const [job] = yield* queue.take({ endpoint: child.id, worker: "bob", limit: 1, waitMs: 0, holding: true })
    if (job === undefined) return yield* Effect.die(new Error("no job"))
    yield* queue.finish(Scenario.holderOf(job), { output: toJsonText("stamped"), error: null })

    yield* TestClock.adjust("1 hour")
    while (yield* queue.tick);
    assert.strictEqual(yield* sweep, 0)
    const before = yield* keys
    assert.isTrue(before.some((key) => key.includes(id)))
    assert.isTrue(before.some((key) => key.includes(job.id)))

    const resumed = yield* takeOne("ann")
    yield* runs.journal(pipeline.id, "ann", [{
      run: id,
      attempt: resumed.attempt,
      start: { definition: HASH, ttlMs: 1_000_000_000, undo: false },
      records: [],
      finish: { output: toJsonText("posted"), error: null, cancelled: false }
    }], 0)
    yield* TestClock.adjust(pipeline.retentionMs - 1)
    while (yield* queue.tick);
    assert.strictEqual(yield* sweep, 0)
    assert.deepStrictEqual(yield* keys, before)
    yield* TestClock.adjust(1)
    while (yield* queue.tick);
    assert.strictEqual(yield* Scenario.reasonOf(queue.get(EndpointId.make("letters"), id)), "JobMissing")
    assert.strictEqual(yield* Scenario.reasonOf(queue.get(child.id, job.id)), "JobMissing")
    assert.strictEqual(yield* sweep, before.length)
    assert.deepStrictEqual(yield* keys, [])
  }).pipe(Effect.provide(world)))
