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

  it("draws earlier attempts from their log lines, and omits attempts without any", () => {
    const lines = [{ attempt: 1, time: 150 }, { attempt: 1, time: 200 }, { attempt: 3, time: 900 }]
    const job = { status: "FAILED", createdAt: 100, queuedAt: 600, startedAt: 700, finishedAt: 1_000, attempts: 3 }
    expect(brief(timelineOf(job, lines, 5_000))).toEqual([
      "Wait wait 100-150",
      "Attempt 1 failed 150-200",
      "Backoff and wait wait 200-700",
      "Attempt 3 failed 700-1000"
    ])
  })

  it("shows the last attempt of a job that waits again, from its start", () => {
    const lines = [{ attempt: 1, time: 260 }]
    const job = { status: "IN_QUEUE", createdAt: 100, queuedAt: 500, startedAt: 200, attempts: 1 }
    expect(brief(timelineOf(job, lines, 400))).toEqual([
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
