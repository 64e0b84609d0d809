import { describe, expect, it } from "vitest"
import { placeBars, timelineOf } from "../src/jobs/JobTimeline.ts"

const brief = (bars: ReturnType<typeof timelineOf>) =>
  bars.map(({ from, isOpen, kind, label, to }) => `${label} ${kind} ${from}-${to}${isOpen ? "+" : ""}`)

describe("the timeline of a job", () => {
  it("shows the wait and the attempt of an ended job", () => {
    const job = { status: "COMPLETED", createdAt: 100, queuedAt: 100, startedAt: 300, finishedAt: 900, attempts: 1 }
    expect(brief(timelineOf(job, [], 5_000))).toEqual(["Wait wait 100-300", "Attempt 1 done 300-900"])
  })

  it("leaves the last bar open while the job waits or runs", () => {
    const waiting = { status: "IN_QUEUE", createdAt: 100, queuedAt: 100, attempts: 0 }
    expect(brief(timelineOf(waiting, [], 400))).toEqual(["Wait wait 100-400+"])
    const running = { status: "IN_PROGRESS", createdAt: 100, queuedAt: 100, startedAt: 200, attempts: 1 }
    expect(brief(timelineOf(running, [], 400))).toEqual(["Wait wait 100-200", "Attempt 1 run 200-400+"])
  })

  it("shows the parts of a cold start below the wait, up to its end", () => {
    const waitParts = [{ phase: "queue", millis: 20 }, { phase: "start", millis: 150 }, { phase: "take", millis: 30 }] as const
    const job = { status: "COMPLETED", createdAt: 100, queuedAt: 100, startedAt: 300, finishedAt: 900, attempts: 1 }
    expect(brief(timelineOf({ ...job, waitParts }, [], 5_000))).toEqual([
      "Wait wait 100-300",
      "Queue wait 100-120",
      "Start cold 120-270",
      "Take wait 270-300",
      "Attempt 1 done 300-900"
    ])
    expect(timelineOf({ ...job, waitParts: [{ phase: "take", millis: 200 }] }, [], 5_000)).toHaveLength(2)
  })

  it("shows the pull of an image as a part of the cold start", () => {
    const waitParts = [{ phase: "pull", millis: 150 }, { phase: "create", millis: 50 }] as const
    const job = { status: "IN_PROGRESS", createdAt: 100, queuedAt: 100, startedAt: 300, attempts: 1, waitParts }
    expect(brief(timelineOf(job, [], 400)).slice(1, 3)).toEqual(["Pull image cold 100-250", "Create worker cold 250-300"])
  })

  it("shows a job that was cancelled before any attempt as one bar", () => {
    const job = { status: "CANCELLED", createdAt: 100, queuedAt: 100, finishedAt: 250, attempts: 0 }
    expect(brief(timelineOf(job, [], 400))).toEqual(["Wait ended 100-250"])
  })

  it("draws earlier attempts with their reported times, or from their log lines, and omits attempts without either", () => {
    const earlier = [
      { number: 1, state: "lost", startedAt: 150, endedAt: 200, isEstimate: false },
      { number: 2, state: "unknown", startedAt: 220, endedAt: 240, isEstimate: true },
      { number: 3, state: "unknown", startedAt: undefined, endedAt: undefined, isEstimate: true },
      { number: 4, state: "returned", startedAt: 300, endedAt: 310, isEstimate: false },
      { number: 5, state: "failed", startedAt: 700, endedAt: 1_000, isEstimate: false }
    ] as const
    const job = { status: "FAILED", createdAt: 100, queuedAt: 600, startedAt: 700, finishedAt: 1_000, attempts: 5 }
    const bars = timelineOf(job, earlier, 5_000)
    expect(brief(bars)).toEqual([
      "Wait wait 100-150",
      "Attempt 1 failed 150-200",
      "Backoff and wait wait 200-220",
      "Attempt 2 failed 220-240",
      "Backoff and wait wait 240-300",
      "Attempt 4 ended 300-310",
      "Backoff and wait wait 310-700",
      "Attempt 5 failed 700-1000"
    ])
    expect(bars.map(({ note }) => note).filter((note) => note !== undefined)).toEqual([
      "The worker was lost.",
      "Drawn from its first to its last log line.",
      "The worker returned the job."
    ])
  })

  it("shows the last attempt of a job that waits again", () => {
    const earlier = [{ number: 1, state: "failed", startedAt: 200, endedAt: 260, isEstimate: false }] as const
    const job = { status: "IN_QUEUE", createdAt: 100, queuedAt: 500, attempts: 1 }
    expect(brief(timelineOf(job, earlier, 400))).toEqual([
      "Wait wait 100-200",
      "Attempt 1 failed 200-260",
      "Backoff and wait wait 260-400+"
    ])
  })

  it("stays within the axis when clocks disagree", () => {
    const job = { status: "IN_PROGRESS", createdAt: 1_000, queuedAt: 1_000, startedAt: 1_200, attempts: 1 }
    const places = placeBars(timelineOf(job, [], 900))
    for (const { left, width } of places) {
      expect(left).toBeGreaterThanOrEqual(0)
      expect(left + width).toBeLessThanOrEqual(100)
      expect(width).toBeGreaterThan(0)
    }
  })
})
