import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import {
  EXIT_GRACE_MILLIS,
  FORGET_AFTER_CUT_MILLIS,
  FORGET_AFTER_MILLIS,
  layer,
  MAX_IDLE_WORKERS,
  WorkerRegistry
} from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { REMEMBERED } from "../src/workers/WorkerStarts.ts"

const E = EndpointId.make("letters")
const OTHER = EndpointId.make("numbers")

const test = (title: string, body: (registry: WorkerRegistry["Service"]) => Effect.Effect<void>) =>
  it.effect(title, () => Effect.flatMap(WorkerRegistry, body).pipe(Effect.provide(layer)))

const only = (registry: WorkerRegistry["Service"]) =>
  Effect.map(
    registry.list(E),
    (workers) => workers.length === 1 ? workers[0]! : assert.fail(`there are ${workers.length} workers`)
  )

describe("WorkerRegistry", () => {
  test("reports a worker's state from its start through its jobs to its removal", (registry) =>
    Effect.gen(function*() {
      yield* registry.starting(E, "ann")
      assert.deepInclude(yield* only(registry), { id: "ann", state: "initializing", firstSeenAt: 0, idleSince: null, jobs: [] })
      yield* TestClock.adjust(1_000)
      yield* registry.touch(E, "ann")
      assert.deepInclude(yield* only(registry), { state: "idle", lastSeenAt: 1_000, idleSince: 1_000, firstSeenAt: 0 })
      yield* TestClock.adjust(1_000)
      yield* registry.assigned(E, "ann", "a")
      yield* registry.assigned(E, "ann", "b")
      assert.deepInclude(yield* only(registry), { state: "running", idleSince: null, jobs: ["a", "b"] })
      yield* registry.released(E, "ann", "a")
      assert.deepInclude(yield* only(registry), { state: "running", idleSince: null })
      yield* TestClock.adjust(1_000)
      yield* registry.released(E, "ann", "b")
      assert.deepInclude(yield* only(registry), { state: "idle", idleSince: 3_000, jobs: [] })
      yield* registry.removed(E, "ann")
      assert.deepStrictEqual(yield* registry.list(E), [])
    }))

  test("reports a worker's release, its last job, its last heartbeat and the version that the heartbeat named", (registry) =>
    Effect.gen(function*() {
      yield* registry.starting(E, "ann", 7)
      registry.versioned(E, "unknown", "1.0.0")
      yield* registry.assigned(E, "ann", "a")
      for (const key of ["heartbeatAt", "lastJob", "version"]) assert.notProperty(yield* only(registry), key)
      yield* TestClock.adjust(1_000)
      registry.renewed(E, "ann", [3_000], "heartbeat")
      registry.versioned(E, "ann", "1".repeat(5_000))
      yield* TestClock.adjust(1_000)
      registry.renewed(E, "ann", [3_000])
      yield* registry.released(E, "ann", "a")
      assert.deepInclude(yield* only(registry), { release: 7, heartbeatAt: 1_000, lastJob: "a", version: "1".repeat(100) })
    }))

  test("reports a setup with its limit until the worker asks for a job, and remembers when it began", (registry) =>
    Effect.gen(function*() {
      yield* registry.starting(E, "ann")
      yield* TestClock.adjust(100)
      yield* registry.settingUp(E, "ann", 60_000)
      yield* TestClock.adjust(50)
      // A repeated notice changes nothing.
      yield* registry.settingUp(E, "ann", 90_000)
      const setup = { startedAt: 100, limitAt: 60_100 }
      assert.deepInclude(yield* only(registry), { state: "initializing", setup })
      assert.deepInclude(registry.startOf(E, "ann"), { calledAt: 100, setupAt: 100, readyAt: null })
      yield* TestClock.adjust(900)
      yield* registry.touch(E, "ann", "take")
      assert.notProperty(yield* only(registry), "setup")
      assert.deepInclude(yield* only(registry), { state: "idle" })
      assert.deepInclude(registry.startOf(E, "ann"), { calledAt: 100, setupAt: 100, readyAt: 1_050 })
      // A notice that was late.
      yield* registry.settingUp(E, "ann", 60_000)
      assert.deepInclude(yield* only(registry), { state: "idle" })
      assert.notProperty(yield* only(registry), "setup")
    }))

  test("reports the pull of an image with its current progress until it ends, and remembers its end", (registry) =>
    Effect.gen(function*() {
      let doneLayers = 0
      const progress = () => ({ layers: 3, doneLayers, bytes: 0, doneBytes: 0 })
      registry.pulling(E, "unknown", "a:1", progress)
      registry.pulled(E, "unknown")
      assert.deepStrictEqual(yield* registry.list(E), [])
      yield* registry.starting(E, "ann")
      registry.pulled(E, "ann")
      assert.notProperty(registry.startOf(E, "ann"), "pulledAt")
      registry.pulling(E, "ann", "a:1", progress)
      doneLayers = 2
      const pull = { image: "a:1", progress: { layers: 3, doneLayers: 2, bytes: 0, doneBytes: 0 } }
      assert.deepInclude(yield* only(registry), { state: "initializing", pull })
      yield* TestClock.adjust(700)
      registry.pulled(E, "ann")
      assert.notProperty(yield* only(registry), "pull")
      yield* TestClock.adjust(50)
      yield* registry.created(E, "ann")
      assert.deepInclude(registry.startOf(E, "ann"), { requestedAt: 0, pulledAt: 700, createdAt: 750 })
    }))

  test("does not forget a worker without a pool while its setup runs", (registry) =>
    Effect.gen(function*() {
      yield* registry.settingUp(E, "external", 600_000)
      yield* TestClock.adjust(599_999)
      assert.deepInclude(yield* only(registry), { state: "initializing" })
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* registry.list(E), [])
    }))

  test("remembers when a worker was requested, created and first heard from, even after its removal", (registry) =>
    Effect.gen(function*() {
      yield* TestClock.adjust(10)
      yield* registry.starting(E, "ann")
      const start = () => registry.startOf(E, "ann")
      assert.deepStrictEqual(start(), { requestedAt: 10, createdAt: null, calledAt: null, readyAt: null })
      yield* TestClock.adjust(5)
      yield* registry.created(E, "ann")
      yield* TestClock.adjust(100)
      yield* registry.touch(E, "ann")
      yield* TestClock.adjust(20)
      yield* registry.touch(E, "ann", "take")
      yield* TestClock.adjust(1_000)
      for (const call of [undefined, "take"] as const) yield* registry.touch(E, "ann", call)
      yield* registry.removed(E, "ann")
      yield* registry.touch(E, "ann", "take")
      assert.deepStrictEqual(start(), { requestedAt: 10, createdAt: 15, calledAt: 115, readyAt: 135 })
      assert.isUndefined(registry.startOf(OTHER, "ann"))
      assert.strictEqual(registry.createdAt, 0)
      yield* registry.starting(E, "bob")
      yield* registry.created(E, "bob", true)
      assert.isTrue(registry.startOf(E, "bob")?.standby)
    }))

  test("remembers the starts of the last workers, and none of workers without a pool", (registry) =>
    Effect.gen(function*() {
      for (let at = 0; at < REMEMBERED + 2; at += 1) {
        yield* registry.starting(E, `w-${at}`)
      }
      assert.isUndefined(registry.startOf(E, "w-1"))
      assert.isDefined(registry.startOf(E, "w-2"))
      yield* registry.touch(E, "of no pool", "take")
      assert.isUndefined(registry.startOf(E, "of no pool"))
      assert.isDefined(registry.startOf(E, "w-2"))
    }))

  test("forgets the longest silent idle workers when there are too many, but no worker of a pool and none with a job", (registry) =>
    Effect.gen(function*() {
      yield* registry.starting(E, "pooled")
      yield* registry.touch(E, "busy")
      yield* registry.assigned(E, "busy", "a")
      yield* registry.touch(OTHER, "neighbour")
      for (let at = 0; at < MAX_IDLE_WORKERS + 500; at += 1) {
        if (at % 1_000 === 0) yield* TestClock.adjust(1)
        yield* registry.touch(E, `invented ${at}`)
      }
      const known = new Set((yield* registry.list(E)).map(({ id }) => id))
      assert.isAtMost(known.size, MAX_IDLE_WORKERS + 2)
      assert.isAbove(known.size, MAX_IDLE_WORKERS - 1_000)
      assert.isTrue(known.has("pooled") && known.has("busy") && known.has(`invented ${MAX_IDLE_WORKERS + 499}`))
      assert.isFalse(known.has("invented 0"))
      assert.strictEqual((yield* registry.list(OTHER)).length, 1)
    }))

  test("keeps the start of the idle time when an idle worker calls", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "ann")
      yield* TestClock.adjust(5_000)
      yield* registry.touch(E, "ann")
      yield* registry.released(E, "ann", "never held")
      assert.deepInclude(yield* only(registry), { idleSince: 0, lastSeenAt: 5_000 })
    }))

  test("tells the calls of a worker that has exited, unless that is taken back, from those of its successor", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "ann")
      const leaving = registry.leaving(E, "ann")
      const undo = registry.exited(E, "ann")
      assert.strictEqual(leaving(), "gone")
      undo()
      assert.isUndefined(leaving())
      registry.exited(E, "ann")
      yield* registry.removed(E, "ann")
      yield* registry.touch(E, "ann")
      assert.strictEqual(leaving(), "gone")
      assert.isUndefined(registry.leaving(E, "ann")())
    }))

  test("reports a draining worker as draining, with and without a job", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "ann")
      yield* registry.assigned(E, "ann", "a")
      assert.isUndefined(registry.leaving(E, "ann")())
      yield* registry.drain(E, "ann")
      assert.strictEqual(registry.leaving(E, "ann")(), "draining")
      assert.deepInclude(yield* only(registry), { state: "draining", jobs: ["a"] })
      yield* registry.released(E, "ann", "a")
      assert.deepInclude(yield* only(registry), { state: "draining" })
      // An unknown worker cannot drain.
      yield* registry.drain(E, "bob")
      assert.isUndefined(registry.leaving(E, "bob")())
    }))

  test("treats a call long after the announced exit as a new worker, unless a pool manages it", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "external")
      yield* registry.starting(E, "pooled")
      yield* registry.touch(E, "busy")
      yield* registry.assigned(E, "busy", "a")
      for (const worker of ["external", "pooled", "busy"]) yield* registry.drain(E, worker)
      yield* TestClock.adjust(EXIT_GRACE_MILLIS)
      for (const worker of ["external", "pooled", "busy"]) {
        yield* registry.touch(E, worker)
        assert.strictEqual(registry.leaving(E, worker)(), "draining")
      }
      yield* TestClock.adjust(1)
      for (const worker of ["external", "pooled", "busy"]) yield* registry.touch(E, worker)
      assert.isUndefined(registry.leaving(E, "external")())
      assert.strictEqual(registry.leaving(E, "pooled")(), "draining")
      assert.strictEqual(registry.leaving(E, "busy")(), "draining")
      const external = (yield* registry.list(E)).find((worker) => worker.id === "external")
      assert.deepInclude(external, { state: "idle", idleSince: EXIT_GRACE_MILLIS + 1 })
    }))

  test("reports why a worker cannot work until the worker calls again", (registry) =>
    Effect.gen(function*() {
      yield* registry.failing(E, "ann", "unhealthy", "no GPU")
      assert.deepInclude(yield* only(registry), { state: "unhealthy", reason: "no GPU" })
      yield* registry.failing(E, "ann", "throttled", "no room on this machine")
      assert.deepInclude(yield* only(registry), { state: "throttled", reason: "no room on this machine" })
      yield* registry.touch(E, "ann")
      assert.deepInclude(yield* only(registry), { state: "idle", reason: null })
    }))

  test("removes a silent worker without a pool, unless it runs a job", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "external")
      yield* registry.starting(E, "pooled")
      yield* registry.assigned(E, "busy", "a")
      yield* TestClock.adjust(FORGET_AFTER_MILLIS)
      assert.strictEqual((yield* registry.list(E)).length, 3)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual((yield* registry.list(E)).map((worker) => worker.id), ["pooled", "busy"])
    }))

  test("keeps a worker without a pool while its poll is held open, and removes it soon after it closed its connection", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "external")
      const answered = registry.polling(E, "external")
      yield* TestClock.adjust("90 seconds")
      assert.strictEqual((yield* registry.list(E)).length, 1)
      answered(false)
      yield* TestClock.adjust(FORGET_AFTER_MILLIS)
      assert.strictEqual((yield* registry.list(E)).length, 1)

      yield* registry.touch(E, "external")
      registry.polling(E, "external")(true)
      yield* TestClock.adjust(FORGET_AFTER_CUT_MILLIS)
      yield* registry.touch(E, "external")
      yield* TestClock.adjust(1)
      assert.strictEqual((yield* registry.list(E)).length, 1, "it has called since")
      registry.polling(E, "external")(true)
      yield* TestClock.adjust(FORGET_AFTER_CUT_MILLIS + 1)
      assert.deepStrictEqual(yield* registry.list(E), [])
    }))

  test("gives no jobs to an external worker that an operator has drained, until it announces its exit and calls again", (registry) =>
    Effect.gen(function*() {
      registry.leave(E, "unknown", "drain")
      assert.deepStrictEqual(yield* registry.list(E), [])
      yield* registry.touch(E, "ann")
      registry.leave(E, "ann", "drain")
      for (let calls = 0; calls < 3; calls++) {
        yield* TestClock.adjust(EXIT_GRACE_MILLIS + 1)
        yield* registry.touch(E, "ann")
        assert.deepInclude(yield* only(registry), { state: "draining", leaving: "drain" })
      }
      registry.leave(E, "ann", "stop")
      registry.leave(E, "ann", "drain")
      assert.deepInclude(yield* only(registry), { state: "draining", leaving: "stop" }, "a stop is not taken back")
      yield* registry.drain(E, "ann", "announced")
      yield* registry.touch(E, "ann")
      assert.strictEqual(registry.leaving(E, "ann")(), "draining", "the call was sent before the exit")
      yield* TestClock.adjust(EXIT_GRACE_MILLIS + 1)
      yield* registry.touch(E, "ann")
      const again = yield* only(registry)
      assert.deepInclude(again, { state: "idle" })
      assert.notProperty(again, "leaving")
    }))

  test("gives an external worker jobs after its exit, also when it had announced the exit before an operator stopped it", (registry) =>
    Effect.gen(function*() {
      yield* registry.touch(E, "ann")
      yield* registry.drain(E, "ann", "announced")
      yield* TestClock.adjust(1_000)
      registry.leave(E, "ann", "stop")
      assert.deepInclude(yield* only(registry), { state: "draining", leaving: "stop" })
      yield* TestClock.adjust(EXIT_GRACE_MILLIS)
      yield* registry.touch(E, "ann")
      const again = yield* only(registry)
      assert.deepInclude(again, { state: "idle" })
      assert.notProperty(again, "leaving")
    }))

  test("shows a worker that is drained before its first call as draining, and forgets the request with the worker", (registry) =>
    Effect.gen(function*() {
      yield* registry.starting(E, "ann")
      registry.leave(E, "ann", "drain")
      assert.deepInclude(yield* only(registry), { state: "draining", idleSince: null, pooled: true })
      yield* registry.removed(E, "ann")
      yield* registry.touch(E, "bob")
      registry.leave(E, "bob", "stop")
      yield* TestClock.adjust(FORGET_AFTER_MILLIS + 1)
      assert.deepStrictEqual(yield* registry.list(E), [])
      yield* registry.touch(E, "bob")
      assert.deepInclude(yield* only(registry), { id: "bob", state: "idle" })
    }))

  test("shows a failure that the pool does not remove for three minutes", (registry) =>
    Effect.gen(function*() {
      yield* registry.failing(E, "ann", "unhealthy", "no GPU")
      yield* TestClock.adjust("3 minutes")
      assert.strictEqual((yield* registry.list(E)).length, 1)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* registry.list(E), [])
    }))

  test("keeps the workers of endpoints apart, even workers with the same name", (registry) =>
    Effect.gen(function*() {
      yield* registry.assigned(E, "ann", "a")
      yield* registry.touch(OTHER, "ann")
      yield* registry.drain(OTHER, "ann")
      assert.deepInclude(yield* only(registry), { state: "running" })
      yield* registry.removed(OTHER, "ann")
      assert.strictEqual((yield* registry.list(E)).length, 1)
      assert.deepStrictEqual(yield* registry.list(OTHER), [])
    }))
})
