import { untilNextHeartbeat } from "@stint/worker/HeartbeatTimes"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"

const clock = fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 })

// docs/spec/worker-protocol.md#heartbeat
describe("the times of heartbeats", () => {
  it("are multiples of 250 ms, at most 125 ms from the interval", () => {
    fc.assert(fc.property(clock, fc.integer({ min: 1_000, max: 600_000 }), (now, interval) => {
      const delay = untilNextHeartbeat(now, interval)
      expect((now + delay) % 250).toBe(0)
      expect(Math.abs(delay - interval)).toBeLessThanOrEqual(125)
    }))
  })

  it("are the same for all workers whose intervals are multiples of 250 ms, after the first interval", () => {
    fc.assert(fc.property(clock, fc.integer({ min: 4, max: 100 }), fc.integer({ min: 0, max: 20 }), (now, quarters, late) => {
      const interval = quarters * 250
      const second = now + untilNextHeartbeat(now, interval)
      // A timer that fires late does not shift the later heartbeats.
      expect(second + late + untilNextHeartbeat(second + late, interval)).toBe(second + interval)
    }))
  })

  it("are the interval if it is shorter than a second", () => {
    expect(untilNextHeartbeat(1_700_000_000_123, 999)).toBe(999)
    expect(untilNextHeartbeat(1_700_000_000_123, 50)).toBe(50)
  })
})
