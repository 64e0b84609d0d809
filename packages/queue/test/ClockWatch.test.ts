import { assert, describe, it } from "@effect/vitest"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as ClockWatch from "../src/ClockWatch.ts"

/** A clock whose two times are set by hand. */
const manualClock = Effect.sync(() => {
  const times = { wall: 1_700_000_000_000, monotonic: 50_000 }
  const wallNanos = () => BigInt(times.wall) * 1_000_000n
  const monotonicNanos = () => BigInt(times.monotonic) * 1_000_000n
  const manual: Clock.Clock = {
    currentTimeMillisUnsafe: () => times.wall,
    currentTimeMillis: Effect.sync(() => times.wall),
    currentTimeNanosUnsafe: wallNanos,
    currentTimeNanos: Effect.sync(wallNanos),
    monotonicTimeNanosUnsafe: monotonicNanos,
    monotonicTimeNanos: Effect.sync(monotonicNanos),
    sleep: () => Effect.never
  }
  const pass = (wall: number, monotonic = wall) => {
    times.wall += wall
    times.monotonic += monotonic
  }
  return { pass, watch: ClockWatch.make(manual) }
})

describe("ClockWatch", () => {
  it.effect("reports nothing while both clocks agree, even if a check is up to 5 s late", () =>
    Effect.map(manualClock, ({ pass, watch }) => {
      for (const millis of [250, 250, 0, 5_200, 250, 4_000]) {
        pass(millis)
        assert.isUndefined(watch.check(250))
      }
      pass(250 + 499, 250)
      assert.isUndefined(watch.check(250))
    }))

  it.effect("reports that a clock was set, and by how much, until the jump is accepted", () =>
    Effect.map(manualClock, ({ pass, watch }) => {
      pass(3_600_250, 250)
      assert.deepStrictEqual(watch.check(250), { _tag: "ClockSet", by: 3_600_000 })
      pass(250)
      assert.deepStrictEqual(watch.check(250), { _tag: "ClockSet", by: 3_600_000 })
      watch.accept()
      pass(250)
      assert.isUndefined(watch.check(250))
      pass(250 - 3_600_000, 250)
      assert.deepStrictEqual(watch.check(250), { _tag: "ClockSet", by: -3_600_000 })
    }))

  it.effect("reports many small steps once they add up", () =>
    Effect.map(manualClock, ({ pass, watch }) => {
      pass(450, 250)
      assert.isUndefined(watch.check(250))
      pass(450, 250)
      assert.isUndefined(watch.check(250))
      pass(450, 250)
      assert.deepStrictEqual(watch.check(250), { _tag: "ClockSet", by: 600 })
    }))

  it.effect("reports a late check as a suspension, whether or not the monotonic clock continued", () =>
    Effect.map(manualClock, ({ pass, watch }) => {
      pass(60_000)
      assert.deepStrictEqual(watch.check(250), { _tag: "Suspended", by: 60_000 })
      watch.accept()
      pass(60_000, 10_000)
      assert.deepStrictEqual(watch.check(250), { _tag: "Suspended", by: 60_000 })
      watch.accept()
      pass(60_000, 250)
      assert.deepStrictEqual(watch.check(250), { _tag: "ClockSet", by: 59_750 })
      watch.accept()
      pass(250)
      assert.isUndefined(watch.check(250))
    }))
})
