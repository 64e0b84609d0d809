/**
 * Model tests for batches: after each random command, the counts of every batch must match its requests.
 *
 * Each command is one store operation, so that a sequence may end between any two operations, as it does in a crash.
 */
import { it } from "@effect/vitest"
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { type BatchRecord, created, DRAFT_MILLIS, ended } from "@stint/store/BatchMachine"
import { type BatchRequest, BatchStore } from "@stint/store/BatchStore"
import { submitted } from "@stint/store/JobMachine"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord, JobReport } from "@stint/store/JobRecord"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import { NO_OWNER } from "@stint/store/Owner"
import type { StoreError } from "@stint/store/StoreError"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as fc from "fast-check"
import assert from "node:assert/strict"

const ENDPOINT = EndpointId.make("red")
const WORKERS = ["ann", "bob"] as const
const RETENTION = 5_000
const LIMITS = { maxOpen: 4, maxRequests: 12 }
const MAX_QUEUED = 25

type Command =
  | { readonly _tag: "Create"; readonly count: number }
  | { readonly _tag: "Add"; readonly batch: number; readonly count: number }
  | { readonly _tag: "Drop"; readonly batch: number; readonly request: number }
  | { readonly _tag: "Finalize" | "Enqueue" | "Cancel"; readonly batch: number; readonly limit: number }
  | { readonly _tag: "Submit" }
  | { readonly _tag: "Claim"; readonly worker: number; readonly limit: number }
  | { readonly _tag: "WorkerWrite"; readonly job: number; readonly kind: "finish" | "fail" | "lose" | "return" | "progress" }
  | { readonly _tag: "CancelJob" | "RetryJob"; readonly job: number }
  | { readonly _tag: "Purge" | "Tick" | "Sweep"; readonly limit: number }
  | { readonly _tag: "Pass"; readonly millis: number }

const number = fc.nat({ max: 40 })
const few = fc.integer({ min: 1, max: 5 })
const worker = fc.nat({ max: 1 })

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ _tag: fc.constant("Create" as const), count: fc.nat({ max: 6 }) }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Add" as const), batch: number, count: fc.nat({ max: 14 }) }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Drop" as const), batch: number, request: number }) },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Finalize" as const), batch: number, limit: few }) },
  { weight: 5, arbitrary: fc.record({ _tag: fc.constant("Enqueue" as const), batch: number, limit: few }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Cancel" as const), batch: number, limit: few }) },
  { weight: 1, arbitrary: fc.constant({ _tag: "Submit" as const }) },
  { weight: 5, arbitrary: fc.record({ _tag: fc.constant("Claim" as const), worker, limit: few }) },
  {
    weight: 9,
    arbitrary: fc.record({
      _tag: fc.constant("WorkerWrite" as const),
      job: number,
      kind: fc.constantFrom("finish", "finish", "fail", "lose", "return", "progress")
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({ _tag: fc.constantFrom("CancelJob" as const, "RetryJob" as const, "RetryJob" as const), job: number })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constantFrom("Purge" as const, "Tick" as const, "Sweep" as const, "Sweep" as const),
      limit: few
    })
  },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Pass" as const), millis: fc.constantFrom(1, 900, 2_500, 6_000) }) }
)

/** What the test knows about a batch beyond what the store contains. */
interface Known {
  readonly id: BatchId
  /** Every request that was added and not removed, in order. */
  requests: Array<JobId>
  started: boolean
  /** Whether the batch was cancelled and none of its jobs is waiting. */
  cancelled: boolean
  /** How often its end should have been delivered. */
  deliveries: number
  endedAt: number | null
  removed: boolean
}

const count = (jobs: ReadonlyArray<JobReport | undefined>, ...statuses: ReadonlyArray<JobReport["status"]>) =>
  jobs.filter((job) => job !== undefined && statuses.includes(job.status)).length

/** The counts that a batch must have. */
const counted = (batch: BatchRecord, jobs: ReadonlyArray<JobReport | undefined>) => {
  const withoutJob = jobs.filter((job) => job === undefined).length
  return {
    total: jobs.length,
    notEnqueued: batch.status === "FINALIZED" ? withoutJob : 0,
    running: count(jobs, "IN_PROGRESS"),
    completed: count(jobs, "COMPLETED"),
    failed: count(jobs, "FAILED", "TIMED_OUT"),
    cancelled: count(jobs, "CANCELLED") + (batch.status === "CANCELLED" ? withoutJob : 0)
  }
}

const countsOf = ({ cancelled, completed, failed, running, total, notEnqueued }: BatchRecord) => ({
  total,
  notEnqueued,
  running,
  completed,
  failed,
  cancelled
})

const run = Effect.fnUntraced(function*(sequence: ReadonlyArray<Command>) {
  const batches = yield* BatchStore
  const store = yield* JobStore
  const outbox = yield* WebhookStore
  const known: Array<Known> = []
  const jobs: Array<JobId> = []
  const started = new Set<JobId>()
  let now = 0
  let requestCount = 0

  const requestsOf = (count: number): ReadonlyArray<BatchRequest> =>
    Array.from(
      { length: count },
      () => ({ id: JobId.make(`job-${++requestCount}`), input: toJsonText(requestCount), s3Config: null, options: {} })
    )

  const toJob = (batch: BatchRecord | null, { id, input, s3Config }: BatchRequest): JobRecord =>
    submitted({
      id,
      endpoint: ENDPOINT,
      batchId: batch?.id ?? null,
      input,
      s3Config,
      traceparent: null,
      tracestate: null,
      lowPriority: false,
      createdAt: now,
      ttlMs: 4_000,
      executionTimeoutMs: 2_000,
      leaseMs: 1_000,
      maxAttempts: 2,
      retentionMs: 500
    })

  const pick = <A>(from: ReadonlyArray<A>, at: number): A | undefined => from.length === 0 ? undefined : from[at % from.length]

  const live = () => known.filter(({ removed }) => !removed)

  /**
   * No job of an expired batch can be retried, detached or not. A retried job of an ended, cancelled batch is cancelled at once, so the
   * batch's end is delivered again.
   */
  const retried = (job: JobId, applied: ApplyResult) => {
    const of = known.find(({ requests }) => requests.includes(job))
    if (of !== undefined && of.endedAt !== null && of.endedAt + RETENTION <= now) assert.notEqual(applied._tag, "Changed")
    if (applied._tag !== "Changed" || applied.after.status !== "CANCELLED") return
    const batch = known.find(({ id }) => id === applied.after.batchId)
    if (batch !== undefined && batch.endedAt !== null) batch.deliveries += 1
  }

  const step = Effect.fnUntraced(function*(command: Command): Effect.fn.Return<void, StoreError> {
    switch (command._tag) {
      case "Create": {
        const id = BatchId.make(`batch_${known.length}`)
        const requests = requestsOf(command.count)
        const open = live().filter(({ endedAt }) => endedAt === null).length
        const batch = created({
          id,
          endpoint: ENDPOINT,
          owner: NO_OWNER,
          name: null,
          webhook: "http://127.0.0.1:9/hook",
          policy: null,
          createdAt: now,
          retentionMs: RETENTION
        })
        const answer = yield* batches.create(batch, requests, LIMITS)
        assert.equal(answer._tag, open >= LIMITS.maxOpen ? "TooMany" : "Created")
        if (answer._tag !== "Created") return
        known.push({
          id,
          requests: requests.map((one) => one.id),
          started: false,
          cancelled: false,
          deliveries: 0,
          endedAt: null,
          removed: false
        })
        jobs.push(...requests.map((one) => one.id))
        return
      }
      case "Add": {
        const batch = pick(known, command.batch)
        if (batch === undefined) return
        const requests = requestsOf(command.count)
        const answer = yield* batches.add(ENDPOINT, batch.id, requests, now, LIMITS.maxRequests)
        if (answer._tag !== "Changed") return
        assert.ok(!batch.started && batch.requests.length + command.count <= LIMITS.maxRequests)
        batch.requests.push(...requests.map((one) => one.id))
        jobs.push(...requests.map((one) => one.id))
        return
      }
      case "Drop": {
        const batch = pick(known, command.batch)
        const request = batch === undefined ? undefined : pick(batch.requests, command.request)
        if (batch === undefined || request === undefined) return
        const answer = yield* batches.drop(ENDPOINT, batch.id, request, now)
        if (answer._tag !== "Changed") return
        assert.ok(!batch.started)
        batch.requests = batch.requests.filter((id) => id !== request)
        return
      }
      case "Finalize": {
        const batch = pick(known, command.batch)
        if (batch === undefined) return
        const { delayed, waiting } = yield* store.depth(ENDPOINT)
        const notEnqueued = yield* Effect.forEach(live(), ({ id }) => batches.get(ENDPOINT, id))
        const queued = waiting + delayed + notEnqueued.reduce((sum, one) => sum + (one?.notEnqueued ?? 0), 0)
        const before = yield* batches.get(ENDPOINT, batch.id)
        const answer = yield* batches.finalize(ENDPOINT, batch.id, now, MAX_QUEUED)
        const tooMany = before?.status === "DRAFT" && queued + before.total > MAX_QUEUED
        assert.equal(answer._tag === "QueueFull", tooMany)
        if (answer._tag === "Changed") batch.started = true
        return
      }
      case "Enqueue": {
        const batch = pick(known, command.batch)
        if (batch !== undefined) yield* batches.enqueue(ENDPOINT, batch.id, command.limit, toJob)
        return
      }
      case "Cancel": {
        const batch = pick(live(), command.batch)
        if (batch === undefined) return
        const answer = yield* batches.cancel(ENDPOINT, batch.id, now, command.limit)
        if (answer.batch?.status === "CANCELLED" && !answer.more) batch.cancelled = true
        return
      }
      case "Submit": {
        const [request] = requestsOf(1)
        if (request === undefined) return
        jobs.push(request.id)
        yield* store.insert(toJob(null, request))
        return
      }
      case "Claim": {
        const worker = WORKERS[command.worker] ?? WORKERS[0]
        const claimed = yield* store.claim(ENDPOINT, command.limit, { _tag: "Claim", now, worker })
        for (const job of claimed.jobs) {
          assert.equal(job.attempt > 1, started.has(job.id), `${job.id} was started twice as a first attempt`)
          started.add(job.id)
        }
        return
      }
      case "WorkerWrite": {
        const running = (yield* Effect.forEach(jobs, (id) => store.get(ENDPOINT, id))).filter((job) =>
          job?.status === "IN_PROGRESS"
        )
        const job = pick(running, command.job)
        if (job === undefined || job.worker === null) return
        const fence = { now, endpoint: ENDPOINT, worker: job.worker }
        const events = {
          finish: { _tag: "Finish", output: toJsonText(1), error: null, ...fence },
          fail: { _tag: "Finish", output: null, error: "no", ...fence },
          lose: { _tag: "LoseLease", cause: "The worker is gone.", ...fence },
          return: { _tag: "Return", ...fence },
          progress: { _tag: "Progress", output: toJsonText(1), ...fence }
        } satisfies Record<string, JobMachineEvent>
        const applied = yield* store.apply(ENDPOINT, job.id, events[command.kind])
        assert.equal(applied._tag, "Changed")
        return
      }
      case "CancelJob":
      case "RetryJob": {
        const id = pick(jobs, command.job)
        if (id === undefined) return
        const _tag = command._tag === "CancelJob" ? "Cancel" : "Retry"
        const applied = yield* store.apply(ENDPOINT, id, { _tag, now, endpoint: ENDPOINT })
        if (_tag === "Retry") retried(id, applied)
        return
      }
      case "Purge":
        yield* store.applyWaiting(ENDPOINT, { _tag: "Cancel", now, endpoint: ENDPOINT }, command.limit)
        return
      case "Tick":
        yield* store.tick({ _tag: "Tick", now }, command.limit)
        return
      case "Sweep":
        yield* batches.sweep(now, command.limit)
        return
      case "Pass":
        now += command.millis
    }
  })

  const check = Effect.fnUntraced(function*(batch: Known) {
    const record = yield* batches.get(ENDPOINT, batch.id)
    if (record === undefined) {
      assert.ok(batch.endedAt !== null && batch.endedAt + RETENTION <= now, `${batch.id} was removed before its retention ended`)
      batch.removed = true
      return
    }
    const { ids } = (yield* batches.requests(ENDPOINT, batch.id, 0, 100)) ?? { ids: [] }
    assert.deepEqual([...ids], batch.requests)
    const reports = yield* Effect.forEach(ids, (id) => store.get(ENDPOINT, id))
    // A batch whose retention has ended may have lost some of its jobs.
    const removing = record.endedAt !== null && record.endedAt + RETENTION <= now
    if (!removing) {
      for (const job of reports) assert.ok(job === undefined || job.batchId === batch.id)
      assert.deepEqual(countsOf(record), counted(record, reports), `the counts of ${batch.id}, ${record.status}`)
    }
    const isOver = record.status !== "DRAFT" && ended(record) === record.total
    assert.equal(record.endedAt !== null, isOver, `the end of ${batch.id}, ${record.status}`)
    if (record.status === "COMPLETED") assert.ok(record.completed > 0 || record.total === 0)
    if (record.status === "FAILED") assert.ok(record.completed === 0 && record.total > 0)
    if (record.status === "FINALIZED") assert.equal(record.endedAt, null)
    if (batch.cancelled && !removing) assert.equal(count(reports, "IN_QUEUE"), 0, `${batch.id} was cancelled, and a job waits`)
    if (batch.endedAt === null && record.endedAt !== null) batch.deliveries += 1
    batch.endedAt = record.endedAt
    const { deliveries } = yield* outbox.list({ job: JobId.make(batch.id), limit: 100 })
    assert.equal(deliveries.length, batch.deliveries, `how often the end of ${batch.id} was delivered`)
  })

  const checkAll = Effect.suspend(() => Effect.forEach(live(), check, { discard: true }))

  for (const command of sequence) {
    yield* step(command)
    yield* checkAll
  }

  // R5: sweeps continue every interrupted batch to its end and remove it after its retention.
  for (let round = 0; round < 200 && live().length > 0; round++) {
    for (const { id, started } of live()) {
      if (!started) yield* batches.cancel(ENDPOINT, id, now, 100)
    }
    const { pending, cancelling } = yield* batches.sweep(now, 100)
    for (const { id } of pending) yield* batches.enqueue(ENDPOINT, id, 3, toJob)
    for (const { id } of cancelling) yield* batches.cancel(ENDPOINT, id, now, 3)
    yield* step({ _tag: "Claim", worker: 0, limit: 5 })
    for (let writes = 0; writes < 10; writes++) yield* step({ _tag: "WorkerWrite", job: 0, kind: "finish" })
    yield* checkAll
    now += 600
    yield* store.tick({ _tag: "Tick", now }, 1_000)
  }
  assert.deepEqual(live().map(({ id }) => id), [], "R5: batches that do not end")
  // Then jobs without a batch end. Their longest sequence is lease, ttl, retention.
  for (let round = 0; round < 4; round++) {
    now += DRAFT_MILLIS
    yield* store.tick({ _tag: "Tick", now }, 1_000)
  }
  for (const id of jobs) assert.equal(yield* store.get(ENDPOINT, id), undefined, `job ${id} still exists after its batch`)
})

/** How many sequences to run, and the seed, as for the model tests of the job store. */
const runsOf = (asked: number): number => Number(process.env["STINT_PROPERTY_RUNS"] ?? asked)
const seed = process.env["STINT_PROPERTY_SEED"]

/** Registers the rule. */
export const batchModelRule = <E>(
  store: Layer.Layer<JobStore | BatchStore | WebhookStore, E>,
  runs: number
): void => {
  it.live(
    "R1, R5: keeps the counts and the end of every batch consistent with its requests, for every sequence of commands",
    () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.array(command, { minLength: 5, maxLength: 60, size: "max" }),
            (commands) => Effect.runPromise(Effect.provide(run(commands), store))
          ),
          { numRuns: runsOf(runs), ...(seed === undefined ? {} : { seed: Number(seed) }) }
        )
      ),
    600_000
  )
}
