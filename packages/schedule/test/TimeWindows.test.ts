import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import * as TimeWindows from "../src/TimeWindows.ts"

const OFFICE = { start: "0 8 * * 1-5", end: "0 18 * * 1-5", timeZone: "Europe/Berlin" }
const NIGHT = { start: "0 22 * * *", end: "0 6 * * *", timeZone: "Europe/Berlin" }

const at = (text: string) => Date.parse(text)

describe("time windows", () => {
  it("are open from their start, inclusive, to their end, exclusive", () => {
    const windows = TimeWindows.make([OFFICE])
    expect(windows(at("2026-11-23T07:59:59+01:00"))).toEqual({ open: [], changesAt: at("2026-11-23T08:00:00+01:00") })
    expect(windows(at("2026-11-23T08:00:00+01:00"))).toEqual({ open: [OFFICE], changesAt: at("2026-11-23T18:00:00+01:00") })
    expect(windows(at("2026-11-23T18:00:00+01:00"))).toEqual({ open: [], changesAt: at("2026-11-24T08:00:00+01:00") })
    expect(windows(at("2026-11-28T12:00:00+01:00"))).toEqual({ open: [], changesAt: at("2026-11-30T08:00:00+01:00") })
  })

  it("may span midnight and overlap", () => {
    const early = { start: "0 5 * * *", end: "0 7 * * *", timeZone: "Europe/Berlin" }
    const windows = TimeWindows.make([NIGHT, early])
    expect(windows(at("2026-11-23T23:00:00+01:00")).open).toEqual([NIGHT])
    expect(windows(at("2026-11-24T05:30:00+01:00")).open).toEqual([NIGHT, early])
    expect(windows(at("2026-11-24T06:30:00+01:00")).open).toEqual([early])
  })

  it("are correct when the clock is set back", () => {
    const windows = TimeWindows.make([OFFICE])
    expect(windows(at("2026-11-23T12:00:00+01:00")).open).toEqual([OFFICE])
    expect(windows(at("2026-11-23T07:00:00+01:00")).open).toEqual([])
  })

  it("never change without windows", () => {
    expect(TimeWindows.make([])(0)).toEqual({ open: [], changesAt: undefined })
  })

  it("change only at the announced time, whatever the order of the calls", () => {
    const fresh = (now: number) => TimeWindows.make([OFFICE, NIGHT])(now)
    const windows = TimeWindows.make([OFFICE, NIGHT])
    const day = 86_400_000
    fc.assert(
      fc.property(
        fc.integer({ min: at("2026-03-01T00:00Z"), max: at("2026-11-30T00:00Z") }),
        fc.integer({ min: 0, max: day }),
        (now, later) => {
          const { changesAt = Infinity, open } = windows(now)
          expect({ changesAt, open }).toEqual(fresh(now))
          expect(fresh(Math.min(now + later, changesAt - 1)).open).toEqual(open)
          expect(fresh(changesAt).open).not.toEqual(open)
        }
      ),
      { numRuns: 50 }
    )
  })
})
