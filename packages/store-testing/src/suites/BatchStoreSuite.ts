/**
 * The conformance suite of batches, over the store that keeps them and their jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { BatchRequest, BatchStore, RequestOptions } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { batchModelRule } from "../models/BatchModel.ts"
import * as Scenario from "../Scenario.ts"

/** What a store of batches is part of. */
export type BatchStores = JobStore | BatchStore | EndpointStore | WebhookStore

/** Limits that are in nobody's way. */
const LIMITS: BatchQueue.BatchLimits = { requests: 5_000, open: 10, queued: 50_000 }

/** A request that says its number. */
export const request = (number: number, options: RequestOptions = {}): BatchRequest => ({
  id: Scenario.jobId(),
  input: toJsonText({ number }),
  s3Config: null,
  options
})

const requests = (count: number, options: RequestOptions = {}): ReadonlyArray<BatchRequest> =>
  Array.from({ length: count }, (_, at) => request(at, options))

/** A world with a batch in it. */
const make = Effect.fnUntraced(function*(settings: Partial<typeof Endpoint.Encoded> = {}) {
  const scenario = yield* Scenario.make(settings)
  const batches = yield* BatchQueue.BatchQueue
  const endpoints = yield* EndpointStore
  yield* endpoints.put(scenario.endpoint)
  const { endpoint } = scenario
  const draft = (count: number, options: Partial<BatchQueue.Draft> = {}) =>
    batches.create({ endpoint, requests: requests(count), ...options }, LIMITS)
  return {
    ...scenario,
    batches,
    endpoints,
    draft,
    started: Effect.fnUntraced(function*(count: number, options: Partial<BatchQueue.Draft> = {}) {
      const { id } = yield* draft(count, options)
      return yield* batches.finalize(endpoint, id, LIMITS)
    }),
    look: (id: string) => batches.get(endpoint.id, id),
    ids: (id: string) => Effect.map(batches.requests(endpoint.id, id, 0, 10_000), (page) => page.ids)
  }
})

/** Everything that a store of batches has to do. The layer is built anew for every test. */
export const batchStoreSuite = <E>(name: string, store: Layer.Layer<BatchStores, E>, { sequences = 300 } = {}): void => {
  const world = BatchQueue.layer.pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(Layer.merge(store, WorkerRegistry.layer))
  )
  const rule = (
    title: string,
    body: () => Effect.Effect<void, unknown, BatchQueue.BatchQueue | JobQueue.JobQueue | BatchStores>
  ) => it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))

  describe(`batches: ${name}`, () => {
    rule(
      "nothing of a draft runs; finalized, every request is one job, in order, under the request's id",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, ids, queue, take } = yield* make()
          const { id } = yield* draft(2)
          yield* batches.add(endpoint.id, id, requests(1), LIMITS)
          assert.deepStrictEqual(yield* take("ann", { limit: 10 }), [])
          const batch = yield* batches.finalize(endpoint, id, LIMITS)
          assert.deepInclude(batch, { status: "FINALIZED", total: 3, notEnqueued: 0, running: 0, finalizedAt: 0, endedAt: null })
          const taken = yield* take("ann", { limit: 10 })
          assert.deepStrictEqual(taken.map((job) => job.id), [...(yield* ids(id))])
          assert.deepStrictEqual(taken.map((job) => job.batchId), [batch.id, batch.id, batch.id])
          assert.strictEqual((yield* queue.depth(endpoint.id)).running, 3)
        })
    )

    rule("finalizing again, at once or later, runs nothing twice", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint, queue, finish, take } = yield* make()
        const { id } = yield* draft(450)
        const finalize = batches.finalize(endpoint, id, LIMITS)
        yield* Effect.all([finalize, finalize, batches.tick, finalize], { concurrency: "unbounded" })
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 450)
        for (const job of yield* take("ann", { limit: 500 })) yield* finish(job)
        assert.deepInclude(yield* finalize, { status: "COMPLETED", total: 450, completed: 450 })
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, completed: 450 })
      }))

    rule("it is COMPLETED in the step in which its last request ends, where one or more completed", () =>
      Effect.gen(function*() {
        const { endpoint, fail, finish, look, queue, started, takeOne, submit } = yield* make({ maxAttempts: 1 })
        const { id } = yield* started(4)
        yield* submit()
        const other = yield* takeOne("zoe")
        assert.strictEqual(other.batchId, null)
        const first = yield* takeOne("ann")
        assert.deepInclude(yield* look(id), { running: 1, status: "FINALIZED" })
        yield* finish(first)
        yield* fail(yield* takeOne("ann"), "no such city")
        yield* queue.cancel(endpoint.id, (yield* takeOne("ann")).id)
        yield* TestClock.adjust(1_000)
        const last = yield* takeOne("bob")
        yield* finish(other)
        assert.deepInclude(yield* look(id), {
          status: "FINALIZED",
          running: 1,
          completed: 1,
          failed: 1,
          cancelled: 1,
          endedAt: null
        })
        yield* queue.workerGone(endpoint.id, "bob", "Worker bob was killed.")
        assert.strictEqual(yield* Effect.map(queue.get(endpoint.id, last.id), (job) => job.status), "FAILED")
        assert.deepInclude(yield* look(id), {
          status: "COMPLETED",
          running: 0,
          completed: 1,
          failed: 2,
          cancelled: 1,
          endedAt: 1_000
        })
      }))

    rule("it is FAILED where not one request completed, and COMPLETED where it had none", () =>
      Effect.gen(function*() {
        const { endpoint, fail, look, queue, started, takeOne } = yield* make()
        const { id } = yield* started(2)
        yield* fail(yield* takeOne("ann"), "no")
        yield* queue.purge(endpoint.id)
        assert.deepInclude(yield* look(id), { status: "FAILED", failed: 1, cancelled: 1, endedAt: 0 })
        assert.deepInclude(yield* started(0), { status: "COMPLETED", total: 0, endedAt: 0 })
      }))

    rule("requests stand behind jobs that were submitted later, unless they say otherwise", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint, queue, submit, take } = yield* make()
        const { id } = yield* draft(0)
        const [plain, urgent] = [request(0), request(1, { priority: 5 })]
        yield* batches.add(endpoint.id, id, [plain, urgent], LIMITS)
        yield* batches.finalize(endpoint, id, LIMITS)
        const job = yield* submit()
        assert.strictEqual((yield* queue.depth(endpoint.id)).waitingLow, 0)
        assert.deepStrictEqual((yield* take("ann", { limit: 3 })).map((one) => one.id), [urgent.id, job.id, plain.id])
      }))

    rule(
      "a request's policy counts before the batch's, and that before the endpoint's; all may wait for a week",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, take } = yield* make({ executionTimeoutMs: 50_000 })
          const { id } = yield* draft(1, { policy: { executionTimeout: 20_000, ttl: 90_000 } })
          yield* batches.add(endpoint.id, id, [
            request(1, { policy: { executionTimeout: 30_000 }, tags: ["b"], traceparent: "00-1-1-01" })
          ], LIMITS)
          const { id: plain } = yield* draft(1)
          yield* batches.finalize(endpoint, id, LIMITS)
          yield* batches.finalize(endpoint, plain, LIMITS)
          const taken = yield* take("ann", { limit: 3 })
          assert.deepStrictEqual(taken.map((job) => [job.executionTimeoutMs, job.ttlMs]), [
            [20_000, 90_000],
            [30_000, 90_000],
            [50_000, BatchQueue.BATCH_TTL]
          ])
          assert.deepInclude(taken[1], { tags: ["b"], traceparent: "00-1-1-01", priority: BatchQueue.BATCH_PRIORITY })
        })
    )

    rule("requests are added to and taken out of a draft only, in order, and only its own", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint, ids } = yield* make()
        const { id } = yield* draft(3)
        const other = yield* draft(1)
        const [first, second, third] = yield* ids(id)
        assert.strictEqual(
          yield* Scenario.reasonOf(batches.drop(endpoint.id, id, (yield* ids(other.id))[0] ?? "")),
          "RequestMissing"
        )
        assert.strictEqual((yield* batches.drop(endpoint.id, id, second ?? "")).total, 2)
        assert.strictEqual(yield* Scenario.reasonOf(batches.drop(endpoint.id, id, second ?? "")), "RequestMissing")
        const more = request(9)
        yield* batches.add(endpoint.id, id, [more], LIMITS)
        assert.deepStrictEqual<unknown>(yield* ids(id), [first, third, more.id])
        assert.deepStrictEqual<unknown>((yield* batches.requests(endpoint.id, id, 1, 1)).ids, [third])
        yield* batches.finalize(endpoint, id, LIMITS)
        assert.strictEqual(yield* Scenario.reasonOf(batches.add(endpoint.id, id, [request(1)], LIMITS)), "WrongStatus")
        assert.strictEqual(yield* Scenario.reasonOf(batches.drop(endpoint.id, id, first ?? "")), "WrongStatus")
        assert.deepStrictEqual<unknown>(yield* ids(id), [first, third, more.id])
      }))

    rule(
      "limits refuse the whole of a call: requests of a batch, batches that have not ended, jobs that wait",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, look, queue, submit } = yield* make()
          const limits = { requests: 3, open: 2, queued: 5 }
          const create = (count: number) => batches.create({ endpoint, requests: requests(count) }, limits)
          assert.strictEqual(yield* Scenario.reasonOf(create(4)), "BatchTooLarge")
          const one = yield* create(3)
          assert.strictEqual(yield* Scenario.reasonOf(batches.add(endpoint.id, one.id, [request(1)], limits)), "BatchTooLarge")
          assert.strictEqual((yield* look(one.id)).total, 3)
          const two = yield* create(3)
          assert.strictEqual(yield* Scenario.reasonOf(create(0)), "TooManyBatches")
          yield* batches.finalize(endpoint, one.id, limits)
          assert.strictEqual(yield* Scenario.reasonOf(create(0)), "TooManyBatches")
          assert.strictEqual(yield* Scenario.reasonOf(batches.finalize(endpoint, two.id, limits)), "QueueFull")
          assert.strictEqual((yield* look(two.id)).status, "DRAFT")
          yield* queue.purge(endpoint.id)
          yield* create(0)
          yield* Effect.replicateEffect(submit(), 2, { discard: true })
          assert.strictEqual((yield* batches.finalize(endpoint, two.id, limits)).status, "FINALIZED")
        })
    )

    rule("of those who create at once no more get in than may", () =>
      Effect.gen(function*() {
        const { batches, endpoint } = yield* make()
        const create = batches.create({ endpoint, requests: [] }, { ...LIMITS, open: 3 })
        const reasons = yield* Effect.all(Array.from({ length: 8 }, () => Scenario.reasonOf(create)), {
          concurrency: "unbounded"
        })
        assert.strictEqual(reasons.filter((reason) => reason === undefined).length, 3)
      }))

    rule(
      "R8: cancelled, what waits is cancelled at once, what runs may finish, and nothing is started any more",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, finish, ids, look, queue, started, status, take } = yield* make({ maxAttempts: 3 })
          const { id } = yield* started(450)
          const [first, second] = yield* take("ann", { limit: 2 })
          const batch = yield* batches.cancel(endpoint.id, id)
          assert.deepInclude(batch, { status: "CANCELLED", running: 2, cancelled: 448, endedAt: null })
          assert.deepStrictEqual(yield* take("bob", { limit: 10 }), [])
          assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
          yield* TestClock.adjust(500)
          yield* finish(first ?? assert.fail())
          yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed.")
          assert.strictEqual(yield* status(second?.id ?? ""), "CANCELLED")
          assert.deepInclude(yield* look(id), { status: "CANCELLED", running: 0, completed: 1, cancelled: 449, endedAt: 500 })
          assert.deepInclude(yield* batches.cancel(endpoint.id, id), { status: "CANCELLED", cancelled: 449 })
          assert.strictEqual((yield* ids(id)).length, 450)
          assert.strictEqual(yield* Scenario.reasonOf(batches.finalize(endpoint, id, LIMITS)), "WrongStatus")
        })
    )

    rule("a cancelled draft has ended, and one that has ended is not cancelled any more", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint, finish, started, takeOne } = yield* make()
        const one = yield* draft(2)
        assert.deepInclude(yield* batches.cancel(endpoint.id, one.id), {
          status: "CANCELLED",
          total: 2,
          cancelled: 2,
          endedAt: 0
        })
        const two = yield* started(1)
        yield* finish(yield* takeOne("ann"))
        assert.deepInclude(yield* batches.cancel(endpoint.id, two.id), { status: "COMPLETED", completed: 1 })
      }))

    rule(
      "a request that is retried opens its batch again, but for a cancelled batch, where it is cancelled",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, fail, finish, look, queue, started, takeOne } = yield* make()
          const { id } = yield* started(1)
          const job = yield* takeOne("ann")
          yield* fail(job, "no")
          assert.deepInclude(yield* look(id), { status: "FAILED", failed: 1, endedAt: 0 })
          yield* queue.retry(endpoint.id, job.id)
          assert.deepInclude(yield* look(id), { status: "FINALIZED", failed: 0, endedAt: null })
          yield* TestClock.adjust(1_000)
          yield* finish(yield* takeOne("ann"))
          assert.deepInclude(yield* look(id), { status: "COMPLETED", completed: 1, endedAt: 1_000 })
          const other = yield* started(2)
          yield* fail(yield* takeOne("ann"), "no")
          yield* batches.cancel(endpoint.id, other.id)
          const [failed] = (yield* batches.requests(endpoint.id, other.id, 0, 1)).ids
          assert.strictEqual((yield* queue.retry(endpoint.id, failed ?? "")).status, "CANCELLED")
          assert.deepInclude(yield* look(other.id), { status: "CANCELLED", failed: 0, cancelled: 2, endedAt: 1_000 })
        })
    )

    rule("R10: its end is told once, in the same commit, with the batch as it stood", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { batches, draft, endpoint, finish, look, queue, started, take, takeOne, fail } = yield* make()
        const url = "http://127.0.0.1:9/hook"
        const completed = yield* started(2, { webhook: url, name: "nightly" })
        const [one, two] = yield* take("ann", { limit: 2 })
        yield* finish(one ?? assert.fail())
        assert.deepStrictEqual(yield* outbox.claimDue(0, 10, 1_000), [])
        yield* finish(two ?? assert.fail())
        const failed = yield* started(1, { webhook: url })
        yield* fail(yield* takeOne("ann"), "no")
        const cancelled = yield* started(2, { webhook: url })
        const running = yield* takeOne("ann")
        yield* batches.cancel(endpoint.id, cancelled.id)
        const early = yield* outbox.claimDue(0, 10, 1_000)
        assert.deepStrictEqual(early.map(({ event, job }) => [event, job as string]), [
          ["batch.completed", completed.id],
          ["batch.failed", failed.id]
        ])
        assert.deepStrictEqual(JSON.parse(early[0]?.body ?? ""), {
          id: completed.id,
          endpointId: endpoint.id,
          status: "COMPLETED",
          requestTotal: 2,
          requestInProgress: 0,
          requestCompleted: 2,
          requestFailed: 0,
          requestCancelled: 0,
          createdAt: 0,
          finalizedAt: 0,
          completedAt: 0,
          name: "nightly",
          webhook: url
        })
        yield* finish(running)
        const silent = yield* draft(1, { webhook: url })
        yield* batches.edit(endpoint.id, silent.id, { webhook: null, name: "quiet" })
        assert.deepInclude(yield* look(silent.id), { webhook: null, name: "quiet" })
        yield* batches.cancel(endpoint.id, silent.id)
        const late = yield* outbox.claimDue(0, 10, 1_000)
        assert.deepStrictEqual(late.map(({ event, job }) => [event, job as string]), [["batch.cancelled", cancelled.id]])
        yield* queue.purge(endpoint.id)
        assert.strictEqual(yield* Scenario.reasonOf(batches.edit(endpoint.id, completed.id, { webhook: url })), "WrongStatus")
        assert.deepInclude(yield* batches.edit(endpoint.id, completed.id, { name: "last" }), { name: "last" })
      }))

    rule(
      "R15: results stay as long as the batch: its retention counts from its end, not from theirs",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, finish, queue, started, take, status } = yield* make({
            retentionMs: 1_000,
            leaseMs: 600_000
          })
          const { id } = yield* started(450)
          const jobs = yield* take("ann", { limit: 450 })
          const [last, ...others] = jobs
          const sweepAll = Effect.gen(function*() {
            while (yield* batches.tick) { /* until nothing is left */ }
            while (yield* queue.tick) { /* until nothing is left */ }
          })
          for (const job of others) yield* finish(job)
          yield* TestClock.adjust(5_000)
          yield* sweepAll
          assert.strictEqual(yield* status(others[0]?.id ?? ""), "COMPLETED")
          yield* finish(last ?? assert.fail())
          yield* TestClock.adjust(999)
          yield* sweepAll
          assert.strictEqual(yield* status(others[0]?.id ?? ""), "COMPLETED")
          yield* TestClock.adjust(1)
          yield* sweepAll
          assert.strictEqual(yield* Scenario.reasonOf(batches.get(endpoint.id, id)), "BatchMissing")
          assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, others[0]?.id ?? "")), "JobMissing")
          assert.deepInclude(yield* queue.depth(endpoint.id), { completed: 0, failed: 0, waiting: 0, running: 0 })
        })
    )

    rule("a draft that nobody touches for a week is cancelled, and told of", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { batches, draft, endpoint, look } = yield* make({ retentionMs: 30 * 86_400_000 })
        const { id } = yield* draft(1, { webhook: "http://127.0.0.1:9/hook" })
        const week = 7 * 86_400_000
        yield* TestClock.adjust(week - 1)
        yield* batches.tick
        assert.strictEqual((yield* look(id)).status, "DRAFT")
        yield* batches.edit(endpoint.id, id, { name: "still wanted" })
        yield* TestClock.adjust(week - 1)
        yield* batches.tick
        assert.strictEqual((yield* look(id)).status, "DRAFT")
        yield* TestClock.adjust(1)
        yield* batches.tick
        assert.strictEqual((yield* look(id)).status, "CANCELLED")
        assert.deepStrictEqual((yield* outbox.claimDue(3 * week, 10, 1_000)).map(({ event }) => event), ["batch.cancelled"])
      }))

    rule("an endpoint with a batch at work stays; with it its drafts end", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint, endpoints, finish, look, started, takeOne } = yield* make()
        yield* started(1)
        const { id } = yield* draft(2)
        assert.strictEqual(yield* endpoints.remove(endpoint.id), "busy")
        yield* finish(yield* takeOne("ann"))
        assert.strictEqual(yield* endpoints.remove(endpoint.id), "removed")
        assert.strictEqual(yield* Scenario.reasonOf(draft(0) as Effect.Effect<unknown, StoreError>), "EndpointGone")
        assert.strictEqual(
          yield* Scenario.reasonOf(batches.finalize(endpoint, id, LIMITS) as Effect.Effect<unknown, StoreError>),
          "EndpointGone"
        )
        yield* batches.tick
        assert.deepInclude(yield* look(id), { status: "CANCELLED", endedAt: 0 })
      }))

    rule("batches are listed newest first, and those of other endpoints are none of theirs", () =>
      Effect.gen(function*() {
        const { batches, draft, endpoint } = yield* make()
        const made: Array<string> = []
        for (let at = 0; at < 5; at++) {
          made.unshift((yield* draft(0)).id)
          if (at % 2 === 0) yield* TestClock.adjust(1)
        }
        const list = (offset: number, limit: number) =>
          Effect.map(batches.list(endpoint.id, offset, limit), (page) => page.map((batch) => batch.id as string))
        assert.deepStrictEqual(yield* list(0, 10), made)
        assert.deepStrictEqual(yield* list(1, 2), made.slice(1, 3))
        const elsewhere = EndpointId.make("elsewhere")
        assert.deepStrictEqual(yield* batches.list(elsewhere, 0, 10), [])
        const id = made[0] ?? ""
        for (
          const call of [
            batches.get(elsewhere, id),
            batches.cancel(elsewhere, id),
            batches.add(elsewhere, id, [], LIMITS),
            batches.edit(elsewhere, id, { name: "mine" }),
            batches.drop(elsewhere, id, "x"),
            Effect.asVoid(batches.requests(elsewhere, id, 0, 1)),
            batches.get(endpoint.id, "batch_unknown")
          ]
        ) assert.strictEqual(yield* Scenario.reasonOf(call as Effect.Effect<unknown, { readonly _tag: string }>), "BatchMissing")
      }))

    batchModelRule(store, sequences)
  })
}
