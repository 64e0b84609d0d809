/**
 * Rules for running bulk operations: holding them, stopping them, and what they cannot change. Also has helpers for other tests of bulk operations.
 */
import { assert } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { EVERYTHING, MAX_SEARCH_LENGTH, parseSearch } from "@stint/contract/JobSearch"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { BulkStore } from "@stint/store/BulkStore"
import * as EndpointStore from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import { PayloadUnavailable, StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"

/** The stores that share a transaction with bulk operations. */
export type BulkStores = JobStore | BulkStore

/** The endpoint of the jobs. */
export const endpoint = Scenario.endpoint({ ttlMs: 600_000_000, retentionMs: 600_000_000 })
/** The key of the operations. */
export const by = { key: "0123456789abcdef", name: "the key \"ops\"", endpoints: "all" } as const

/** Stores a waiting job of the endpoint. */
export const insertJob = Effect.fnUntraced(function*() {
  const job = Scenario.record({ endpoint: endpoint.id, ttlMs: 600_000_000, retentionMs: 600_000_000 })
  yield* (yield* JobStore).insert(job)
  return job
})

/** Fails every waiting job. */
export const failWaiting = Effect.gen(function*() {
  const store = yield* JobStore
  while (true) {
    const { jobs } = yield* store.claim(endpoint.id, 100, { _tag: "Claim", now: 500, worker: "ann" })
    if (jobs.length === 0) return
    for (const { attempt, id } of jobs) {
      yield* store.apply(endpoint.id, id, {
        _tag: "Finish",
        now: 600,
        endpoint: endpoint.id,
        worker: "ann",
        attempt,
        output: null,
        error: "no such city"
      })
    }
  }
})

/** The status of a job; undefined when the endpoint has no such job. */
export const statusOf = (id: JobId) =>
  Effect.flatMap(JobStore, (jobs) => Effect.map(jobs.get(endpoint.id, id), (job) => job?.status))

/** A store of endpoints that contains the endpoint of the jobs. */
export const endpoints = Layer.effectDiscard(Effect.flatMap(EndpointStore.EndpointStore, (store) => store.put(endpoint))).pipe(
  Layer.provideMerge(EndpointStore.layerMemory)
)

/** The bulk operations of a server, on the provided stores. */
const bulkJobs = () =>
  BulkJobs.layer.pipe(
    Layer.provide(JobQueue.layer),
    Layer.provide(Layer.merge(WorkerRegistry.layer, endpoints))
  )

/** Registers the rules. */
export const bulkWorkRules = (rule: (title: string, body: () => Effect.Effect<void, unknown, BulkStores>) => void): void => {
  rule("changes no job during the hold, and none when it is cancelled before the hold ends", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000)
      const job = yield* insertJob()
      yield* Effect.gen(function*() {
        const { cancel, get, start, tick } = yield* BulkJobs.BulkJobs
        const { search = EVERYTHING } = parseSearch("status:waiting")
        const { id } = yield* start({ action: "cancel", search, holdMs: 10_000, by })
        yield* TestClock.setTime(10_999)
        yield* tick
        assert.strictEqual(yield* statusOf(job.id), "IN_QUEUE")
        assert.deepInclude(yield* cancel(id, by), { state: "cancelled", done: 0 })
        yield* TestClock.setTime(20_000)
        yield* tick
        assert.strictEqual(yield* statusOf(job.id), "IN_QUEUE")

        const again = yield* start({ action: "cancel", search, holdMs: 10_000, by })
        // Submitted after the operation.
        const late = Scenario.record({ endpoint: endpoint.id, createdAt: 20_001, ttlMs: 600_000_000 })
        yield* (yield* JobStore).insert(late)
        yield* TestClock.setTime(30_000)
        yield* tick
        assert.deepInclude(yield* get(again.id, by), { state: "done", done: 1 })
        assert.strictEqual(yield* statusOf(job.id), "CANCELLED")
        assert.strictEqual(yield* statusOf(late.id), "IN_QUEUE")
      }).pipe(Effect.provide(bulkJobs()))
    }))

  rule("counts and changes a job that was submitted in the same millisecond", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(20_000)
      const job = Scenario.record({ endpoint: endpoint.id, createdAt: 20_000, ttlMs: 600_000_000 })
      yield* (yield* JobStore).insert(job)
      yield* Effect.gen(function*() {
        const { get, start, tick } = yield* BulkJobs.BulkJobs
        const { search = EVERYTHING } = parseSearch("status:waiting")
        const operation = yield* start({ action: "cancel", search, holdMs: 0, by })
        assert.deepStrictEqual(operation.matched, { count: 1, more: false })
        yield* tick
        assert.deepInclude(yield* get(operation.id, by), { state: "done", done: 1 })
        assert.strictEqual(yield* statusOf(job.id), "CANCELLED")
      }).pipe(Effect.provide(bulkJobs()))
    }))

  rule("does not change a job that no longer matches the query when its turn comes", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000)
      const jobs = yield* Effect.replicateEffect(insertJob(), 2)
      let claimed: JobId | undefined
      let isCounted = false
      const store = Layer.effect(
        JobStore,
        Effect.map(JobStore, (inner) =>
          JobStore.of({
            ...inner,
            // A worker takes one of the jobs between the read of the page and the first step.
            list: (of, query) =>
              Effect.tap(inner.list(of, query), () =>
                isCounted && claimed === undefined
                  ? Effect.map(inner.claim(of, 1, { _tag: "Claim", now: 1_000, worker: "ann" }), (claim) => {
                    claimed = claim.jobs[0]?.id
                  })
                  : Effect.void)
          }))
      )
      yield* Effect.gen(function*() {
        const { get, start, tick } = yield* BulkJobs.BulkJobs
        const { search = EVERYTHING } = parseSearch("NOT status:running")
        const { id } = yield* start({ action: "cancel", search, holdMs: 0, by })
        isCounted = true
        yield* Effect.repeat(tick, { while: (more) => more })
        assert.deepInclude(yield* get(id, by), { state: "done", skipped: { changed: 1, missing: 0, endpoint: 0 } })
        assert.isDefined(claimed)
        for (const job of jobs) assert.strictEqual(yield* statusOf(job.id), job.id === claimed ? "IN_PROGRESS" : "CANCELLED")
      }).pipe(Effect.provide(
        BulkJobs.layer.pipe(Layer.provide(JobQueue.layer), Layer.provide(Layer.mergeAll(store, WorkerRegistry.layer, endpoints)))
      ))
    }))

  rule("stops an operation after the current job", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000)
      const count = 250
      yield* Effect.replicateEffect(insertJob(), count, { concurrency: "unbounded", discard: true })
      yield* Effect.gen(function*() {
        const { cancel, get, start, tick } = yield* BulkJobs.BulkJobs
        const { id } = yield* start({ action: "cancel", search: EVERYTHING, holdMs: 0, by })
        const server = yield* Effect.forkChild(Effect.repeat(tick, { while: (more) => more }), { startImmediately: true })
        let before = 0
        while (before === 0) {
          yield* Effect.yieldNow
          before = (yield* get(id, by)).done
        }
        const stopped = yield* cancel(id, by)
        yield* Fiber.join(server)
        assert.isAtMost(stopped.done, before + 3)
        assert.deepStrictEqual(yield* get(id, by), stopped)
        assert.strictEqual(stopped.state, "cancelled")
      }).pipe(Effect.provide(bulkJobs()))
    }))

  rule("waits while an input cannot be read, and counts only a lost input as failed", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000)
      const [fine, lost] = [yield* insertJob(), yield* insertJob()]
      yield* failWaiting
      const outage = { isOver: false }
      const store = Layer.effect(
        JobStore,
        Effect.map(JobStore, (inner) =>
          JobStore.of({
            ...inner,
            input: (of, id) => {
              const reason = { operation: "get", problem: "gone" } as const
              if (!outage.isOver) return Effect.fail(new StoreError({ reason: new PayloadUnavailable(reason) }))
              return id === lost.id
                ? Effect.fail(new StoreError({ reason: new PayloadUnavailable({ ...reason, isLost: true }) }))
                : inner.input(of, id)
            }
          }))
      )
      const layer = BulkJobs.layer.pipe(
        Layer.provide(JobQueue.layer),
        Layer.provide(Layer.mergeAll(store, WorkerRegistry.layer, endpoints))
      )
      yield* Effect.gen(function*() {
        const { get, start, tick } = yield* BulkJobs.BulkJobs
        const { id } = yield* start({ action: "rerun", search: EVERYTHING, holdMs: 0, by })
        assert.isTrue(Exit.isFailure(yield* Effect.exit(tick)))
        assert.deepInclude(yield* get(id, by), { state: "running", done: 0, failed: 0 })
        outage.isOver = true
        yield* tick
        const ended = yield* get(id, by)
        assert.deepInclude(ended, { state: "done", done: 1, failed: 1 })
        assert.deepStrictEqual(ended.problems.map(({ job }) => job), [String(lost.id)])
        assert.strictEqual(yield* statusOf(fine.id), "FAILED")
      }).pipe(Effect.provide(layer))
    }))

  rule("works on an operation with the longest query, whose canonical form is longer", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000)
      yield* Effect.gen(function*() {
        const { get, start, tick } = yield* BulkJobs.BulkJobs
        const text = "status:done tag:".padEnd(MAX_SEARCH_LENGTH, "x")
        const { search } = parseSearch(text)
        if (search === undefined) return assert.fail("the query has a mistake")
        const { id, query } = yield* start({ action: "rerun", search, holdMs: 0, by })
        assert.isAbove(query.length, MAX_SEARCH_LENGTH)
        yield* tick
        assert.deepInclude(yield* get(id, by), { state: "done", done: 0 })
      }).pipe(Effect.provide(bulkJobs()))
    }))
}
