import { assert, describe, it } from "@effect/vitest"
import { costOf, type Prices } from "@stint/queue/Billing"
import * as Budgets from "@stint/queue/Budgets"
import * as JobQueue from "@stint/queue/JobQueue"
import * as UsageMeter from "@stint/queue/UsageMeter"
import { readUsage } from "@stint/queue/UsageReader"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as UsageStore from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"

const NOON = Date.parse("2026-11-22T12:00:00Z")
const HOUR = UsageStore.HOUR_MILLIS

/** A store whose next additions are stored although their response is lost. */
const makeFlaky = (store: UsageStore.UsageStore["Service"]) => {
  const faults = { left: 0 }
  return {
    faults,
    store: UsageStore.UsageStore.of({
      ...store,
      add: (addition) =>
        Effect.tap(store.add(addition), () => {
          if (faults.left === 0) return Effect.void
          faults.left -= 1
          return Effect.fail(
            new StoreError({ reason: new StoreUnavailable({ operation: "add usage", cause: "cut off", logged: true }) })
          )
        })
    })
  }
}

const world = (
  usage: Layer.Layer<UsageStore.UsageStore>,
  budgets: Layer.Layer<never, never, UsageStore.UsageStore> = Layer.empty
) =>
  JobQueue.layer.pipe(
    Layer.provideMerge(Layer.merge(UsageMeter.layer(), budgets)),
    Layer.provideMerge(Layer.mergeAll(MemoryJobStore.layerWithEndpoints, WorkerRegistry.layer, usage)),
    Layer.provideMerge(Logger.layer([]))
  )

const memory = world(UsageStore.layerMemory)

/** Builds the world at this time. If it were built earlier, its timers would fire for all the years in between. */
const from = <E, R, Provided>(time: number, body: Effect.Effect<void, E, R>, layer: Layer.Layer<Provided, StoreError>) =>
  Effect.andThen(TestClock.setTime(time), Effect.provide(body, layer, { local: true }))

const stored = Effect.flatMap(
  UsageStore.UsageStore,
  (store) => store.list({ from: 0, to: Number.MAX_SAFE_INTEGER, limit: 10_000 })
)

const flushed = TestClock.adjust(UsageMeter.INTERVAL_MILLIS)

const record = (settings: Partial<UsageStore.UsageRecord>): UsageStore.UsageRecord => ({
  hour: NOON,
  endpoint: "hello",
  release: 1,
  key: "",
  attempts: 0,
  executionMs: 0,
  workerMs: 0,
  cpuMs: 0,
  gpuMs: 0,
  ...settings
})

describe("usage of attempts", () => {
  it.effect("counts an attempt for its key, whether it completes, fails, is cancelled, lost or returned", () =>
    from(
      NOON,
      Effect.gen(function*() {
        const { endpoint, fail, finish, queue, submit, takeOne } = yield* Scenario.make({ maxAttempts: 1 })
        const run = Effect.fnUntraced(function*(owner: string) {
          yield* submit({ owner })
          const job = yield* takeOne("ann")
          yield* TestClock.adjust(1_000)
          return job
        })
        yield* finish(yield* run("completes"))
        yield* fail(yield* run("fails"), "no such city")
        yield* queue.cancel(endpoint.id, (yield* run("is cancelled")).id)
        yield* run("is lost")
        yield* queue.workerGone(endpoint.id, "ann", "It was killed.")
        yield* run("is returned")
        yield* queue.workerGone(endpoint.id, "ann", undefined)
        yield* flushed
        const counted = (yield* stored).map(({ attempts, executionMs, key }) => [key, attempts, executionMs])
        assert.deepStrictEqual(counted, [
          ["completes", 1, 1_000],
          ["fails", 1, 1_000],
          ["is cancelled", 1, 1_000],
          ["is lost", 1, 1_000],
          ["is returned", 1, 1_000]
        ])
      }),
      memory
    ))

  it.effect("divides an attempt between the hours in which it ran, and counts it in the hour in which it ended", () =>
    from(
      NOON - 1,
      Effect.gen(function*() {
        const { finish, queue, endpoint, submit, takeOne } = yield* Scenario.make({
          leaseMs: 60_000,
          executionTimeoutMs: 3 * HOUR,
          ttlMs: 5 * HOUR
        })
        yield* submit()
        const job = yield* takeOne("ann")
        yield* TestClock.adjust(1)
        yield* queue.cancel(endpoint.id, job.id)
        yield* submit()
        const long = yield* takeOne("ann")
        yield* TestClock.adjust(2 * HOUR + 5)
        yield* finish(long)
        yield* flushed
        assert.deepStrictEqual(
          (yield* stored).map(({ attempts, executionMs, hour }) => [(hour - NOON) / HOUR, attempts, executionMs]),
          [
            // It ended at noon: its time counts in the hour before, and its end in the hour that begins then.
            [-1, 0, 1],
            [0, 1, HOUR],
            [1, 0, HOUR],
            [2, 1, 5]
          ]
        )
      }),
      memory
    ))

  it.effect("has the sum of all attempts, however they overlap, even when responses to additions are lost", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.record({ waits: fc.nat(HOUR / 6), runs: fc.nat(HOUR / 3), lost: fc.nat(2) }),
            { minLength: 1, maxLength: 8 }
          ),
          (attempts) =>
            Effect.gen(function*() {
              const flaky = makeFlaky(yield* Effect.provide(UsageStore.UsageStore, yield* Layer.build(UsageStore.layerMemory)))
              yield* TestClock.setTime(NOON + HOUR - 600_000)
              yield* Effect.gen(function*() {
                const { finish, started } = yield* Scenario.make({
                  leaseMs: HOUR,
                  executionTimeoutMs: 4 * HOUR,
                  ttlMs: 24 * HOUR
                })
                let expected = 0
                for (const { lost, runs, waits } of attempts) {
                  yield* TestClock.adjust(waits)
                  const job = yield* started("ann")
                  yield* TestClock.adjust(runs)
                  flaky.faults.left = lost
                  yield* finish(job)
                  expected += runs
                  yield* flushed
                }
                yield* TestClock.adjust(10 * UsageMeter.INTERVAL_MILLIS)
                const sums = yield* stored
                assert.strictEqual(sums.reduce((sum, { executionMs }) => sum + executionMs, 0), expected)
                assert.strictEqual(sums.reduce((sum, one) => sum + one.attempts, 0), attempts.length)
              }).pipe(Effect.provide(world(Layer.succeed(UsageStore.UsageStore, flaky.store)), { local: true }))
            }).pipe(Effect.scoped, Effect.provide(TestClock.layer()), Effect.runPromise)
        ),
        { numRuns: 15 }
      )
    ))

  it.effect("stores what is left when the platform stops, and continues after a restart", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(NOON)
      const usage = yield* UsageStore.UsageStore
      const session = Effect.gen(function*() {
        const { finish, started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* TestClock.adjust(500)
        yield* finish(job)
      }).pipe(Effect.provide(world(Layer.succeed(UsageStore.UsageStore, usage)), { local: true }))
      yield* session
      yield* session
      assert.deepStrictEqual((yield* stored).map(({ attempts, executionMs }) => [attempts, executionMs]), [[2, 1_000]])
    }).pipe(Effect.provide(UsageStore.layerMemory)))
})

describe("usage of workers", () => {
  it.effect("counts a worker of an earlier platform from its adoption, without the CPU time that was counted before", () =>
    from(
      NOON,
      Effect.gen(function*() {
        const { endpoint } = yield* Scenario.make()
        const { watch } = yield* UsageMeter.UsageMeter
        let cpu: number | undefined
        yield* watch({
          endpoint: endpoint.id,
          worker: "w-1",
          gpus: 0,
          resources: Effect.sync(() => ({ cpuMillis: cpu, memoryBytes: undefined })),
          isReady: true
        })
        yield* flushed
        cpu = 3_600_000
        yield* flushed
        cpu += 40
        yield* flushed
        assert.deepStrictEqual((yield* stored).map(({ cpuMs, workerMs }) => [cpuMs, workerMs]), [[40, 30_000]])
      }).pipe(Effect.scoped),
      memory
    ))

  it.effect("counts the last seconds of a worker for its release, even when the platform no longer knows the worker", () =>
    from(
      NOON,
      Effect.gen(function*() {
        const { endpoint, queue } = yield* Scenario.make()
        const registry = yield* WorkerRegistry.WorkerRegistry
        const { watch } = yield* UsageMeter.UsageMeter
        const life = yield* Scope.make()
        yield* registry.starting(endpoint.id, "w-1", 3)
        yield* Scope.provide(
          watch({ endpoint: endpoint.id, worker: "w-1", gpus: 0, resources: Effect.undefined, isReady: false }),
          life
        )
        yield* queue.take({ endpoint: endpoint.id, worker: "w-1", limit: 1, waitMs: 0, holding: false })
        yield* flushed
        yield* TestClock.adjust(3_000)
        yield* queue.workerGone(endpoint.id, "w-1", undefined)
        yield* Scope.close(life, Exit.void)
        yield* flushed
        assert.deepStrictEqual((yield* stored).map(({ release, workerMs }) => [release, workerMs]), [[3, 13_000]])
      }),
      memory
    ))

  it.effect("counts all the time of a worker that became ready while the store did not respond", () =>
    from(
      NOON,
      Effect.gen(function*() {
        const usage = yield* Effect.provide(UsageStore.UsageStore, yield* Layer.build(UsageStore.layerMemory))
        const outage = { isOver: Latch.makeUnsafe() }
        const slow = UsageStore.UsageStore.of({
          ...usage,
          add: (addition) => Effect.andThen(outage.isOver.await, usage.add(addition))
        })
        yield* Effect.gen(function*() {
          const { endpoint, finish, queue, started } = yield* Scenario.make()
          const registry = yield* WorkerRegistry.WorkerRegistry
          const { watch } = yield* UsageMeter.UsageMeter
          yield* finish(yield* started("ann"))
          yield* flushed
          yield* registry.starting(endpoint.id, "w-1", 1)
          yield* watch({ endpoint: endpoint.id, worker: "w-1", gpus: 0, resources: Effect.undefined, isReady: false })
          yield* TestClock.adjust(5_000)
          yield* queue.take({ endpoint: endpoint.id, worker: "w-1", limit: 1, waitMs: 0, holding: false })
          yield* TestClock.adjust(60_000)
          yield* outage.isOver.open
          yield* flushed
          yield* flushed
          const times = (yield* stored).map(({ workerMs }) => workerMs).filter((millis) => millis > 0)
          assert.deepStrictEqual(times, [80_000])
        }).pipe(Effect.provide(world(Layer.succeed(UsageStore.UsageStore, slow)), { local: true }))
      }).pipe(Effect.scoped),
      Layer.empty
    ))

  it.effect("asks for CPU times within a limit, however many engines do not respond, and counts the rest meanwhile", () =>
    from(
      NOON,
      Effect.gen(function*() {
        const { endpoint } = yield* Scenario.make()
        const { watch } = yield* UsageMeter.UsageMeter
        for (let index = 0; index < 40; index++) {
          yield* watch({ endpoint: endpoint.id, worker: `w-${index}`, gpus: 0, resources: Effect.never, isReady: true })
        }
        // The first request lasts 5 s, and the second begins 10 s later.
        yield* TestClock.adjust(20_000)
        assert.deepStrictEqual((yield* stored).map(({ workerMs }) => workerMs), [40 * 20_000])
      }).pipe(Effect.scoped),
      memory
    ))

  it.effect("counts a worker from its first request for a job until its exit, and its CPU time from the start", () =>
    from(
      NOON + HOUR - 25_000,
      Effect.gen(function*() {
        const { endpoint, queue } = yield* Scenario.make()
        const registry = yield* WorkerRegistry.WorkerRegistry
        const { watch } = yield* UsageMeter.UsageMeter
        const life = yield* Scope.make()
        let cpu = 0
        yield* registry.starting(endpoint.id, "w-1", 3)
        yield* Scope.provide(
          watch({
            endpoint: endpoint.id,
            worker: "w-1",
            gpus: 2,
            resources: Effect.sync(() => ({ cpuMillis: cpu, memoryBytes: undefined })),
            isReady: false
          }),
          life
        )
        cpu = 700
        yield* TestClock.adjust(15_000)
        assert.deepStrictEqual((yield* stored).map(({ cpuMs, workerMs }) => [cpuMs, workerMs]), [[700, 0]])
        yield* queue.take({ endpoint: endpoint.id, worker: "w-1", limit: 1, waitMs: 0, holding: false })
        // A child that the worker leaves behind takes its CPU time with it.
        cpu = 500
        yield* TestClock.adjust(17_000)
        yield* Scope.close(life, Exit.void)
        yield* TestClock.adjust(60_000)
        assert.deepStrictEqual(
          (yield* stored).map((
            { cpuMs, gpuMs, hour, release, workerMs }
          ) => [(hour - NOON) / HOUR, release, workerMs, gpuMs, cpuMs]),
          [[0, 3, 10_000, 20_000, 700], [1, 3, 7_000, 14_000, 0]]
        )
      }),
      memory
    ))
})

const PRICES: Prices = {
  currency: "EUR",
  perSecond: { execution: 1, worker: 0.5, cpu: 2, gpu: 3 },
  endpoints: { cheap: { worker: 0 } }
}

describe("costs", () => {
  it("multiplies seconds by prices, which an endpoint may replace with its own", () => {
    const times = { executionMs: 1_000, workerMs: 2_000, cpuMs: 500, gpuMs: 4_000 }
    assert.strictEqual(costOf(PRICES, "hello", times), 1 + 1 + 1 + 12)
    assert.strictEqual(costOf(PRICES, "cheap", times), 1 + 0 + 1 + 12)
    assert.strictEqual(costOf(PRICES, "constructor", times), 15)
  })

  it.effect("shares the times of workers between the keys whose jobs ran in the hour, and loses nothing", () =>
    Effect.gen(function*() {
      const store = yield* UsageStore.UsageStore
      yield* store.add({
        source: "a",
        sequence: 1,
        at: NOON,
        records: [
          record({ workerMs: 9_000, cpuMs: 300, gpuMs: 6_000 }),
          record({ key: "ann", executionMs: 1_000 }),
          record({ key: "bob", executionMs: 2_000 }),
          // Nothing ran: the time of the worker belongs to nobody.
          record({ hour: NOON + HOUR, workerMs: 5_000 }),
          record({ hour: NOON + HOUR, release: 2, key: "ann", executionMs: 100 })
        ]
      })
      const shares: Array<readonly [string, number, number, number]> = []
      yield* readUsage(store, { from: 0, to: Number.MAX_SAFE_INTEGER }, ({ cpuMs, gpuMs, key, workerMs }) => {
        shares.push([key, workerMs, cpuMs, gpuMs])
      })
      assert.deepStrictEqual(shares, [
        ["", 0, 0, 0],
        ["ann", 3_000, 100, 2_000],
        ["bob", 6_000, 200, 4_000],
        ["", 5_000, 0, 0],
        ["ann", 0, 0, 0]
      ])
    }).pipe(Effect.provide(UsageStore.layerMemory)))
})

describe("budgets", () => {
  const endpoint = Scenario.endpoint()
  const budgeted = (budgets: ReadonlyArray<Budgets.Budget>) => world(UsageStore.layerMemory, Budgets.layer(PRICES, budgets))

  it.effect("refuses new jobs once the budget of the endpoint is spent, lets accepted jobs continue, and renews at midnight UTC", () =>
    from(
      Date.parse("2026-11-22T23:50:00Z"),
      Effect.gen(function*() {
        const { finish, started, submit, takeOne } = yield* Scenario.make({ leaseMs: HOUR })
        yield* TestClock.adjust(1)
        const job = yield* started("ann")
        const accepted = yield* submit()
        yield* TestClock.adjust(3_000)
        yield* finish(job)
        yield* TestClock.adjust(UsageMeter.INTERVAL_MILLIS + Budgets.INTERVAL_MILLIS)
        const refused = yield* Effect.flip(submit())
        assert.include(refused, { _tag: "BudgetReached", scope: "endpoint", limit: 2.5, currency: "EUR" })
        assert.strictEqual(
          refused.message,
          `the daily budget of endpoint ${endpoint.id} is reached, until 2026-11-23T00:00:00.000Z`
        )
        assert.strictEqual((yield* takeOne("ann")).id, accepted.id)
        yield* TestClock.setTime(Date.parse("2026-11-22T23:59:59.999Z"))
        assert.strictEqual((yield* Effect.flip(submit()))._tag, "BudgetReached")
        // The running job has spent nothing of the new day's budget yet.
        yield* TestClock.setTime(Date.parse("2026-11-23T00:00:00Z"))
        yield* submit()
      }),
      budgeted([{ scope: "endpoint", id: endpoint.id, period: "daily", limit: 2.5 }])
    ))

  it.effect("refuses only that key, and knows what was spent before a restart", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(NOON)
      const usage = yield* UsageStore.UsageStore
      yield* usage.add({
        source: "earlier",
        sequence: 1,
        at: NOON,
        records: [
          record({ hour: Date.parse("2026-11-01T00:00:00Z"), key: "ann", executionMs: 4_000 }),
          record({ hour: Date.parse("2026-10-31T23:00:00Z"), key: "bob", executionMs: 4_000 })
        ]
      })
      const limits = ["ann", "bob"].map((id) => ({ scope: "key", id, period: "monthly", limit: 4 } as const))
      yield* Effect.gen(function*() {
        const { submit } = yield* Scenario.make()
        assert.include(yield* Effect.flip(submit({ owner: "ann" })), { _tag: "BudgetReached", scope: "key", id: "ann" })
        yield* submit({ owner: "bob" })
        const { list } = yield* Budgets.Budgets
        assert.deepStrictEqual(list().map(({ id, renewsAt, spent }) => [id, spent, new Date(renewsAt).toISOString()]), [
          ["ann", 4, "2026-12-01T00:00:00.000Z"],
          ["bob", 0, "2026-12-01T00:00:00.000Z"]
        ])
      }).pipe(Effect.provide(world(Layer.succeed(UsageStore.UsageStore, usage), Budgets.layer(PRICES, limits)), { local: true }))
    }).pipe(Effect.provide(UsageStore.layerMemory)))

  it.effect("refuses a key whose monthly budget is spent, even when its endpoint's daily budget has just been renewed", () =>
    from(
      Date.parse("2026-11-22T23:59:30Z"),
      Effect.gen(function*() {
        const { finish, submit, takeOne } = yield* Scenario.make()
        yield* submit({ owner: "ann" })
        const job = yield* takeOne("w-1")
        yield* TestClock.adjust(3_000)
        yield* finish(job)
        yield* TestClock.adjust(UsageMeter.INTERVAL_MILLIS + Budgets.INTERVAL_MILLIS)
        assert.include(yield* Effect.flip(submit({ owner: "ann" })), { _tag: "BudgetReached", scope: "endpoint" })
        // Before the next reading.
        yield* TestClock.setTime(Date.parse("2026-11-23T00:00:00Z"))
        assert.include(yield* Effect.flip(submit({ owner: "ann" })), { _tag: "BudgetReached", scope: "key", period: "monthly" })
        yield* submit({ owner: "bob" })
      }),
      budgeted([
        { scope: "endpoint", id: endpoint.id, period: "daily", limit: 2.5 },
        { scope: "key", id: "ann", period: "monthly", limit: 2.5 }
      ])
    ))
})
