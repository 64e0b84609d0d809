/** The transitions of a job, event by event: claims, timers, the worker's events, cancels and retries. Failed attempts: JobAttempts.test.ts. */
import { BatchId } from "@stint/contract/Batch"
import { toJsonText } from "@stint/contract/Json"
import { bulkOf, transition } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import * as Result from "effect/Result"
import { describe, expect, it } from "vitest"
import {
  after,
  ann,
  BLUE,
  changeOf,
  claim,
  ended,
  fresh,
  outcomeOf,
  RED,
  rejectionOf,
  running,
  workerEvents
} from "./JobFixture.ts"

const held = { key: "city", limit: 1, held: true }
const parked: JobHead = { ...running, worker: null, leaseExpiresAt: null, notBefore: 30_000 }
/** The outcome of a job that ended. */
const outcome = { progress: null, output: null, error: null, lastError: null }

describe("a claim", () => {
  it("starts the next attempt, and knows the worker's release if the event states it", () => {
    const event = { _tag: "Claim", now: 3_000, worker: "ann" } as const
    expect(changeOf(fresh, event)).toStrictEqual({ _tag: "Put", job: running, outcome: {}, discardChunks: false })
    expect(after(fresh, { ...event, release: 4 })).toStrictEqual({ ...running, release: 4 })
    expect(after({ ...fresh, release: 4, attempt: 6 }, event)).toStrictEqual({ ...running, attempt: 7 })
  })

  it("starts without the chunks of an earlier attempt, except for a run", () => {
    const streamed = { ...fresh, chunks: 2, drained: 1 }
    const event = { _tag: "Claim", now: 3_000, worker: "ann" } as const
    expect(after(streamed, event)).toMatchObject({ chunks: 0, drained: 0 })
    expect(after(streamed, event, true)).toMatchObject({ chunks: 2, drained: 1 })
  })

  it("times out a job at the end of its time to live, not a millisecond earlier", () => {
    expect(claim(fresh, 60_999).status).toBe("IN_PROGRESS")
    expect(claim(fresh, 61_000)).toStrictEqual({ ...fresh, status: "TIMED_OUT", finishedAt: 61_000 })
    expect(claim(fresh, 61_001).status).toBe("TIMED_OUT")
  })

  it.each<readonly [what: string, JobHead]>([
    ["waits for its start time", { ...fresh, notBefore: 9_000 }],
    ["is held because of its key", { ...fresh, concurrency: held }],
    ["runs", running],
    ["is parked", parked],
    ["has ended", ended("FAILED")]
  ])("is rejected if the job %s", (_, job) => {
    expect(rejectionOf(job, { _tag: "Claim", now: 9_000, worker: "bob" })).toStrictEqual({ _tag: "NotWaiting" })
  })
})

describe("a tick", () => {
  it.each<readonly [what: string, JobHead, due: number, status: JobHead["status"]]>([
    ["time to live of a waiting job", fresh, 61_000, "TIMED_OUT"],
    ["time to live of a held job", { ...fresh, concurrency: held }, 61_000, "TIMED_OUT"],
    ["time to live of a running job", { ...running, leaseExpiresAt: 70_000, executionTimeoutMs: 90_000 }, 61_000, "TIMED_OUT"],
    ["execution timeout", { ...running, leaseExpiresAt: 24_000 }, 23_000, "TIMED_OUT"],
    ["lease", running, 8_000, "IN_QUEUE"],
    ["lease of the last attempt", { ...running, retries: 2 }, 8_000, "FAILED"],
    ["start time", { ...fresh, notBefore: 9_000 }, 9_000, "IN_QUEUE"]
  ])("changes the job exactly at the end of its timer: %s", (_, job, due, status) => {
    expect(rejectionOf(job, { _tag: "Tick", now: due - 1 })).toStrictEqual({ _tag: "NotDue" })
    expect(after(job, { _tag: "Tick", now: due }).status).toBe(status)
    expect(after(job, { _tag: "Tick", now: due + 1 }).status).toBe(status)
  })

  it("ends a job whose time to live and another timer end at the same time", () => {
    const expired = { ...running, leaseExpiresAt: 61_000, startedAt: 41_000 }
    expect(outcomeOf(expired, { _tag: "Tick", now: 61_000 }).error).toBe(
      "The job's time to live (60 s) ended while it was running on worker ann."
    )
    expect(after({ ...fresh, attempt: 1, notBefore: 61_000 }, { _tag: "Tick", now: 61_000 }).status).toBe("TIMED_OUT")
  })

  it("applies the execution timeout if it ends together with the lease", () => {
    expect(after({ ...running, leaseExpiresAt: 23_000 }, { _tag: "Tick", now: 23_000 }).status).toBe("TIMED_OUT")
  })

  it("makes a job ready as of its start time, however late the tick is", () => {
    const scheduled = { ...fresh, notBefore: 9_000 }
    const change = { _tag: "Put", job: { ...fresh, queuedAt: 9_000 }, outcome: {}, discardChunks: false }
    expect(changeOf(scheduled, { _tag: "Tick", now: 20_000 })).toStrictEqual(change)
  })

  it("explains what ended, and with which worker", () => {
    const errorAt = (job: JobHead, now: number) => outcomeOf(job, { _tag: "Tick", now })
    expect(errorAt(fresh, 61_000)).toStrictEqual({
      ...outcome,
      error: "The job's time to live (60 s) ended while it was waiting for a worker."
    })
    expect(errorAt({ ...fresh, ttlMs: 1_250 }, 61_000).error).toContain("(1.3 s)")
    expect(errorAt({ ...running, leaseExpiresAt: 24_000 }, 23_000)).toStrictEqual({
      ...outcome,
      error: "The attempt ran longer than its execution timeout (20 s) on worker ann."
    })
    expect(errorAt({ ...running, maxAttempts: 1 }, 8_000)).toStrictEqual({
      ...outcome,
      error: "Worker ann was silent for 5 s and lost the job. This was the only attempt allowed."
    })
  })

  it("removes an ended job exactly at the end of its retention", () => {
    for (const status of ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"] as const) {
      expect(rejectionOf(ended(status), { _tag: "Tick", now: 38_999 })).toStrictEqual({ _tag: "NotDue" })
      expect(Result.getOrThrow(transition(ended(status), { _tag: "Tick", now: 39_000 }))).toStrictEqual({ _tag: "Remove" })
    }
  })
})

describe("an event of a worker", () => {
  it.each(workerEvents)("$_tag is rejected on another endpoint, whatever the state of the job", (event) => {
    for (const job of [running, fresh, ended("COMPLETED")]) {
      expect(rejectionOf(job, { ...event, endpoint: BLUE })).toStrictEqual({ _tag: "OtherEndpoint" })
    }
  })

  it.each(workerEvents)("$_tag is rejected from a worker or an attempt that does not hold the lease", (event) => {
    const rejection = { _tag: "NotHeld", by: "ann", attempt: 1 }
    expect(rejectionOf(running, { ...event, worker: "bob" })).toStrictEqual(rejection)
    expect(rejectionOf(running, { ...event, worker: "bob", attempt: 1 })).toStrictEqual(rejection)
    expect(rejectionOf(running, { ...event, attempt: 0 })).toStrictEqual(rejection)
    expect(rejectionOf(running, { ...event, attempt: 2 })).toStrictEqual(rejection)
  })

  it.each(workerEvents)("$_tag is rejected when no worker holds the lease", (event) => {
    const requeued = { ...fresh, attempt: 1, worker: "ann" }
    expect(rejectionOf(requeued, { ...event, attempt: 1 })).toStrictEqual({ _tag: "NotHeld", by: null, attempt: 1 })
    expect(rejectionOf({ ...parked, worker: "ann" }, event)).toStrictEqual({ _tag: "NotHeld", by: null, attempt: 1 })
  })

  it.each(workerEvents)("$_tag is rejected after the end, from any worker", (event) => {
    const rejection = { _tag: "Ended", status: "TIMED_OUT", by: "ann", attempt: 1 }
    expect(rejectionOf(ended("TIMED_OUT"), event)).toStrictEqual(rejection)
    expect(rejectionOf(ended("TIMED_OUT"), { ...event, worker: "bob" })).toStrictEqual(rejection)
  })

  it.each(workerEvents)("$_tag is accepted from the current attempt, until a tick has ended the lease", (event) => {
    expect(changeOf(running, { ...event, attempt: 1 })).toStrictEqual(changeOf(running, event))
    expect(rejectionOf(running, { ...event, now: 22_000 })).toBeUndefined()
  })

  it("extends the lease and, if it is not a heartbeat, stores what it brings", () => {
    const extended = { ...running, leaseExpiresAt: 12_000 }
    const change = { _tag: "Put", job: extended, outcome: {}, discardChunks: false }
    const output = toJsonText({ percent: 5 })
    expect(changeOf(running, { _tag: "Heartbeat", now: 7_000, ...ann })).toStrictEqual(change)
    expect(changeOf(running, { _tag: "Progress", now: 7_000, output, ...ann })).toStrictEqual({
      ...change,
      outcome: { progress: output }
    })
    expect(changeOf({ ...running, chunks: 2 }, { _tag: "Chunk", now: 7_000, ...ann })).toStrictEqual({
      ...change,
      job: { ...extended, chunks: 3 }
    })
  })

  it.each<readonly [number: number, result: "stored" | "repeated" | "gap"]>([
    [-1, "gap"],
    [0, "gap"],
    [1, "repeated"],
    [2, "repeated"],
    [3, "stored"],
    [4, "gap"]
  ])("has a number if it is a chunk: after two chunks, the chunk %i", (number, result) => {
    const decided = transition({ ...running, chunks: 2 }, { _tag: "Chunk", now: 7_000, number, ...ann })
    expect(Result.isSuccess(decided) ? "stored" : decided.failure).toStrictEqual(
      { stored: "stored", repeated: { _tag: "Repeated" }, gap: { _tag: "Gap", expected: 3 } }[result]
    )
  })

  it("returns the job to the queue without using up an attempt, and with its chunks discarded", () => {
    const streamed = { ...running, chunks: 2, drained: 1, retries: 1 }
    expect(changeOf(streamed, { _tag: "Return", now: 7_000, ...ann })).toStrictEqual({
      _tag: "Put",
      job: { ...fresh, queuedAt: 7_000, attempt: 1, retries: 1, worker: "ann" },
      outcome: { progress: null },
      discardChunks: true
    })
  })

  it.each<readonly [notBefore: number | undefined, until: number | null]>([
    [undefined, null],
    [6_999, null],
    [7_000, null],
    [7_001, 7_001],
    [60_999, 60_999],
    [61_000, 60_999],
    [90_000, 60_999]
  ])("returns the job until a time in the future, within its time to live: until %s", (notBefore, until) => {
    const event = { _tag: "Return", now: 7_000, ...ann } as const
    expect(after(running, notBefore === undefined ? event : { ...event, notBefore }).notBefore).toBe(until)
  })
})

describe("a cancel", () => {
  it.each<readonly [what: string, JobHead]>([
    ["waits", fresh],
    ["waits for its start time", { ...fresh, notBefore: 9_000 }],
    ["is held because of its key", { ...fresh, concurrency: held }],
    ["runs", running],
    ["is parked", parked]
  ])("ends a job that %s", (_, job) => {
    expect(changeOf(job, { _tag: "Cancel", now: 9_000, endpoint: RED })).toStrictEqual({
      _tag: "Put",
      job: { ...job, status: "CANCELLED", notBefore: null, leaseExpiresAt: null, finishedAt: 9_000 },
      outcome,
      discardChunks: false
    })
    expect(rejectionOf(job, { _tag: "Cancel", now: 9_000, endpoint: BLUE })).toStrictEqual({ _tag: "OtherEndpoint" })
  })

  it.each(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"] as const)("is rejected after the end: %s", (status) => {
    const cancel = { _tag: "Cancel", now: 10_000, endpoint: RED } as const
    expect(rejectionOf(ended(status), cancel)).toStrictEqual({ _tag: "Ended", status, by: "ann", attempt: 1 })
    expect(rejectionOf(ended(status), { ...cancel, endpoint: BLUE })).toStrictEqual({ _tag: "OtherEndpoint" })
  })
})

describe("a retry", () => {
  const retry = { _tag: "Retry", now: 38_999, endpoint: RED } as const

  it.each(["FAILED", "TIMED_OUT"] as const)("starts a job again that ended as %s, with a new time to live", (status) => {
    const job = { ...ended(status), retries: 2, chunks: 2, drained: 1, release: 4 }
    expect(changeOf(job, retry)).toStrictEqual({
      _tag: "Put",
      job: { ...fresh, queuedAt: 38_999, expiresAt: 98_999, attempt: 1, worker: "ann", release: 4 },
      outcome: { output: null, error: null },
      discardChunks: true
    })
  })

  it("leaves a job isolated that was lost with its worker", () => {
    expect(after({ ...ended("FAILED"), isolated: true }, retry).isolated).toBe(true)
  })

  it.each<readonly [status: JobHead["status"], JobHead]>([
    ["COMPLETED", ended("COMPLETED")],
    ["CANCELLED", ended("CANCELLED")],
    ["IN_QUEUE", fresh],
    ["IN_PROGRESS", running]
  ])("is rejected for a job that is %s", (status, job) => {
    expect(rejectionOf(job, retry)).toStrictEqual({ _tag: "NotRetryable", status })
    expect(rejectionOf(job, { ...retry, endpoint: BLUE })).toStrictEqual({ _tag: "OtherEndpoint" })
  })

  it("is rejected at the end of the retention, which only an ended job has", () => {
    expect(rejectionOf(ended("FAILED"), { ...retry, now: 39_000 })).toStrictEqual({ _tag: "Expired" })
    expect(rejectionOf(ended("COMPLETED"), { ...retry, now: 39_000 })).toStrictEqual({ _tag: "Expired" })
    // Its time to live is over, but no tick has ended it yet.
    expect(rejectionOf(fresh, { ...retry, now: 61_000 })).toStrictEqual({ _tag: "NotRetryable", status: "IN_QUEUE" })
    expect(after({ ...ended("FAILED"), batchId: BatchId.make("batch_1") }, { ...retry, now: 39_000 }).status).toBe("IN_QUEUE")
  })
})

describe("the removal of a batch", () => {
  const leave = { _tag: "LeaveBatch", now: 50_000 } as const

  it("leaves its ended jobs to their own retention", () => {
    const job = { ...ended("COMPLETED"), batchId: BatchId.make("batch_1") }
    expect(changeOf(job, leave)).toStrictEqual({ _tag: "Put", job: ended("COMPLETED"), outcome: {}, discardChunks: false })
  })

  it("does not change jobs that have not ended, or that are in no batch", () => {
    expect(rejectionOf({ ...running, batchId: BatchId.make("batch_1") }, leave)).toStrictEqual({ _tag: "NotDue" })
    expect(rejectionOf(ended("COMPLETED"), leave)).toStrictEqual({ _tag: "NotDue" })
  })
})

describe("a bulk operation", () => {
  const bulk = {
    id: "bulk",
    version: 2,
    action: "cancel",
    query: "",
    state: "running",
    createdAt: 1_000,
    startsAt: 1_000,
    endedAt: null,
    by: { key: "key", name: "key", endpoints: "all" },
    matched: { count: 1, more: false },
    done: 0,
    skipped: { changed: 0, missing: 0, endpoint: 0 },
    failed: 0,
    problems: [],
    cursor: null,
    lease: null
  } as const

  it("is part of the cancel or retry that is its step, and of no other event", () => {
    expect(bulkOf({ _tag: "Cancel", now: 2_000, endpoint: RED, bulk })).toBe(bulk)
    expect(bulkOf({ _tag: "Retry", now: 2_000, endpoint: RED, bulk })).toBe(bulk)
    expect(bulkOf({ _tag: "Cancel", now: 2_000, endpoint: RED })).toBeUndefined()
    expect(bulkOf({ _tag: "Tick", now: 2_000 })).toBeUndefined()
  })
})
