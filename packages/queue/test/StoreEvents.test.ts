import { assert, describe, it } from "@effect/vitest"
import { Endpoint } from "@stint/contract/Endpoint"
import * as BuildStore from "@stint/store/BuildStore"
import * as EndpointStore from "@stint/store/EndpointStore"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { layer as layerEvents, type NewPlatformEvent, PlatformEvents } from "../src/events/PlatformEvents.ts"
import * as StoreEvents from "../src/events/StoreEvents.ts"

const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "hello", source: { type: "external" }, createdAt: 0 })

const stores = StoreEvents.layer.pipe(
  Layer.provideMerge(Layer.merge(EndpointStore.layerMemory, BuildStore.layerMemory)),
  Layer.provideMerge(layerEvents())
)

/** What the operation published. */
const heard = Effect.fnUntraced(function*<A, E, R>(operation: Effect.Effect<A, E, R>) {
  const { listen } = yield* PlatformEvents
  const events: Array<NewPlatformEvent> = []
  yield* Effect.scoped(Effect.andThen(listen((event) => void events.push(event)), operation))
  return events
})

describe("the events of the stores", () => {
  it.effect("report an endpoint that is created, changed or removed, and nothing when nothing changed", () =>
    Effect.gen(function*() {
      const store = yield* EndpointStore.EndpointStore
      assert.deepStrictEqual(yield* heard(store.create(endpoint)), [{ type: "endpoint.changed", endpoint: "hello" }])
      assert.deepStrictEqual(yield* heard(store.create(endpoint)), [])
      assert.deepStrictEqual(yield* heard(store.put(endpoint)), [{ type: "endpoint.changed", endpoint: "hello" }])
      assert.deepStrictEqual(yield* heard(store.remove(endpoint.id)), [{ type: "endpoint.removed", endpoint: "hello" }])
      assert.deepStrictEqual(yield* heard(store.remove(endpoint.id)), [])
    }).pipe(Effect.provide(stores)))

  it.effect("report a release with its author, and how its rollout ends, once", () =>
    Effect.gen(function*() {
      const releases = yield* ReleaseStore
      const running = (program: string) => ({ ...endpoint, source: { type: "command" as const, command: [program] as const } })
      const deployment = { settings: running("first"), createdAt: 0, createdBy: "configuration" }
      assert.deepStrictEqual(yield* heard(releases.deploy(null, deployment)), [
        { type: "release.deployed", endpoint: "hello", release: 1, by: "configuration" },
        { type: "endpoint.changed", endpoint: "hello" }
      ])
      assert.deepStrictEqual(yield* heard(releases.deploy(null, deployment)), [])
      const [rollback] = yield* heard(releases.deploy(1, { ...deployment, settings: running("second"), rollbackOf: 1 }))
      assert.deepStrictEqual(rollback, {
        type: "release.deployed",
        endpoint: "hello",
        release: 2,
        by: "configuration",
        rollbackOf: 1
      })
      const failed = { _tag: "Failed" as const, reason: "x".repeat(1_000) }
      assert.deepStrictEqual(yield* heard(releases.settle(endpoint.id, 2, failed)), [
        { type: "release.failed", endpoint: "hello", release: 2, reason: "x".repeat(500) }
      ])
      assert.deepStrictEqual(yield* heard(releases.settle(endpoint.id, 2, failed)), [])
    }).pipe(Effect.provide(stores)))

  it.effect("report a build when it is queued and when it has ended", () =>
    Effect.gen(function*() {
      const builds = yield* BuildStore.BuildStore
      yield* builds.saveSettings(endpoint.id, { repository: "https://git.example.com/a.git" })
      const request = { endpoint: endpoint.id, createdAt: 0, createdBy: "ci", trigger: "manual" as const }
      assert.deepStrictEqual(yield* heard(builds.create(request)), [{ type: "build.queued", endpoint: "hello", build: 1 }])
      const build = yield* builds.get(endpoint.id, 1)
      assert.isDefined(build)
      if (build === undefined) return
      assert.deepStrictEqual(yield* heard(builds.update({ ...build, state: "running" })), [])
      const ended = { ...build, state: "failed" as const, reason: "No such commit." }
      assert.deepStrictEqual(yield* heard(builds.update(ended)), [
        { type: "build.ended", endpoint: "hello", build: 1, state: "failed", reason: "No such commit." }
      ])
      assert.deepStrictEqual(yield* heard(builds.update(ended)), [])
    }).pipe(Effect.provide(stores)))
})
