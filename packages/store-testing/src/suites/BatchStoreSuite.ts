/**
 * The conformance suite for a store of batches and their jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { type BatchRequest, BatchStore, type RequestOptions } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { batchModelRule } from "../models/BatchModel.ts"
import * as Scenario from "../Scenario.ts"
import { counting } from "../StoreActivity.ts"

/** The stores that share a transaction with batches. */
export type BatchStores = JobStore | BatchStore | EndpointStore | WebhookStore

/** Limits that no test reaches. */
const LIMITS: BatchQueue.BatchLimits = { requests: 5_000, open: 10, queued: 50_000 }

/** A request with its number as input. */
const request = (number: number, options: RequestOptions = {}): BatchRequest => ({
  id: Scenario.jobId(),
  input: toJsonText({ number }),
  s3Config: null,
  options
})

const requests = (count: number, options: RequestOptions = {}): ReadonlyArray<BatchRequest> =>
  Array.from({ length: count }, (_, at) => request(at, options))

/** A scenario with a batch. */
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
    read: (id: string) => batches.get(endpoint.id, id),
    ids: (id: string) => Effect.map(batches.requests(endpoint.id, id, 0, 10_000), (page) => page.ids)
  }
})

/** Registers the rules for a batch store. The layer is built for every test. */
export const batchStoreSuite = <E>(name: string, tested: Layer.Layer<BatchStores, E>, { sequences = 300 } = {}): void => {
  const store = counting(tested)
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
      "runs no requests of a draft, and turns each request of a finalized batch into one job with its id, in order",
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

    rule("runs no request twice when the batch is finalized again, concurrently or later", () =>
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

    rule(
      "completes the batch in the commit that ends its last request, when at least one request completed",
      () =>
        Effect.gen(function*() {
          const { endpoint, fail, finish, read, queue, started, takeOne, submit } = yield* make({ maxAttempts: 1 })
          const { id } = yield* started(4)
          yield* submit()
          const other = yield* takeOne("zoe")
          assert.strictEqual(other.batchId, null)
          const first = yield* takeOne("ann")
          assert.deepInclude(yield* read(id), { running: 1, status: "FINALIZED" })
          yield* finish(first)
          yield* fail(yield* takeOne("ann"), "no such city")
          yield* queue.cancel(endpoint.id, (yield* takeOne("ann")).id)
          yield* TestClock.adjust(1_000)
          const last = yield* takeOne("bob")
          yield* finish(other)
          assert.deepInclude(yield* read(id), {
            status: "FINALIZED",
            running: 1,
            completed: 1,
            failed: 1,
            cancelled: 1,
            endedAt: null
          })
          yield* queue.workerGone(endpoint.id, "bob", "Worker bob was killed.")
          assert.strictEqual(yield* Effect.map(queue.get(endpoint.id, last.id), (job) => job.status), "FAILED")
          assert.deepInclude(yield* read(id), {
            status: "COMPLETED",
            running: 0,
            completed: 1,
            failed: 2,
            cancelled: 1,
            endedAt: 1_000
          })
        })
    )

    rule("fails a batch in which no request completed, and completes a batch without requests", () =>
      Effect.gen(function*() {
        const { endpoint, fail, read, queue, started, takeOne } = yield* make()
        const { id } = yield* started(2)
        yield* fail(yield* takeOne("ann"), "no")
        yield* queue.purge(endpoint.id)
        assert.deepInclude(yield* read(id), { status: "FAILED", failed: 1, cancelled: 1, endedAt: 0 })
        assert.deepInclude(yield* started(0), { status: "COMPLETED", total: 0, endedAt: 0 })
      }))

    rule(
      "queues requests behind jobs that are submitted later, unless a request sets its priority",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, queue, submit, take } = yield* make()
          const { id } = yield* draft(0)
          const [plain, urgent] = [request(0), request(1, { priority: 5 })]
          yield* batches.add(endpoint.id, id, [plain, urgent], LIMITS)
          yield* batches.finalize(endpoint, id, LIMITS)
          const job = yield* submit()
          assert.strictEqual((yield* queue.depth(endpoint.id)).waitingLow, 0)
          assert.deepStrictEqual((yield* take("ann", { limit: 3 })).map((one) => one.id), [urgent.id, job.id, plain.id])
        })
    )

    rule(
      "applies a request's policy before the batch's and the endpoint's, and lets all requests wait for a week",
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

    rule(
      "adds requests to a draft and removes them from it, in order, and refuses both for other batches",
      () =>
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
        })
    )

    rule(
      "shows a batch to its owner only, in every operation, and shows a batch without an owner to every owner",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, ids } = yield* make()
          const { id } = yield* draft(2, { owner: "ann", name: "ann's" })
          const shared = yield* draft(1)
          const [first = ""] = yield* ids(id)
          const attempts = (owner: string) =>
            Effect.all([
              Scenario.reasonOf(batches.get(endpoint.id, id, owner)),
              Scenario.reasonOf(batches.requests(endpoint.id, id, 0, 10, owner)),
              Scenario.reasonOf(batches.edit(endpoint.id, id, { name: owner }, owner)),
              Scenario.reasonOf(batches.add(endpoint.id, id, [request(9)], LIMITS, owner)),
              Scenario.reasonOf(batches.drop(endpoint.id, id, first, owner)),
              Scenario.reasonOf(batches.finalize(endpoint, id, LIMITS, owner)),
              Scenario.reasonOf(batches.cancel(endpoint.id, id, owner))
            ])
          assert.deepStrictEqual([...new Set(yield* attempts("bob"))], ["BatchMissing"])
          assert.deepInclude(yield* batches.get(endpoint.id, id), { name: "ann's", status: "DRAFT", total: 2 })
          const listed = (owner?: string) =>
            Effect.map(batches.list(endpoint.id, 0, 10, owner), (all) => all.map((one) => one.id))
          assert.deepStrictEqual(yield* listed("bob"), [shared.id])
          assert.deepStrictEqual(yield* listed("ann"), [shared.id, id])
          assert.deepStrictEqual(yield* listed(), [shared.id, id])
          assert.deepStrictEqual(yield* Effect.map(batches.list(endpoint.id, 1, 10, "ann"), (all) => all.map((one) => one.id)), [
            id
          ])
          assert.deepStrictEqual([...new Set(yield* attempts("ann"))], [undefined])
          assert.deepInclude(yield* batches.get(endpoint.id, id), { name: "ann", status: "CANCELLED", total: 2 })
        })
    )

    rule("counts the open batches of each owner separately", () =>
      Effect.gen(function*() {
        const { batches, endpoint } = yield* make()
        const limits = { ...LIMITS, open: 1 }
        const create = (owner: string) => Scenario.reasonOf(batches.create({ endpoint, owner, requests: [] }, limits))
        assert.strictEqual(yield* create("ann"), undefined)
        assert.strictEqual(yield* create("ann"), "TooManyBatches")
        assert.strictEqual(yield* create("bob"), undefined)
      }))

    rule(
      "refuses a whole call that exceeds a limit: requests per batch, open batches, waiting jobs",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, read, queue, submit } = yield* make()
          const limits = { requests: 3, open: 2, queued: 5 }
          const create = (count: number) => batches.create({ endpoint, requests: requests(count) }, limits)
          assert.strictEqual(yield* Scenario.reasonOf(create(4)), "BatchTooLarge")
          const one = yield* create(3)
          assert.strictEqual(yield* Scenario.reasonOf(batches.add(endpoint.id, one.id, [request(1)], limits)), "BatchTooLarge")
          assert.strictEqual((yield* read(one.id)).total, 3)
          const two = yield* create(3)
          assert.strictEqual(yield* Scenario.reasonOf(create(0)), "TooManyBatches")
          yield* batches.finalize(endpoint, one.id, limits)
          assert.strictEqual(yield* Scenario.reasonOf(create(0)), "TooManyBatches")
          assert.strictEqual(yield* Scenario.reasonOf(batches.finalize(endpoint, two.id, limits)), "QueueFull")
          assert.strictEqual((yield* read(two.id)).status, "DRAFT")
          yield* queue.purge(endpoint.id)
          yield* create(0)
          yield* Effect.replicateEffect(submit(), 2, { discard: true })
          assert.strictEqual((yield* batches.finalize(endpoint, two.id, limits)).status, "FINALIZED")
        })
    )

    rule(
      "holds the requests of a started batch that the quotas do not admit, enqueues them in order as soon as they do, and ends the batch",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, finish, ids, queue, read, submit, takeOne } = yield* make({
            limits: { waitingJobs: 3, storedBytes: 1_000_000 }
          })
          const { id } = yield* draft(3)
          yield* batches.finalize({ ...endpoint, limits: { ...endpoint.limits, waitingJobs: 1 } }, id, LIMITS)
          assert.deepInclude(yield* read(id), { status: "FINALIZED", notEnqueued: 2, endedAt: null })
          assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 1 })
          // Other submissions take the places that become free.
          yield* submit()
          yield* submit()
          yield* batches.tick
          assert.deepInclude(yield* read(id), { notEnqueued: 2 })
          const seen: Array<string> = []
          for (let step = 0; step < 5; step++) {
            const job = yield* takeOne("ann")
            if (job.batchId === id) seen.push(job.id)
            yield* finish(job)
            yield* batches.tick
          }
          assert.deepStrictEqual(seen, [...(yield* ids(id))])
          assert.deepInclude(yield* read(id), { status: "COMPLETED", notEnqueued: 0, completed: 3 })
        })
    )

    rule("respects the limit of open batches when batches are created concurrently", () =>
      Effect.gen(function*() {
        const { batches, endpoint } = yield* make()
        const create = batches.create({ endpoint, requests: [] }, { ...LIMITS, open: 3 })
        const reasons = yield* Effect.all(Array.from({ length: 8 }, () => Scenario.reasonOf(create)), {
          concurrency: "unbounded"
        })
        assert.strictEqual(reasons.filter((reason) => reason === undefined).length, 3)
      }))

    rule(
      "R8: cancels a batch's waiting jobs at once, lets running ones finish, and starts no more",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, finish, ids, read, queue, started, status, take } = yield* make({ maxAttempts: 3 })
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
          assert.deepInclude(yield* read(id), { status: "CANCELLED", running: 0, completed: 1, cancelled: 449, endedAt: 500 })
          assert.deepInclude(yield* batches.cancel(endpoint.id, id), { status: "CANCELLED", cancelled: 449 })
          assert.strictEqual((yield* ids(id)).length, 450)
          assert.strictEqual(yield* Scenario.reasonOf(batches.finalize(endpoint, id, LIMITS)), "WrongStatus")
        })
    )

    rule("ends a cancelled draft, and leaves an ended batch unchanged on cancel", () =>
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
      "reopens the batch of a retried request, and cancels the retried request of a cancelled batch",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, fail, finish, read, queue, started, takeOne } = yield* make()
          const { id } = yield* started(1)
          const job = yield* takeOne("ann")
          yield* fail(job, "no")
          assert.deepInclude(yield* read(id), { status: "FAILED", failed: 1, endedAt: 0 })
          yield* queue.retry(endpoint.id, job.id)
          assert.deepInclude(yield* read(id), { status: "FINALIZED", failed: 0, endedAt: null })
          yield* TestClock.adjust(1_000)
          yield* finish(yield* takeOne("ann"))
          assert.deepInclude(yield* read(id), { status: "COMPLETED", completed: 1, endedAt: 1_000 })
          const other = yield* started(2)
          yield* fail(yield* takeOne("ann"), "no")
          yield* batches.cancel(endpoint.id, other.id)
          const [failed] = (yield* batches.requests(endpoint.id, other.id, 0, 1)).ids
          assert.strictEqual((yield* queue.retry(endpoint.id, failed ?? "")).status, "CANCELLED")
          assert.deepInclude(yield* read(other.id), { status: "CANCELLED", failed: 0, cancelled: 2, endedAt: 1_000 })
        })
    )

    rule(
      "R10: delivers the batch's end once, in the same commit, with the batch as it was at its end",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { batches, draft, endpoint, finish, read, queue, started, take, takeOne, fail } = yield* make()
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
          assert.deepInclude(yield* read(silent.id), { webhook: null, name: "quiet" })
          yield* batches.cancel(endpoint.id, silent.id)
          const late = yield* outbox.claimDue(0, 10, 1_000)
          assert.deepStrictEqual(late.map(({ event, job }) => [event, job as string]), [["batch.cancelled", cancelled.id]])
          yield* queue.purge(endpoint.id)
          assert.strictEqual(yield* Scenario.reasonOf(batches.edit(endpoint.id, completed.id, { webhook: url })), "WrongStatus")
          assert.deepInclude(yield* batches.edit(endpoint.id, completed.id, { name: "last" }), { name: "last" })
        })
    )

    rule(
      "R15: keeps results as long as their batch, whose retention starts at the end of the batch",
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

    rule(
      "refuses to retry a request once its batch's retention has ended, even while the batch is being removed in steps",
      () =>
        Effect.gen(function*() {
          const store = yield* BatchStore
          const { batches, endpoint, fail, ids, queue, read, started, take, takeOne } = yield* make({ retentionMs: 1_000 })
          const { id } = yield* started(3)
          for (const job of yield* take("ann", { limit: 3 })) yield* fail(job, "no")
          yield* TestClock.adjust(999)
          const [first, ...others] = yield* ids(id)
          yield* queue.retry(endpoint.id, first ?? "")
          assert.deepInclude(yield* read(id), { status: "FINALIZED", failed: 2, endedAt: null })
          yield* fail(yield* takeOne("ann"), "no")
          yield* TestClock.adjust(1_000)
          const failed = [first ?? "", ...others]
          const retryAll = Effect.forEach(failed, (job) => Scenario.reasonOf(queue.retry(endpoint.id, job)))
          assert.deepStrictEqual(yield* retryAll, ["JobMissing", "JobMissing", "JobMissing"])
          assert.isTrue((yield* store.sweep(1_999, 1)).more)
          assert.deepStrictEqual(yield* retryAll, ["JobMissing", "JobMissing", "JobMissing"])
          assert.deepInclude(yield* read(id), { status: "FAILED", failed: 3, endedAt: 999 })
          while ((yield* store.sweep(1_999, 1)).more) { /* until nothing is left */ }
          assert.strictEqual(yield* Scenario.reasonOf(batches.get(endpoint.id, id)), "BatchMissing")
          while (yield* queue.tick) { /* until nothing is left */ }
          assert.deepInclude(yield* queue.depth(endpoint.id), { failed: 0, waiting: 0, running: 0 })
        })
    )

    rule("cancels a draft that has not changed for a week, and delivers its end", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { batches, draft, endpoint, read } = yield* make({ retentionMs: 30 * 86_400_000 })
        const { id } = yield* draft(1, { webhook: "http://127.0.0.1:9/hook" })
        const week = 7 * 86_400_000
        yield* TestClock.adjust(week - 1)
        yield* batches.tick
        assert.strictEqual((yield* read(id)).status, "DRAFT")
        yield* batches.edit(endpoint.id, id, { name: "still wanted" })
        yield* TestClock.adjust(week - 1)
        yield* batches.tick
        assert.strictEqual((yield* read(id)).status, "DRAFT")
        yield* TestClock.adjust(1)
        yield* batches.tick
        assert.strictEqual((yield* read(id)).status, "CANCELLED")
        assert.deepStrictEqual((yield* outbox.claimDue(3 * week, 10, 1_000)).map(({ event }) => event), ["batch.cancelled"])
      }))

    rule(
      "refuses to remove an endpoint with a running batch, and ends the drafts of a removed endpoint",
      () =>
        Effect.gen(function*() {
          const { batches, draft, endpoint, endpoints, finish, read, started, takeOne } = yield* make()
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
          assert.deepInclude(yield* read(id), { status: "CANCELLED", endedAt: 0 })
        })
    )

    rule("lists an endpoint's batches newest first, without the batches of other endpoints", () =>
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

    rule(
      "keeps all batches and endpoints usable whatever characters the name and webhook of a batch contain",
      () =>
        Effect.gen(function*() {
          const store = yield* BatchStore
          const odd = "\u0000\ud800\uf8fe\u2028"
          const { batches, draft, endpoint, endpoints, finish, id, read, started, takeOne } = yield* Effect.gen(function*() {
            const made = yield* make()
            const { id } = yield* made.draft(1, { name: odd, webhook: `http://127.0.0.1:9/${odd}` })
            return { ...made, id }
          })
          const other = yield* started(1)
          const { cancelling, pending } = yield* store.sweep(0, 10)
          assert.deepStrictEqual([cancelling, pending], [[], []])
          yield* finish(yield* takeOne("ann"))
          assert.deepInclude(yield* read(other.id), { status: "COMPLETED" })
          // Half of a surrogate pair may be stored as U+FFFD.
          const { name, webhook } = yield* read(id)
          assert.deepStrictEqual([name, webhook].map((text) => text?.toWellFormed()), [
            odd.toWellFormed(),
            `http://127.0.0.1:9/${odd}`.toWellFormed()
          ])
          yield* batches.finalize(endpoint, id, LIMITS)
          assert.strictEqual(yield* endpoints.remove(endpoint.id), "busy")
          yield* finish(yield* takeOne("ann"))
          assert.deepInclude(yield* read(id), { status: "COMPLETED" })
          const last = yield* draft(1, { name: odd })
          assert.strictEqual(yield* endpoints.remove(endpoint.id), "removed")
          yield* batches.tick
          assert.deepInclude(yield* read(last.id), { status: "CANCELLED" })
        })
    )

    rule(
      "counts each job that a claim finds behind expired jobs, including those that have expired themselves",
      () =>
        Effect.gen(function*() {
          const { batches, endpoint, finish, queue, read, status, submit, takeOne } = yield* make()
          const expired = yield* submit({ policy: { ttl: 10_000 } })
          const { id } = yield* batches.create({
            endpoint,
            requests: [request(0, { policy: { ttl: 10_000 } }), request(1)]
          }, LIMITS)
          yield* batches.finalize(endpoint, id, LIMITS)
          yield* TestClock.adjust(10_000)
          const job = yield* takeOne("ann")
          assert.strictEqual(yield* status(expired.id), "TIMED_OUT")
          assert.deepInclude(yield* read(id), { running: 1, failed: 1, endedAt: null })
          yield* finish(job)
          assert.deepInclude(yield* read(id), { status: "COMPLETED", running: 0, completed: 1, failed: 1 })
          assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, running: 0 })
        })
    )

    rule("counts a job that a claim finds behind an expired job of the same concurrency key", () =>
      Effect.gen(function*() {
        const { finish, read, started, status, submit, take } = yield* make({ concurrency: { key: "input.number", limit: 1 } })
        const other = yield* submit({ input: toJsonText({ number: 1 }), priority: 1 })
        const expired = yield* submit({ input: toJsonText({ number: 0 }), policy: { ttl: 10_000 } })
        const { id } = yield* started(1)
        yield* TestClock.adjust(10_000)
        const [first, job] = yield* take("ann", { limit: 2 })
        assert.strictEqual(first?.id, other.id)
        assert.strictEqual(yield* status(expired.id), "TIMED_OUT")
        assert.deepInclude(yield* read(id), { running: 1 })
        assert.strictEqual(job?.batchId, id)
        if (job !== undefined) yield* finish(job)
        assert.deepInclude(yield* read(id), { status: "COMPLETED", running: 0, completed: 1 })
      }))

    rule("counts a job that a claim finds behind an isolated job", () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, read, started, submit, take, takeOne } = yield* make()
        yield* Effect.replicateEffect(submit(), 4, { discard: true })
        yield* takeOne("ann")
        yield* take("bob", { limit: 2 })
        yield* takeOne("cid")
        yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed.")
        const { id } = yield* started(1)
        // The worker with fewer jobs becomes free for the isolated job, so the other one takes the job behind it.
        const job = yield* takeOne("bob")
        assert.deepStrictEqual([job.batchId, job.isolated], [id, false])
        assert.deepInclude(yield* read(id), { running: 1 })
        yield* finish(job)
        assert.deepInclude(yield* read(id), { status: "COMPLETED", running: 0, completed: 1 })
      }))

    batchModelRule(store, sequences)
  })
}
