import { SeededRandom } from "@stint/store-testing"
import { describe, expect, it } from "vitest"
import { estimateRatio } from "../src/PairedRatio.ts"

/** A generator of normally distributed numbers with mean 0 and deviation 1. */
const normals = (seed: number) => {
  const random = SeededRandom.seededRandom(seed)
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

describe("the ratio of two subjects", () => {
  it("is the geometric mean of the rounds' ratios, with Student's interval of their logarithms", () => {
    const { high, low, ratio } = estimateRatio([100, 200, 400], [0.1, 0.2, 0.3].map((log, n) => 100 * 2 ** n * Math.exp(log)))
    expect(Math.log(ratio)).toBeCloseTo(0.2, 10)
    // 4.303, the quantile for three rounds, times 0.1 / sqrt(3).
    expect(Math.log(high)).toBeCloseTo(0.2 + 0.24844, 4)
    expect(Math.log(low)).toBeCloseTo(0.2 - 0.24844, 4)
  })

  it("does not depend on the speed of the machine in a round", () => {
    expect(estimateRatio([10, 1_000], [20, 2_000])).toEqual({
      ratio: expect.closeTo(2),
      low: expect.closeTo(2),
      high: expect.closeTo(2)
    })
  })

  it("has an infinite interval after one round", () => {
    expect(estimateRatio([10], [20])).toEqual({ ratio: 2, low: 0, high: Infinity })
  })

  for (const rounds of [3, 10, 40]) {
    it(`has an interval that contains the true ratio in 95 % of experiments with ${rounds} rounds`, () => {
      const normal = normals(rounds)
      let contained = 0
      const experiments = 4_000
      for (let n = 0; n < experiments; n++) {
        const speeds = Array.from({ length: rounds }, () => Math.exp(normal()))
        const candidate = speeds.map((speed) => 0.9 * speed * Math.exp(0.05 * normal()))
        const { high, low } = estimateRatio(speeds, candidate)
        if (low <= 0.9 && 0.9 <= high) contained += 1
      }
      // Four standard deviations for a share of 95 %.
      expect(Math.abs(contained / experiments - 0.95)).toBeLessThan(0.014)
    })
  }

  it("rejects figures without a counterpart, and figures that have no ratio", () => {
    expect(() => estimateRatio([1, 2], [1])).toThrow("2 rounds of the base cannot be compared with 1 rounds of the candidate")
    expect(() => estimateRatio([], [])).toThrow("0 rounds")
    expect(() => estimateRatio([1, 0], [1, 1])).toThrow("every figure must be positive")
  })
})
