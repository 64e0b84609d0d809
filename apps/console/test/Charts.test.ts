import { describe, expect, it } from "vitest"
import { largestOf, linePath, sampleAt, stackPaths, withValues, xOf } from "../src/charts/Plot.ts"
import { forecastOf, rateText } from "../src/endpoints/Forecast.ts"
import { bytes } from "../src/format/Format.ts"

const span = { from: 0, to: 100 }
const series = (name: string, values: ReadonlyArray<number | null>, tone = 0) => ({ name, tone, values })

describe("the shapes of a chart", () => {
  it("places times across the whole width", () => {
    expect([xOf(0, span), xOf(25, span), xOf(100, span)]).toEqual([0, 250, 1_000])
  })

  it("draws a line through its values, upwards", () => {
    expect(linePath([0, 50, 100], [0, 5, 10], span, 10)).toBe("M0 100L0 100L500 50L1000 0")
  })

  it("interrupts a line where nothing was measured, and draws a lone value as a dot", () => {
    expect(linePath([0, 25, 50, 75, 100], [10, null, 5, null, 0], span, 10)).toBe("M0 0L0 0M500 50L500 50M1000 100L1000 100")
  })

  it("stacks series, and joins equal neighbours", () => {
    const [below, above] = stackPaths([50, 75, 100], [series("a", [1, 1, 1]), series("b", [0, 1, 1])], span, 2)
    expect(below).toBe("M495 50h505v50H495Z")
    expect(above).toBe("M500 0h500v50H500Z")
  })

  it("keeps a short value visible", () => {
    const at = Array.from({ length: 1_000 }, (_, index) => index)
    const [path] = stackPaths(at, [series("a", at.map((time) => time === 500 ? 1 : 0))], { from: 0, to: 10_000 }, 1)
    expect(path).toContain("h5v")
  })

  it("finds the top of lines and of stacks", () => {
    const all = [series("a", [1, 4]), series("b", [3, null])]
    expect([largestOf(all, false), largestOf(all, true), largestOf([], true)]).toEqual([4, 4, 0])
  })

  it("leaves out series without values, except for the first", () => {
    const all = [series("a", [0, 0]), series("b", [null, 0]), series("c", [0, 2])]
    expect(withValues(all).map(({ name }) => name)).toEqual(["a", "c"])
  })

  it("chooses the sample that covers a time", () => {
    expect([sampleAt([10, 20, 30], 12), sampleAt([10, 20, 30], 99), sampleAt([], 5)]).toEqual([1, 2, -1])
  })
})

describe("the forecast of a queue", () => {
  it("says when a queue is empty, or how fast it grows", () => {
    expect(forecastOf(120, { arrivals: 1, ended: 3 })).toBe("empty in 60 s")
    expect(forecastOf(120, { arrivals: 3.1, ended: 1 })).toBe("grows by 2.1 /s")
    expect(forecastOf(120, { arrivals: 3, ended: 3.01 })).toBe("steady")
  })

  it("shows no estimate for an empty queue, or for one without arrivals and departures", () => {
    expect(forecastOf(0, { arrivals: 1, ended: 3 })).toBeUndefined()
    expect(forecastOf(5, { arrivals: 0, ended: 0 })).toBeUndefined()
  })

  it("does not show a small rate as none", () => {
    expect([rateText(0), rateText(0.0167), rateText(4.05), rateText(123.4)]).toEqual(["0", "0.02", "4.0", "123"])
  })
})

it("shows bytes in the unit that fits", () => {
  expect([bytes(640_000), bytes(128_400_000), bytes(1_250_000_000)]).toEqual(["640 KB", "128 MB", "1.3 GB"])
})
