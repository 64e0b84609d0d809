import type { JobLogLine } from "@stint/client"
import { describe, expect, it } from "vitest"
import { attemptsOf, MAX_SHOWN } from "../src/jobs/Attempts.ts"

let next = 0
const line = (attempt: number, rest: Partial<JobLogLine> = {}): JobLogLine => ({
  number: next += 1,
  time: 0,
  level: "INFO",
  message: "working",
  attempt,
  source: "log",
  ...rest
})

describe("the attempts of a job", () => {
  it("has the outcome, worker, release, times, error and lines of each attempt", () => {
    const printed = line(1, { time: 210, workerId: "ann" })
    const lines = [
      printed,
      line(1, {
        time: 300,
        source: "platform",
        workerId: "ann",
        release: 3,
        ended: { outcome: "lost", startedAt: 200, error: "Worker ann was killed by SIGKILL." }
      }),
      line(2, { time: 420, workerId: "bob", release: 4 })
    ]
    const job = {
      status: "FAILED",
      attempts: 2,
      startedAt: 400,
      finishedAt: 900,
      worker: "bob",
      release: 4,
      error: "KeyError: no user"
    }
    expect(attemptsOf(job, lines)).toEqual([
      {
        number: 1,
        state: "lost",
        startedAt: 200,
        endedAt: 300,
        worker: "ann",
        release: 3,
        error: "Worker ann was killed by SIGKILL.",
        lines: [printed],
        isEstimate: false
      },
      {
        number: 2,
        state: "failed",
        startedAt: 400,
        endedAt: 900,
        worker: "bob",
        release: 4,
        error: "KeyError: no user",
        lines: [lines[2]],
        isEstimate: false
      }
    ])
  })

  it("estimates an attempt without a reported end from its lines", () => {
    const lines = [line(1, { time: 210, workerId: "ann" }), line(1, { time: 280, workerId: "ann" })]
    const [first, second] = attemptsOf({ status: "IN_PROGRESS", attempts: 2, startedAt: 400 }, lines)
    expect(first).toMatchObject({ state: "unknown", startedAt: 210, endedAt: 280, worker: "ann", isEstimate: true })
    expect(second).toMatchObject({ state: "running", startedAt: 400, endedAt: undefined, isEstimate: false })
  })

  it("takes the last attempt of a job that waits again from its report", () => {
    const lines = [line(1, { time: 300, source: "platform", ended: { outcome: "failed", startedAt: 200 } })]
    expect(attemptsOf({ status: "IN_QUEUE", attempts: 1 }, lines)).toMatchObject([{ state: "failed", endedAt: 300 }])
    expect(attemptsOf({ status: "IN_QUEUE", attempts: 0 }, [])).toEqual([])
  })

  it("has the newest attempts of a job with many", () => {
    const found = attemptsOf({ status: "IN_PROGRESS", attempts: 80, startedAt: 1 }, [])
    expect(found).toHaveLength(MAX_SHOWN)
    expect(found.at(-1)).toMatchObject({ number: 80, state: "running" })
  })
})
