import { CronExpression, TimeZone } from "@stint/contract/Cron"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import * as CronTimes from "../src/CronTimes.ts"

const occurrences = (expression: string, timeZone: string, after: string, count: number) => {
  const { next } = CronTimes.make(expression, timeZone)
  const found: Array<string> = []
  let at: number | undefined = Date.parse(after)
  while (found.length < count && (at = next(at)) !== undefined) found.push(new Date(at).toISOString().slice(0, 16))
  return found
}

describe("occurrences when daylight saving time begins or ends", () => {
  it.each([
    [
      "0 * * * *",
      "Europe/Berlin",
      "2026-10-24T23:30Z",
      ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"],
      "both hours"
    ],
    [
      "*/30 * * * *",
      "Europe/Berlin",
      "2026-10-25T00:00Z",
      ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30"],
      "both hours"
    ],
    ["30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", ["2026-10-25T00:30", "2026-10-26T01:30"], "once, in the first hour"],
    [
      "30 2 * * *",
      "Europe/Berlin",
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00", "2026-03-30T00:30"],
      "once, after the skipped hour"
    ],
    [
      "0 * * * *",
      "Europe/Berlin",
      "2026-03-28T23:30Z",
      ["2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"],
      "without a gap"
    ],
    ["0 8 * * 1-5", "America/New_York", "2026-10-30T13:00Z", ["2026-11-02T13:00", "2026-11-03T13:00"], "at the local time"],
    [
      "0 0 * * *",
      "Australia/Lord_Howe",
      "2026-10-03T00:00Z",
      ["2026-10-03T13:30", "2026-10-04T13:00"],
      "with a shift of half an hour"
    ],
    [
      "0 * * * *",
      "Australia/Sydney",
      "2026-04-04T14:30Z",
      ["2026-04-04T15:00", "2026-04-04T16:00", "2026-04-04T17:00"],
      "both hours, in the southern autumn"
    ],
    [
      "30 2 * * *",
      "Australia/Sydney",
      "2026-10-02T20:00Z",
      ["2026-10-03T16:00", "2026-10-04T15:30"],
      "once, after the skipped hour, in the southern spring"
    ],
    [
      "30 2 * * *",
      "Pacific/Auckland",
      "2026-04-03T20:00Z",
      ["2026-04-04T13:30", "2026-04-05T14:30"],
      "once, in the first hour, in the southern autumn"
    ],
    ["0 0 29 2 *", "UTC", "2026-11-22T00:00Z", ["2028-02-29T00:00", "2032-02-29T00:00"], "in leap years only"]
  ])("%s in %s after %s", (expression, timeZone, after, expected) => {
    expect(occurrences(expression, timeZone, after, expected.length)).toEqual(expected)
  })
})

it.each([
  ["*/20 * * * *", "Europe/Berlin"],
  ["30 2 * * *", "Australia/Sydney"],
  ["15 1,2,3 * * *", "America/New_York"]
])("finds the same occurrences of %s in %s backward as forward", (expression, timeZone) => {
  const { latest, next } = CronTimes.make(expression, timeZone)
  for (const start of ["2026-03-07T12:00Z", "2026-03-28T12:00Z", "2026-04-04T12:00Z", "2026-10-03T12:00Z", "2026-10-31T12:00Z"]) {
    let before = latest(Date.parse(start))
    for (let count = 0; count < 60; count++) {
      const at = next(before ?? Number.NaN) ?? Number.NaN
      expect([at, at + 1, at + 999, at + 1_000].map((time) => latest(time))).toEqual([at, at, at, at])
      expect([at - 1, at - 999].map((time) => latest(time))).toEqual([before, before])
      before = at
    }
  }
})

describe("decoding", () => {
  const decode = Schema.decodeUnknownResult(CronExpression)
  const problem = (text: string) => {
    const result = decode(text)
    return result._tag === "Failure" ? String(result.failure) : undefined
  }

  it.each(["* * * * *", "0 8 * * mon-fri", "*/5 0-6,22 1 jan *", "0 0 L * *", "@daily", "0 9 * * 1#1"])("accepts %s", (text) => {
    expect(problem(text)).toBeUndefined()
  })

  it.each([
    ["61 * * * *", "Invalid value for minute: 61"],
    ["0 0 30 2 *", "it never occurs"],
    ["* * * * * *", "it has 6 fields"],
    ["every day", "it has 2 fields"],
    ["", "it has 0 fields"],
    ["@often", "@often"],
    [`${"0,".repeat(200)}0 * * * *`, "200"]
  ])("refuses %s", (text, reason) => {
    expect(problem(text)).toContain(reason)
  })

  it("accepts time zone names and refuses others", () => {
    const isTimeZone = Schema.is(TimeZone)
    expect(["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"].every((name) => isTimeZone(name))).toBe(true)
    expect(["", "Mars/Olympus", "x".repeat(65)].some((name) => isTimeZone(name))).toBe(false)
  })
})
