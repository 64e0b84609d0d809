/**
 * Tests the rate limit arithmetic with random limits and random calls.
 */
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { consume, type Meter, peek, type Rate } from "../src/auth/LeakyBucket.ts"

const rate: fc.Arbitrary<Rate> = fc.oneof(
  fc.record({ limit: fc.integer({ min: 1, max: 20 }), perMs: fc.integer({ min: 1, max: 20 }).map((s) => s * 1_000) }),
  fc.record({ limit: fc.integer({ min: 1, max: 1_000_000 }), perMs: fc.integer({ min: 1, max: 86_400 }).map((s) => s * 1_000) })
)

/** Pauses between calls. Most of them are short. */
const pauses = fc.array(
  fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 30_000 })),
  { maxLength: 200 }
)

const START = 1_790_000_000_000

/** Makes calls with the given pauses between them. Returns the time of each call and whether it was admitted. */
const callAll = (rate: Rate, pauses: ReadonlyArray<number>) => {
  let now = START
  let meter: Meter | undefined
  return pauses.map((pause) => {
    now += pause
    const reading = consume(rate, meter, now)
    meter = reading.meter
    return { now, reading }
  })
}

describe("a rate limit", () => {
  it("never admits more calls in any period than the limit plus the released amount", () => {
    fc.assert(fc.property(rate, pauses, (rate, pauses) => {
      const admitted = callAll(rate, pauses).filter(({ reading }) => reading.admitted).map(({ now }) => now)
      for (let from = 0; from < admitted.length; from++) {
        for (let to = from; to < admitted.length; to++) {
          const duration = (admitted[to] ?? 0) - (admitted[from] ?? 0)
          expect(to - from + 1).toBeLessThanOrEqual(rate.limit + Math.floor((duration * rate.limit) / rate.perMs))
        }
      }
    }))
  })

  it("admits the whole limit at once when idle, and then rejects further calls", () => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 86_400 }), (limit, seconds) => {
      const rate = { limit, perMs: seconds * 1_000 }
      const results = callAll(rate, Array.from({ length: limit + 1 }, () => 0)).map(({ reading }) => reading)
      expect(results.map(({ admitted }) => admitted)).toEqual([...Array.from({ length: limit }, () => true), false])
      expect(results.map(({ remaining }) => remaining)).toEqual([...Array.from({ length: limit }, (_, i) => limit - 1 - i), 0])
    }))
  })

  it("reports the wait accurately: a call is admitted after that time and rejected a millisecond earlier", () => {
    fc.assert(fc.property(rate, pauses, (rate, pauses) => {
      for (const { now, reading } of callAll(rate, pauses)) {
        if (reading.admitted) continue
        expect(reading.waitMs).toBeGreaterThan(0)
        expect(consume(rate, reading.meter, now + reading.waitMs).admitted).toBe(true)
        expect(consume(rate, reading.meter, now + reading.waitMs - 1).admitted).toBe(false)
      }
    }))
  })

  it("reports the number of remaining calls accurately: that many calls are admitted, and the next is rejected", () => {
    fc.assert(fc.property(rate, pauses, fc.integer({ min: 0, max: 10_000 }), (rate, pauses, pause) => {
      const last = callAll(rate, pauses).at(-1)
      const now = (last?.now ?? START) + pause
      const { remaining } = peek(rate, last?.reading.meter, now)
      fc.pre(remaining < 2_000)
      let meter = last?.reading.meter
      for (let i = 0; i <= remaining; i++) {
        const reading = consume(rate, meter, now)
        expect(reading.admitted).toBe(i < remaining)
        meter = reading.meter
      }
    }))
  })

  it("behaves like a new meter after its reset time", () => {
    fc.assert(fc.property(rate, pauses, (rate, pauses) => {
      for (const { now, reading } of callAll(rate, pauses)) {
        const later = peek(rate, reading.meter, now + reading.resetMs)
        expect(later).toMatchObject({ remaining: rate.limit, resetMs: 0, waitMs: 0, admitted: true })
      }
    }))
  })

  it("does not count rejected calls or reads", () => {
    fc.assert(fc.property(rate, pauses, (rate, pauses) => {
      for (const { now, reading } of callAll(rate, pauses)) {
        if (reading.admitted) continue
        expect(consume(rate, reading.meter, now).waitMs).toBe(reading.waitMs)
        expect(peek(rate, reading.meter, now).meter.debt).toBe(reading.meter.debt)
      }
    }))
  })

  it("releases nothing when the clock is set back", () => {
    const rate = { limit: 2, perMs: 1_000 }
    const used = callAll(rate, [0, 0]).at(-1)?.reading.meter
    expect(consume(rate, used, START - 3_600_000).admitted).toBe(false)
    expect(consume(rate, consume(rate, used, START - 3_600_000).meter, START - 3_600_000 + 500).admitted).toBe(true)
  })
})
