/** What the head of a job says about its state and its timers, and the first state of a job. */
import { BatchId } from "@stint/contract/Batch"
import { toJsonText } from "@stint/contract/Json"
import * as JobMachine from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import { describe, expect, it } from "vitest"
import { ended, fresh, running } from "./JobFixture.ts"

const concurrency = { key: "city", limit: 1, held: false }
const parked: JobHead = { ...running, worker: null, leaseExpiresAt: null, notBefore: 30_000 }

describe("a new job", () => {
  const required = {
    id: fresh.id,
    endpoint: fresh.endpoint,
    input: toJsonText({ city: "Bern" }),
    s3Config: null,
    traceparent: null,
    tracestate: null,
    lowPriority: false,
    createdAt: 1_000,
    ttlMs: 60_000,
    executionTimeoutMs: 20_000,
    leaseMs: 5_000,
    maxAttempts: 3,
    retentionMs: 30_000
  }
  const outcome = { progress: null, output: null, error: null, lastError: null }

  it("waits in the queue, with a default for each setting that the submission leaves out", () => {
    expect(JobMachine.submitted(required)).toStrictEqual({ ...fresh, ...required, ...outcome })
  })

  it("keeps each setting that the submission states", () => {
    const stated = {
      ...required,
      lowPriority: true,
      priority: 7,
      retry: { onError: true, backoff: null },
      webhook: { url: "https://example.com/", events: ["completed" as const], errorTraceback: "none" as const },
      tags: ["blue"],
      batchId: BatchId.make("batch_1"),
      owner: "key_1",
      notBefore: 9_000,
      concurrency
    }
    expect(JobMachine.submitted(stated)).toStrictEqual({ ...fresh, ...outcome, ...stated, expiresAt: 69_000 })
  })

  it("starts its time to live at its start time, and without one at its submission", () => {
    expect(JobMachine.submitted({ ...required, notBefore: 40_000 }).expiresAt).toBe(100_000)
    expect(JobMachine.submitted(required).expiresAt).toBe(61_000)
  })
})

describe("the state of a job", () => {
  it.each<readonly [what: string, JobHead, ready: boolean]>([
    ["it waits", fresh, true],
    ["it waits for its start time or a backoff", { ...fresh, notBefore: 2_000 }, false],
    ["it has a slot of its key", { ...fresh, concurrency }, true],
    ["it is held because of its key", { ...fresh, concurrency: { ...concurrency, held: true } }, false],
    ["it runs", running, false],
    ["it is a parked run", parked, false],
    ["it has ended", ended("FAILED"), false]
  ])("is ready only in the queue: %s", (_, job, ready) => {
    expect(JobMachine.isReady(job)).toBe(ready)
  })

  it.each<readonly [what: string, JobHead, scheduled: boolean]>([
    ["it waits for its start time", { ...fresh, notBefore: 2_000 }, true],
    ["its start time has passed", fresh, false],
    ["it waits for a backoff", { ...fresh, attempt: 1, notBefore: 2_000 }, false],
    ["it waits for its second attempt", { ...fresh, attempt: 1 }, false]
  ])("is scheduled only before the first attempt: %s", (_, job, scheduled) => {
    expect(JobMachine.isScheduled(job)).toBe(scheduled)
  })

  it.each<readonly [what: string, JobHead, isParked: boolean]>([
    ["it has no lease", parked, true],
    ["it has a lease", running, false],
    ["it waits", fresh, false],
    ["it has ended", ended("COMPLETED"), false]
  ])("is parked only while IN_PROGRESS without a worker: %s", (_, job, isParked) => {
    expect(JobMachine.isParked(job)).toBe(isParked)
  })
})

describe("the next timer of a job", () => {
  it.each<readonly [what: string, JobHead, due: number]>([
    ["the time to live, while it waits", fresh, 61_000],
    ["the start time, if it has one", { ...fresh, notBefore: 30_000 }, 30_000],
    ["the end of a backoff", { ...fresh, attempt: 1, notBefore: 30_000 }, 30_000],
    ["the time to live, if it ends before the backoff", { ...fresh, attempt: 1, notBefore: 62_000 }, 61_000],
    ["the lease, while it runs", running, 8_000],
    ["the execution timeout, if it ends before the lease", { ...running, leaseExpiresAt: 24_000 }, 23_000],
    ["the time to live, if it ends first", { ...running, leaseExpiresAt: 24_000, expiresAt: 22_000 }, 22_000],
    ["the time until which a run is parked", parked, 30_000],
    ["the retention, after the end", ended("COMPLETED"), 39_000],
    ["none in a batch after the end", { ...ended("COMPLETED"), batchId: BatchId.make("batch_1") }, Number.MAX_SAFE_INTEGER],
    ["the time to live in a batch before the end", { ...fresh, batchId: BatchId.make("batch_1") }, 61_000]
  ])("is %s", (_, job, due) => {
    expect(JobMachine.dueAt(job)).toBe(due)
  })

  it("counts the execution timeout from the submission if the start is not known", () => {
    expect(JobMachine.dueAt({ ...running, startedAt: null, leaseExpiresAt: 24_000 })).toBe(21_000)
  })
})

describe("the durations of a job", () => {
  it("are the wait before the last attempt, from the time when the job last became ready", () => {
    expect(JobMachine.delayTime(fresh)).toBeUndefined()
    expect(JobMachine.delayTime(running)).toBe(2_000)
    expect(JobMachine.delayTime({ ...running, queuedAt: 2_900 })).toBe(100)
    expect(JobMachine.delayTime({ ...running, queuedAt: 3_000 })).toBe(0)
    expect(JobMachine.delayTime(ended("COMPLETED"))).toBe(2_000)
  })

  it("are the duration of the last attempt, once the job has ended", () => {
    expect(JobMachine.executionTime(fresh)).toBeUndefined()
    expect(JobMachine.executionTime(running)).toBeUndefined()
    expect(JobMachine.executionTime(ended("FAILED"))).toBe(6_000)
    expect(JobMachine.executionTime({ ...ended("FAILED"), finishedAt: 3_000 })).toBe(0)
    expect(JobMachine.executionTime({ ...ended("CANCELLED"), startedAt: null })).toBeUndefined()
  })

  it("are 0 if the clock was set back", () => {
    expect(JobMachine.delayTime({ ...running, queuedAt: 3_001 })).toBe(0)
    expect(JobMachine.executionTime({ ...ended("FAILED"), finishedAt: 2_999 })).toBe(0)
  })
})
