/**
 * Tests a payload store that is unavailable, slow, or has lost objects: nothing is acknowledged before it is stored, no job is lost, and
 * no loop spins.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { MemoryPayloadStore } from "@stint/payloads"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario, StoreFaults } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as PayloadMemoryBudget from "@stint/store/PayloadMemoryBudget"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as PayloadFaults from "./PayloadFaults.ts"
import { OFFLOAD_ALL, type RowStores, withPayloadStore } from "./TestPayloads.ts"

const keys = Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(PayloadKey.make("test"))))

const count = (faults: PayloadFaults.PayloadFaults["Service"], operation: PayloadFaults.Operation) =>
  faults.calls().filter((call) => call.operation === operation).length

/** Registers the rules. */
export const payloadFaultRules = (name: string, stores: RowStores): void => {
  const faultyJobs = StoreFaults.layer(stores).pipe(Layer.provideMerge(stores))
  const layer = JobQueue.layer.pipe(
    Layer.provideMerge(
      Layer.merge(withPayloadStore(faultyJobs, OFFLOAD_ALL, PayloadFaults.layer(MemoryPayloadStore.layer)), WorkerRegistry.layer)
    )
  )

  describe(`a payload store over ${name} that fails`, () => {
    it.effect("rejects a submission and stores no part of it", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, queue, submit } = yield* Scenario.make()
        yield* faults.failNext("put", 1)
        const error = yield* Effect.flip(submit())
        assert.deepInclude("reason" in error ? error.reason : error, { _tag: "PayloadUnavailable", operation: "put" })
        assert.include(error.message, "the connection was refused")
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 0)
        assert.strictEqual((yield* keys).length, 0)
        yield* submit()
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
      }).pipe(Effect.provide(layer)))

    it.effect("rejects a result, so that the worker retries, and its job runs until then", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, finish, queue, status, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        const job = yield* takeOne("ann")
        yield* faults.failNext("put", 1)
        assert.strictEqual(yield* Scenario.reasonOf(finish(job, "done")), "PayloadUnavailable")
        assert.strictEqual(yield* status(id), "IN_PROGRESS")
        assert.strictEqual(yield* finish(job, "done"), "accepted")
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "COMPLETED", output: toJsonText("done") })
      }).pipe(Effect.provide(layer)))

    it.effect("delays a job with an unavailable input without counting an attempt, and does not delay the jobs behind it", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, finish, queue, submit, take } = yield* Scenario.make()
        const large = yield* submit({ priority: 1 })
        const other = yield* submit({ input: toJsonText("other") })
        yield* faults.failNext("get", 1)
        // The store has just failed, so the second job is delayed too.
        assert.deepStrictEqual(yield* take("ann"), [])
        assert.strictEqual(count(faults, "get"), 1)
        for (const { id } of [large, other]) {
          const job = yield* queue.get(endpoint.id, id)
          assert.deepInclude(job, { status: "IN_QUEUE", retries: 0, lastError: null })
          assert.isAbove(job.notBefore ?? 0, 999)
        }
        yield* TestClock.adjust(5_000)
        yield* queue.tick
        const taken = yield* take("ann", { limit: 2 })
        assert.deepStrictEqual(taken.map((job) => job.id), [large.id, other.id])
        assert.deepStrictEqual(taken.map((job) => job.input), [large.input, other.input])
        yield* finish(taken[0] ?? assert.fail())
      }).pipe(Effect.provide(layer)))

    it.effect(
      "is called less and less often during a one-hour outage, and workers get their responses in time",
      () =>
        Effect.gen(function*() {
          const faults = yield* PayloadFaults.PayloadFaults
          const { endpoint, queue, submit, take } = yield* Scenario.make({ ttlMs: 7_200_000 })
          yield* Effect.replicateEffect(submit(), 20)
          yield* faults.failNext("get", Infinity)
          for (let second = 0; second < 3_600; second += 10) {
            assert.deepStrictEqual(yield* take("ann"), [])
            yield* TestClock.adjust(10_000)
            while (yield* queue.tick);
          }
          assert.isBelow(count(faults, "get"), 80)
          assert.isAbove(count(faults, "get"), 30)
          yield* faults.failNext("get", 0)
          yield* TestClock.adjust(120_000)
          while (yield* queue.tick);
          const jobs = yield* take("ann", { limit: 20 })
          assert.strictEqual(jobs.length, 20)
          assert.isTrue(jobs.every((job) => job.retries === 0))
          assert.strictEqual((yield* queue.depth(endpoint.id)).running, 20)
        }).pipe(Effect.provide(layer)),
      60_000
    )

    it.effect("reports the output as unavailable when it is read, and drains no chunk", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        const job = yield* takeOne("ann")
        yield* queue.append(Scenario.holderOf(job), toJsonText("one"))
        yield* finish(job, "all")
        yield* faults.failNext("get", 1)
        assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, id)), "PayloadUnavailable")
        const store = yield* JobStore
        yield* faults.failNext("get", 2)
        const first = yield* store.drain(endpoint.id, id, 9)
        assert.deepInclude(first, { chunks: [toJsonText("one")], more: true })
        assert.strictEqual(first?.job.output, null)
        assert.strictEqual(yield* Scenario.reasonOf(store.drain(endpoint.id, id, 9)), "PayloadUnavailable")
        const last = yield* store.drain(endpoint.id, id, 9)
        assert.deepInclude(last, { chunks: [], more: false })
        assert.strictEqual(last?.job.output, toJsonText("all"))
      }).pipe(Effect.provide(layer)))
  })

  describe(`a payload store over ${name} that is slow`, () => {
    it.effect("keeps the lease alive during the fetch of an input, however short the lease is", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, finish, queue, submit, take } = yield* Scenario.make({ leaseMs: 1_000 })
        const { id } = yield* submit()
        yield* faults.freeze
        const taking = yield* Effect.forkChild(take("ann"))
        yield* Scenario.settle
        for (let time = 0; time < 10_000; time += 250) {
          yield* Scenario.pass(250)
          yield* queue.tick
        }
        yield* faults.thaw
        const [job] = yield* Fiber.join(taking)
        assert.deepInclude(job, { id, attempt: 1, retries: 0, input: toJsonText({ text: "hello" }) })
        assert.strictEqual(yield* finish(job ?? assert.fail()), "accepted")
        assert.strictEqual((yield* queue.depth(endpoint.id)).retried, 0)
      }).pipe(Effect.provide(layer)))

    it.effect("returns a job to the queue when its fetch takes longer than a worker waits", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, queue, submit, take } = yield* Scenario.make({ leaseMs: 5_000 })
        const { id } = yield* submit()
        yield* faults.freeze
        const taking = yield* Effect.forkChild(take("ann"))
        for (let time = 0; time < 21_000; time += 1_000) yield* Scenario.pass(1_000)
        assert.deepStrictEqual(yield* Fiber.join(taking), [])
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_QUEUE", retries: 0 })
        yield* faults.thaw
        yield* TestClock.adjust(5_000)
        yield* queue.tick
        assert.strictEqual((yield* take("ann")).length, 1)
      }).pipe(Effect.provide(layer)))

    it.effect("R8: hands out no job that was cancelled while its input was fetched", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, queue, status, submit, take } = yield* Scenario.make()
        const { id } = yield* submit()
        yield* faults.freeze
        const taking = yield* Effect.forkChild(take("ann"))
        yield* Scenario.settle
        assert.strictEqual((yield* queue.cancel(endpoint.id, id)).status, "CANCELLED")
        yield* faults.thaw
        assert.deepStrictEqual(yield* Fiber.join(taking), [])
        assert.strictEqual(yield* status(id), "CANCELLED")
      }).pipe(Effect.provide(layer)))

    it.effect("leaves a job leased or queued when its worker disconnects during the fetch", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const { endpoint, queue, submit, take } = yield* Scenario.make()
        const { id } = yield* submit()
        yield* faults.freeze
        const taking = yield* Effect.forkChild(take("ann"))
        yield* Scenario.settle
        const hangingUp = yield* Effect.forkChild(Fiber.interrupt(taking))
        yield* Scenario.settle
        yield* faults.thaw
        yield* Fiber.join(hangingUp)
        assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_PROGRESS", worker: "ann" })
        const [again] = yield* take("ann", { holding: false })
        assert.deepInclude(again, { id, attempt: 2 })
      }).pipe(Effect.provide(layer)))
  })

  describe(`a payload store over ${name} that has lost an object`, () => {
    for (const how of ["lose", "corrupt"] as const) {
      it.effect(`fails a job with that input and names the cause (${how})`, () =>
        Effect.gen(function*() {
          const faults = yield* PayloadFaults.PayloadFaults
          const { endpoint, queue, submit, take } = yield* Scenario.make()
          const { id } = yield* submit()
          const waiting = yield* submit({ input: toJsonText("other") })
          yield* faults[how]
          assert.deepStrictEqual(yield* take("ann"), [])
          const job = yield* queue.get(endpoint.id, id)
          assert.strictEqual(job.status, "FAILED")
          assert.match(job.error ?? "", /input is lost: .*payload store in memory/)
          assert.strictEqual((yield* queue.get(endpoint.id, waiting.id)).status, "FAILED")
          assert.strictEqual((yield* queue.depth(endpoint.id)).running, 0)
          const { reason } = yield* Effect.flip(queue.input(endpoint.id, id).pipe(Effect.catchTag("JobMissing", Effect.die)))
          assert.deepInclude(reason, { _tag: "PayloadUnavailable", isLost: true })
          yield* faults.mend
          yield* faults.failNext("get", 1)
          const outage = yield* Effect.flip(queue.input(endpoint.id, id).pipe(Effect.catchTag("JobMissing", Effect.die)))
          assert.notProperty(outage.reason, "isLost")
        }).pipe(Effect.provide(layer)))

      it.effect(`reports a job with that output as FAILED and names the cause (${how})`, () =>
        Effect.gen(function*() {
          const faults = yield* PayloadFaults.PayloadFaults
          const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
          const { id } = yield* submit()
          yield* finish(yield* takeOne("ann"), "done")
          yield* faults[how]
          const job = yield* queue.get(endpoint.id, id)
          assert.deepInclude(job, { status: "FAILED", output: null })
          assert.match(job.error ?? "", /ended COMPLETED, and its output is lost: .*payload store in memory/)
          const told = [...yield* Stream.runCollect(queue.follow(endpoint.id, id))].at(-1)
          assert.strictEqual(told?._tag === "End" ? told.job.status : undefined, "FAILED")
          yield* faults.mend
          assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "COMPLETED", output: toJsonText("done") })
        }).pipe(Effect.provide(layer)))
    }

    it.effect("still sends its job's webhook, with the cause", () =>
      Effect.gen(function*() {
        const faults = yield* PayloadFaults.PayloadFaults
        const webhooks = yield* WebhookStore
        const bodies = yield* WebhookBodies
        const { finish, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ webhook: { url: "http://127.0.0.1:9/", events: ["completed"] } })
        yield* finish(yield* takeOne("ann"), "done")
        const [delivery] = yield* webhooks.claimDue(0, 9, 1_000)
        const { body } = delivery ?? assert.fail("there is no delivery")
        assert.deepInclude(JSON.parse(yield* bodies.resolve(body)), { id, output: "done", input: { text: "hello" } })
        yield* faults.failNext("get", 1)
        assert.strictEqual(yield* Scenario.reasonOf(bodies.resolve(body)), "PayloadUnavailable")
        yield* TestClock.adjust(5_000)
        yield* faults.lose
        const told: unknown = JSON.parse(yield* bodies.resolve(body))
        assert.deepInclude(told, { id, status: "COMPLETED", output: null, input: null })
        assert.match(JSON.stringify(told), /payloadError.*has no object/)
      }).pipe(Effect.provide(layer)))
  })

  describe(`payloads over ${name} that do not fit into memory`, () => {
    const large = toJsonText("x".repeat(2 * 1024 * 1024))
    const memory = PayloadMemoryBudget.make(3 * 1024 * 1024)

    it.effect("are not read, and their jobs wait", () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, submit, take, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ input: large })
        yield* Effect.scoped(Effect.gen(function*() {
          yield* memory.reserve(2 * 1024 * 1024)
          assert.deepStrictEqual(yield* take("ann"), [])
          assert.deepInclude(yield* queue.get(endpoint.id, id), { status: "IN_QUEUE", retries: 0 })
        }))
        yield* TestClock.adjust(2_000)
        yield* queue.tick
        const job = yield* takeOne("ann")
        assert.strictEqual(job.input, large)
        yield* queue.finish(Scenario.holderOf(job), { output: large, error: null })
        yield* Effect.scoped(Effect.gen(function*() {
          yield* memory.reserve(2 * 1024 * 1024)
          assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, id)), "PayloadMemoryFull")
        }))
        assert.strictEqual((yield* queue.get(endpoint.id, id)).output, large)
        assert.strictEqual(memory.reserved(), 0)
        assert.strictEqual(yield* finish(job), "ignored")
      }).pipe(Effect.provide(layer.pipe(Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory))))))
  })
}
