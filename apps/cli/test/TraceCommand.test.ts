import { describe, expect, it } from "vitest"
import { partsOf } from "../src/commands/TraceCommand.ts"
import { draw } from "../src/output/Waterfall.ts"

type Explained = Parameters<typeof partsOf>[0]
type Explain = NonNullable<Explained["explain"]>

const workers = { max: 1, idle: 0, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 }

const job = (explain: Pick<Explain, "createdAt" | "queuedAt"> & Partial<Explain>, more: Partial<Explained> = {}): Explained => ({
  id: "j1",
  status: "COMPLETED",
  workerId: "ann",
  ...more,
  explain: { reason: "ended", words: "It has ended.", workers, attempts: { made: 1, most: 2 }, ...explain }
})

describe("the parts of a job's time", () => {
  it("are the wait with the worker's start, the attempt and the webhooks", () => {
    const parts = partsOf(
      job({
        createdAt: 1_000,
        queuedAt: 1_000,
        startedAt: 1_800,
        finishedAt: 2_000,
        wait: {
          millis: 800,
          words: "",
          parts: [{ phase: "queue", millis: 100 }, { phase: "start", millis: 600 }, { phase: "take", millis: 100 }]
        }
      }),
      [],
      [{
        event: "completed",
        attempts: [{ at: 2_010, durationMs: 50, status: 500, error: "no" }, {
          at: 2_500,
          durationMs: 5,
          status: 204,
          error: null
        }]
      }],
      9_000
    )
    expect(parts.map(({ end, name, start }) => [name, start, end])).toEqual([
      ["wait", 1_000, 1_800],
      ["  until a worker was requested", 1_000, 1_100],
      ["  start the worker", 1_100, 1_700],
      ["  until it was taken", 1_700, 1_800],
      ["attempt 1 on ann", 1_800, 2_000],
      ["webhook completed 1, failed", 2_010, 2_060],
      ["webhook completed 2", 2_500, 2_505]
    ])
    expect(parts.some(({ isOpen }) => isOpen)).toBe(false)
  })

  it("include earlier attempts, and end now while the job runs", () => {
    const running = job(
      { createdAt: 0, queuedAt: 400, startedAt: 500, attempts: { made: 3, most: 3 }, release: 7 },
      { status: "IN_PROGRESS" }
    )
    expect(partsOf(running, [], [], 900).map(({ end, isOpen, name, start }) => [name, start, end, isOpen])).toEqual([
      ["2 earlier attempts", 0, 400, false],
      ["wait", 400, 500, false],
      ["attempt 3 on ann, release 7", 500, 900, true]
    ])
    const run = job({ createdAt: 0, queuedAt: 400, startedAt: 500, finishedAt: 600, attempts: { made: 3, most: null } })
    expect(partsOf(run, [], [], 900).map(({ name }) => name)).toEqual(["2 earlier activations", "wait", "activation 3 on ann"])
  })

  it("include each earlier attempt with its outcome if the job's log reports all of them", () => {
    const running = job(
      { createdAt: 0, queuedAt: 400, startedAt: 500, attempts: { made: 3, most: 3 }, release: 7 },
      { status: "IN_PROGRESS" }
    )
    const ends = [
      { attempt: 1, time: 250, workerId: "eve", ended: { outcome: "lost", startedAt: 100 } },
      { attempt: 2, time: 400, workerId: "bob", release: 6, ended: { outcome: "failed", startedAt: 260, error: "busy" } }
    ] as const
    expect(partsOf(running, ends, [], 900).map(({ end, name, start }) => [name, start, end])).toEqual([
      ["wait", 0, 100],
      ["attempt 1 on eve, lost its worker", 100, 250],
      ["wait", 250, 260],
      ["attempt 2 on bob, release 6, failed", 260, 400],
      ["wait", 400, 500],
      ["attempt 3 on ann, release 7", 500, 900]
    ])
    expect(partsOf(running, ends.slice(1), [], 900).map(({ name }) => name)[0]).toBe("2 earlier attempts")
  })

  it("include the steps of a run, with their attempts", () => {
    const run = job(
      { createdAt: 0, queuedAt: 0, startedAt: 10, attempts: { made: 1, most: null } },
      { status: "IN_PROGRESS" }
    )
    const attempts = [
      { attempt: 1, state: "failed" as const, startedAt: 20, endedAt: 30, error: "no" },
      { attempt: 2, state: "completed" as const, startedAt: 50, endedAt: 60 }
    ]
    const parts = partsOf(run, [], [], 900, [
      { path: "charge", kind: "step", state: "completed", startedAt: 20, endedAt: 60, attempts },
      { path: "size", kind: "choice", state: "completed", endedAt: 60 },
      { path: "approve", kind: "waitFor", state: "open", startedAt: 70 }
    ])
    expect(parts.slice(2).map(({ end, isOpen, name, start }) => [name, start, end, isOpen])).toEqual([
      ["step charge", 20, 60, false],
      ["  attempt 1, failed", 20, 30, false],
      ["  attempt 2", 50, 60, false],
      ["step approve", 70, 900, true]
    ])
    const ended = partsOf(
      job({ createdAt: 0, queuedAt: 0, startedAt: 10, finishedAt: 100, attempts: { made: 1, most: null } }),
      [],
      [],
      900,
      [{ path: "approve", kind: "waitFor", state: "cancelled", startedAt: 70 }]
    )
    expect(ended.at(-1)).toEqual({ name: "step approve, cancelled", start: 70, end: 100, isOpen: false })
  })

  it("are the wait alone for a job that ended in the queue", () => {
    const cancelled = job({ createdAt: 0, queuedAt: 0, finishedAt: 70, attempts: { made: 0, most: 2 } }, {
      status: "CANCELLED"
    })
    expect(partsOf(cancelled, [], [], 900)).toEqual([{ name: "wait", start: 0, end: 70, isOpen: false }])
  })
})

describe("the waterfall", () => {
  it("draws the parts on one time line", () => {
    const text = draw([
      { name: "wait", start: 0, end: 500, isOpen: false },
      { name: "attempt 1", start: 500, end: 2_000, isOpen: true }
    ], 60)
    const [wait = "", attempt = ""] = text.split("\n")
    expect(wait).toMatch(/^wait +0 ms {2}500 ms {2}█+$/)
    expect(attempt).toMatch(/^attempt 1 {2}500 ms {2}1.50 s {3,}█+▶$/)
    expect(attempt.indexOf("█")).toBe(wait.length)
    expect(Math.max(wait.length, attempt.length)).toBeLessThanOrEqual(60)
  })

  it("shows even the shortest part", () => {
    const text = draw([{ name: "a", start: 0, end: 10_000, isOpen: false }, {
      name: "b",
      start: 10_000,
      end: 10_000,
      isOpen: false
    }], 40)
    expect(text.split("\n")[1]).toContain("█")
  })

  it("is not broken by names with control characters", () => {
    expect(draw([{ name: "a\n\u001b[2J", start: 0, end: 1, isOpen: false }], 40).split("\n")).toHaveLength(1)
  })
})
