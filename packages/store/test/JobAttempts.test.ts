/** The end of an attempt: results, errors and lost workers, the wait before the next attempt, and the isolation of the job. */
import { toJsonText } from "@stint/contract/Json"
import { isRetriedError, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead, JobReport, RetryRule } from "@stint/store/JobRecord"
import { describe, expect, it } from "vitest"
import { after, ann, BLUE, changeOf, ended, fresh, outcomeOf, RED, running } from "./JobFixture.ts"

const output = toJsonText({ city: "Bern" })
const success = { _tag: "Finish", now: 9_000, output, error: null, ...ann } as const
const failure = { _tag: "Finish", now: 9_000, output, error: "no such city", ...ann } as const
const loss = { _tag: "LoseLease", now: 9_000, cause: "Gone.", ...ann } as const

/** Retries errors, with the same wait before each attempt. */
const waits = (millis: number): RetryRule => ({ onError: true, backoff: { initialMs: millis, factor: 1, maxMs: millis } })
const atOnce: RetryRule = { onError: true, backoff: null }

describe("a result of an attempt", () => {
  it("ends the job, as COMPLETED without an error and as FAILED with one", () => {
    const outcome = { progress: null, output, error: null, lastError: null }
    const change = { _tag: "Put", job: ended("COMPLETED"), outcome, discardChunks: false }
    expect(changeOf(running, success)).toStrictEqual(change)
    expect(changeOf(running, failure)).toStrictEqual({
      ...change,
      job: ended("FAILED"),
      outcome: { ...outcome, error: "no such city" }
    })
  })

  it("ends the job as CANCELLED, without a result, if the run has undone its work", () => {
    const outcome = { progress: null, output: null, error: null, lastError: null }
    const change = { _tag: "Put", job: ended("CANCELLED"), outcome, discardChunks: false }
    expect(changeOf(running, { ...success, cancelled: true })).toStrictEqual(change)
    expect(changeOf({ ...running, retry: atOnce }, { ...failure, cancelled: true })).toStrictEqual({
      ...change,
      job: { ...ended("CANCELLED"), retry: atOnce }
    })
    expect(after(running, { ...success, cancelled: false }).status).toBe("COMPLETED")
  })

  it.each<readonly [what: string, RetryRule | null, isFinal: boolean | undefined, status: JobHead["status"]]>([
    ["the job has no rule", null, undefined, "FAILED"],
    ["the rule is for lost workers only", { ...waits(0), onError: false }, undefined, "FAILED"],
    ["the rule is for errors", atOnce, undefined, "IN_QUEUE"],
    ["the rule is for errors, and this error is not final", atOnce, false, "IN_QUEUE"],
    ["the rule is for errors, and this error is final", atOnce, true, "FAILED"]
  ])("is retried only if it is an error: %s", (_, retry, isFinal, status) => {
    const event = isFinal === undefined ? failure : { ...failure, isFinal }
    expect(after({ ...running, retry }, event).status).toBe(status)
    expect(after({ ...running, retry }, { ...event, error: null }).status).toBe("COMPLETED")
  })

  it("keeps the error and the output of the last attempt", () => {
    const last = { ...running, retry: atOnce, retries: 2 }
    expect(changeOf(last, failure)).toStrictEqual({
      _tag: "Put",
      job: { ...ended("FAILED"), retry: atOnce, retries: 2 },
      outcome: { progress: null, output, error: "no such city", lastError: null },
      discardChunks: false
    })
  })
})

describe("a failed attempt", () => {
  it("is stored as the last error of the waiting job, without its chunks and progress", () => {
    const streamed = { ...running, retry: atOnce, chunks: 2, drained: 1 }
    expect(changeOf(streamed, failure)).toStrictEqual({
      _tag: "Put",
      job: { ...fresh, retry: atOnce, queuedAt: 9_000, attempt: 1, retries: 1, worker: "ann" },
      outcome: { progress: null, lastError: "no such city" },
      discardChunks: true
    })
    expect(outcomeOf(running, loss)).toStrictEqual({ progress: null, lastError: "Gone." })
  })

  it("stores at most 2,000 characters of the error", () => {
    const lastErrorOf = (error: string) => outcomeOf({ ...running, retry: atOnce }, { ...failure, error }).lastError
    expect(lastErrorOf("e".repeat(2_000))).toBe("e".repeat(2_000))
    expect(lastErrorOf("e".repeat(2_001))).toBe("e".repeat(2_000))
  })

  it.each<readonly [maxAttempts: number, retries: number, error: string | undefined]>([
    [1, 0, "Gone. This was the only attempt allowed."],
    [2, 0, undefined],
    [2, 1, "Gone. This was attempt 2 of 2."],
    [3, 1, undefined],
    [3, 2, "Gone. This was attempt 3 of 3."]
  ])("is the last of %i attempts after enough failures: %i before it", (maxAttempts, retries, error) => {
    const job = { ...running, maxAttempts, retries }
    expect(after(job, loss)).toMatchObject(
      error === undefined ? { status: "IN_QUEUE", retries: retries + 1 } : { status: "FAILED", retries }
    )
    expect(outcomeOf(job, loss).error).toBe(error)
  })
})

describe("the wait before the next attempt", () => {
  const notBeforeOf = (job: JobHead, event: JobMachineEvent = loss) => after(job, event).notBefore

  it("is none without a backoff, and none if the backoff is 0", () => {
    expect(notBeforeOf(running)).toBeNull()
    expect(notBeforeOf({ ...running, retry: atOnce })).toBeNull()
    expect(notBeforeOf({ ...running, retry: waits(0) })).toBeNull()
    expect(notBeforeOf({ ...running, retry: waits(1) })).toBe(9_001)
  })

  it.each<readonly [retries: number, wait: number]>([[0, 1_000], [1, 3_000], [2, 9_000], [3, 10_000], [4, 10_000]])(
    "grows by its factor up to its limit: after %i earlier failures",
    (retries, wait) => {
      const backoff = { initialMs: 1_000, factor: 3, maxMs: 10_000 }
      const job = { ...running, maxAttempts: 9, retries, retry: { onError: true, backoff } }
      expect(notBeforeOf(job)).toBe(9_000 + wait)
      expect(notBeforeOf(job, failure)).toBe(9_000 + wait)
      expect(notBeforeOf({ ...job, leaseExpiresAt: 9_000 }, { _tag: "Tick", now: 9_000 })).toBe(9_000 + wait)
    }
  )

  it("is shortened by at most half, and differently for each random number", () => {
    const shortened = [0, 0.25, 0.5, 0.75].map((random) => notBeforeOf({ ...running, retry: waits(40_000) }, { ...loss, random }))
    expect(shortened.filter((at) => at !== null && at > 29_000 && at <= 49_000)).toEqual(shortened)
    // A quarter more of the random number is an eighth more of the wait, or starts again at the shortest wait.
    const sorted = shortened.map((at) => (at ?? 0) - 29_000).sort((a, b) => a - b)
    expect(sorted.map((at) => at - (sorted[0] ?? 0))).toEqual([0, 5_000, 10_000, 15_000])
  })

  it("ends before the time to live; otherwise the job fails at once", () => {
    const error = "Gone. This was attempt 1 of 3, and the job's time to live ends before the next may begin."
    expect(notBeforeOf({ ...running, retry: waits(51_999) })).toBe(60_999)
    expect(changeOf({ ...running, retry: waits(52_000) }, loss)).toMatchObject({
      job: { status: "FAILED", notBefore: null, finishedAt: 9_000 },
      outcome: { error }
    })
    expect(outcomeOf({ ...running, retry: waits(52_001) }, loss).error).toBe(error)
    expect(outcomeOf({ ...running, retry: waits(52_000) }, failure).error).toBe("no such city")
  })
})

describe("the isolation of a job", () => {
  const silent: JobMachineEvent = { _tag: "Tick", now: 8_000 }
  const endless = { ...running, maxAttempts: 1 }

  it.each<readonly [what: string, JobHead, JobMachineEvent, isolated: boolean]>([
    ["it loses its worker", running, loss, true],
    ["it loses the worker of its last attempt", endless, loss, true],
    ["it loses its worker, and the event does not rule out that it is the cause", running, { ...loss, blameless: false }, true],
    ["it loses its worker, but not because of the job", running, { ...loss, blameless: true }, false],
    ["its worker is silent", running, silent, true],
    ["its worker is silent in its last attempt", endless, silent, true],
    ["its execution timeout ends", { ...running, leaseExpiresAt: 24_000 }, { _tag: "Tick", now: 23_000 }, false],
    ["its worker returns it", running, { _tag: "Return", now: 7_000, ...ann }, false],
    ["it fails", running, failure, false]
  ])("begins if its worker is lost, perhaps because of it: %s", (_, job, event, isolated) => {
    expect(after(job, event).isolated).toBe(isolated)
  })

  it.each<readonly [what: string, JobMachineEvent, isolated: boolean]>([
    ["completes it", success, false],
    ["fails it", failure, false],
    ["undoes it", { ...success, cancelled: true }, false],
    ["sends a heartbeat", { _tag: "Heartbeat", now: 7_000, ...ann }, true],
    ["returns it", { _tag: "Return", now: 7_000, ...ann }, true],
    ["is lost, but not because of the job", { ...loss, blameless: true }, true],
    ["runs it when a caller cancels it", { _tag: "Cancel", now: 7_000, endpoint: RED }, true]
  ])("ends when a worker has survived it: the worker %s", (_, event, isolated) => {
    expect(after({ ...running, isolated: true }, event).isolated).toBe(isolated)
  })

  it("ends with an error that is retried, and not with the claim before it", () => {
    const isolated = { ...fresh, isolated: true, retry: atOnce }
    const claimed = after(isolated, { _tag: "Claim", now: 3_000, worker: "ann" })
    expect(claimed.isolated).toBe(true)
    expect(after(claimed, failure)).toMatchObject({ status: "IN_QUEUE", isolated: false })
  })
})

describe("an error that is delivered again", () => {
  const report = (head: JobHead, lastError: string | null = "no such city"): JobReport => ({
    ...head,
    progress: null,
    output: null,
    error: null,
    lastError
  })
  /** After the first delivery of the error. */
  const waiting = report({ ...fresh, attempt: 2, retries: 1, worker: "ann" })
  /** Another worker has claimed the job since. */
  const claimed = report({ ...running, attempt: 3, retries: 1, worker: "bob" })
  const by = { ...ann, attempt: 2 }

  it.each<readonly [what: string, JobReport, worker: string, attempt: number | undefined, retried: boolean]>([
    ["the job waits", waiting, "ann", 2, true],
    ["the job waits for a backoff", { ...waiting, notBefore: 9_000 }, "ann", 2, true],
    ["the job waits, but another worker sends it", waiting, "bob", 2, false],
    ["the job waits, but it is from an earlier attempt", waiting, "ann", 1, false],
    ["the job waits, but it is from a later attempt", waiting, "ann", 3, false],
    ["the job waits, but the attempt is not known", waiting, "ann", undefined, false],
    ["the next attempt runs", claimed, "ann", 2, true],
    ["the next attempt runs, and has just failed", claimed, "bob", 3, false],
    ["the next attempt runs, but it is from an earlier attempt", claimed, "ann", 1, false],
    ["the next attempt runs, but it is from a later attempt", claimed, "ann", 4, false],
    ["the next attempt runs, but the attempt is not known", claimed, "ann", undefined, false],
    ["the job has ended", report({ ...ended("FAILED"), attempt: 2 }), "ann", 2, false],
    ["the next attempt has ended", report({ ...ended("FAILED"), attempt: 3 }), "ann", 2, false]
  ])("is known by its worker and attempt: %s", (_, job, worker, attempt, retried) => {
    expect(isRetriedError(job, { endpoint: RED, worker, attempt }, "no such city")).toBe(retried)
  })

  it.each([waiting, claimed])("is on the same endpoint and has the same text, while the job is $status", (job) => {
    expect(isRetriedError(job, by, "no such city")).toBe(true)
    expect(isRetriedError(job, { ...by, endpoint: BLUE }, "no such city")).toBe(false)
    expect(isRetriedError(job, by, "no such town")).toBe(false)
    expect(isRetriedError(job, by, null)).toBe(false)
    expect(isRetriedError({ ...job, lastError: null }, by, "no such city")).toBe(false)
    expect(isRetriedError({ ...job, lastError: null }, by, null)).toBe(false)
  })

  it("is compared in its first 2,000 characters, which are stored", () => {
    const stored = { ...waiting, lastError: "e".repeat(2_000) }
    expect(isRetriedError(stored, by, "e".repeat(2_001))).toBe(true)
    expect(isRetriedError(stored, by, "e".repeat(2_000))).toBe(true)
    expect(isRetriedError(stored, by, "e".repeat(1_999))).toBe(false)
  })
})
