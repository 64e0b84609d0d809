import { describe, expect, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import * as AlignedSleep from "../src/AlignedSleep.ts"

const { alignedMillis } = AlignedSleep

describe("an aligned sleep", () => {
  it("ends at a multiple of its interval, after at most 5/4 of the interval", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), fc.integer({ min: 1, max: 60_000 }), (now, interval) => {
        const millis = alignedMillis(now, interval)
        expect(millis).toBeGreaterThanOrEqual(Math.min(interval / 4, interval / 2) - 1e-6)
        expect(millis).toBeLessThanOrEqual(interval * 1.5 + 1e-6)
        if (interval >= 8) expect(millis).toBeLessThanOrEqual(interval * 1.25 + 1e-6)
        const rest = (now + millis) % interval
        expect(Math.min(rest, interval - rest)).toBeLessThan(1e-3)
      }),
      { numRuns: 5_000, seed: 61 }
    )
  })

  it("does not end twice at the same multiple when a timer ran too early", () => {
    expect(alignedMillis(999.4, 250)).toBeCloseTo(250.6)
    expect(alignedMillis(1_000.3, 250)).toBeCloseTo(249.7)
  })

  it("leaves a pause after work that took most of the interval", () => {
    expect(alignedMillis(1_180, 250)).toBe(70)
    expect(alignedMillis(1_240, 250)).toBe(260)
  })

  it.effect("lets loops that began at different times wake together", () =>
    Effect.gen(function*() {
      const times: Array<number> = []
      const look = Effect.map(Clock.currentTimeMillis, (now) => void times.push(now))
      for (
        const [start, loop] of [
          [13, Effect.repeat(look, AlignedSleep.schedule("250 millis"))],
          [90, Effect.forever(Effect.andThen(look, AlignedSleep.sleep("1 second")))],
          [101, Effect.repeat(look, AlignedSleep.schedule("1 second"))],
          [140, Effect.forever(Effect.andThen(look, AlignedSleep.sleep("5 seconds")))]
        ] as const
      ) {
        yield* Effect.forkScoped(Effect.delay(loop, start))
      }
      yield* TestClock.adjust("250 millis")
      times.length = 0
      yield* TestClock.adjust("1 minute")
      expect(times).toHaveLength(240 + 60 + 60 + 12)
      expect(new Set(times).size).toBe(240)
      expect(times.filter((time) => time % 250 !== 0)).toEqual([])
    }))
})
