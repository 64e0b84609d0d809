import type { UsageReport, UsageRow } from "@stint/contract/UsageApi"
import { costText, timeText } from "@stint/contract/UsageText"
import { describe, expect, it } from "vitest"
import { axisOf } from "../src/ui/ChartAxis.ts"
import { ownerName } from "../src/usage/OwnerNames.ts"
import { measureOf, periodOf, requestOf, stepOf, stepsBetween, usageFilterOf, usageSearchOf } from "../src/usage/UsageFilter.ts"
import { amountText, chartOf, csvOf, labelsOf, ownersOf, stepText } from "../src/usage/UsageSums.ts"

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOW = Date.UTC(2026, 10, 23, 16, 30)
const TODAY = Date.UTC(2026, 10, 23)

const row = (from: number, endpoint: string, over: Partial<UsageRow> = {}): UsageRow => ({
  from,
  endpoint,
  attempts: 1,
  executionSeconds: 10,
  workerSeconds: 20,
  cpuSeconds: 5,
  gpuSeconds: 0,
  ...over
})

const report = (rows: ReadonlyArray<UsageRow>, over: Partial<UsageReport> = {}): UsageReport => ({
  from: TODAY - DAY,
  to: NOW,
  by: "endpoint",
  step: "day",
  rows,
  total: { attempts: 0, executionSeconds: 0, workerSeconds: 0, cpuSeconds: 0, gpuSeconds: 0 },
  budgets: [],
  ...over
})

describe("the filter of usage", () => {
  it("is in the address without its defaults, and unknown values are the defaults", () => {
    const filter = usageFilterOf({ range: "custom", from: "2026-11-01", to: "2026-11-05", step: "hour", by: "key", endpoint: 7 })
    expect(usageSearchOf(filter)).toEqual({
      range: "custom",
      from: "2026-11-01",
      to: "2026-11-05",
      step: "hour",
      by: "key",
      endpoint: "7"
    })
    expect(usageFilterOf(usageSearchOf(filter))).toEqual(filter)
    expect(usageSearchOf(usageFilterOf({ range: "9d", step: "minute", by: "worker", measure: "fun" }))).toEqual({})
    // The days of a custom period do not stay in the address of another period.
    expect(usageSearchOf(usageFilterOf({ range: "7d", from: "2026-11-01", to: "2026-11-05" }))).toEqual({ range: "7d" })
  })

  it("takes whole UTC days: today and the days before, the month, or the chosen days", () => {
    const period = (search: unknown) => periodOf(usageFilterOf(search), NOW)
    expect(period({ range: "7d" })).toEqual({ period: { from: TODAY - 6 * DAY } })
    expect(period({})).toEqual({ period: { from: TODAY - 29 * DAY } })
    expect(period({ range: "month" })).toEqual({ period: { from: Date.UTC(2026, 10, 1) } })
    expect(period({ range: "custom", from: "2026-11-21", to: "2026-11-22" })).toEqual({
      period: { from: TODAY - 2 * DAY, to: TODAY }
    })
    // Future days would result in endless bars.
    expect(period({ range: "custom", from: "2026-11-23", to: "9999-12-31" })).toEqual({
      period: { from: TODAY, to: TODAY + DAY }
    })
  })

  it("requests nothing while the days of a custom period are missing or wrong, and says what to choose", () => {
    const problem = (from: string, to: string) => periodOf(usageFilterOf({ range: "custom", from, to }), NOW)
    expect(problem("", "2026-11-22")).toEqual({ problem: "Choose the first and the last day." })
    expect(problem("2026-11-31", "2026-13-01")).toEqual({ problem: "Choose the first and the last day." })
    expect(problem("2026-11-22", "2026-11-21")).toMatchObject({ problem: expect.stringMatching(/before the first day/) })
    expect(problem("2026-11-24", "2026-11-25")).toMatchObject({ problem: expect.stringMatching(/future/) })
    expect(problem("0002-11-24", "2026-11-25")).toMatchObject({ problem: expect.stringMatching(/2020-01-01/) })
  })

  it("uses a longer step when the bars would be too narrow", () => {
    const step = (search: object) => {
      const filter = usageFilterOf(search)
      const found = periodOf(filter, NOW)
      return "period" in found ? stepOf(filter, found.period, NOW) : found.problem
    }
    expect(step({ step: "hour", range: "30d" })).toBe("hour")
    expect(step({ step: "hour", range: "custom", from: "2026-09-01", to: "2026-11-22" })).toBe("day")
    expect(step({ step: "hour", range: "custom", from: "2020-01-01", to: "2026-11-22" })).toBe("month")
    expect(step({ step: "month", range: "7d" })).toBe("month")
    const filter = usageFilterOf({ range: "7d", endpoint: "hello", by: "release" })
    expect(requestOf(filter, { from: TODAY }, NOW)).toEqual({
      by: "release",
      endpoint: "hello",
      step: "day",
      from: TODAY,
      to: undefined
    })
  })

  it("draws costs by default, and never without prices", () => {
    const measure = (chosen: string, currency?: string) =>
      measureOf(usageFilterOf({ measure: chosen }), report([], currency === undefined ? {} : { currency }))
    expect([measure("", "EUR"), measure(""), measure("cost"), measure("gpu"), measure("gpu", "EUR")]).toEqual(
      ["cost", "execution", "execution", "gpu", "gpu"]
    )
  })
})

describe("the steps of a period", () => {
  it("include steps in which nothing ran, and begin with the step that contains the first hour", () => {
    expect(stepsBetween("hour", TODAY + 10, TODAY + 2 * HOUR)).toEqual([TODAY, TODAY + HOUR])
    expect(stepsBetween("day", TODAY - DAY, NOW)).toEqual([TODAY - DAY, TODAY])
    expect(stepsBetween("month", Date.UTC(2026, 10, 30), Date.UTC(2027, 1, 1)).map((start) => stepText("month", start))).toEqual(
      ["2026-11", "2026-12", "2027-01"]
    )
    expect([stepText("hour", TODAY + 9 * HOUR), stepText("day", TODAY)]).toEqual(["2026-11-23 09:00", "2026-11-23"])
  })
})

describe("the labels of steps", () => {
  const labels = (step: "hour" | "day" | "month", from: number, to: number) =>
    labelsOf(step, stepsBetween(step, from, to)).map(({ text }) => text)

  it("are at the same times each day, and name the day where it begins", () => {
    expect(labels("hour", TODAY, TODAY + DAY + HOUR)).toEqual(["23 Nov", "06:00", "12:00", "18:00", "24 Nov"])
    expect(labels("hour", TODAY - 6 * DAY, TODAY + 9 * HOUR)).toEqual(
      ["17 Nov", "18 Nov", "19 Nov", "20 Nov", "21 Nov", "22 Nov", "23 Nov"]
    )
    expect(labels("day", TODAY - 29 * DAY, TODAY + DAY)).toHaveLength(8)
    expect(labels("month", Date.UTC(2026, 10, 1), NOW)).toEqual(["Nov 2026"])
    expect(labels("month", Date.UTC(1990, 0, 1), NOW).length).toBeLessThanOrEqual(9)
  })
})

describe("the sums of usage", () => {
  it("add up the rows of an owner, largest first, and keep releases and keys apart", () => {
    const owners = ownersOf(
      report([
        row(TODAY, "b", { cost: 1 }),
        row(TODAY, "a", { cost: 2 }),
        row(TODAY - DAY, "b", { cost: 3 }),
        row(TODAY, "b", { release: 2, cost: 9 })
      ]),
      "cost"
    )
    expect(owners.map(({ row, sums }) => [row, sums.cost])).toEqual([
      [{ endpoint: "b", release: 2 }, 9],
      [{ endpoint: "b" }, 4],
      [{ endpoint: "a" }, 2]
    ])
    expect(ownersOf(report([row(TODAY, "a"), row(TODAY, "a")]), "execution")[0]?.sums).toEqual({
      attempts: 2,
      executionSeconds: 20,
      workerSeconds: 40,
      cpuSeconds: 10,
      gpuSeconds: 0
    })
  })

  it("are drawn in their step, with owners after the sixth as one part, so that each bar shows the total", () => {
    const names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    const all = report([
      ...names.map((name, index) => row(TODAY, name, { executionSeconds: 100 - index })),
      row(TODAY - DAY, "h", { executionSeconds: 1 }),
      row(TODAY - DAY, "zero", { executionSeconds: 0 })
    ])
    const { series, steps } = chartOf(all, "day", "execution", ownersOf(all, "execution"))
    expect(steps).toEqual([TODAY - DAY, TODAY])
    expect(series.map(({ owner, values }) => [owner?.row.endpoint, values])).toEqual([
      ["a", [0, 100]],
      ["b", [0, 99]],
      ["c", [0, 98]],
      ["d", [0, 97]],
      ["e", [0, 96]],
      ["f", [0, 95]],
      [undefined, [1, 94 + 93]]
    ])
    const gpus = chartOf(all, "day", "gpu", ownersOf(all, "gpu"))
    expect(gpus.series).toEqual([])
  })

  it("are formatted in the same way as in the terminal", () => {
    expect([timeText(93_784.5), timeText(0.04), timeText(59.96)]).toEqual(["26:03:04.5", "0:00:00.0", "0:01:00.0"])
    expect([costText(12.5), costText(0), costText(0.000_421)]).toEqual(["12.50", "0.00", "0.00042"])
    expect([amountText(1_234, "attempts"), amountText(2, "cost", "EUR"), amountText(60, "cpu")]).toEqual(
      ["1,234", "2.00 EUR", "0:01:00.0"]
    )
  })

  it("name releases and keys, and keys without a name by their id", () => {
    const keys = new Map([["k1", "nightly"]])
    expect(ownerName({ endpoint: "hello", release: 3 }, "release", keys)).toBe("hello release 3")
    expect([{ key: "k1" }, { key: "k2" }, { key: "*" }, {}].map((one) => ownerName(one, "key", keys))).toEqual(
      ["nightly", "k2", "further keys", "no key"]
    )
  })
})

describe("the CSV of usage", () => {
  it("has a line for each row, with columns for what the rows are summed by", () => {
    const priced = report([row(TODAY, "a", { release: 2, cost: 0.000_5 }), row(TODAY, "b", { cost: 0 })], {
      by: "release",
      currency: "EUR"
    })
    expect(csvOf(priced)).toBe(
      "from,endpoint,release,attempts,executionSeconds,workerSeconds,cpuSeconds,gpuSeconds,cost,currency\r\n" +
        "2026-11-23T00:00:00.000Z,a,2,1,10,20,5,0,0.0005,EUR\r\n" +
        "2026-11-23T00:00:00.000Z,b,,1,10,20,5,0,0,EUR\r\n"
    )
    const { endpoint: _, ...keyless } = row(TODAY, "a")
    expect(csvOf(report([{ ...keyless, key: "k" }, keyless], { by: "key" })).split("\r\n").map((line) => line.split(",")[1]))
      .toEqual(
        ["key", "k", "", undefined]
      )
  })

  it("quotes texts, and contains nothing that a spreadsheet would run as a formula", () => {
    const line = (currency: string) => csvOf(report([row(TODAY, "a", { cost: 1 })], { currency })).split("\r\n")[1]
    expect(line("a \"b\", c")).toMatch(/,"a ""b"", c"$/)
    expect(line("=1+1")).toMatch(/,'=1\+1$/)
  })
})

describe("the lines of a chart", () => {
  it("are round multiples of the unit, and contain the largest value", () => {
    expect(axisOf(100).ticks).toEqual([0, 50, 100])
    expect(axisOf(7).ticks).toEqual([0, 2, 4, 6, 8])
    expect(axisOf(0).top).toBeGreaterThan(0)
    expect(axisOf(3 * 3_600, 3_600).ticks).toEqual([0, 3_600, 7_200, 10_800])
    expect(axisOf(2, 1, true).ticks).toEqual([0, 1, 2])
    for (const largest of [1e-6, 0.3, 1, 19, 99.9, 12_345, 1e9]) {
      const { ticks, top } = axisOf(largest)
      expect(top, String(largest)).toBeGreaterThanOrEqual(largest * (1 - 1e-9))
      expect(ticks.length, String(largest)).toBeLessThanOrEqual(6)
    }
  })
})
