import { BatchId } from "@stint/contract/Batch"
import { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import { delayTime, dueAt, executionTime, type JobMachineEvent, transition } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import * as Result from "effect/Result"
import * as fc from "fast-check"
import { assert, describe, it } from "vitest"
import { after, ann, BLUE, claim, fresh, outcomeOf, RED, rejectionOf } from "./JobFixture.ts"

/** An event without its time. */
type Timeless = JobMachineEvent extends infer Event ? Event extends JobMachineEvent ? Omit<Event, "now"> : never : never

const speaker = fc.record({
  endpoint: fc.constantFrom(RED, RED, RED, BLUE),
  worker: fc.constantFrom("ann", "ann", "bob"),
  attempt: fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined })
}).map(({ attempt, ...rest }) => (attempt === undefined ? rest : { ...rest, attempt }))

const json = fc.constantFrom(JsonText.make("1"), JsonText.make("{}"))

const timeless: fc.Arbitrary<Timeless> = fc.oneof(
  fc.constantFrom<Timeless>(
    { _tag: "Claim", worker: "ann" },
    { _tag: "Claim", worker: "bob" },
    { _tag: "Tick" },
    { _tag: "Tick" },
    { _tag: "Cancel", endpoint: RED },
    { _tag: "Cancel", endpoint: BLUE },
    { _tag: "Retry", endpoint: RED },
    { _tag: "Retry", endpoint: BLUE },
    { _tag: "Recover" },
    { _tag: "Recover", by: 30_000 },
    { _tag: "Recover", by: -30_000 }
  ),
  speaker.map((speaker) => ({ _tag: "Heartbeat" as const, ...speaker })),
  fc.tuple(speaker, fc.option(fc.integer({ min: -1, max: 4 }), { nil: undefined }))
    .map(([speaker, number]) => ({ _tag: "Chunk" as const, ...(number === undefined ? {} : { number }), ...speaker })),
  fc.tuple(speaker, fc.option(fc.nat({ max: 200_000 }), { nil: undefined }))
    .map(([speaker, notBefore]) => ({ _tag: "Return" as const, ...(notBefore === undefined ? {} : { notBefore }), ...speaker })),
  speaker.map((speaker) => ({ _tag: "LoseLease" as const, cause: "Gone.", ...speaker })),
  fc.tuple(speaker, json).map(([speaker, output]) => ({ _tag: "Progress" as const, output, ...speaker })),
  fc.tuple(speaker, fc.option(json), fc.option(fc.constant("no such city")))
    .map(([speaker, output, error]) => ({ _tag: "Finish" as const, output, error, ...speaker }))
)

const steps = fc.array(fc.record({ event: timeless, passes: fc.constantFrom(0, 1, 999, 5_000, 20_000, 60_000) }), {
  maxLength: 40,
  size: "max"
})

/** A job whose errors are retried after a backoff. */
const patient: JobHead = { ...fresh, retry: { onError: true, backoff: { initialMs: 4_000, factor: 2.5, maxMs: 9_000 } } }

/** Yields every state that a sequence of events reaches, with the event that is applied to it. Ends when the job is removed. */
const reach = function*(sequence: ReadonlyArray<{ readonly event: Timeless; readonly passes: number }>, from: JobHead) {
  let job = Object.freeze({ ...from })
  let now = fresh.createdAt
  for (const { event: timeless, passes } of sequence) {
    now += passes
    const event = { ...timeless, now } as JobMachineEvent
    const decided = transition(job, event)
    yield { job, event, decided, now }
    if (Result.isFailure(decided)) continue
    if (decided.success._tag === "Remove") return
    // The machine is pure: if it changed the frozen state in place, it would throw.
    job = Object.freeze({ ...decided.success.job })
  }
}

/** Runs a check for every reachable combination of a state and an event. */
const always = (check: (meeting: ReturnType<typeof reach> extends Generator<infer Meeting> ? Meeting : never) => void) =>
  fc.assert(
    fc.property(steps, fc.constantFrom(fresh, patient), (sequence, from) => {
      for (const meeting of reach(sequence, from)) check(meeting)
    }),
    { numRuns: 1_000 }
  )

describe("invariants for every sequence of events", () => {
  it("leaves a terminal status only by a retry", () => {
    always(({ decided, event, job }) => {
      if (!isTerminal(job.status) || Result.isFailure(decided) || decided.success._tag === "Remove") return
      assert.strictEqual(event._tag, "Retry")
      assert.include(["FAILED", "TIMED_OUT"], job.status)
    })
  })

  it("removes a job only in a tick, after its retention", () => {
    always(({ decided, event, job, now }) => {
      if (Result.isFailure(decided) || decided.success._tag !== "Remove") return
      assert.strictEqual(event._tag, "Tick")
      assert.isAtLeast(now, (job.finishedAt ?? Infinity) + job.retentionMs)
    })
  })

  it("accepts a worker event only from the lease holder, on its endpoint, in its attempt", () => {
    always(({ decided, event, job }) => {
      if (!("worker" in event) || event._tag === "Claim" || Result.isFailure(decided)) return
      assert.strictEqual(job.status, "IN_PROGRESS")
      assert.strictEqual(event.worker, job.worker)
      assert.strictEqual(event.endpoint, job.endpoint)
      if (event.attempt !== undefined) assert.strictEqual(event.attempt, job.attempt)
    })
  })

  it("never rejects an event from the lease holder", () => {
    always(({ decided, event, job }) => {
      if (!("worker" in event) || event._tag === "Claim" || job.status !== "IN_PROGRESS") return
      if (event.worker !== job.worker || event.endpoint !== job.endpoint) return
      if (event._tag === "Chunk" && event.number !== undefined && event.number !== job.chunks + 1) return
      if (event.attempt === undefined || event.attempt === job.attempt) assert.isTrue(Result.isSuccess(decided))
    })
  })

  it("increments the attempt only with each claim", () => {
    always(({ decided, event, job }) => {
      if (Result.isFailure(decided) || decided.success._tag === "Remove") return
      const handedOut = event._tag === "Claim" && decided.success.job.status === "IN_PROGRESS"
      assert.strictEqual(decided.success.job.attempt, job.attempt + (handedOut ? 1 : 0))
    })
  })

  it("claims a job only within its time to live and after its backoff", () => {
    always(({ decided, event, job, now }) => {
      if (event._tag !== "Claim" || Result.isFailure(decided) || decided.success._tag === "Remove") return
      assert.isNull(job.notBefore)
      assert.strictEqual(decided.success.job.status, now < job.expiresAt ? "IN_PROGRESS" : "TIMED_OUT")
    })
  })

  it("sets a backoff only in the queue, ending before the time to live", () => {
    always(({ job }) => {
      if (job.notBefore === null) return
      assert.strictEqual(job.status, "IN_QUEUE")
      assert.isBelow(job.notBefore, job.expiresAt)
    })
  })

  it("stores a numbered chunk once and accepts only the next number", () => {
    always(({ decided, event, job }) => {
      if (event._tag !== "Chunk" || event.number === undefined || Result.isFailure(decided)) return
      assert.strictEqual(event.number, job.chunks + 1)
    })
  })

  it("has a next timer in every state, and changes only by a tick at that time", () => {
    always(({ job }) => {
      const due = dueAt(job)
      assert.isTrue(Number.isSafeInteger(due))
      assert.isTrue(Result.isSuccess(transition(job, { _tag: "Tick", now: due })))
      assert.deepStrictEqual(rejectionOf(job, { _tag: "Tick", now: due - 1 }), { _tag: "NotDue" })
    })
  })

  it("ends and removes every job by ticks alone", () => {
    always(({ job }) => {
      let left: JobHead | undefined = job
      for (let ticks = 0; left !== undefined && ticks < 2 + 2 * job.maxAttempts; ticks++) {
        const decided = transition(left, { _tag: "Tick", now: dueAt(left) })
        left = Result.isSuccess(decided) && decided.success._tag === "Put" ? decided.success.job : undefined
      }
      assert.isUndefined(left)
    })
  })

  it("has a lease exactly while running and an end time exactly after the end", () => {
    always(({ job }) => {
      assert.strictEqual(job.leaseExpiresAt !== null, job.status === "IN_PROGRESS")
      assert.strictEqual(job.finishedAt !== null, isTerminal(job.status))
      if (job.status === "IN_QUEUE") assert.isNull(job.startedAt)
      if (job.status === "IN_PROGRESS") assert.isNotNull(job.startedAt)
    })
  })

  it("never loses more workers than attempts", () => {
    always(({ job }) => {
      assert.isBelow(job.retries, job.maxAttempts)
    })
  })

  it("never changes the identity and the limits of a job", () => {
    always(({ decided, job }) => {
      if (Result.isFailure(decided) || decided.success._tag === "Remove") return
      for (
        const key of [
          "id",
          "endpoint",
          "lowPriority",
          "priority",
          "createdAt",
          "ttlMs",
          "executionTimeoutMs",
          "leaseMs",
          "maxAttempts",
          "retry",
          "retentionMs",
          "webhook",
          "tags"
        ] as const
      ) {
        assert.strictEqual(decided.success.job[key], job[key])
      }
    })
  })

  it("clears the previous attempt when a job returns to the queue", () => {
    always(({ decided, job }) => {
      if (Result.isFailure(decided) || decided.success._tag === "Remove") return
      const { discardChunks, job: next, outcome } = decided.success
      assert.strictEqual(discardChunks, next.status === "IN_QUEUE" && job.status !== "IN_QUEUE")
      if (!discardChunks) return
      assert.deepInclude(next, { chunks: 0, drained: 0 })
      // A running job can only have progress. An ended job can have everything except progress.
      const { lastError: _, ...rest } = outcome
      assert.deepStrictEqual<unknown>(rest, isTerminal(job.status) ? { output: null, error: null } : { progress: null })
    })
  })

  it("sets the complete outcome at the end", () => {
    always(({ decided, job }) => {
      if (Result.isFailure(decided) || decided.success._tag === "Remove") return
      if (isTerminal(job.status) || !isTerminal(decided.success.job.status)) return
      const { error, progress } = decided.success.outcome
      assert.isNull(progress)
      assert.hasAllKeys(decided.success.outcome, ["progress", "output", "error", "lastError"])
      const { status } = decided.success.job
      assert.strictEqual(error !== null, status === "FAILED" || status === "TIMED_OUT")
    })
  })

  it("never reports negative durations, whatever the clock does", () => {
    always(({ job }) => {
      assert.isAtLeast(delayTime(job) ?? 0, 0)
      assert.isAtLeast(executionTime(job) ?? 0, 0)
      assert.strictEqual(delayTime(job) === undefined, job.startedAt === null)
      assert.strictEqual(executionTime(job) === undefined, job.startedAt === null || !isTerminal(job.status))
    })
  })
})

describe("single transitions", () => {
  it("starts an attempt with a full lease on a claim", () => {
    assert.deepStrictEqual(claim(fresh, 3_000), {
      ...fresh,
      status: "IN_PROGRESS",
      attempt: 1,
      worker: "ann",
      startedAt: 3_000,
      leaseExpiresAt: 8_000
    })
    assert.deepStrictEqual(rejectionOf(claim(fresh, 3_000), { _tag: "Claim", now: 3_001, worker: "bob" }), { _tag: "NotWaiting" })
  })

  it("extends the lease on every worker event", () => {
    const running = claim(fresh, 3_000)
    for (const _tag of ["Heartbeat", "Chunk"] as const) {
      assert.strictEqual(after(running, { _tag, now: 7_000, ...ann }).leaseExpiresAt, 12_000)
    }
    const progress = { _tag: "Progress", now: 7_000, output: JsonText.make("5"), ...ann } as const
    assert.strictEqual(after(running, progress).leaseExpiresAt, 12_000)
    assert.deepStrictEqual(outcomeOf(running, progress), { progress: JsonText.make("5") })
    assert.strictEqual(after(running, { _tag: "Chunk", now: 7_000, ...ann }).chunks, 1)
  })

  it("accepts a late heartbeat before the lease is expired by a tick", () => {
    const running = claim(fresh, 3_000)
    assert.strictEqual(after(running, { _tag: "Heartbeat", now: 9_000, ...ann }).leaseExpiresAt, 14_000)
  })

  it("requeues a lost lease until the attempts are used up, and counts no attempt for a return", () => {
    const lose = (job: JobHead) => after(job, { _tag: "LoseLease", now: 4_000, cause: "Gone.", ...ann })
    let job = lose(claim(fresh, 3_000))
    assert.deepInclude(job, { status: "IN_QUEUE", retries: 1, queuedAt: 4_000, startedAt: null, worker: "ann" })
    job = after(claim(job, 4_000), { _tag: "Return", now: 4_000, ...ann })
    assert.deepInclude(job, { status: "IN_QUEUE", retries: 1 })
    job = lose(claim(job, 4_000))
    assert.deepInclude(job, { status: "IN_QUEUE", retries: 2 })
    const running = claim(job, 4_000)
    assert.deepInclude(lose(running), { status: "FAILED", retries: 2, attempt: 4, finishedAt: 4_000 })
    assert.strictEqual(
      outcomeOf(running, { _tag: "LoseLease", now: 4_000, cause: "Gone.", ...ann }).error,
      "Gone. This was attempt 3 of 3."
    )
  })

  it("delays a returned job up to a future time within its time to live", () => {
    const back = (notBefore: number) => after(claim(fresh, 3_000), { _tag: "Return", now: 4_000, notBefore, ...ann })
    assert.deepInclude(back(9_000), { status: "IN_QUEUE", retries: 0, notBefore: 9_000 })
    assert.deepInclude(back(900_000), { status: "IN_QUEUE", notBefore: 60_999 })
    assert.deepInclude(back(4_000), { status: "IN_QUEUE", notBefore: null })
    assert.strictEqual(dueAt(back(9_000)), 9_000)
    assert.deepInclude(after(back(9_000), { _tag: "Tick", now: 9_000 }), { status: "IN_QUEUE", notBefore: null, queuedAt: 9_000 })
  })

  it("applies the most severe of several due timers", () => {
    const running = claim(fresh, 3_000)
    assert.strictEqual(dueAt(running), 8_000)
    // The tick is late: the lease, the execution timeout and the ttl have all expired.
    assert.strictEqual(after(running, { _tag: "Tick", now: 8_000 }).status, "IN_QUEUE")
    assert.strictEqual(after(running, { _tag: "Tick", now: 23_000 }).status, "TIMED_OUT")
    assert.include(outcomeOf(running, { _tag: "Tick", now: 23_000 }).error ?? "", "execution timeout (20 s) on worker ann")
    assert.include(
      outcomeOf(running, { _tag: "Tick", now: 61_000 }).error ?? "",
      "time to live (60 s) ended while it was running"
    )
    assert.include(outcomeOf(fresh, { _tag: "Tick", now: 61_000 }).error ?? "", "while it was waiting for a worker")
  })

  it("restores the full lease after a restart, and no more than that when the clock was set back", () => {
    const running = claim(fresh, 3_000)
    assert.strictEqual(after(running, { _tag: "Recover", now: 50_000 }).leaseExpiresAt, 55_000)
    assert.strictEqual(after(running, { _tag: "Recover", now: 2_000 }).leaseExpiresAt, 7_000)
    assert.strictEqual(rejectionOf(fresh, { _tag: "Recover", now: 2_000 })?._tag, "NotHeld")
  })

  it("moves the timers of a running job with the clock, but not those of a job that was claimed afterwards", () => {
    const running = claim(fresh, 3_000)
    const forward = after(running, { _tag: "Recover", now: 104_000, by: 100_000 })
    assert.deepInclude(forward, { startedAt: 103_000, expiresAt: 161_000, leaseExpiresAt: 109_000, createdAt: 1_000 })
    // The response to the first recovery was lost, so the recovery is repeated.
    assert.deepInclude(after(forward, { _tag: "Recover", now: 104_500, by: 100_000 }), { startedAt: 103_000, expiresAt: 161_000 })
    const back = after(running, { _tag: "Recover", now: 4_000 - 100_000, by: -100_000 })
    assert.deepInclude(back, { startedAt: -97_000, expiresAt: -39_000, leaseExpiresAt: -91_000 })
    assert.deepInclude(after(back, { _tag: "Recover", now: 4_500 - 100_000, by: -100_000 }), {
      startedAt: -97_000,
      expiresAt: -39_000
    })
  })

  it("moves a backoff back with the clock, and never forward", () => {
    const delayed = { ...fresh, attempt: 1, notBefore: 5_000 }
    assert.strictEqual(rejectionOf(delayed, { _tag: "Recover", now: 104_000, by: 100_000 })?._tag, "NotDue")
    assert.strictEqual(after(delayed, { _tag: "Recover", now: -96_000, by: -100_000 }).notBefore, -95_000)
    assert.strictEqual(rejectionOf(delayed, { _tag: "Recover", now: 4_000, by: -100_000 })?._tag, "NotDue")
  })

  it("restarts the time to live on a retry, and continues the attempt numbers", () => {
    const kept = { ...fresh, retentionMs: 200_000 }
    const failed = after(claim(kept, 3_000), { _tag: "Finish", now: 4_000, output: null, error: "no such city", ...ann })
    const again = after(failed, { _tag: "Retry", now: 100_000, endpoint: RED })
    assert.deepInclude(again, {
      status: "IN_QUEUE",
      createdAt: 1_000,
      queuedAt: 100_000,
      expiresAt: 160_000,
      retries: 0,
      attempt: 1
    })
    assert.strictEqual(claim(again, 100_000).attempt, 2)
  })

  it("doubles the backoff with each failed attempt up to its limit, and shortens it to half at most by jitter", () => {
    const rule = { onError: true, backoff: { initialMs: 1_000, factor: 2, maxMs: 5_000 } }
    const job: JobHead = { ...fresh, ttlMs: 1_000_000, expiresAt: 1_001_000, maxAttempts: 100, retry: rule }
    const waits = (random: number | undefined) => {
      let next = job
      let now = 1_000
      return [1, 2, 3, 4, 5].map(() => {
        const failed = { _tag: "Finish", now, output: null, error: "busy", ...ann } as const
        const waiting = after(claim(next, now), random === undefined ? failed : { ...failed, random })
        assert.deepInclude(waiting, { status: "IN_QUEUE", finishedAt: null })
        const wait = (waiting.notBefore ?? now) - now
        now += wait
        next = after(waiting, { _tag: "Tick", now })
        assert.deepInclude(next, { notBefore: null, queuedAt: now })
        return wait
      })
    }
    const longest = [1_000, 2_000, 4_000, 5_000, 5_000]
    assert.deepStrictEqual(waits(undefined), longest)
    for (const random of [0, 0.3, 0.999]) {
      for (const [index, wait] of waits(random).entries()) {
        assert.isAtMost(wait, longest[index] ?? 0)
        assert.isAtLeast(wait, (longest[index] ?? 0) / 2)
      }
    }
  })

  it("spreads the backoffs of jobs requeued by one event", () => {
    const rule = { onError: false, backoff: { initialMs: 100_000, factor: 1, maxMs: 100_000 } }
    const times = Array.from({ length: 50 }, (_, n) => {
      const job: JobHead = {
        ...fresh,
        id: JobId.make(`job ${n}`),
        expiresAt: 10_000_000,
        executionTimeoutMs: 1_000_000,
        retry: rule
      }
      return after(claim(job, 3_000), { _tag: "Tick", now: 8_000, random: 0.5 }).notBefore
    })
    assert.isAbove(new Set(times).size, 40)
  })

  it("fails a job whose next attempt would start after its time to live", () => {
    const job: JobHead = { ...fresh, retry: { onError: true, backoff: { initialMs: 50_000, factor: 1, maxMs: 50_000 } } }
    const failed = after(claim(job, 2_000), { _tag: "Finish", now: 20_000, output: null, error: "busy", ...ann })
    assert.deepInclude(failed, { status: "FAILED", finishedAt: 20_000 })
    const lost = { _tag: "LoseLease", now: 20_000, cause: "Gone.", ...ann } as const
    assert.strictEqual(
      outcomeOf(claim(job, 2_000), lost).error,
      "Gone. This was attempt 1 of 3, and the job's time to live ends before the next may begin."
    )
  })

  it("does not retry errors by default, and requeues returned jobs at once", () => {
    const error = { _tag: "Finish", now: 4_000, output: null, error: "busy", ...ann } as const
    assert.strictEqual(after(claim(fresh, 3_000), error).status, "FAILED")
    const back = after(claim(patient, 3_000), { _tag: "Return", now: 4_000, ...ann })
    assert.deepInclude(back, { status: "IN_QUEUE", notBefore: null, retries: 0 })
  })

  it("detects repeated chunks and gaps by their number", () => {
    const chunk = { _tag: "Chunk", now: 4_000, ...ann } as const
    const two = after(after(claim(fresh, 3_000), { ...chunk, number: 1 }), { ...chunk, number: 2 })
    assert.strictEqual(two.chunks, 2)
    assert.deepStrictEqual(rejectionOf(two, { ...chunk, number: 2 }), { _tag: "Repeated" })
    assert.deepStrictEqual(rejectionOf(two, { ...chunk, number: 1 }), { _tag: "Repeated" })
    assert.deepStrictEqual(rejectionOf(two, { ...chunk, number: 4 }), { _tag: "Gap", expected: 3 })
    assert.deepStrictEqual(rejectionOf(two, { ...chunk, number: 0 }), { _tag: "Gap", expected: 3 })
  })

  it("rejects a retry once the retention of an ended job has ended", () => {
    const failed = after(claim(fresh, 3_000), { _tag: "Finish", now: 4_000, output: null, error: "no such city", ...ann })
    const retry = { _tag: "Retry", now: dueAt(failed), endpoint: RED } as const
    assert.deepStrictEqual(rejectionOf(failed, retry), { _tag: "Expired" })
    assert.strictEqual(after(failed, { ...retry, now: retry.now - 1 }).status, "IN_QUEUE")
    assert.deepStrictEqual(rejectionOf(failed, { ...retry, endpoint: BLUE }), { _tag: "OtherEndpoint" })
  })

  it("reports the current state in a rejection", () => {
    const running = claim(fresh, 3_000)
    const heartbeat = { _tag: "Heartbeat", now: 4_000, ...ann } as const
    assert.deepStrictEqual(rejectionOf(running, { ...heartbeat, worker: "bob" }), { _tag: "NotHeld", by: "ann", attempt: 1 })
    assert.deepStrictEqual(rejectionOf(running, { ...heartbeat, attempt: 2 }), { _tag: "NotHeld", by: "ann", attempt: 1 })
    assert.deepStrictEqual(rejectionOf(running, { ...heartbeat, endpoint: BLUE }), { _tag: "OtherEndpoint" })
    assert.deepStrictEqual(rejectionOf(fresh, heartbeat), { _tag: "NotHeld", by: null, attempt: 0 })
    const cancelled = after(running, { _tag: "Cancel", now: 4_000, endpoint: RED })
    assert.deepStrictEqual(rejectionOf(cancelled, heartbeat), { _tag: "Ended", status: "CANCELLED", by: "ann", attempt: 1 })
    assert.deepStrictEqual(rejectionOf(cancelled, { _tag: "Cancel", now: 4_000, endpoint: BLUE }), { _tag: "OtherEndpoint" })
    assert.deepStrictEqual(rejectionOf(cancelled, { _tag: "Retry", now: 4_000, endpoint: RED }), {
      _tag: "NotRetryable",
      status: "CANCELLED"
    })
  })
})

describe("a job of a batch", () => {
  const batchId = BatchId.make("batch_1")
  const ended: JobHead = { ...fresh, batchId, status: "COMPLETED", startedAt: 1_000, finishedAt: 2_000 }

  it("stays beyond its retention until its batch is removed", () => {
    const late = dueAt({ ...ended, batchId: null })
    assert.isTrue(Result.isFailure(transition(ended, { _tag: "Tick", now: late + 1_000_000 })))
    const left = Result.getOrThrow(transition(ended, { _tag: "LeaveBatch", now: late }))
    const job = left._tag === "Put" ? left.job : assert.fail("the job was removed")
    assert.deepStrictEqual(job, { ...ended, batchId: null })
    assert.deepStrictEqual(Result.getOrThrow(transition(job, { _tag: "Tick", now: late })), { _tag: "Remove" })
  })

  it("has all timers until its end, and cannot be detached before it", () => {
    const waiting: JobHead = { ...fresh, batchId }
    assert.strictEqual(dueAt(waiting), dueAt(fresh))
    assert.isTrue(Result.isFailure(transition(waiting, { _tag: "LeaveBatch", now: 5_000 })))
    assert.isTrue(Result.isFailure(transition({ ...ended, batchId: null }, { _tag: "LeaveBatch", now: 5_000 })))
  })
})
