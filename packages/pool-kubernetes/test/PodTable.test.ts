import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import { TestClock } from "effect/testing"
import { ApiRefused, type KubernetesError } from "../src/KubernetesError.ts"
import type { Pod } from "../src/Pod.ts"
import type { Listed, PodsApi } from "../src/PodsApi.ts"
import * as PodTable from "../src/PodTable.ts"

const podOf = (name: string): Pod => ({ metadata: { name }, status: { phase: "Running" } })

const gone = new ApiRefused({ status: 410, reason: "Expired", problem: "too old resource version" })

/** An API whose lists and watches the test answers. */
const scripted = Effect.gen(function*() {
  const lists = yield* Queue.unbounded<Deferred.Deferred<Listed, KubernetesError>>()
  const watches = yield* Queue.unbounded<{ readonly version: string; readonly end: Deferred.Deferred<void, KubernetesError> }>()
  const api: PodsApi = {
    create: () => Effect.die("not used"),
    remove: () => Effect.die("not used"),
    logs: () => Effect.die("not used"),
    list: Effect.gen(function*() {
      const answer = yield* Deferred.make<Listed, KubernetesError>()
      yield* Queue.offer(lists, answer)
      return yield* Deferred.await(answer)
    }),
    watch: Effect.fnUntraced(function*(version) {
      const end = yield* Deferred.make<void, KubernetesError>()
      yield* Queue.offer(watches, { version, end })
      yield* Deferred.await(end)
    })
  }
  const table = PodTable.make(api)
  const run = (...pods: ReadonlyArray<Pod>) =>
    Effect.forkScoped(table.run({ pods, version: "1" }, ({ metadata }) => Effect.die(`nobody follows ${metadata.name}`)))
  const next = Effect.fnUntraced(function*(events: Queue.Queue<PodTable.Seen>) {
    return (yield* Queue.take(events))._tag
  })
  return { lists, next, run, table, watches }
})

describe("the table of pods", () => {
  it.live("does not treat a pod created after the list request as removed", () =>
    Effect.gen(function*() {
      const { lists, next, run, table, watches } = yield* scripted
      const known = table.follow("known")
      const created = table.follow("created")
      yield* run(podOf("known"))
      assert.strictEqual(yield* next(known), "Pod")
      const first = yield* Queue.take(watches)
      yield* Deferred.fail(first.end, gone)
      const list = yield* Queue.take(lists)
      table.add(podOf("created"))
      assert.strictEqual(yield* next(created), "Pod")
      yield* Deferred.succeed(list, { pods: [], version: "2" })
      assert.strictEqual((yield* Queue.take(watches)).version, "2")
      assert.strictEqual(yield* next(known), "Removed")
      assert.isTrue(Option.isNone(yield* Queue.poll(created)))
    }))

  it.live("does not treat a pod created between the first list request and its response as removed", () =>
    Effect.gen(function*() {
      const { run, table, watches } = yield* scripted
      const created = table.follow("created")
      table.add(podOf("created"))
      yield* run()
      yield* Queue.take(watches)
      assert.deepStrictEqual((yield* Queue.takeAll(created)).map(({ _tag }) => _tag), ["Pod"])
    }))

  it.effect("reads the list again after a watch that ended at once without an event", () =>
    Effect.gen(function*() {
      const { lists, next, run, table, watches } = yield* scripted
      const pod = table.follow("changed")
      yield* run(podOf("changed"))
      assert.strictEqual(yield* next(pod), "Pod")
      yield* Deferred.succeed((yield* Queue.take(watches)).end, undefined)
      yield* TestClock.adjust("1 second")
      yield* Deferred.succeed(yield* Queue.take(lists), { pods: [], version: "2" })
      assert.strictEqual(yield* next(pod), "Removed")
      assert.strictEqual((yield* Queue.take(watches)).version, "2")
    }))
})
