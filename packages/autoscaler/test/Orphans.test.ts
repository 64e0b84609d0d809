import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { type OrphanedWorker, WorkerPool } from "@stint/pool/WorkerPool"
import { JobQueue, WorkerRegistry } from "@stint/queue"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as QueueErrors from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { after, deploy, jobOf, now, started, states, submit, withoutAutoscaler } from "./TestPlatform.ts"

const OLD = WorkerId.make("w-old")

/** A worker of an earlier platform. */
const makeOrphan = (isRunning: boolean) => {
  const exit = Deferred.makeUnsafe<WorkerExit>()
  const calls: Array<string> = []
  let closed = false
  const close = Effect.sync(() => {
    closed = true
  })
  const lost = Effect.asVoid(Deferred.succeed(exit, { _tag: "Lost", reason: "its process had ended.", log: ["the last line"] }))
  const orphan: OrphanedWorker = {
    id: OLD,
    endpoint: EndpointId.make("tested"),
    isRunning,
    adopt: () =>
      Effect.as(Effect.andThen(Effect.addFinalizer(() => close), isRunning ? Effect.void : lost), {
        id: OLD,
        exit: Deferred.await(exit),
        drain: Effect.sync(() => {
          calls.push("drain")
        }),
        kill: Effect.andThen(Effect.sync(() => calls.push("kill")), lost),
        forget: Effect.sync(() => void calls.push("forget"))
      })
  }
  return { orphan, calls, lost, isClosed: () => closed }
}

const withOrphans = (orphans: ReadonlyArray<OrphanedWorker>) =>
  Effect.map(WorkerPool, (pool) => Context.make(WorkerPool, { ...pool, orphans }))

/** Another node starts the workers of all endpoints. */
const elsewhere = Layer.effect(EndpointStore, Effect.map(EndpointStore, (store) => ({ ...store, list: Effect.succeed([]) })))

/** A queue whose first return of a worker's jobs fails. */
const failingOnce = (calls: Array<string>) =>
  Layer.effect(
    JobQueue.JobQueue,
    Effect.map(JobQueue.JobQueue, (queue) => ({
      ...queue,
      workerGone: (...args: Parameters<typeof queue.workerGone>) =>
        Effect.suspend(() => {
          calls.push("return")
          return calls.length === 1
            ? Effect.fail(
              new QueueErrors.StoreError({ reason: new QueueErrors.StoreUnavailable({ operation: "gone", cause: "away" }) })
            )
            : Effect.tap(queue.workerGone(...args), () => Effect.sync(() => calls.push("returned")))
        })
    }))
  )

/** Starts the autoscaler of the next platform. */
const startAutoscaler = Effect.fnUntraced(function*(
  orphans: ReadonlyArray<OrphanedWorker>,
  endpoints: Layer.Layer<never> | typeof elsewhere = Layer.empty,
  queue: Layer.Layer<never> | ReturnType<typeof failingOnce> = Layer.empty
) {
  yield* Layer.build(
    Autoscaler.layer().pipe(
      Layer.provide(endpoints),
      Layer.provide(queue),
      Layer.provideMerge(Autoscaler.layerOrphans),
      Layer.provide(Layer.effectContext(withOrphans(orphans)))
    )
  )
  yield* after(300)
})

const test = (title: string, body: Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler> | Scope.Scope>) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const exit = yield* Effect.exit(Scope.provide(body, scope))
      const closing = yield* Effect.forkChild(Scope.close(scope, exit))
      yield* after("2 minutes")
      yield* Fiber.join(closing)
      return yield* exit
    }).pipe(Effect.provide(withoutAutoscaler)))

/** An endpoint with a job that the old worker has taken. */
const takenJob = Effect.fnUntraced(function*(maxAttempts = 2) {
  const queue = yield* JobQueue.JobQueue
  const endpoint = yield* deploy({ workers: { max: 1 }, maxAttempts })
  const job = yield* submit(endpoint)
  yield* queue.take({ endpoint: endpoint.id, worker: OLD, limit: 1, waitMs: 0, holding: false })
  const registry = yield* WorkerRegistry.WorkerRegistry
  return { endpoint, job, queue, registry }
})

describe("Autoscaler: workers of an earlier platform", () => {
  test(
    "knows from the start of the platform which worker runs which job",
    Effect.gen(function*() {
      const { endpoint, job } = yield* takenJob()
      const next = yield* Layer.build(Layer.fresh(JobQueue.layer).pipe(Layer.provideMerge(Layer.fresh(WorkerRegistry.layer))))
      const registry = Context.get(next, WorkerRegistry.WorkerRegistry)
      assert.deepStrictEqual(registry.soleJob(endpoint.id, OLD, 0), { job, attempt: 1 })
      const queue = Context.get(next, JobQueue.JobQueue)
      yield* queue.adoptWorker(endpoint.id, OLD)
      yield* queue.finish({ endpoint: endpoint.id, worker: OLD, job }, { output: toJsonText("done"), error: null })
      yield* after("1 minute")
      assert.deepStrictEqual(
        registry.soleJob(endpoint.id, OLD, 0),
        { job, attempt: 1 },
        "output that is read late belongs to the job"
      )
      assert.deepStrictEqual((yield* registry.list(endpoint.id)).map(({ state }) => state), ["draining"])
    })
  )

  test(
    "forgets an ended worker only when its jobs are back in the queue, so that a kill of the platform before that loses no time",
    Effect.gen(function*() {
      const { endpoint, job } = yield* takenJob()
      const { calls, orphan } = makeOrphan(false)
      yield* startAutoscaler([orphan], Layer.empty, failingOnce(calls))
      assert.deepStrictEqual(calls, ["return"])
      yield* after("2 seconds")
      assert.deepStrictEqual(calls, ["return", "return", "returned", "forget"])
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    })
  )

  test(
    "returns the job of an ended worker to the queue at once",
    Effect.gen(function*() {
      const { endpoint, job } = yield* takenJob()
      const { orphan } = makeOrphan(false)
      yield* startAutoscaler([orphan])
      const again = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([again.status, again.attempt, again.retries], ["COMPLETED", 2, 1])
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
    })
  )

  test(
    "fails the last attempt of a job whose worker has ended, with the worker's last output",
    Effect.gen(function*() {
      const { endpoint, job } = yield* takenJob(1)
      yield* startAutoscaler([makeOrphan(false).orphan])
      assert.strictEqual(
        (yield* jobOf(endpoint, job)).error,
        "Worker w-old is gone: its process had ended.\nIts last output:\n  the last line\n(end of output) This was the only attempt allowed."
      )
    })
  )

  test(
    "lets a running worker finish its job, then drains it, and counts it towards the maximum",
    Effect.gen(function*() {
      const { endpoint, job, queue, registry } = yield* takenJob()
      const { calls, lost, orphan } = makeOrphan(true)
      const waiting = yield* submit(endpoint)
      yield* startAutoscaler([orphan])
      assert.deepStrictEqual(registry.soleJob(endpoint.id, OLD, 0), { job, attempt: 1 }, "its output belongs to the job")
      for (let seconds = 0; seconds < 120; seconds += 10) {
        yield* queue.heartbeat(endpoint.id, OLD, [job])
        yield* after("10 seconds")
      }
      assert.deepStrictEqual([calls, yield* states(endpoint), yield* started], [[], ["draining"], 0])
      assert.deepStrictEqual(yield* queue.take({ endpoint: endpoint.id, worker: OLD, limit: 1, waitMs: 0, holding: true }), [])
      yield* queue.finish({ endpoint: endpoint.id, worker: OLD, job }, { output: toJsonText("done"), error: null })
      yield* after(100)
      assert.deepStrictEqual(calls, ["drain"])
      yield* lost
      yield* now
      const first = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([first.status, first.retries], ["COMPLETED", 0])
      yield* after(200)
      assert.strictEqual((yield* jobOf(endpoint, waiting)).status, "COMPLETED")
    })
  )

  test(
    "returns the job of an ended worker to the queue, when another node starts the workers of its endpoint",
    Effect.gen(function*() {
      const { endpoint, job } = yield* takenJob()
      yield* startAutoscaler([makeOrphan(false).orphan], elsewhere)
      const again = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([again.status, again.retries, yield* started], ["IN_QUEUE", 1, 0])
      assert.deepStrictEqual(yield* states(endpoint), [])
    })
  )

  test(
    "lets a running worker finish its job, when another node starts the workers of its endpoint",
    Effect.gen(function*() {
      const { endpoint, job, queue } = yield* takenJob()
      const { calls, isClosed, lost, orphan } = makeOrphan(true)
      yield* startAutoscaler([orphan], elsewhere)
      for (let seconds = 0; seconds < 60; seconds += 10) {
        yield* queue.heartbeat(endpoint.id, OLD, [job])
        yield* after("10 seconds")
      }
      assert.deepStrictEqual([calls, isClosed(), yield* states(endpoint)], [[], false, ["draining"]])
      yield* queue.finish({ endpoint: endpoint.id, worker: OLD, job }, { output: toJsonText("done"), error: null })
      yield* after(100)
      assert.deepStrictEqual(calls, ["drain"])
      yield* lost
      yield* after("1 second")
      const { retries, status } = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([status, retries, yield* states(endpoint), yield* started], ["COMPLETED", 0, [], 0])
    })
  )

  test(
    "kills a running worker without a job that does not exit, and one whose endpoint was deleted",
    Effect.gen(function*() {
      yield* deploy({ workers: { max: 1 } })
      const stubborn = makeOrphan(true)
      const deleted = makeOrphan(true)
      yield* startAutoscaler([stubborn.orphan, { ...deleted.orphan, endpoint: EndpointId.make("deleted") }])
      assert.isTrue(deleted.isClosed())
      yield* after("11 seconds")
      assert.deepStrictEqual(stubborn.calls, ["drain", "kill", "forget"])
    })
  )
})
