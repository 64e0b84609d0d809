/**
 * Models of the workers that the autoscaler starts: no worker starts before its model is available, and a model is held while a worker uses it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { ModelError } from "@stint/models/ModelError"
import { Models, type ModelState } from "@stint/models/Models"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { type OrphanedWorker, WorkerPool } from "@stint/pool/WorkerPool"
import { WorkerRegistry } from "@stint/queue"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { after, deploy, jobOf, onPlatform, started, submit, withoutAutoscaler } from "./TestPlatform.ts"

/** A cache whose downloads the test ends. */
const makeCache = () => {
  const states = new Map<string, ModelState>()
  const downloads = new Map<string, Deferred.Deferred<void>>()
  let held = 0
  let isRemoved = false
  const begin = (model: string, now: number): ModelState => {
    const state: ModelState = { _tag: "Downloading", received: 0, receivedBefore: 0, total: undefined, since: now }
    states.set(model, state)
    downloads.set(model, Deferred.makeUnsafe())
    return state
  }
  const end = (model: string, state: ModelState) =>
    Effect.suspend(() => {
      states.set(model, state)
      const download = downloads.get(model)
      return download === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(download, undefined))
    })
  const layer = Layer.succeed(Models, {
    prepare: ({ model = "" }, again) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const state = states.get(model)
        if (state === undefined || (state._tag === "Failed" && (again !== undefined || now >= state.retryAt))) {
          return begin(model, now)
        }
        return state
      }),
    stateOf: ({ model = "" }) => states.get(model),
    settled: ({ model = "" }) => {
      const download = downloads.get(model)
      return download === undefined ? Effect.void : Deferred.await(download)
    },
    hold: ({ model = "" }) => {
      if (isRemoved) {
        isRemoved = false
        states.delete(model)
        return Effect.fail(
          new ModelError({ model, problem: "it was removed", hint: "It is downloaded again.", isTransient: true })
        )
      }
      return Effect.acquireRelease(
        Effect.sync(() => {
          held += 1
          return { model, home: "/cache", snapshot: "hub/x" }
        }),
        () => Effect.sync(() => void (held -= 1))
      )
    },
    list: Effect.die("not used"),
    pull: () => Effect.die("not used"),
    remove: () => Effect.die("not used")
  })
  return {
    layer,
    end,
    held: () => held,
    downloads: () => downloads.size,
    removeOnce: () => {
      isRemoved = true
    }
  }
}

const test = (
  title: string,
  body: (cache: ReturnType<typeof makeCache>) => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>
) =>
  it.effect(title, () => {
    const cache = makeCache()
    return Effect.provide(onPlatform(body(cache)), cache.layer)
  })

const MODEL = "acme/whisper"
const READY: ModelState = { _tag: "Ready" }

describe("Autoscaler: models", () => {
  it.effect("ends a worker of an earlier platform while its model cannot be looked up", () => {
    const calls: Array<string> = []
    const ended = Deferred.makeUnsafe<WorkerExit>()
    const orphan: OrphanedWorker = {
      id: WorkerId.make("w-old"),
      endpoint: EndpointId.make("tested"),
      isRunning: true,
      adopt: () =>
        Effect.succeed({
          id: WorkerId.make("w-old"),
          exit: Deferred.await(ended),
          drain: Effect.sync(() => void calls.push("drain")),
          kill: Effect.andThen(
            Effect.sync(() => void calls.push("kill")),
            Effect.asVoid(Deferred.succeed(ended, { _tag: "Lost", reason: "it was killed", log: [] }))
          )
        })
    }
    const models = Layer.effect(Models, Effect.map(Models, (service) => ({ ...service, hold: () => Effect.never })))
    const pool = Layer.effect(WorkerPool, Effect.map(WorkerPool, (service) => ({ ...service, orphans: [orphan] })))
    return Effect.gen(function*() {
      yield* deploy({ model: MODEL })
      yield* Layer.build(Autoscaler.layer().pipe(Layer.provide(models), Layer.provide(pool)))
      yield* after("11 seconds")
      assert.deepStrictEqual(calls, ["drain", "kill"])
    }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(withoutAutoscaler, makeCache().layer)))
  })

  test("downloads the model when the endpoint is deployed, and starts the worker of a waiting job as soon as it is available", (cache) =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ model: MODEL })
      assert.strictEqual(cache.downloads(), 1)
      const job = yield* submit(endpoint)
      // Longer than the time after which a worker that does not call counts as failed.
      yield* after("20 minutes")
      assert.deepStrictEqual([yield* started, (yield* jobOf(endpoint, job)).status], [0, "IN_QUEUE"])
      yield* cache.end(MODEL, READY)
      yield* after(1)
      assert.strictEqual(yield* started, 1)
      yield* after(1_000)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("gives the model to its workers, and holds it until they have exited", (cache) =>
    Effect.gen(function*() {
      yield* cache.end(MODEL, READY)
      const endpoint = yield* deploy({ model: MODEL })
      yield* submit(endpoint, { ms: 10_000 })
      yield* after("5 seconds")
      const { running } = yield* MemoryWorkerPool.Faults
      const [worker] = yield* running
      assert.deepStrictEqual(worker?.model, { model: MODEL, home: "/cache", snapshot: "hub/x" })
      assert.strictEqual(cache.held(), 1)
      yield* after("1 minute")
      assert.deepStrictEqual([(yield* running).length, cache.held()], [0, 0])
    }))

  test("starts workers without a model when another endpoint's model is being downloaded", (cache) =>
    Effect.gen(function*() {
      yield* deploy({ id: "waits", model: MODEL })
      const endpoint = yield* deploy({ id: "other" })
      const job = yield* submit(endpoint)
      yield* after(1_000)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      assert.strictEqual(cache.held(), 0)
    }))

  test("retries a failed download when it is due while a job waits, and counts no failed worker", (cache) =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ model: MODEL })
      const job = yield* submit(endpoint)
      const now = yield* Clock.currentTimeMillis
      yield* cache.end(MODEL, { _tag: "Failed", reason: "The hub answered 503.", retryAt: now + 30_000 })
      yield* after("25 seconds")
      assert.deepStrictEqual([yield* started, yield* registry.list(endpoint.id)], [0, []])
      yield* after("6 seconds")
      // The new download has begun.
      yield* cache.end(MODEL, READY)
      yield* after(2_000)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("downloads a model again if it was removed meanwhile", (cache) =>
    Effect.gen(function*() {
      yield* cache.end(MODEL, READY)
      const endpoint = yield* deploy({ model: MODEL })
      cache.removeOnce()
      const job = yield* submit(endpoint)
      yield* after("5 seconds")
      assert.strictEqual(yield* started, 0)
      yield* cache.end(MODEL, READY)
      yield* after("5 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("replaces the workers when the endpoint's model changes", (cache) =>
    Effect.gen(function*() {
      yield* cache.end(MODEL, READY)
      yield* cache.end("acme/other", READY)
      yield* deploy({ model: MODEL, workers: { min: 1 } })
      yield* after(1_000)
      yield* deploy({ model: "acme/other", workers: { min: 1 } })
      yield* after("5 seconds")
      const { running } = yield* MemoryWorkerPool.Faults
      assert.deepStrictEqual((yield* running).map(({ model }) => model?.model), ["acme/other"])
    }))
})
