/**
 * Two queues over one store that tell each other where to look (`Nodes`). No time passes in these tests unless they say so: a wake-up that does
 * not reach the other queue would leave a call waiting forever.
 */
import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { TestClock } from "effect/testing"
import * as NodeNetwork from "../src/NodeNetwork.ts"
import { queueOf } from "../src/NodeNetwork.ts"
import * as Scenario from "../src/Scenario.ts"

const twoQueues = Effect.gen(function*() {
  const stores = yield* Layer.build(MemoryJobStore.layer)
  const { join, state } = NodeNetwork.make()
  return { first: yield* queueOf(stores, join()), second: yield* queueOf(stores, join()), state, stores, join }
})

const rule = (title: string, body: Effect.Effect<void, unknown>) => it.effect(title, () => body)

describe("several nodes", () => {
  rule(
    "a take at one node gets a job that the other receives, and the caller there gets its result",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      const taking = yield* Effect.forkChild(second.take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      const { id } = yield* first.submit()
      const [job] = yield* Fiber.join(taking)
      assert.strictEqual(job?.id, id)
      const waiting = yield* Effect.forkChild(first.queue.awaitEnd(first.endpoint.id, id, 60_000))
      yield* Scenario.settle
      if (job !== undefined) yield* second.finish(job)
      assert.strictEqual((yield* Fiber.join(waiting)).status, "COMPLETED")
    }))
  )

  rule(
    "a cancel at one node stops the worker that polls the other",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      const job = yield* second.started("ann")
      const polling = yield* Effect.forkChild(second.queue.stopSignals(second.endpoint.id, "ann", 60_000))
      yield* Scenario.settle
      yield* first.queue.cancel(first.endpoint.id, job.id)
      assert.deepStrictEqual(yield* Fiber.join(polling), [job.id])
    }))
  )

  rule(
    "a worker that has taken the job again at another node does not receive the stop signal of its earlier attempt",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      const job = yield* second.started("ann")
      yield* TestClock.adjust("11 seconds")
      // The lease ends: both nodes know a stop signal for ann.
      yield* first.queue.tick
      yield* TestClock.adjust("60 seconds")
      yield* first.queue.tick
      assert.strictEqual((yield* first.takeOne("ann")).id, job.id)
      assert.deepStrictEqual(yield* second.queue.stopSignals(second.endpoint.id, "ann", 0), [])
    }))
  )

  rule(
    "a lost stop signal is repaired by the worker's next heartbeat, at any node",
    Effect.scoped(Effect.gen(function*() {
      const { first, second, state } = yield* twoQueues
      const job = yield* second.started("ann")
      state.lost = true
      yield* first.queue.cancel(first.endpoint.id, job.id)
      assert.deepStrictEqual(yield* second.queue.stopSignals(second.endpoint.id, "ann", 0), [])
      state.lost = false
      yield* first.queue.heartbeat(first.endpoint.id, "ann", [job.id])
      assert.deepStrictEqual(yield* second.queue.stopSignals(second.endpoint.id, "ann", 0), [job.id])
    }))
  )

  rule(
    "all nodes list a worker that takes a job from one node and delivers it to another only once, and as idle afterwards",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      const job = yield* second.started("ann")
      yield* first.queue.heartbeat(first.endpoint.id, "ann", [job.id])
      const states = (queue: typeof first) =>
        Effect.map(queue.registry.listAll(queue.endpoint.id), (all) => all.map(({ id, state }) => [id, state]))
      assert.deepStrictEqual(yield* states(first), [["ann", "running"]])
      assert.deepStrictEqual(yield* states(second), [["ann", "running"]])
      yield* first.finish(job)
      assert.deepStrictEqual(yield* states(first), [["ann", "idle"]])
      assert.deepStrictEqual(yield* states(second), [["ann", "idle"]])
    }))
  )

  rule(
    "all nodes show the same slots of a worker, whichever of them it asks for jobs",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      for (let n = 0; n < 3; n++) yield* first.submit()
      const slots = (node: typeof first) =>
        Effect.map(node.registry.listAll(node.endpoint.id), (all) => all.map(({ jobs, slots }) => [jobs.length, slots]))
      yield* first.take("ann", { limit: 4, holding: false })
      yield* second.take("ann", { limit: 1 })
      for (const node of [first, second]) assert.deepStrictEqual(yield* slots(node), [[3, 4]])
    }))
  )

  const seen = (node: Effect.Success<ReturnType<typeof queueOf>>) => node.registry.list(node.endpoint.id)

  rule(
    "a drain at one node reaches the worker's open take at the other, and every node that the worker calls later",
    Effect.scoped(Effect.gen(function*() {
      const { first, join, second, stores } = yield* twoQueues
      const taking = yield* Effect.forkChild(second.take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      const drained = yield* first.queue.removeWorker(first.endpoint.id, "ann", "drain")
      assert.deepInclude(drained, { id: "ann", state: "draining", leaving: "drain" })
      assert.deepStrictEqual(yield* Fiber.join(taking), [])
      yield* first.submit()
      const third = yield* queueOf(stores, join())
      for (const node of [first, second, third]) {
        const again = yield* Effect.forkChild(node.take("ann", { waitMs: 60_000 }))
        yield* TestClock.adjust("2 seconds")
        assert.deepStrictEqual(yield* Fiber.join(again), [])
        assert.deepInclude((yield* seen(node))[0], { state: "draining", leaving: "drain" })
      }
      assert.strictEqual((yield* second.takeOne("bob")).worker, "bob")
    }))
  )

  rule(
    "a stop at one node takes away jobs that an external worker took from the other: they lose an attempt, and it gets stop signals",
    Effect.scoped(Effect.gen(function*() {
      const { first, second } = yield* twoQueues
      const job = yield* second.started("ann")
      yield* first.queue.removeWorker(first.endpoint.id, "ann", "stop")
      const lost = yield* first.queue.get(first.endpoint.id, job.id)
      assert.deepInclude(lost, { status: "IN_QUEUE", leaseExpiresAt: null, retries: 1, isolated: false })
      assert.strictEqual(lost.lastError, "Worker ann was stopped by an operator.")
      assert.deepStrictEqual(yield* second.queue.stopSignals(second.endpoint.id, "ann", 0), [job.id])
      assert.strictEqual(yield* Scenario.reasonOf(second.finish(job)), "LeaseLost")
    }))
  )

  rule(
    "a drain whose hint is lost is repeated until the other node confirms it, and fails if it never does",
    Effect.scoped(Effect.gen(function*() {
      const { first, second, state } = yield* twoQueues
      yield* second.queue.heartbeat(second.endpoint.id, "ann", [])
      state.lost = true
      const drain = first.queue.removeWorker(first.endpoint.id, "ann", "drain")
      const refused = yield* Effect.forkChild(Scenario.reasonOf(drain))
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* Fiber.join(refused), "NodeSilent")
      const repeated = yield* Effect.forkChild(drain)
      yield* TestClock.adjust("1 second")
      state.lost = false
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Fiber.join(repeated), { state: "draining" })
      assert.deepInclude((yield* seen(second))[0], { state: "draining", leaving: "drain" })
      assert.strictEqual(
        yield* Scenario.reasonOf(first.queue.removeWorker(first.endpoint.id, "nobody", "stop")),
        "WorkerMissing"
      )
    }))
  )

  rule(
    "a drained external worker that announces its exit at one node gets jobs from every node when it runs again",
    Effect.scoped(Effect.gen(function*() {
      const { first, join, second, stores } = yield* twoQueues
      for (const node of [first, second]) yield* node.queue.heartbeat(node.endpoint.id, "ann", [])
      yield* first.queue.removeWorker(first.endpoint.id, "ann", "drain")
      yield* first.queue.workerExiting(first.endpoint.id, "ann", [])
      yield* TestClock.adjust("11 seconds")
      for (const node of [second, yield* queueOf(stores, join()), first]) {
        const { id } = yield* node.submit()
        const taking = yield* Effect.forkChild(node.take("ann"))
        yield* TestClock.adjust("2 seconds")
        const [job] = yield* Fiber.join(taking)
        assert.strictEqual(job?.id, id)
        if (job !== undefined) yield* node.finish(job)
      }
    }))
  )

  for (const how of ["drain", "stop"] as const) {
    rule(
      `a worker with a ${how} during the claim of its open take gets no job, and the claimed one returns unstarted`,
      Effect.scoped(Effect.gen(function*() {
        const stores = yield* Layer.build(MemoryJobStore.layer)
        const store = Context.get(stores, JobStore)
        const [claiming, slow] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const claim: typeof store.claim = (...given) =>
          Effect.andThen(
            Effect.andThen(Deferred.succeed(claiming, undefined), Deferred.await(slow)),
            Effect.suspend(() => store.claim(...given))
          )
        const { endpoint, queue, submit, take } = yield* queueOf(
          Context.add(stores, JobStore, { ...store, claim }),
          NodeNetwork.make().join()
        )
        const { id } = yield* submit()
        const taking = yield* Effect.forkChild(take("ann"))
        yield* Deferred.await(claiming)
        yield* queue.removeWorker(endpoint.id, "ann", how)
        yield* Deferred.succeed(slow, undefined)
        assert.deepStrictEqual(yield* Fiber.join(taking), [])
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_QUEUE", leaseExpiresAt: null, retries: 0 })
        assert.strictEqual((yield* Effect.map(take("bob"), ([job]) => job))?.id, id)
      }))
    )
  }

  rule(
    "R5: a worker that waits gets a job at once when the claim of another worker, which the job woke, fails",
    Effect.scoped(Effect.gen(function*() {
      const stores = yield* Layer.build(MemoryJobStore.layer)
      const store = Context.get(stores, JobStore)
      const { join } = NodeNetwork.make()
      const first = yield* queueOf(stores, join())
      let claims = 0
      const unavailable = new StoreError({ reason: new StoreUnavailable({ operation: "claim", cause: new Error("cut") }) })
      // Both workers look for a job first, and then wait.
      const claim: typeof store.claim = (...given) => ++claims === 3 ? Effect.fail(unavailable) : store.claim(...given)
      const second = yield* queueOf(Context.add(stores, JobStore, { ...store, claim }), join())
      const takes = yield* Effect.forEach(
        ["ann", "bob"],
        (worker) => Effect.forkChild(Effect.result(second.take(worker, { waitMs: 60_000 })))
      )
      yield* Scenario.settle
      const { id } = yield* first.submit()
      yield* Scenario.settle
      const [ann, bob] = yield* Fiber.joinAll(takes)
      assert.strictEqual(ann?._tag, "Failure")
      assert.deepStrictEqual(bob === undefined ? [] : Result.getOrThrow(bob).map((job) => job.id), [id])
    }))
  )

  rule(
    "R5: a worker that waits at one node gets a job at once that a timer of the other made ready, although its response was lost",
    Effect.scoped(Effect.gen(function*() {
      const stores = yield* Layer.build(MemoryJobStore.layer)
      const store = Context.get(stores, JobStore)
      const { join } = NodeNetwork.make()
      const unavailable = new StoreError({ reason: new StoreUnavailable({ operation: "tick", cause: new Error("cut") }) })
      const tick: typeof store.tick = (...given) => Effect.andThen(store.tick(...given), Effect.fail(unavailable))
      const first = yield* queueOf(Context.add(stores, JobStore, { ...store, tick }), join())
      const second = yield* queueOf(stores, join())
      const { id } = yield* first.submit({ startAfterMs: 5_000 })
      const taking = yield* Effect.forkChild(second.take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Scenario.reasonOf(first.queue.tick), "StoreUnavailable")
      assert.deepStrictEqual((yield* Fiber.join(taking)).map((job) => job.id), [id])
    }))
  )

  rule(
    "R5: a worker that waits at one node gets the next job at once when its isolated job ends at another node, which has not seen the job before",
    Effect.scoped(Effect.gen(function*() {
      const { first, join, second, stores } = yield* twoQueues
      const third = yield* queueOf(stores, join())
      const lost = yield* first.started("zoe")
      yield* first.queue.workerGone(first.endpoint.id, "zoe", "The worker was killed.")
      const isolated = yield* first.takeOne("ann")
      assert.strictEqual(isolated.id, lost.id)
      const taking = yield* Effect.forkChild(second.take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      const { id } = yield* first.submit()
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      yield* third.finish(isolated)
      assert.deepStrictEqual((yield* Fiber.join(taking)).map((job) => job.id), [id])
    }))
  )

  rule(
    "R5: a busy worker that is held back at one node for an isolated job gets it at once when its own job ends at another node",
    Effect.scoped(Effect.gen(function*() {
      const { first, join, second, stores } = yield* twoQueues
      const third = yield* queueOf(stores, join())
      const own = yield* second.started("ann")
      const lost = yield* first.started("zoe")
      yield* first.queue.workerGone(first.endpoint.id, "zoe", "The worker was killed.")
      const taking = yield* Effect.forkChild(second.take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      yield* third.finish(own)
      assert.deepStrictEqual((yield* Fiber.join(taking)).map((job) => job.id), [lost.id])
    }))
  )

  rule(
    "R5: a worker that disconnects during its claim leaves no wait behind that would receive the wake-up of another worker",
    Effect.scoped(Effect.gen(function*() {
      const stores = yield* Layer.build(MemoryJobStore.layer)
      const store = Context.get(stores, JobStore)
      const [claiming, slow] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const claim: typeof store.claim = (endpoint, limit, event) =>
        event.worker === "ann"
          ? Effect.tap(store.claim(endpoint, limit, event), () =>
            Effect.andThen(Deferred.succeed(claiming, undefined), Deferred.await(slow)))
          : store.claim(endpoint, limit, event)
      const { join } = NodeNetwork.make()
      const { submit } = yield* queueOf(stores, join())
      const { take } = yield* queueOf(Context.add(stores, JobStore, { ...store, claim }), join())
      const disconnected = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Deferred.await(claiming)
      const closing = yield* Effect.forkChild(Fiber.interrupt(disconnected))
      yield* Scenario.settle
      yield* Deferred.succeed(slow, undefined)
      yield* Fiber.join(closing)
      const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      const { id } = yield* submit()
      assert.deepStrictEqual((yield* Fiber.join(taking)).map((job) => job.id), [id])
    }))
  )

  rule(
    "a node that joins does not extend the leases of running jobs",
    Effect.scoped(Effect.gen(function*() {
      const { first, join, stores } = yield* twoQueues
      const job = yield* first.started("ann")
      yield* TestClock.adjust("9 seconds")
      const third = yield* queueOf(stores, join())
      yield* TestClock.adjust("2 seconds")
      yield* third.queue.tick
      assert.strictEqual(yield* third.status(job.id), "IN_QUEUE")
    }))
  )
})
