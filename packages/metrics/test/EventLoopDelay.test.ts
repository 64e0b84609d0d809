import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as EventLoopDelay from "../src/EventLoopDelay.ts"

/** A histogram whose values the test sets. */
const makeHistogram = () => {
  const state = { enabled: false, values: new Array<number>(), resets: 0 }
  const histogram: EventLoopDelay.Histogram = {
    get count() {
      return state.values.length
    },
    enable: () => {
      const before = state.enabled
      state.enabled = true
      return !before
    },
    disable: () => {
      const before = state.enabled
      state.enabled = false
      return before
    },
    percentile: (percentile) => state.values[Math.ceil(state.values.length * percentile / 100) - 1] ?? Number.NaN,
    reset: () => {
      state.resets += 1
      state.values.splice(0)
    }
  }
  return { histogram, state }
}

describe("the delay of the event loop", () => {
  it.effect("is measured only after the first reading, because measuring wakes the process", () =>
    Effect.gen(function*() {
      const { histogram, state } = makeHistogram()
      const delays = yield* EventLoopDelay.make([50, 100], histogram)
      expect(state.enabled).toBe(false)
      expect([...yield* delays.read]).toEqual([])
      expect(state.enabled).toBe(true)
      state.values.push(20e6, 25e6, 520e6)
      expect([...yield* delays.read]).toEqual([[50, expect.closeTo(0.005)], [100, expect.closeTo(0.5)]])
      // Measured since the first reading.
      state.values.push(20e6)
      expect([...yield* delays.read]).toEqual([[50, 0], [100, 0]])
    }))

  it.effect("is measured also between readings that follow each other faster than the timer", () =>
    Effect.gen(function*() {
      const { histogram, state } = makeHistogram()
      const delays = yield* EventLoopDelay.make([50], histogram)
      for (let n = 0; n < 3; n++) yield* delays.read
      // A reset discards the time from which Node measures.
      expect(state.resets).toBe(0)
      state.values.push(20e6)
      yield* delays.read
      expect(state.resets).toBe(1)
    }))

  it.effect("stops being measured ten minutes after the last reading, and is measured again after the next reading", () =>
    Effect.gen(function*() {
      const { histogram, state } = makeHistogram()
      const delays = yield* EventLoopDelay.make([50], histogram)
      yield* delays.read
      yield* TestClock.adjust("9 minutes")
      yield* delays.read
      yield* TestClock.adjust("9 minutes")
      expect(state.enabled).toBe(true)
      yield* TestClock.adjust("1 minute")
      expect(state.enabled).toBe(false)
      yield* delays.read
      expect(state.enabled).toBe(true)
    }))

  it.effect("stops being measured when its scope closes", () =>
    Effect.gen(function*() {
      const { histogram, state } = makeHistogram()
      yield* Effect.scoped(Effect.flatMap(EventLoopDelay.make([50], histogram), ({ read }) => read))
      expect(state.enabled).toBe(false)
    }))
})
