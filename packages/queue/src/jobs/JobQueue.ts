/**
 * The durable job queue that the server, the autoscaler and the timers use.
 *
 * It adds waiting to a {@link JobStore}: callers in this process can wait for a job, a result, a chunk or a stop signal.
 *
 * ```
 *   change --> store commits --> JobNotifier wakes waiters --> each waiter re-reads the store
 *   `---------- never interrupted -----------'
 * ```
 *
 * Change and notification are one uninterruptible step: a caller that disconnects during the store's write must not leave a job in the queue
 * for which no worker was woken.
 *
 * Delivery guarantee: execution is at least once (the job of a lost worker runs again, up to the endpoint's maximum number of attempts);
 * the effect on the job's state is exactly once (the first terminal transition wins, and writes from a worker that does not hold the lease
 * are rejected).
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { JobWords } from "@stint/contract/SearchText"
import type { BulkRecord } from "@stint/store/BulkStore"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead, JobRecord, JobReport } from "@stint/store/JobRecord"
import {
  type ApplyResult,
  type Depth,
  type DrainResult,
  type Durability,
  type InsertResult,
  JobStore
} from "@stint/store/JobStore"
import { Nodes } from "@stint/store/Nodes"
import { NO_OWNER } from "@stint/store/Owner"
import type { ScheduleRecord } from "@stint/store/ScheduleStore"
import type { StoreError } from "@stint/store/StoreError"
import { TextIndex } from "@stint/store/TextIndex"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import { monotonicMillis } from "../ClockWatch.ts"
import type { JobEvent, JobEventCursor } from "../events/JobEventCursor.ts"
import * as JobNotifier from "../events/JobNotifier.ts"
import { PlatformEvents } from "../events/PlatformEvents.ts"
import { notifyOnUncertainWrite } from "../events/UncertainWrites.ts"
import * as WaitList from "../events/WaitList.ts"
import * as AttemptLog from "../logs/AttemptLog.ts"
import { JobLogs } from "../logs/JobLogs.ts"
import { Budgets } from "../usage/Budgets.ts"
import { UsageMeter } from "../usage/UsageMeter.ts"
import * as LeaseOperations from "../workers/LeaseOperations.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import * as WorkerRemoval from "../workers/WorkerRemoval.ts"
import {
  BudgetReached,
  EndpointGone,
  IdempotencyConflict,
  type InvalidCursor,
  JobMissing,
  NotRetryable,
  QuotaExceeded
} from "./JobErrors.ts"
import * as JobQueries from "./JobQueries.ts"
import type { FollowOptions, ListOptions, ListResult, Position } from "./JobQueries.ts"
import * as JobSearches from "./JobSearches.ts"
import { quotasOf, type Submission, submissionKey, toJobRecord } from "./Submission.ts"

export type { Delivery, LeaseHolder } from "../workers/LeaseOperations.ts"
export type { FollowOptions, ListOptions, ListResult, Position } from "./JobQueries.ts"
export type { Counted, Found, SearchOptions } from "./JobSearches.ts"
export type { Submission } from "./Submission.ts"

/**
 * The maximum number of jobs that one timer transaction changes. Larger transactions have a slightly higher throughput but delay other
 * operations for longer: SQLite takes about 3 ms for 200 jobs.
 */
const TICK_LIMIT = 200

/** The maximum number of jobs that a purge cancels in one transaction, for the same reason. */
const PURGE_LIMIT = 200

/** The maximum number of chunks that one `drain` returns. */
const DRAIN_LIMIT = 1_000

export class JobQueue extends Context.Service<
  JobQueue,
  LeaseOperations.LeaseOperations & WorkerRemoval.WorkerRemoval & {
    readonly durability: Durability

    /**
     * Stores a new job. When this returns, the job has the durability that {@link Durability} specifies. When the idempotency key already
     * belongs to a job with the same request, returns that job. Fails with `IdempotencyConflict` when the key belongs to a different
     * request, with `EndpointGone` when the endpoint has been deleted, with `QuotaExceeded` when a quota is full, and with `BudgetReached` when a
     * budget is used up, even if the idempotency key belongs to a stored job.
     */
    readonly submit: (
      submission: Submission
    ) => Effect.Effect<JobRecord, StoreError | IdempotencyConflict | EndpointGone | QuotaExceeded | BudgetReached>

    /**
     * Stores the job of a schedule's firing, and the schedule after the firing, in one step. Both or neither are stored. The submission must
     * have an idempotency key, which identifies the firing.
     */
    readonly fire: (submission: Submission, schedule: ScheduleRecord) => Effect.Effect<InsertResult, StoreError>

    /** Stores the job that a bulk operation submits, together with the new state of the operation. The submission must have an idempotency key. */
    readonly submitStep: (submission: Submission, bulk: BulkRecord) => Effect.Effect<InsertResult, StoreError>

    /** Cancels or retries a job for a bulk operation, and stores the operation after this job in the same commit. */
    readonly applyStep: (
      endpoint: EndpointId,
      id: JobId,
      action: "cancel" | "retry",
      bulk: BulkRecord
    ) => Effect.Effect<ApplyResult, StoreError>

    /** A job of the endpoint. Fails with `JobMissing` when the endpoint has no such job. */
    readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<JobReport, StoreError | JobMissing>

    /** The input of a job, as the caller sent it. */
    readonly input: (endpoint: EndpointId, id: string) => Effect.Effect<JsonText, StoreError | JobMissing>

    /** Waits for the job to end and returns it. Returns its current state if it has not ended after `waitMs`. */
    readonly awaitEnd: (endpoint: EndpointId, id: string, waitMs: number) => Effect.Effect<JobReport, StoreError | JobMissing>

    /** Returns the chunks that no earlier `drain` has returned. Waits up to `waitMs` for a chunk or the job's end. */
    readonly drain: (endpoint: EndpointId, id: string, waitMs: number) => Effect.Effect<DrainResult, StoreError | JobMissing>

    /**
     * A job's events up to its end: all events, or only the events after a cursor. Independent of `drain`. Includes log lines when the
     * `JobLogs` service is provided. Ends early when the queue completes its waits; the reader then resumes from its last cursor.
     */
    readonly follow: (
      endpoint: EndpointId,
      id: string,
      after?: JobEventCursor,
      options?: FollowOptions
    ) => Stream.Stream<JobEvent, StoreError | JobMissing>

    /** Whether a reader at this cursor has received the job's end and every log line stored so far. */
    readonly isCaughtUp: (job: JobReport, cursor: JobEventCursor, options?: FollowOptions) => Effect.Effect<boolean, StoreError>

    /** The jobs of an endpoint, newest first. Fails with `InvalidCursor` when `options.cursor` was not issued by the queue. */
    readonly list: (endpoint: EndpointId, options?: ListOptions) => Effect.Effect<ListResult, StoreError | InvalidCursor>

    /** A page of the jobs of several endpoints that match a query, newest first. */
    readonly search: (options: JobSearches.SearchOptions) => Effect.Effect<JobSearches.Found, StoreError>

    /** The number of jobs that match a query, counted up to `limit` matching or 50,000 examined jobs. */
    readonly count: (scope: JobSearches.SearchScope, limit: number) => Effect.Effect<JobSearches.Counted, StoreError>

    /** The words of a job as it is now; undefined for an unknown job. */
    readonly wordsOf: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobWords | undefined, StoreError>

    /** The job and its position in the queue, counted up to 10,000. */
    readonly position: (endpoint: EndpointId, id: string) => Effect.Effect<Position, StoreError | JobMissing>

    /**
     * Cancels a waiting or running job. The worker of a running job receives a stop signal. Returns an ended job unchanged.
     */
    readonly cancel: (endpoint: EndpointId, id: string) => Effect.Effect<JobHead, StoreError | JobMissing>

    /**
     * Returns a FAILED or TIMED_OUT job to the queue. Fails with `NotRetryable` in any other status, and with `JobMissing` once the retention
     * of the job or of its batch has ended.
     */
    readonly retry: (endpoint: EndpointId, id: string) => Effect.Effect<JobHead, StoreError | JobMissing | NotRetryable>

    /** Cancels all waiting jobs of an endpoint. Returns their number. */
    readonly purge: (endpoint: EndpointId) => Effect.Effect<number, StoreError>

    readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, StoreError>

    /** Wakes the waiters for jobs that were inserted into the store without `submit`. */
    readonly notifyEnqueued: (endpoint: EndpointId, count: number) => Effect.Effect<void>

    /** Wakes the waiters and webhook senders for changes that were made directly in the store. */
    readonly notifyChanged: (applied: ReadonlyArray<ApplyResult>, by?: string) => Effect.Effect<void>

    /** Wakes every waiter, because a failed write that was made directly in the store may have been stored. */
    readonly notifyUncertain: Effect.Effect<void>

    /** Registers a waiter for any change to a job or of its run's journal, before the caller reads. */
    readonly watch: (job: JobId) => Effect.Effect<WaitList.Ticket>

    /** Whether the queue completes its waits, because the server shuts down. */
    readonly isClosing: () => boolean

    /** Returns when any job of the endpoint becomes ready, is claimed or ends, or after `waitMs`. */
    readonly awaitDemand: (endpoint: EndpointId, waitMs: number) => Effect.Effect<void>

    /** Returns when a job with a webhook changes, because a delivery may then be due, or after `waitMs`. */
    readonly awaitDeliveries: (waitMs: number) => Effect.Effect<void>

    /** Handles expired leases, timeouts and retention periods. Returns true when more may be due. */
    readonly tick: Effect.Effect<boolean, StoreError>

    /**
     * Renews the leases of all running jobs and moves their timers by `by` milliseconds, because no worker could send heartbeats or because
     * the wall clock was set. Returns the number of running jobs. Backoffs move only when the clock was set back.
     */
    readonly recover: (by: number) => Effect.Effect<number, StoreError>

    /** Shortens the backoffs that last longer than their settings say, because the wall clock was set back. */
    readonly recoverBackoffs: Effect.Effect<void, StoreError>

    /** Completes every wait at once, for server shutdown: takes return no job, and result requests return the current state. */
    readonly completeWaits: Effect.Effect<void>
  }
>()("@stint/queue/JobQueue") {}

const isJobId = Schema.is(JobId)

const make = Effect.gen(function*() {
  const jobStore = yield* JobStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  /** Wall-clock time, for everything that is stored. */
  const now = () => clock.currentTimeMillisUnsafe()
  /** Monotonic time, for waits: it does not change when the wall clock is set. */
  const elapsed = () => monotonicMillis(clock)
  const generator = yield* Random.Random
  const random = () => generator.nextDoubleUnsafe()

  // `JobLogs` shares its wait list of followers with the queue, because it wakes them when it stores log lines.
  const logs = Option.getOrUndefined(yield* Effect.serviceOption(JobLogs))
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
  const events = yield* PlatformEvents
  const budgets = yield* Budgets
  const meter = yield* UsageMeter
  const attempts = logs === undefined ? undefined : yield* AttemptLog.make(jobStore, logs)
  const notifier = JobNotifier.make(
    registry,
    logs?.followers ?? WaitList.shared(WaitList.make(), JobNotifier.FOLLOWERS, nodes),
    events,
    (before, after, by) => {
      meter.attemptEnded(before, after)
      attempts?.ended(before, after, by)
    },
    nodes
  )
  const { notify, notifyAll, demand, followers, readers, webhookSenders } = notifier
  const store = notifyOnUncertainWrite(jobStore, notifier.notifyUncertain)

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const job = isJobId(id) ? yield* store.get(endpoint, id) : undefined
    return job ?? (yield* new JobMissing({ id }))
  })

  const input = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const text = isJobId(id) ? yield* store.input(endpoint, id) : undefined
    return text ?? (yield* new JobMissing({ id }))
  })

  const queries = JobQueries.make({ store, followers, logs, get, now, isClosing: notifier.isClosing })

  /** What the caller of `submit` receives for the store's result. Wakes the waiters of a new job. */
  const submitted = (
    { endpoint, idempotencyKey }: Submission,
    job: JobRecord,
    inserted: InsertResult
  ): Effect.Effect<JobRecord, IdempotencyConflict | EndpointGone | QuotaExceeded> => {
    switch (inserted._tag) {
      case "Inserted":
        // A job with a start time wakes workers when a timer makes it ready.
        if (job.notBefore === null) notifier.notifyEnqueued(job.endpoint, 1)
        if (events.isOpen()) events.publish({ type: "job.submitted", endpoint: job.endpoint, job: job.id })
        return Effect.succeed(job)
      case "Duplicate":
        return Effect.succeed(inserted.job)
      case "KeyConflict":
        return new IdempotencyConflict({ key: idempotencyKey ?? "", id: inserted.id })
      case "EndpointGone":
        return new EndpointGone({ endpoint: endpoint.id })
      case "ScheduleChanged":
      case "BulkChanged":
        return Effect.die(new Error(`job ${job.id} was not submitted by a schedule or a bulk operation`))
      case "QuotaExceeded":
        return new QuotaExceeded({ endpoint: endpoint.id, key: job.owner, ...inserted.quota })
    }
  }

  // Without generators: see docs/decisions/0014-fast-path.md#few-steps.
  const submit = (submission: Submission) =>
    Effect.uninterruptible(Effect.suspend((): ReturnType<JobQueue["Service"]["submit"]> => {
      const { endpoint, keyQuota, owner } = submission
      const budget = budgets.reachedBy(endpoint.id, owner ?? NO_OWNER)
      if (budget !== undefined) return new BudgetReached(budget)
      const job = toJobRecord(submission, now())
      if (job.notBefore === null) notifier.preWake(job.endpoint)
      return Effect.flatMap(
        store.insert(job, submissionKey(submission), quotasOf(endpoint, keyQuota)),
        (inserted) => submitted(submission, job, inserted)
      )
    }))

  /** Stores a job, and what changes with it. */
  const insertWith = Effect.fnUntraced(function*(
    submission: Submission,
    change: { readonly schedule: ScheduleRecord } | { readonly bulk: BulkRecord }
  ) {
    const job = toJobRecord(submission, now())
    const key = submissionKey(submission)
    if (key === undefined) return yield* Effect.die(new Error("the platform's own submission needs an idempotency key"))
    const inserted = yield* store.insert(job, { ...key, ...change }, quotasOf(submission.endpoint, submission.keyQuota))
    if (inserted._tag === "Inserted") {
      notifier.notifyEnqueued(job.endpoint, 1)
      if (events.isOpen()) events.publish({ type: "job.submitted", endpoint: job.endpoint, job: job.id })
    }
    return inserted
  }, Effect.uninterruptible)

  const awaitEnd = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, waitMs: number) {
    const until = elapsed() + waitMs
    while (true) {
      const ticket = yield* readers.register(id)
      const job = yield* get(endpoint, id).pipe(Effect.onError(() => ticket.cancel))
      const left = until - elapsed()
      if (isTerminal(job.status) || left <= 0 || notifier.isClosing()) {
        yield* ticket.cancel
        return job
      }
      yield* ticket.wait(left)
    }
  })

  const drain = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, waitMs: number) {
    const until = elapsed() + waitMs
    const job = yield* get(endpoint, id)
    while (true) {
      const ticket = yield* readers.register(id)
      const drained = yield* store.drain(endpoint, job.id, DRAIN_LIMIT).pipe(Effect.onError(() => ticket.cancel))
      if (drained === undefined) {
        yield* ticket.cancel
        return yield* new JobMissing({ id })
      }
      const left = until - elapsed()
      if (drained.chunks.length > 0 || isTerminal(drained.job.status) || left <= 0 || notifier.isClosing()) {
        yield* ticket.cancel
        return drained
      }
      yield* ticket.wait(left)
    }
  })

  /** Applies an event to a job. An external id that is not a valid job id is treated as a missing job. */
  const apply = (endpoint: EndpointId, id: string, event: JobMachineEvent): Effect.Effect<ApplyResult, StoreError> =>
    isJobId(id) ? store.apply(endpoint, id, event) : Effect.succeed({ _tag: "Missing" })

  const cancel = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(endpoint, id, { _tag: "Cancel", now: now(), endpoint })
    yield* notify(applied)
    if (applied._tag === "Changed") return applied.after
    if (applied._tag === "Rejected" && applied.rejection._tag === "Ended") {
      const { job, rejection: { by } } = applied
      // The job was cancelled earlier, but its worker may not have received a stop signal if the response to that cancel was lost.
      if (job.status === "CANCELLED" && by !== null && (yield* registry.released(endpoint, by, job.id))) {
        notifier.stop(endpoint, by, job.id)
      }
      return job
    }
    return yield* new JobMissing({ id })
  }, Effect.uninterruptible)

  const retry = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(endpoint, id, { _tag: "Retry", now: now(), endpoint })
    yield* notify(applied)
    if (applied._tag === "Changed") return applied.after
    if (applied._tag === "Rejected" && applied.rejection._tag === "NotRetryable") {
      return yield* new NotRetryable({ id, status: applied.job.status })
    }
    return yield* new JobMissing({ id })
  }, Effect.uninterruptible)

  const applyStep = Effect.fnUntraced(function*(endpoint: EndpointId, id: JobId, action: "cancel" | "retry", bulk: BulkRecord) {
    const _tag = action === "cancel" ? "Cancel" : "Retry"
    const applied = yield* store.apply(endpoint, id, { _tag, now: now(), endpoint, bulk })
    yield* notify(applied)
    return applied
  }, Effect.uninterruptible)

  const purge = Effect.fnUntraced(function*(endpoint: EndpointId) {
    let removed = 0
    // Runs that are being compensated stay in the queue.
    let kept = 0
    while (true) {
      const limit = PURGE_LIMIT + kept
      const applied = yield* store.applyWaiting(endpoint, { _tag: "Cancel", now: now(), endpoint }, limit)
      yield* notifyAll(applied)
      kept = applied.filter((one) => one._tag === "Changed" && one.after.status === "IN_QUEUE").length
      removed += applied.length - kept
      if (applied.length < limit) return removed
    }
  }, Effect.uninterruptible)

  const recover = Effect.fnUntraced(function*(by: number) {
    const applied = yield* store.applyRunning("timed", { _tag: "Recover", now: now(), by })
    return applied.flatMap((one) => {
      const job = one._tag === "Changed" ? one.after : one._tag === "Rejected" ? one.job : undefined
      return job?.status === "IN_PROGRESS" && job.worker !== null ? [{ ...job, worker: job.worker }] : []
    })
  }, Effect.uninterruptible)

  // Workers could not send heartbeats while the platform was down, so every running lease is extended to its full duration. The registry
  // learns which worker runs which job, so that the workers' output and exits are attributed to their jobs from the start.
  let resumed = false
  const resume = Effect.gen(function*() {
    // While this node was down, workers could send heartbeats to other nodes.
    if (nodes?.isOldest() === false) {
      resumed = true
      return
    }
    for (const job of yield* recover(0)) {
      yield* registry.assigned(job.endpoint, job.worker, job.id, job.attempt)
      if (job.release !== null) registry.labelled(job.endpoint, job.worker, job.release)
    }
    resumed = true
  })
  // The queue starts on a full disk too, for callers that fetch results. The first sweep with space then extends the leases.
  yield* Effect.catchIf(resume, ({ reason }) => reason._tag === "StoreFull", () => Effect.void)

  return JobQueue.of({
    durability: store.durability,
    submit,
    fire: (submission, schedule) => insertWith(submission, { schedule }),
    submitStep: (submission, bulk) => insertWith(submission, { bulk }),
    applyStep,
    get,
    input,
    awaitEnd,
    drain,
    ...queries,
    ...JobSearches.make(store, Option.getOrUndefined(yield* Effect.serviceOption(TextIndex))),
    cancel,
    retry,
    purge,
    ...LeaseOperations.make({ store, registry, notifier, events, apply, now, elapsed, random, nodes }),
    ...WorkerRemoval.make({ store, registry, notifier, now, random, nodes }),
    depth: (endpoint) => store.depth(endpoint),
    notifyEnqueued: (endpoint, count) =>
      Effect.sync(() => {
        notifier.notifyEnqueued(endpoint, count)
        if (count > 0 && events.isOpen()) events.publish({ type: "jobs.submitted", endpoint, count })
      }),
    notifyChanged: (applied, by) =>
      Effect.andThen(
        notifyAll(applied, by),
        Effect.sync(() => {
          // The journal of a run may have changed even if its job did not, and a call that waits for entries must return at once.
          for (const one of applied) if (one._tag === "Changed") followers.wake(one.after.id)
          webhookSenders.wake("")
        })
      ),
    notifyUncertain: Effect.sync(() => notifier.notifyUncertain({})),
    watch: (job) => followers.register(job),
    isClosing: () => notifier.isClosing(),
    awaitDemand: (endpoint, waitMs) =>
      Effect.flatMap(demand.register(endpoint), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    awaitDeliveries: (waitMs) => Effect.flatMap(webhookSenders.register(""), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    tick: Effect.gen(function*() {
      if (!resumed) yield* resume
      const applied = yield* store.tick({ _tag: "Tick", now: now(), random: random() }, TICK_LIMIT)
      yield* notifyAll(applied)
      return applied.length === TICK_LIMIT
    }).pipe(Effect.uninterruptible),
    // While this node or its clock stood still, time passed for the other nodes and their workers.
    recover: (by) => nodes?.hasOthers() === true ? Effect.succeed(0) : Effect.map(recover(by), (jobs) => jobs.length),
    recoverBackoffs: Effect.suspend(() =>
      nodes?.hasOthers() === true
        ? Effect.void
        : Effect.asVoid(store.applyRunning("timed", { _tag: "Recover", now: now(), onlyBackoffs: true }))
    ).pipe(Effect.uninterruptible),
    completeWaits: Effect.sync(notifier.close)
  })
})

/** The queue, using the provided stores. */
export const layer: Layer.Layer<JobQueue, StoreError, JobStore | WorkerRegistry> = Layer.effect(JobQueue, make)
