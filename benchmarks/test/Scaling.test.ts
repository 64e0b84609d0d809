import { ScalingPolicy } from "@stint/autoscaler"
import { simulate } from "@stint/autoscaler/Simulation"
import { describe, expect, it } from "vitest"
import { traces } from "../src/scaling/ArrivalTraces.ts"
import { formulas, knative } from "../src/scaling/Scalers.ts"

describe("the traces", () => {
  it("are identical for the same seed, in order, and not empty", () => {
    expect(traces(7)).toEqual(traces(7))
    expect(traces(7)).not.toEqual(traces(8))
    for (const { arrivals } of traces(7)) {
      expect(arrivals.length).toBeGreaterThan(500)
      expect(arrivals).toEqual(arrivals.toSorted((a, b) => a.at - b.at))
    }
  })
})

describe("every scaler", () => {
  it.each([
    ["Stint's", () => ScalingPolicy.decide],
    ["the formulas", () => formulas],
    ["Knative's", knative]
  ])("%s lets all jobs of a trace run, in the order of arrival", (_, make) => {
    const { arrivals } = traces(7)[1] ?? { arrivals: [] }
    expect(arrivals.length).toBeGreaterThan(500)
    const { waits } = simulate({
      arrivals,
      limits: { min: 0, max: 3, idleTimeoutMs: 5_000 },
      scaler: { type: "QUEUE_DELAY", value: 4 },
      coldStart: 1_000,
      decide: make()
    })
    const takenAt = waits.map((wait, index) => (arrivals[index]?.at ?? 0) + wait)
    expect(takenAt).toEqual(takenAt.toSorted((a, b) => a - b))
    expect(waits.every((wait) => wait >= 0)).toBe(true)
  })
})
