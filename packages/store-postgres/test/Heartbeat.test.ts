import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Heartbeat from "../src/Heartbeat.ts"

/** A heartbeat that is received as soon as it is sent. */
const beat = (heartbeat: Heartbeat.Heartbeat, endpoints: string, keys: string | null = null) =>
  heartbeat.received(heartbeat.time(), { isOldest: true, versions: { endpoints, secrets: "0", keys } })

const make = Effect.map(Clock.Clock, Heartbeat.make)

describe("what a node knows from its heartbeats", () => {
  it.effect("is nothing without a recent one", () =>
    Effect.gen(function*() {
      const heartbeat = yield* make
      const read = { at: heartbeat.time(), version: "1" }
      assert.isFalse(heartbeat.isRecent() || heartbeat.isOldest() || heartbeat.isCurrent("endpoints", read))
      beat(heartbeat, "1")
      assert.isTrue(heartbeat.isRecent() && heartbeat.isOldest() && heartbeat.isCurrent("endpoints", read))
      yield* TestClock.adjust("1249 millis")
      assert.isTrue(heartbeat.isRecent() && heartbeat.isOldest() && heartbeat.isCurrent("endpoints", read))
      yield* TestClock.adjust("1 millis")
      assert.isFalse(heartbeat.isRecent() || heartbeat.isOldest() || heartbeat.isCurrent("endpoints", read))
    }))

  it.effect("is whether a list has changed since it was read", () =>
    Effect.gen(function*() {
      const heartbeat = yield* make
      beat(heartbeat, "1")
      yield* TestClock.adjust("100 millis")
      // A list that was read after the last heartbeat may be newer.
      const read = { at: heartbeat.time(), version: "2" }
      assert.isTrue(heartbeat.isCurrent("endpoints", read))
      assert.isFalse(heartbeat.isCurrent("endpoints", { ...read, version: undefined }))
      yield* TestClock.adjust("900 millis")
      beat(heartbeat, "2")
      assert.isTrue(heartbeat.isCurrent("endpoints", read))
      yield* TestClock.adjust("1 second")
      beat(heartbeat, "3")
      assert.isFalse(heartbeat.isCurrent("endpoints", read))
    }))

  it.effect("includes the version of the keys until it should have been read again", () =>
    Effect.gen(function*() {
      const heartbeat = yield* make
      const read = { at: heartbeat.time(), version: "1" }
      beat(heartbeat, "1")
      assert.isFalse(heartbeat.isCurrent("keys", read))
      beat(heartbeat, "1", "1")
      for (let seconds = 0; seconds < 4; seconds++) {
        yield* TestClock.adjust("1 second")
        beat(heartbeat, "1")
        assert.isTrue(heartbeat.isCurrent("keys", read))
      }
      yield* TestClock.adjust("500 millis")
      assert.isTrue(heartbeat.isRecent())
      assert.isFalse(heartbeat.isCurrent("keys", read))
    }))

  it.effect("wakes fibers that wait for the next one, or until the last one is no longer recent", () =>
    Effect.gen(function*() {
      const heartbeat = yield* make
      const first = yield* Effect.forkChild(heartbeat.next, { startImmediately: true })
      yield* TestClock.adjust("1 minute")
      assert.isUndefined(first.pollUnsafe())
      beat(heartbeat, "1")
      yield* Fiber.join(first)
      const second = yield* Effect.forkChild(heartbeat.next, { startImmediately: true })
      yield* TestClock.adjust("1249 millis")
      assert.isUndefined(second.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(second)
    }))
})
