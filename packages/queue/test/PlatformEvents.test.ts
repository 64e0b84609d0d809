import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { isEventId, layer, type NewPlatformEvent, PlatformEvents, type ReadEvent } from "../src/events/PlatformEvents.ts"

const submitted = (job: number, endpoint = "hello"): NewPlatformEvent => ({ type: "job.submitted", endpoint, job: String(job) })

/** The numbers of the jobs, and `missed N`. */
const jobsOf = (events: ReadonlyArray<ReadEvent>): ReadonlyArray<string> =>
  events.map(({ event }) => event.type === "missed" ? `missed ${event.count}` : "job" in event ? event.job : event.type)

const ofHello = (event: NewPlatformEvent) => "endpoint" in event && event.endpoint === "hello"

/** A reader that the test can end. */
const openReader = (options: { readonly after?: string; readonly accepts?: (event: NewPlatformEvent) => boolean } = {}) =>
  Effect.gen(function*() {
    const events = yield* PlatformEvents
    const scope = yield* Scope.make()
    const { next, position } = yield* Scope.provide(events.open(options), scope)
    return { next, position, end: Scope.close(scope, Exit.void) }
  })

describe("the events of a platform", () => {
  it.effect("are not made without readers, nor by default", () =>
    Effect.gen(function*() {
      assert.isFalse((yield* PlatformEvents).isOpen())
      yield* Effect.gen(function*() {
        const events = yield* PlatformEvents
        assert.isFalse(events.isOpen())
        const { end } = yield* openReader()
        assert.isTrue(events.isOpen())
        yield* end
        yield* TestClock.adjust("1 minute")
        assert.isFalse(events.isOpen())
        yield* Effect.scoped(Effect.andThen(events.listen(() => {}), Effect.sync(() => assert.isTrue(events.isOpen()))))
        assert.isFalse(events.isOpen())
      }).pipe(Effect.provide(layer()))
    }))

  it.effect("reach every reader and listener in order, from the moment it begins to read", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const heard: Array<string> = []
      yield* events.listen((event) => void heard.push(event.type))
      const first = yield* openReader()
      events.publish(submitted(1))
      const second = yield* openReader()
      events.publish(submitted(2))
      assert.deepStrictEqual(jobsOf(yield* first.next), ["1", "2"])
      assert.deepStrictEqual(jobsOf(yield* second.next), ["2"])
      const waiting = yield* Effect.forkChild(first.next, { startImmediately: true })
      events.publish(submitted(3))
      assert.deepStrictEqual(jobsOf(yield* Fiber.join(waiting)), ["3"])
      assert.strictEqual(heard.length, 3)
    }).pipe(Effect.provide(layer()), Effect.scoped))

  it.effect("tell a slow reader exactly how many of the events that it asked for were overwritten", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const all = yield* openReader()
      const filtered = yield* openReader({ accepts: ofHello })
      for (let job = 0; job < 10; job += 1) events.publish(submitted(job, job % 2 === 0 ? "hello" : "other"))
      assert.deepStrictEqual(jobsOf(yield* all.next), ["missed 6", "6", "7", "8", "9"])
      assert.deepStrictEqual(jobsOf(yield* filtered.next), ["missed 3", "6", "8"])
      // A reader that has caught up has missed nothing more.
      events.publish(submitted(10))
      assert.deepStrictEqual(jobsOf(yield* all.next), ["10"])
      assert.deepStrictEqual(jobsOf(yield* filtered.next), ["10"])
    }).pipe(Effect.provide(layer({ capacity: 4 }))))

  it.effect("are neither lost nor invented, in any order of publishing and reading", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const reader = yield* openReader()
      let published = 0
      let received = 0
      let missed = 0
      for (let round = 1; round < 60; round += 1) {
        for (let more = (round * 7) % 11 + 1; more > 0; more -= 1) events.publish(submitted(published++))
        for (const { event } of yield* reader.next) {
          if (event.type === "missed") missed += event.count ?? Number.NaN
          else if ("job" in event) {
            assert.strictEqual(Number(event.job), received + missed)
            received += 1
          }
        }
      }
      assert.strictEqual(received + missed, published)
      assert.isAbove(missed, 0)
    }).pipe(Effect.provide(layer({ capacity: 8 }))))

  it.effect("let a reader resume after its last event within a minute, and say so when events may be missing", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const first = yield* openReader()
      events.publish(submitted(1))
      const [{ id } = { id: "" }] = yield* first.next
      yield* first.end
      events.publish(submitted(2))
      yield* TestClock.adjust("59 seconds")
      const second = yield* openReader({ after: id })
      assert.deepStrictEqual(jobsOf(yield* second.next), ["2"])
      yield* second.end
      yield* TestClock.adjust("1 minute")
      // No reader has been connected for a minute, so events are no longer kept.
      events.publish(submitted(3))
      const third = yield* openReader({ after: id })
      events.publish(submitted(4))
      assert.deepStrictEqual(jobsOf(yield* third.next), ["missed null", "4"])
    }).pipe(Effect.provide(layer())))

  it.effect("report an unknown number for the id of an event that was overwritten, or of another platform", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const first = yield* openReader()
      events.publish(submitted(0))
      const [{ id } = { id: "" }] = yield* first.next
      for (let job = 1; job < 10; job += 1) events.publish(submitted(job))
      for (const after of [id, "another-1-3"]) {
        const reader = yield* openReader({ after })
        assert.deepStrictEqual(jobsOf(yield* reader.next), ["missed null", "8", "9"])
        yield* reader.end
      }
    }).pipe(Effect.provide(layer({ capacity: 2 }))))

  it.effect("give a reader that was connected before a restart an id from which it can resume, before there is any event", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const first = yield* openReader({ after: "another-1-3" })
      const [{ id } = { id: "" }] = yield* first.next
      assert.isTrue(isEventId(id), id)
      const second = yield* openReader({ after: id })
      events.publish(submitted(1))
      assert.deepStrictEqual(jobsOf(yield* second.next), ["1"])
    }).pipe(Effect.provide(layer())))

  it.effect("that are published together are read together, after the change that published them", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const reader = yield* openReader()
      const waiting = yield* Effect.forkChild(reader.next, { startImmediately: true })
      for (let job = 0; job < 3; job += 1) events.publish(submitted(job))
      assert.isUndefined(waiting.pollUnsafe())
      assert.deepStrictEqual(jobsOf(yield* Fiber.join(waiting)), ["0", "1", "2"])
    }).pipe(Effect.provide(layer())))

  it.effect("end for each reader after its time, with the position from which another reader continues", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const first = yield* openReader({ accepts: ofHello })
      const waiting = yield* Effect.forkChild(first.next, { startImmediately: true })
      events.publish(submitted(1, "other"))
      yield* TestClock.adjust("299 seconds")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(waiting), [])
      events.publish(submitted(2))
      // Its slot is free, although its scope is still open.
      const second = yield* openReader({ accepts: ofHello, after: first.position() ?? "" })
      assert.deepStrictEqual(jobsOf(yield* second.next), ["2"])
      assert.deepStrictEqual(yield* first.next, [])
    }).pipe(Effect.provide(layer({ maxReaders: 1 }))))

  it.effect("that a reader missed are reported before it ends", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const reader = yield* openReader()
      for (let job = 0; job < 5; job += 1) events.publish(submitted(job))
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(jobsOf(yield* reader.next), ["missed 3"])
      assert.deepStrictEqual(yield* reader.next, [])
      const resumed = yield* openReader({ after: reader.position() ?? "" })
      assert.deepStrictEqual(jobsOf(yield* resumed.next), ["3", "4"])
    }).pipe(Effect.provide(layer({ capacity: 2 }))))

  it.effect("leave half of the slots to readers of all endpoints", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      yield* Effect.replicateEffect(events.open({ isLimited: true }), 2)
      assert.strictEqual((yield* Effect.flip(Effect.scoped(events.open({ isLimited: true })))).limit, 2)
      yield* Effect.replicateEffect(events.open({}), 2)
      assert.strictEqual((yield* Effect.flip(Effect.scoped(events.open({})))).limit, 4)
    }).pipe(Effect.provide(layer({ maxReaders: 4 })), Effect.scoped))

  it.effect("are read by a bounded number of readers, and end with the server", () =>
    Effect.gen(function*() {
      const events = yield* PlatformEvents
      const first = yield* openReader()
      yield* openReader()
      const refused = yield* Effect.flip(Effect.scoped(events.open({})))
      assert.strictEqual(refused.limit, 2)
      const waiting = yield* Effect.forkChild(first.next, { startImmediately: true })
      yield* events.close
      assert.deepStrictEqual(yield* Fiber.join(waiting), [])
    }).pipe(Effect.provide(layer({ maxReaders: 2 }))))
})
