/**
 * Tests that the sweep removes every object except the objects of stored jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { JobPayloads, MemoryPayloadStore, PayloadJobStore, PayloadSweep } from "@stint/payloads"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { JobCommands, Scenario, StoreFaults } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as PayloadFaults from "./PayloadFaults.ts"
import { OFFLOAD_ALL, type RowStores } from "./TestPayloads.ts"

const HOUR = 3_600_000

const keys = Effect.map(
  Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(PayloadKey.make("test")))),
  (all) => [...all]
)

/** The sweep as a service that the test runs, with the stores beneath the payloads. */
class Sweep extends Context.Service<Sweep, {
  /** Removes all orphans, regardless of their age. */
  readonly now: Effect.Effect<number, unknown>
  /** Removes orphans as the duty does. */
  readonly usual: Effect.Effect<number, unknown>
}>()("test/Sweep") {}

const layerSweep = Layer.effect(
  Sweep,
  Effect.gen(function*() {
    const context = yield* Effect.context<JobStore | WebhookStore | PayloadStore | JobPayloads.JobPayloads>()
    return Sweep.of({
      // A key from this same millisecond is not older than the limit.
      now: Effect.provideContext(PayloadSweep.sweep(-1), context),
      usual: Effect.provideContext(PayloadSweep.sweep("1 hour"), context)
    })
  })
)

/** Payloads with a sweep that only the test runs. */
const over = <A, E>(stores: Layer.Layer<A | JobStore | WebhookStore, E>) => {
  const payloads = PayloadFaults.layer(MemoryPayloadStore.layer)
  return Layer.merge(PayloadJobStore.layer, layerSweep).pipe(
    Layer.provide(JobPayloads.layer(OFFLOAD_ALL)),
    Layer.provideMerge(Layer.merge(stores, payloads))
  )
}

/** Registers the rules. */
export const payloadSweepRules = (name: string, stores: RowStores, sequences: number): void => {
  const faulty = StoreFaults.layer(stores).pipe(Layer.provideMerge(stores))
  const layer = JobQueue.layer.pipe(Layer.provideMerge(Layer.merge(over(faulty), WorkerRegistry.layer)))

  describe(`the sweep over ${name}`, () => {
    it.effect("removes a job's objects when its retention ends, and no other objects", () =>
      Effect.gen(function*() {
        const { now } = yield* Sweep
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        yield* finish(yield* takeOne("ann"))
        const waiting = yield* submit({ input: toJsonText("waiting") })
        yield* TestClock.adjust(599_000 - 300_000)
        yield* submit({ input: toJsonText("later") })
        assert.strictEqual(yield* now, 0)
        yield* TestClock.adjust(301_000)
        while (yield* queue.tick);
        assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, id)), "JobMissing")
        assert.deepInclude(yield* queue.get(endpoint.id, waiting.id), { status: "TIMED_OUT" })
        assert.strictEqual(yield* now, 2)
        assert.strictEqual((yield* keys).filter((key) => key.includes(id)).length, 0)
        assert.strictEqual((yield* keys).filter((key) => key.includes(waiting.id)).length, 1)
      }).pipe(Effect.provide(layer)))

    it.effect("keeps the objects of a webhook that may be resent until its delivery is removed", () =>
      Effect.gen(function*() {
        const { now } = yield* Sweep
        const webhooks = yield* WebhookStore
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        yield* submit({ webhook: { url: "http://127.0.0.1:9/", events: ["completed"] } })
        yield* finish(yield* takeOne("ann"))
        yield* TestClock.adjust(600_000)
        while (yield* queue.tick);
        assert.strictEqual(yield* now, 0)
        const [delivery] = yield* webhooks.claimDue(600_000, 9, 1_000)
        yield* webhooks.settle(endpoint.id, delivery?.id ?? "", 1, { _tag: "Delivered", at: 600_000, status: 200, error: null })
        assert.strictEqual(yield* now, 0)
        yield* webhooks.removeBefore(600_001, 9)
        assert.strictEqual(yield* now, 2)
        assert.deepStrictEqual(yield* keys, [])
      }).pipe(Effect.provide(layer)))

    for (const slow of ["payload store", "job store"] as const) {
      it.effect(`skips an object whose row is not committed yet, however long the ${slow} takes`, () =>
        Effect.gen(function*() {
          const { now } = yield* Sweep
          const jobs = yield* StoreFaults.StoreFaults
          const payloads = yield* PayloadFaults.PayloadFaults
          const [freeze, thaw] = slow === "job store" ? [jobs.freeze, jobs.thaw] : [payloads.freeze, payloads.thaw]
          const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
          yield* freeze
          const submitting = yield* Effect.forkChild(submit())
          yield* Scenario.settle
          assert.strictEqual((yield* keys).length, 1)
          assert.strictEqual(yield* now, 0)
          yield* thaw
          yield* Fiber.join(submitting)
          const job = yield* takeOne("ann")
          yield* freeze
          const finishing = yield* Effect.forkChild(finish(job))
          yield* Scenario.settle
          assert.strictEqual((yield* keys).length, 2)
          assert.strictEqual(yield* now, 0)
          yield* thaw
          assert.strictEqual(yield* Fiber.join(finishing), "accepted")
          assert.strictEqual((yield* queue.get(endpoint.id, job.id)).output, toJsonText("done"))
        }).pipe(Effect.provide(layer)))
    }

    it.effect("removes the orphan of a submission whose row was not stored, once it is old enough", () =>
      Effect.gen(function*() {
        const { now, usual } = yield* Sweep
        const { failNextWrites } = yield* StoreFaults.StoreFaults
        const { submit } = yield* Scenario.make()
        yield* failNextWrites(1)
        assert.strictEqual(yield* Scenario.reasonOf(submit()), "StoreUnavailable")
        assert.strictEqual((yield* keys).length, 1)
        yield* TestClock.adjust(HOUR - 1)
        assert.strictEqual(yield* usual, 0)
        yield* TestClock.adjust(1)
        assert.strictEqual(yield* usual, 1)
        assert.strictEqual(yield* now, 0)
      }).pipe(Effect.provide(layer)))

    it.effect("keeps the objects of a job whose acknowledgement was lost", () =>
      Effect.gen(function*() {
        const { usual } = yield* Sweep
        const { dropNextAnswers } = yield* StoreFaults.StoreFaults
        const { finish, submit, takeOne } = yield* Scenario.make({ ttlMs: 20 * HOUR, leaseMs: HOUR })
        yield* dropNextAnswers(1)
        assert.strictEqual(yield* Scenario.reasonOf(submit()), "StoreUnavailable")
        yield* TestClock.adjust(2 * HOUR)
        assert.strictEqual(yield* usual, 0)
        const job = yield* takeOne("ann")
        assert.strictEqual(job.input, toJsonText({ text: "hello" }))
        yield* dropNextAnswers(1)
        assert.strictEqual(yield* Scenario.reasonOf(finish(job)), "StoreUnavailable")
        // The worker retries with another object, which becomes an orphan.
        assert.strictEqual(yield* finish(job), "ignored")
        assert.strictEqual((yield* keys).length, 2)
      }).pipe(Effect.provide(layer)))

    it.live(
      "R1: removes nothing of a stored job and leaves nothing of a removed one, for any sequence of events",
      () =>
        Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(JobCommands.commands, (commands) =>
              Effect.runPromise(
                Effect.gen(function*() {
                  const store = yield* JobStore
                  const { now } = yield* Sweep
                  const webhooks = yield* WebhookStore
                  const swept = <A, E>(effect: Effect.Effect<A, E>) => Effect.tap(effect, () => Effect.orDie(now))
                  // After every step, without a minimum age.
                  yield* JobCommands.run(
                    JobStore.of({
                      ...store,
                      insert: (job, key, quotas) => swept(store.insert(job, key, quotas)),
                      apply: (endpoint, id, event) => swept(store.apply(endpoint, id, event)),
                      append: (endpoint, id, event, body) => swept(store.append(endpoint, id, event, body)),
                      claim: (endpoint, limit, event) => swept(store.claim(endpoint, limit, event)),
                      tick: (event, limit) => swept(store.tick(event, limit)),
                      applyRunning: (filter, event) => swept(store.applyRunning(filter, event)),
                      applyWaiting: (endpoint, event, limit) => swept(store.applyWaiting(endpoint, event, limit))
                    }),
                    commands
                  )
                  // All jobs are removed now; remove their webhooks too.
                  for (const { attempts, endpoint, id } of yield* webhooks.claimDue(10 ** 15, 10_000, 1)) {
                    yield* webhooks.settle(endpoint, id, attempts, { _tag: "Delivered", at: 0, status: 200, error: null })
                  }
                  yield* webhooks.removeBefore(1, 100_000)
                  yield* now
                  assert.deepStrictEqual(yield* keys, [])
                }).pipe(Effect.provide(over(stores)))
              )),
            { numRuns: sequences }
          )
        ),
      120_000
    )
  })
}
