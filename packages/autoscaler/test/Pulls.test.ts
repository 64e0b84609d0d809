/**
 * What the registry learns about the pull of a worker's image from its pool.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import { EndpointId } from "@stint/contract/Ids"
import { endpointOf } from "@stint/pool/testing"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { WorkerPool } from "@stint/pool/WorkerPool"
import { WorkerRegistry } from "@stint/queue"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { after, deploy, submit, withoutAutoscaler } from "./TestPlatform.ts"

const PULL_MILLIS = 5_000
const MINUTE = 60_000
/** Longer than `initLimit`. */
const LONG_PULL_MINUTES = 20
const CREATE_MILLIS = 300

/** A pool that pulls the image of its first worker. */
const pullingPool = Layer.sync(WorkerPool, () => {
  let isPresent = false
  return WorkerPool.of({
    supports: ["container"],
    prepare: () => Effect.void,
    orphans: [],
    start: Effect.fnUntraced(function*({ pull, worker }) {
      if (!isPresent) {
        pull?.began(() => ({ layers: 5, doneLayers: 2, bytes: 80, doneBytes: 12 }))
        yield* Effect.sleep(PULL_MILLIS)
        isPresent = true
        pull?.ended()
      }
      yield* Effect.sleep(CREATE_MILLIS)
      const exit = Deferred.makeUnsafe<WorkerExit>()
      const end = Effect.asVoid(Deferred.succeed(exit, { _tag: "Exited", code: 0, log: [] }))
      return { id: worker, exit: Deferred.await(exit), drain: end, kill: end }
    })
  })
})

/** A pool whose pull receives a byte a minute for some minutes, and then no more. */
const slowPool = (minutes: number) =>
  Layer.succeed(
    WorkerPool,
    WorkerPool.of({
      supports: ["container"],
      prepare: () => Effect.void,
      orphans: [],
      start: Effect.fnUntraced(function*({ pull }) {
        let doneBytes = 0
        pull?.began(() => ({ layers: 1, doneLayers: 0, bytes: 80, doneBytes }))
        for (; doneBytes < minutes; doneBytes++) yield* Effect.sleep(MINUTE)
        return yield* Effect.never
      })
    })
  )

describe("Autoscaler: pulls of images", () => {
  it.effect("are known while they run, with the image of the worker's release, and remembered as a part of the start", () =>
    Effect.gen(function*() {
      yield* Layer.build(Autoscaler.layer().pipe(Layer.provide(pullingPool)))
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ source: { type: "container", image: "acme/whisper:2" }, workers: { max: 2 } })
      yield* submit(endpoint)
      yield* after(1_000)
      const [first] = yield* registry.list(endpoint.id)
      assert.deepStrictEqual(first?.pull, {
        image: "acme/whisper:2",
        progress: { layers: 5, doneLayers: 2, bytes: 80, doneBytes: 12 }
      })
      yield* after(PULL_MILLIS)
      assert.deepStrictEqual((yield* registry.list(endpoint.id)).map(({ pull }) => pull), [undefined])
      const { createdAt, pulledAt = 0, requestedAt = 0 } =
        registry.startOf(endpoint.id, first?.id ?? assert.fail("there is no worker")) ?? {}
      assert.deepStrictEqual([pulledAt - requestedAt, createdAt], [PULL_MILLIS, pulledAt + CREATE_MILLIS])
      // The image is present now.
      yield* submit(endpoint)
      yield* after(1_000)
      const [, second] = yield* registry.list(endpoint.id)
      const start = registry.startOf(endpoint.id, second?.id ?? "")
      assert.isNumber(start?.createdAt)
      assert.notProperty(start, "pulledAt")
    }).pipe(Effect.scoped, Effect.provide(withoutAutoscaler)))

  it.effect("may take longer than a start as long as they come further; a start whose pull has stopped has failed", () =>
    Effect.gen(function*() {
      yield* Layer.build(Autoscaler.layer().pipe(Layer.provide(slowPool(LONG_PULL_MINUTES))))
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ source: { type: "container", image: "acme/whisper:2" }, workers: { max: 1 } })
      yield* submit(endpoint)
      const state = Effect.map(registry.list(endpoint.id), (all) => all.map(({ reason, state }) => [state, reason]))
      for (let minute = 1; minute <= LONG_PULL_MINUTES + 6; minute++) {
        yield* after(MINUTE)
        assert.deepStrictEqual([minute, yield* state], [minute, [["initializing", null]]])
      }
      // Until it has failed: the next start follows soon.
      for (let waited = 0; waited < 8 * MINUTE && (yield* state)[0]?.[0] !== "unhealthy"; waited += 500) yield* after(500)
      const stopped = "the pull of its image acme/whisper:2 has come no further for 420 s (0 of 1 layers, 0.0 of 0.0 MB)"
      const [failed] = yield* state
      assert.strictEqual(failed?.[0], "unhealthy")
      assert.include(failed?.[1] ?? "", stopped)
    }).pipe(Effect.scoped, Effect.provide(withoutAutoscaler)))

  it.effect("begin before a job arrives, for releases too; the code of a release is not built again", () =>
    Effect.gen(function*() {
      const prepared: Array<string> = []
      const pool = WorkerPool.of({
        supports: ["container", "handler"],
        prepare: ({ id }) => Effect.sync(() => void prepared.push(id)),
        orphans: [],
        start: () => Effect.never
      })
      yield* Layer.build(Autoscaler.layer().pipe(Layer.provide(Layer.succeed(WorkerPool, pool))))
      const endpoints = yield* EndpointStore.EndpointStore
      const image = { type: "container", image: "acme/whisper:2" } as const
      for (const spec of [{ id: "image", source: image }, { id: "code" }]) {
        const endpoint = yield* endpointOf(spec)
        yield* endpoints.put(endpoint)
        yield* endpoints.put({ ...endpoint, id: EndpointId.make(`${spec.id}-release`), release: 1 })
      }
      yield* after(1_000)
      assert.deepStrictEqual(prepared.toSorted(), ["code", "image", "image-release"])
    }).pipe(Effect.scoped, Effect.provide(withoutAutoscaler)))
})
