import { assert, describe, it } from "@effect/vitest"
import type { NewPlatformEvent } from "@stint/queue/PlatformEvents"
import * as fc from "fast-check"
import * as AlertCounts from "../src/AlertCounts.ts"
import { EventWindow } from "../src/EventWindow.ts"

const WINDOW = 10_000

const ended = (endpoint: string, status: "COMPLETED" | "FAILED" | "TIMED_OUT" | "CANCELLED"): NewPlatformEvent => ({
  type: "job.ended",
  endpoint,
  job: "1",
  status
})

const built = (build: number, state: "succeeded" | "failed" | "cancelled"): NewPlatformEvent => ({
  type: "build.ended",
  endpoint: "hello",
  build,
  state
})

const failed = (host: string): NewPlatformEvent => ({
  type: "webhook.failed",
  endpoint: "hello",
  delivery: "d",
  host,
  reason: "gone"
})

describe("a window of events", () => {
  it("counts every event in its last nine tenths, and no event that is older than the window", () => {
    const events = fc.array(fc.record({ after: fc.integer({ min: 0, max: 3_000 }), isMarked: fc.boolean() }), { maxLength: 80 })
    fc.assert(fc.property(events, (all) => {
      const window = new EventWindow(WINDOW)
      const seen: Array<{ readonly at: number; readonly isMarked: boolean }> = []
      let now = 1_000_000
      for (const { after, isMarked } of all) {
        now += after
        window.add(now, isMarked)
        seen.push({ at: now, isMarked })
        const since = (age: number) => seen.filter(({ at }) => now - at < age)
        const sum = window.sum(now)
        assert.isAtLeast(sum.all, since(WINDOW * 0.9).length)
        assert.isAtMost(sum.all, since(WINDOW).length)
        assert.isAtLeast(sum.marked, since(WINDOW * 0.9).filter(({ isMarked }) => isMarked).length)
        assert.isAtMost(sum.marked, since(WINDOW).filter(({ isMarked }) => isMarked).length)
      }
      assert.deepStrictEqual(window.sum(now + WINDOW), { all: 0, marked: 0 })
    }))
  })
})

describe("the counts of alerts", () => {
  it("count ended jobs by endpoint, except cancelled jobs, and forget removed endpoints", () => {
    const counts = AlertCounts.make(WINDOW)
    for (const status of ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"] as const) counts.listener(ended("hello", status), 5)
    counts.listener(ended("other", "FAILED"), 5)
    assert.deepStrictEqual(counts.ofEndpoint("hello", 6), { ended: 3, failed: 2, failedBuild: undefined })
    counts.retain(new Set(["other"]))
    assert.strictEqual(counts.ofEndpoint("hello", 6).ended, 0)
    assert.strictEqual(counts.ofEndpoint("other", 6).ended, 1)
  })

  it("remember a failed build until one succeeds", () => {
    const counts = AlertCounts.make(WINDOW)
    const failedBuild = () => counts.ofEndpoint("hello", 0).failedBuild?.build
    counts.listener(built(1, "failed"), 0)
    counts.listener(built(2, "cancelled"), 0)
    assert.strictEqual(failedBuild(), 1)
    counts.listener(built(3, "failed"), 0)
    assert.strictEqual(failedBuild(), 3)
    counts.listener(built(4, "succeeded"), 0)
    assert.isUndefined(failedBuild())
  })

  it("remember the failed deliveries to a host for an hour or until one succeeds, for a bounded number of hosts", () => {
    const counts = AlertCounts.make(WINDOW)
    counts.listener(failed("https://a"), 0)
    counts.listener(failed("https://a"), 0)
    assert.deepStrictEqual(counts.hosts(1), [{ host: "https://a", failed: 2, reason: "gone" }])
    counts.listener({ type: "webhook.delivered", endpoint: "hello", delivery: "d", host: "https://a" }, 1)
    assert.deepStrictEqual(counts.hosts(1), [])
    counts.listener(failed("https://b"), 0)
    assert.strictEqual(counts.hosts(1).length, 1)
    assert.deepStrictEqual(counts.hosts(3_600_000), [])
    for (let host = 0; host < AlertCounts.MAX_HOSTS + 10; host += 1) counts.listener(failed(String(host)), 0)
    const hosts = counts.hosts(1)
    assert.strictEqual(hosts.length, AlertCounts.MAX_HOSTS)
    assert.strictEqual(hosts[0]?.host, "10")
  })

  it("count jobs for a bounded number of endpoints", () => {
    const counts = AlertCounts.make(WINDOW)
    for (let endpoint = 0; endpoint < AlertCounts.MAX_ENDPOINTS + 1; endpoint += 1) {
      counts.listener(ended(String(endpoint), "FAILED"), 0)
    }
    assert.strictEqual(counts.ofEndpoint(String(AlertCounts.MAX_ENDPOINTS - 1), 0).failed, 1)
    assert.strictEqual(counts.ofEndpoint(String(AlertCounts.MAX_ENDPOINTS), 0).failed, 0)
  })
})
