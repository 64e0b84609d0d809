/** What a job gets back after its workers could not send heartbeats, or after the clock was set. */
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead, RetryRule } from "@stint/store/JobRecord"
import { describe, expect, it } from "vitest"
import { after, changeOf, ended, fresh, rejectionOf, running } from "./JobFixture.ts"

const NOT_DUE = { _tag: "NotDue" }

const recover = (
  now: number,
  by?: number
): JobMachineEvent => (by === undefined ? { _tag: "Recover", now } : { _tag: "Recover", now, by })

describe("a running job", () => {
  it("gets a full lease, and keeps its other timers if the clock was not set", () => {
    const renewed = { ...running, leaseExpiresAt: 55_000 }
    expect(changeOf(running, recover(50_000))).toStrictEqual({ _tag: "Put", job: renewed, outcome: {}, discardChunks: false })
    expect(after(running, recover(50_000, 0))).toStrictEqual(renewed)
  })

  it("keeps a start that is in the future if the clock was not set", () => {
    expect(after({ ...running, startedAt: 40_000 }, recover(30_000, 0))).toStrictEqual({
      ...running,
      startedAt: 40_000,
      leaseExpiresAt: 35_000
    })
  })

  it.each<readonly [what: string, now: number, by: number, moves: boolean]>([
    ["the pause is as long as the job has run", 13_000, 10_000, true],
    ["the pause is a millisecond longer than the job has run", 12_999, 10_000, false],
    ["the clock was set back to a time before the start", 2_999, -10_000, true],
    ["the clock was set back to the start", 3_000, -10_000, false]
  ])("moves its timers unless it was claimed afterwards: %s", (_, now, by, moves) => {
    const renewed = { ...running, leaseExpiresAt: now + 5_000 }
    expect(after(running, recover(now, by))).toStrictEqual(
      moves ? { ...renewed, startedAt: 3_000 + by, expiresAt: 61_000 + by } : renewed
    )
  })

  it("only gets a full lease if its start is not known", () => {
    const unknown = { ...running, startedAt: null }
    expect(after(unknown, recover(50_000, 10_000))).toStrictEqual({ ...unknown, leaseExpiresAt: 55_000 })
  })

  it("stays as it is if only backoffs are recovered", () => {
    expect(rejectionOf(running, { _tag: "Recover", now: 50_000, onlyBackoffs: true })).toStrictEqual(NOT_DUE)
  })
})

describe("a job without a lease", () => {
  it("gets none", () => {
    expect(rejectionOf(fresh, recover(50_000))).toStrictEqual({ _tag: "NotHeld", by: null, attempt: 0 })
    expect(rejectionOf(ended("FAILED"), recover(50_000))).toStrictEqual({ _tag: "NotHeld", by: null, attempt: 1 })
    expect(rejectionOf(fresh, { _tag: "Recover", now: 50_000, onlyBackoffs: true })).toStrictEqual(NOT_DUE)
  })

  it("keeps its start time, whatever the clock does", () => {
    const scheduled = { ...fresh, notBefore: 40_000 }
    expect(rejectionOf(scheduled, recover(2_000))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(scheduled, recover(2_000, 10_000))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(scheduled, recover(2_000, -10_000))).toStrictEqual(NOT_DUE)
  })

  it("sleeps until its time if it is a parked run, whatever the clock does", () => {
    const parked = { ...running, worker: null, leaseExpiresAt: null, notBefore: 40_000 }
    expect(rejectionOf(parked, recover(4_000), true)).toStrictEqual(NOT_DUE)
    expect(rejectionOf(parked, recover(4_000, -10_000), true)).toStrictEqual(NOT_DUE)
  })
})

describe("a job in a backoff", () => {
  const rule: RetryRule = { onError: true, backoff: { initialMs: 4_000, factor: 2, maxMs: 20_000 } }
  /** Its worker returned it until a time, so no setting limits the wait. */
  const returned: JobHead = { ...fresh, attempt: 2, retries: 2, notBefore: 40_000 }
  /** Its second attempt failed, so the wait is 8 s at most. */
  const failed: JobHead = { ...returned, retry: rule }

  it("moves back with the clock if more than half of the change is left; otherwise it began afterwards", () => {
    const job = { ...returned, notBefore: 30_000 }
    const change = { _tag: "Put", job, outcome: {}, discardChunks: false }
    expect(changeOf(returned, recover(34_999, -10_000))).toStrictEqual(change)
    expect(rejectionOf(returned, recover(35_000, -10_000))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(returned, recover(35_001, -10_000))).toStrictEqual(NOT_DUE)
  })

  it("does not move forward, or without a change of the clock", () => {
    expect(rejectionOf(returned, recover(34_000))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(returned, recover(34_000, 0))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(returned, recover(34_000, 10_000))).toStrictEqual(NOT_DUE)
    expect(rejectionOf(failed, recover(34_000, 10_000))).toStrictEqual(NOT_DUE)
  })

  it("lasts from now on no longer than its settings say after this number of failures", () => {
    expect(after(failed, recover(31_999)).notBefore).toBe(39_999)
    expect(rejectionOf(failed, recover(32_000))).toStrictEqual(NOT_DUE)
    expect(after({ ...failed, retries: 1 }, recover(32_000)).notBefore).toBe(36_000)
    expect(after({ ...failed, retries: 5 }, recover(10_000)).notBefore).toBe(30_000)
    expect(after(failed, { _tag: "Recover", now: 10_000, onlyBackoffs: true })).toStrictEqual({ ...failed, notBefore: 18_000 })
  })
})
