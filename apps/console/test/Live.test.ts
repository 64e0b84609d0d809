import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { linksOf } from "../src/alerts/AlertLinks.ts"
import { absolute, clockTime } from "../src/format/Format.ts"
import { keysOf } from "../src/keys/EndpointKeys.tsx"
import { atMost, hasEvent } from "../src/live/LiveEvents.ts"
import { preferencesOf } from "../src/live/Preferences.ts"

describe("the refresh of lists by events", () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it("happens at the first event, and then at most once per interval, also after the last event", () => {
    let refreshes = 0
    const { call, stop } = atMost(2_000, () => {
      refreshes += 1
    })
    call()
    expect(refreshes).toBe(1)
    for (let n = 0; n < 50; n += 1) {
      call()
      vi.advanceTimersByTime(100)
    }
    // 5 s of events: at 0, 2 and 4 s.
    expect(refreshes).toBe(3)
    vi.advanceTimersByTime(10_000)
    expect(refreshes).toBe(4)
    call()
    expect(refreshes).toBe(5)
    call()
    stop()
    vi.advanceTimersByTime(10_000)
    expect(refreshes).toBe(5)
  })

  it("distinguishes events from comments that keep the connection open", () => {
    expect(hasEvent("id: a-1\nevent: job.submitted\ndata: {}\n\n")).toBe(true)
    expect(hasEvent("{\"a\":1}\n\ndata: {}\n\n")).toBe(true)
    expect(hasEvent(": still here\n\n")).toBe(false)
  })
})

describe("the reader's choices", () => {
  it("are read from the browser's storage, and invalid ones are ignored", () => {
    expect(preferencesOf(null)).toEqual({ theme: "system", zone: undefined })
    expect(preferencesOf(JSON.stringify({ theme: "dark", zone: "Asia/Tokyo" }))).toEqual({ theme: "dark", zone: "Asia/Tokyo" })
    for (const bad of ["", "{", "null", "[]", JSON.stringify({ theme: "pink", zone: "Moon/Sea" }), JSON.stringify({ zone: 3 })]) {
      expect(preferencesOf(bad), bad).toEqual({ theme: "system", zone: undefined })
    }
  })

  it("decide the zone of absolute times", () => {
    const time = Date.UTC(2026, 10, 21, 23, 5, 9, 7)
    expect(absolute(time, "UTC")).toBe("2026-11-21 23:05:09.007 UTC")
    expect(absolute(time, "Asia/Tokyo")).toBe("2026-11-22 08:05:09.007 GMT+9")
    expect(clockTime(time)).toMatch(/^\d\d:\d\d:\d\d\.007$/)
  })
})

describe("the links of an alert", () => {
  it("lead to what the alert is about", () => {
    expect(linksOf({ kind: "queue_old", endpoint: "a b" }).map(({ search, to }) => ({ to, search }))).toEqual([
      { to: "/console/jobs", search: { endpoint: "a b", status: "IN_QUEUE" } },
      { to: "/console/workers", search: { endpoint: "a b" } }
    ])
    expect(linksOf({ kind: "build_failed", endpoint: "a b" })[0]?.to).toBe("/console/builds/a%20b")
    expect(linksOf({ kind: "disk_low" })).toEqual([])
    const kinds = [
      "endpoint_failing",
      "workers_failing",
      "queue_old",
      "build_failed",
      "webhook_receiver_gone",
      "budget_reached"
    ] as const
    for (const kind of kinds) expect(linksOf({ kind, endpoint: "e" }), kind).not.toEqual([])
  })
})

describe("the keys of an endpoint", () => {
  it("are those for all endpoints and those that name it", () => {
    const key = (id: string, endpoints: "all" | ReadonlyArray<string>) =>
      ({ id, name: id, scopes: ["jobs"], endpoints, status: "ACTIVE", createdAt: 0 }) as unknown as Parameters<
        typeof keysOf
      >[0][number]
    const keys = [key("a", "all"), key("b", ["hello"]), key("c", ["other"])]
    expect(keysOf(keys, "hello").map(({ id }) => id)).toEqual(["a", "b"])
  })
})
