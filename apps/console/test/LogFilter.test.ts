import { describe, expect, it } from "vitest"
import { queryOfFilter } from "../src/format/AddressQuery.ts"
import { addressOf, logFilterOf, requestOf, searchedText } from "../src/logs/LogFilter.ts"

describe("the filter of an endpoint's lines", () => {
  it("is in the address, and unknown values do not filter", () => {
    const filter = { endpoint: "resize", contains: "no \"model\"", level: "WARN", period: "24h" } as const
    expect(logFilterOf(addressOf(filter))).toEqual(filter)
    expect(logFilterOf({ endpoint: 7, level: "LOUD", period: "latest" })).toEqual({
      endpoint: "7",
      contains: "",
      level: "TRACE",
      period: ""
    })
    expect(queryOfFilter(addressOf(logFilterOf({ endpoint: "e" })))).toEqual({ endpoint: "e" })
  })

  it("requests only what filters", () => {
    const request = (change: object) => JSON.parse(JSON.stringify(requestOf(logFilterOf(change), 100_000_000, 50, undefined)))
    expect(request({ endpoint: "e" })).toEqual({ limit: 50 })
    expect(request({ endpoint: "e", contains: "x", level: "ERROR", period: "24h" })).toEqual({
      contains: "x",
      level: "ERROR",
      since: 13_600_000,
      limit: 50
    })
    expect(requestOf(logFilterOf({}), 0, 50, "1042.3")).toMatchObject({ cursor: "1042.3" })
  })
})

describe("what a search read", () => {
  const page = { lines: [], cursor: "9", searched: 20_000, oldest: Date.UTC(2026, 10, 22, 8) } as const
  const end = { lines: [], cursor: null, searched: 1 } as const

  it("is the sum of its pages, back to the oldest line", () => {
    expect(searchedText([{ ...page, oldest: page.oldest + 5_000 }, page], { period: "" })).toMatch(
      /^Searched 40\.0k lines, back to 2026-11-22 \d\d:00:00\.000/
    )
    expect(searchedText([page, { lines: [], cursor: "2", searched: 0 }], { period: "" })).toMatch(/back to 2026-11-22/)
  })

  it("is everything without a cursor, also if the last page was empty", () => {
    expect(searchedText([page, end], { period: "" })).toBe("Searched 20.0k lines: all that are stored.")
    expect(searchedText([end], { period: "1h" })).toBe("Searched 1 line: all that are stored of this time.")
  })
})
