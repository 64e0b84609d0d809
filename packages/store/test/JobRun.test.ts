/** The transitions of a job that is the run of a pipeline: its journal, its waits without a worker, and attempts that continue each other. */
import type { JobHead } from "@stint/store/JobRecord"
import { describe, expect, it } from "vitest"
import { after, ann, changeOf, ended, fresh, outcomeOf, RED, rejectionOf, running } from "./JobFixture.ts"

/** The run after its worker parked it until 30,000, with two chunks. */
const parked: JobHead = { ...running, worker: null, leaseExpiresAt: null, notBefore: 30_000, chunks: 2, drained: 1, retries: 1 }

describe("a write to the journal", () => {
  const journal = { _tag: "Journal", now: 7_000, progress: false, ...ann } as const
  const restarted = { ...running, retries: 2, isolated: true }

  it("extends the lease", () => {
    const job = { ...running, leaseExpiresAt: 12_000 }
    expect(changeOf(running, journal, true)).toStrictEqual({ _tag: "Put", job, outcome: {}, discardChunks: false })
  })

  it("forgets the failed attempts and the isolation if the run made progress", () => {
    expect(after(restarted, journal, true)).toStrictEqual({ ...restarted, leaseExpiresAt: 12_000 })
    expect(after(restarted, { ...journal, progress: true }, true)).toStrictEqual({ ...running, leaseExpiresAt: 12_000 })
  })

  it.each<readonly [expiresAt: number, result: number]>([[60_999, 61_000], [61_000, 61_000], [61_001, 61_001]])(
    "extends the run's life, and never shortens it: to %i",
    (expiresAt, result) => {
      expect(after(running, { ...journal, expiresAt }, true).expiresAt).toBe(result)
    }
  )
})

describe("a run that parks", () => {
  it("gives up its worker and its lease, and removes its progress", () => {
    const park = { _tag: "Park", now: 7_000, until: 30_000, ...ann } as const
    expect(changeOf({ ...running, chunks: 2, drained: 1, retries: 1 }, park, true)).toStrictEqual({
      _tag: "Put",
      job: parked,
      outcome: { progress: null },
      discardChunks: false
    })
  })

  it.each<readonly [until: number | null, notBefore: number]>([
    [6_000, 7_001],
    [7_000, 7_001],
    [7_001, 7_001],
    [7_002, 7_002],
    [60_999, 60_999],
    [61_000, 60_999],
    [90_000, 60_999],
    [null, 60_999]
  ])("waits at least a millisecond, and returns before its time to live ends: until %s", (until, notBefore) => {
    expect(after(running, { _tag: "Park", now: 7_000, until, ...ann }, true).notBefore).toBe(notBefore)
  })
})

describe("a parked run", () => {
  const queued = { ...parked, status: "IN_QUEUE", notBefore: null, startedAt: null } as const

  it("returns to the queue with its chunks when something arrives", () => {
    expect(changeOf(parked, { _tag: "Wake", now: 20_000 }, true)).toStrictEqual({
      _tag: "Put",
      job: { ...queued, queuedAt: 20_000 },
      outcome: { progress: null },
      discardChunks: false
    })
  })

  it("returns to the queue at its time, as of that time, however late the tick is", () => {
    expect(rejectionOf(parked, { _tag: "Tick", now: 29_999 }, true)).toStrictEqual({ _tag: "NotDue" })
    for (const now of [30_000, 30_001, 40_000]) {
      expect(changeOf(parked, { _tag: "Tick", now }, true)).toStrictEqual({
        _tag: "Put",
        job: { ...queued, queuedAt: 30_000 },
        outcome: { progress: null },
        discardChunks: false
      })
    }
  })

  it("ends with the run's time to live, and not with the execution timeout", () => {
    expect(after(parked, { _tag: "Tick", now: 60_999 }, true).status).toBe("IN_QUEUE")
    expect(changeOf(parked, { _tag: "Tick", now: 61_000 }, true)).toMatchObject({
      job: { status: "TIMED_OUT", notBefore: null, finishedAt: 61_000 },
      outcome: { error: "The run's time to live ended while it was parked." }
    })
  })

  it.each<readonly [what: string, JobHead]>([["waits", fresh], ["runs", running], ["has ended", ended("FAILED")]])(
    "is the only job that can be woken: not a job that %s",
    (_, job) => {
      expect(rejectionOf(job, { _tag: "Wake", now: 20_000 }, true)).toStrictEqual({ _tag: "NotDue" })
    }
  )
})

describe("the attempts of a run", () => {
  const streamed = { ...running, chunks: 2, drained: 1 }

  it("continue each other after a lost worker, a return and a retry", () => {
    const kept = { job: { status: "IN_QUEUE", chunks: 2, drained: 1 }, discardChunks: false }
    expect(changeOf(streamed, { _tag: "LoseLease", now: 7_000, cause: "Gone.", ...ann }, true)).toMatchObject(kept)
    expect(changeOf(streamed, { _tag: "Tick", now: 8_000 }, true)).toMatchObject(kept)
    expect(changeOf(streamed, { _tag: "Return", now: 7_000, ...ann }, true)).toMatchObject(kept)
    const retried = { ...streamed, retry: { onError: true, backoff: null } }
    expect(changeOf(retried, { _tag: "Finish", now: 7_000, output: null, error: "e", ...ann }, true)).toMatchObject(kept)
    const failed = { ...ended("FAILED"), chunks: 2, drained: 1 }
    expect(changeOf(failed, { _tag: "Retry", now: 10_000, endpoint: RED }, true)).toMatchObject(kept)
  })

  it("end with the run's time to live", () => {
    const errorOf = (job: JobHead) => outcomeOf(job, { _tag: "Tick", now: 61_000 }, true).error
    expect(errorOf(fresh)).toBe("The run's time to live ended while it was waiting for a worker.")
    expect(errorOf(running)).toBe("The run's time to live ended while it was running on worker ann.")
    expect(outcomeOf(fresh, { _tag: "Claim", now: 61_000, worker: "ann" }, true).error).toBe(errorOf(fresh))
  })
})
