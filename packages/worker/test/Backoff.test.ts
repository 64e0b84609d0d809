import { describe, expect, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as TestClock from "effect/testing/TestClock"
import * as Backoff from "../src/transport/Backoff.ts"

const limits: Backoff.Limits = { initial: 100, max: 5_000 }

/** Runs with a random source that always returns this number. */
const drawing = (number: number) =>
  Effect.provideService(Random.Random, {
    nextIntUnsafe: () => Math.floor(number * Number.MAX_SAFE_INTEGER),
    nextDoubleUnsafe: () => number
  })

const delays = (count: number) => {
  const backoff = Backoff.make(limits)
  return Effect.replicateEffect(backoff.next, count)
}

const NEARLY_ONE = 1 - Number.EPSILON

describe("the delays of a backoff", () => {
  it.effect("double up to the maximum for the largest random number", () =>
    Effect.gen(function*() {
      expect(yield* drawing(NEARLY_ONE)(delays(8))).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
    }))

  it.effect("are half as long for the smallest random number", () =>
    Effect.gen(function*() {
      expect(yield* drawing(0)(delays(8))).toEqual([50, 100, 200, 400, 800, 1_600, 2_500, 2_500])
    }))

  it.effect("are three quarters as long for a random number of one half", () =>
    Effect.gen(function*() {
      expect(yield* drawing(0.5)(delays(3))).toEqual([75, 150, 300])
    }))

  it.effect("differ between two workers that fail at the same moment", () =>
    Effect.gen(function*() {
      const workers = yield* Effect.replicateEffect(Effect.suspend(() => Backoff.make({ initial: 10_000, max: 10_000 }).next), 20)
      expect(new Set(workers).size).toBeGreaterThan(10)
    }))

  it.effect("stay at the maximum after thousands of failures", () =>
    Effect.gen(function*() {
      expect((yield* drawing(NEARLY_ONE)(delays(3_000))).at(-1)).toBe(5_000)
    }))

  it.effect("start again after a reset", () =>
    Effect.gen(function*() {
      const backoff = Backoff.make(limits)
      yield* Effect.replicateEffect(backoff.next, 5)
      backoff.reset()
      expect(yield* backoff.next).toBe(100)
      expect(yield* backoff.next).toBe(200)
    }).pipe(drawing(NEARLY_ONE)))

  it.effect("are the durations that `sleep` waits", () =>
    Effect.gen(function*() {
      const backoff = Backoff.make(limits)
      const sleeping = yield* Effect.forkChild(Effect.andThen(backoff.sleep, backoff.sleep), { startImmediately: true })
      yield* TestClock.adjust(224)
      expect(sleeping.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust(1)
      yield* Fiber.join(sleeping)
      expect(yield* Clock.currentTimeMillis).toBe(225)
    }).pipe(drawing(0.5)))

  it.effect("are the same in the schedule, which retries any effect", () =>
    Effect.gen(function*() {
      let tries = 0
      const failing = Effect.suspend(() => ++tries < 4 ? Effect.fail("no") : Effect.succeed(tries))
      const fiber = yield* Effect.forkChild(Effect.retry(failing, Backoff.schedule(limits)), { startImmediately: true })
      yield* TestClock.adjust(699)
      expect(fiber.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust(1)
      expect(yield* Fiber.join(fiber)).toBe(4)
    }).pipe(drawing(NEARLY_ONE)))
})
