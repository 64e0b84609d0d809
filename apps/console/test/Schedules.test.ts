import type { Schedule, ScheduleSpec } from "@stint/contract/Schedule"
import { describe, expect, it } from "vitest"
import { inZone, isZone } from "../src/format/Zones.ts"
import { draftOf, specOf, timesOf } from "../src/schedules/ScheduleDraft.ts"
import { stateOf, whenText } from "../src/schedules/ScheduleWords.ts"

const SPEC: ScheduleSpec = {
  cron: "0 3 * * *",
  timeZone: "Europe/Berlin",
  input: { report: "daily" },
  overlap: "queue",
  catchUp: "all",
  catchUpLimit: 7,
  jitterMs: 1_500
}

/** 2026-11-24T02:00:00Z */
const THREE_IN_BERLIN = Date.UTC(2026, 10, 24, 2)

describe("the form of a schedule", () => {
  it("returns the settings that it started with, including those that it does not show", () => {
    expect(specOf(draftOf(SPEC), SPEC)).toEqual({ spec: SPEC })
    const once: ScheduleSpec = { ...SPEC, at: THREE_IN_BERLIN + 123, tags: ["eu"], webhook: "https://example.com/", priority: 5 }
    const { cron: _cron, ...single } = once
    expect(specOf(draftOf(single), single)).toEqual({ spec: single })
  })

  it("switches between a single time and an expression, and never sends both", () => {
    const draft = { ...draftOf(SPEC), repeats: false, at: "2026-12-01T09:00" }
    expect(specOf(draft, SPEC)).toMatchObject({ spec: { at: new Date("2026-12-01T09:00").getTime() } })
    expect(specOf(draft, SPEC)).not.toHaveProperty("spec.cron")
    const back = specOf({ ...draft, repeats: true }, { ...SPEC, at: 1 })
    expect(back).toMatchObject({ spec: { cron: SPEC.cron } })
    expect(back).not.toHaveProperty("spec.at")
  })

  it("says what is wrong with each field before anything is sent", () => {
    const wrong = { cron: "0 3 * *", input: "{", catchUpLimit: "101", jitterSeconds: "-1" }
    expect(specOf({ ...draftOf(SPEC), ...wrong })).toEqual({
      problems: {
        cron: expect.stringContaining("five fields"),
        input: expect.any(String),
        catchUpLimit: expect.stringContaining("1 to 100"),
        jitterSeconds: expect.stringContaining("0 to 3600")
      }
    })
    expect(specOf({ ...draftOf(SPEC), timeZone: "Europe/Atlantis" })).toEqual({
      problems: { timeZone: expect.stringContaining("Europe/Berlin") }
    })
    expect(specOf({ ...draftOf(SPEC), repeats: false, at: "" })).toEqual({ problems: { at: expect.any(String) } })
    for (const text of ["", "1.5", "many"]) {
      expect(specOf({ ...draftOf(SPEC), catchUpLimit: text }), text).toHaveProperty("problems.catchUpLimit")
    }
  })

  it("shows the next times in the zone of the expression", () => {
    const found = timesOf("0 3 * * *", "Europe/Berlin", THREE_IN_BERLIN - 1, 2)
    expect(found).toEqual({ times: [THREE_IN_BERLIN, THREE_IN_BERLIN + 86_400_000] })
    expect(timesOf("0 0 30 2 *", "UTC", 0)).toEqual({ reason: "This never occurs." })
    expect(timesOf("0 25 * * *", "UTC", 0)).toHaveProperty("reason")
    expect(timesOf("@daily", "UTC", 0, 1)).toEqual({ times: [86_400_000] })
  })
})

describe("the times of a schedule", () => {
  it("are shown in the chosen zone, with seconds only when they are not zero", () => {
    expect(inZone(THREE_IN_BERLIN, "Europe/Berlin")).toBe("Tue 24 Nov 2026, 03:00 CET")
    expect(inZone(THREE_IN_BERLIN + 5_000, "UTC")).toBe("Tue 24 Nov 2026, 02:00:05 UTC")
    expect(inZone(THREE_IN_BERLIN, "Europe/Atlantis")).toBe("Tue 24 Nov 2026, 02:00 UTC")
    expect([isZone("America/New_York"), isZone("nowhere")]).toEqual([true, false])
  })

  it("are an expression with its zone, or one time in the chosen zone", () => {
    expect(whenText(SPEC, "UTC")).toBe("0 3 * * * (Europe/Berlin)")
    const { cron: _cron, ...once } = SPEC
    expect(whenText({ ...once, at: THREE_IN_BERLIN }, "UTC")).toBe("once, Tue 24 Nov 2026, 02:00 UTC")
  })
})

describe("the state of a schedule", () => {
  const state = (over: Partial<Schedule>) => stateOf({ paused: false, next: [1], waiting: [], ...over })[1]

  it("distinguishes an active schedule from one that is paused, waits, or has no further time", () => {
    expect(state({})).toBe("Active")
    expect(state({ paused: true, next: [] })).toBe("Paused")
    expect(state({ waiting: [1] })).toBe("Waits for its previous job")
    expect(state({ next: [] })).toBe("Over")
  })
})
