import { assert, describe, it } from "@effect/vitest"
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import * as PlatformEvents from "@stint/queue/PlatformEvents"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as BuildStore from "@stint/store/BuildStore"
import * as EndpointStore from "@stint/store/EndpointStore"
import { type Depth, JobStore } from "@stint/store/JobStore"
import { StoreCondition } from "@stint/store/StoreCondition"
import { TestReceiver } from "@stint/webhooks-testing"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { defaults } from "../src/AlertRules.ts"
import * as AlertWatch from "../src/AlertWatch.ts"

const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "hello", source: { type: "external" }, createdAt: 0 })

const depth: Depth = {
  waiting: 1,
  waitingLow: 0,
  delayed: 0,
  running: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  isolated: 0,
  oldestQueuedAt: -Duration.toMillis("1 day")
}

const Said = Schema.fromJsonString(Schema.Struct({ type: Schema.String, fingerprint: Schema.String }))

/** A platform on which the oldest job of each endpoint is too old, and a node that owns all endpoints until `move`. */
const watch = () =>
  Effect.gen(function*() {
    let owned = true
    let isLow = false
    const store = Layer.effect(
      EndpointStore.EndpointStore,
      Effect.map(EndpointStore.EndpointStore, (all) => ({
        ...all,
        list: Effect.map(all.list, (list) => owned ? list : [])
      }))
    ).pipe(Layer.provideMerge(EndpointStore.layerMemory))
    const watched = Layer.mergeAll(
      store,
      Layer.mock(JobStore, { durability: "D2", depth: () => Effect.succeed(depth) }),
      WorkerRegistry.layer,
      BuildStore.layerMemory,
      Layer.succeed(StoreCondition, { isLow: () => isLow }),
      Layer.succeed(PublicAddress, { baseUrl: "http://127.0.0.1:4600" })
    )
    const context = yield* Layer.build(
      AlertWatch.layer({
        receivers: {
          urls: ["https://a.example"],
          secret: Redacted.make(`whsec_${Buffer.alloc(32, 7).toString("base64")}`),
          timeout: Duration.seconds(1)
        },
        thresholds: defaults,
        repeat: Duration.hours(4)
      }).pipe(Layer.provideMerge(watched))
    )
    const { received } = yield* TestReceiver.TestReceiver
    return {
      builds: yield* Effect.provide(BuildStore.BuildStore, context),
      endpoints: yield* Effect.provide(EndpointStore.EndpointStore, context),
      move: () => {
        owned = false
      },
      setLow: (low: boolean) => {
        isLow = low
      },
      /** Waits for some time, and returns the messages so far. */
      after: (time: Duration.Input) =>
        Effect.as(TestClock.adjust(time), received).pipe(
          Effect.flatMap(Effect.forEach(({ body }) => Effect.orDie(Schema.decodeUnknownEffect(Said)(body)))),
          Effect.map((all) => all.map(({ fingerprint, type }) => `${type} ${fingerprint}`))
        )
    }
  })

const layer = Layer.merge(TestReceiver.layer, PlatformEvents.layer())

describe("the watch for alerts", () => {
  it.effect("says nothing when an endpoint has moved to another node, which reports it with the same fingerprint", () =>
    Effect.gen(function*() {
      const { after, endpoints, move } = yield* watch()
      yield* endpoints.put(endpoint)
      assert.deepStrictEqual(yield* after("1 minute"), ["alert.firing queue_old/hello"])
      move()
      assert.deepStrictEqual(yield* after("1 hour"), ["alert.firing queue_old/hello"])
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("resolves the alerts of an endpoint that was deleted", () =>
    Effect.gen(function*() {
      const { after, endpoints } = yield* watch()
      yield* endpoints.put(endpoint)
      yield* after("1 minute")
      yield* endpoints.remove(endpoint.id)
      assert.deepStrictEqual(yield* after("1 hour"), ["alert.firing queue_old/hello", "alert.resolved queue_old/hello"])
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("reports that the store lacks space until there is enough", () =>
    Effect.gen(function*() {
      const { after, setLow } = yield* watch()
      setLow(true)
      assert.deepStrictEqual(yield* after("1 minute"), ["alert.firing disk_low"])
      setLow(false)
      assert.deepStrictEqual((yield* after("5 minutes")).slice(1), ["alert.resolved disk_low"])
    }).pipe(Effect.scoped, Effect.provide(layer)))

  it.effect("reports the failed first build of an endpoint that does not exist yet, until a build succeeds or the builds are deleted", () =>
    Effect.gen(function*() {
      const { after, builds } = yield* watch()
      const { publish } = yield* PlatformEvents.PlatformEvents
      const build = Effect.fnUntraced(function*(name: string) {
        const id = Schema.decodeUnknownSync(EndpointId)(name)
        yield* builds.saveSettings(id, { repository: "https://git.example/words.git" })
        yield* builds.create({ endpoint: id, createdAt: 0, createdBy: "ada", trigger: "manual" })
        publish({ type: "build.ended", endpoint: id, build: 1, state: "failed" })
        return id
      })
      yield* build("one")
      const two = yield* build("two")
      assert.deepStrictEqual(yield* after("1 minute"), ["alert.firing build_failed/one", "alert.firing build_failed/two"])
      publish({ type: "build.ended", endpoint: "one", build: 2, state: "succeeded" })
      assert.deepStrictEqual((yield* after("5 minutes")).slice(2), ["alert.resolved build_failed/one"])
      yield* builds.removeAll(two)
      assert.deepStrictEqual((yield* after("5 minutes")).slice(3), ["alert.resolved build_failed/two"])
    }).pipe(Effect.scoped, Effect.provide(layer)))
})
