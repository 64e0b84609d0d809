/**
 * The durable job queue: what the server, the autoscaler and the timers use.
 *
 * It adds to a {@link JobStore} what a store cannot know: who is waiting, in this process, for a job to take, for a result, for a
 * chunk, for a stop signal. Every change goes to the store first and wakes the waiters after; a wake-up is only a hint, and every waiter
 * looks again. The change and the waking are one step that is never interrupted: a caller who hangs up while the store writes must not
 * leave a job in the queue that nobody was woken for.
 *
 * Delivery, said honestly: execution is at least once (a worker that is lost has its job run again, up to the endpoint's limit of
 * attempts); the effect on the job's state is exactly once (the first terminal transition wins, and writes of workers that no longer hold
 * the job are refused).
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead, JobRecord, JobReport } from "@stint/store/JobRecord"
import { type ApplyResult, type Depth, type DrainResult, type Durability, JobStore } from "@stint/store/JobStore"
import { EndpointGone, IdempotencyConflict, JobMissing, NotRetryable, QueueError } from "@stint/store/QueueError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { JobEvent } from "../events/JobEventCursor.ts"
import * as JobNotifier from "../events/JobNotifier.ts"
import { notifyOnUncertainWrite } from "../events/UncertainWrites.ts"
import * as WaitList from "../events/WaitList.ts"
import { JobLogs } from "../logs/JobLogs.ts"
import * as LeaseOperations from "../workers/LeaseOperations.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import * as JobQueries from "./JobQueries.ts"
import type { FollowOptions, ListOptions, ListResult, Position } from "./JobQueries.ts"
import { type Submission, submissionKey, toJobRecord } from "./Submission.ts"

export type { Delivery, LeaseHolder } from "../workers/LeaseOperations.ts"
export type { FollowOptions, ListOptions, ListResult, Position } from "./JobQueries.ts"
export type { Submission } from "./Submission.ts"

/**
 * The most jobs that one sweep of the timers looks at in one transaction. More is a little faster in all and holds up everybody else for
 * longer: 200 take SQLite about 3 ms.
 */
const TICK_LIMIT = 200

/** The most jobs that a purge cancels in one transaction, for the same reason. */
const PURGE_LIMIT = 200

/** The most chunks that one reading of a stream takes. */
const DRAIN_LIMIT = 1_000

export class JobQueue extends Context.Service<
  JobQueue,
  LeaseOperations.LeaseOperations & {
    readonly durability: Durability

    /**
     * Keeps a job. When this returns, the job is as safe as {@link Durability} says. A job of another id than the submission's is the one
     * that the idempotency key stood for already. Fails with `IdempotencyConflict` where the key stands for another request, and with
     * `EndpointGone` where the endpoint was deleted meanwhile.
     */
    readonly submit: (submission: Submission) => Effect.Effect<JobRecord, QueueError>

    /** A job of an endpoint. Fails with `JobMissing`, also where the id belongs to another endpoint. */
    readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<JobReport, QueueError>

    /** The job when it has ended, or as it stands after `waitMs`. */
    readonly awaitEnd: (endpoint: EndpointId, id: string, waitMs: number) => Effect.Effect<JobReport, QueueError>

    /** The chunks that nobody has read; waits up to `waitMs` for one, or for the end. */
    readonly drain: (endpoint: EndpointId, id: string, waitMs: number) => Effect.Effect<DrainResult, QueueError>

    /**
     * Everything that happens to a job from now on or, with the `position` of an earlier telling, from there on, to its end. Takes nothing
     * from `drain`. Log lines are told where `JobLogs` is there to keep them. Fails with `JobMissing`, and with `InvalidCursor` where `after`
     * is no position. Ends early when the queue ends its waits: the reader comes back with its last position.
     */
    readonly follow: (
      endpoint: EndpointId,
      id: string,
      after?: string,
      options?: FollowOptions
    ) => Stream.Stream<JobEvent, QueueError>

    /** Whether a follower with this position knows the job's end and every line by now. Fails with `InvalidCursor` where it is no position. */
    readonly isCaughtUp: (job: JobReport, position: string, options?: FollowOptions) => Effect.Effect<boolean, QueueError>

    /** The jobs of an endpoint, newest first. Fails with `InvalidCursor` where the cursor is none. */
    readonly list: (endpoint: EndpointId, options?: ListOptions) => Effect.Effect<ListResult, QueueError>

    /** The job and its place in line, counted up to 10,000. */
    readonly position: (endpoint: EndpointId, id: string) => Effect.Effect<Position, QueueError>

    /**
     * Cancels a waiting or running job; the worker of a running one is told to stop it. A job that had already ended is returned
     * unchanged.
     */
    readonly cancel: (endpoint: EndpointId, id: string) => Effect.Effect<JobHead, QueueError>

    /** Puts a FAILED or TIMED_OUT job back. Fails with `NotRetryable` otherwise. */
    readonly retry: (endpoint: EndpointId, id: string) => Effect.Effect<JobHead, QueueError>

    /** Cancels all waiting jobs of an endpoint; how many there were. */
    readonly purge: (endpoint: EndpointId) => Effect.Effect<number, QueueError>

    readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, QueueError>

    /** Wakes whoever waits for jobs that came into the queue past `submit`. */
    readonly notifyEnqueued: (endpoint: EndpointId, count: number) => Effect.Effect<void>

    /** Wakes whoever changes concern that were made to the store past this queue, and who sends webhooks. */
    readonly changed: (applied: ReadonlyArray<ApplyResult>) => Effect.Effect<void>

    /** Returns when jobs of the endpoint were added, freed or ended, or after `waitMs`. */
    readonly awaitDemand: (endpoint: EndpointId, waitMs: number) => Effect.Effect<void>

    /** Returns when a job with a webhook changed, so that a delivery may be due, or after `waitMs`. */
    readonly awaitDeliveries: (waitMs: number) => Effect.Effect<void>

    /** Fires what is due. True when there may be more. */
    readonly tick: Effect.Effect<boolean, QueueError>

    /** Ends all waits at once: takes come back empty, results as they stand. For a server that is about to close. */
    readonly completeWaits: Effect.Effect<void>
  }
>()("@stint/queue/JobQueue") {}

const isJobId = Schema.is(JobId)

const missing = (id: string) => new QueueError({ reason: new JobMissing({ id }) })

const make = Effect.gen(function*() {
  const jobStore = yield* JobStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const dice = yield* Random.Random
  const random = () => dice.nextDoubleUnsafe()

  // Who keeps log lines wakes those who follow their job, too.
  const logs = Option.getOrUndefined(yield* Effect.serviceOption(JobLogs))
  const notifier = JobNotifier.make(registry, logs?.followers ?? WaitList.make())
  const { notify, notifyAll, demand, followers, readers, webhookSenders } = notifier
  const store = notifyOnUncertainWrite(jobStore, notifier.notifyUncertain)

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const job = isJobId(id) ? yield* store.get(endpoint, id) : undefined
    return job ?? (yield* missing(id))
  })

  const queries = JobQueries.make({ store, followers, logs, get, now, isClosing: notifier.isClosing })

  const submit = Effect.fnUntraced(function*(submission: Submission): Effect.fn.Return<JobRecord, QueueError> {
    const { endpoint, idempotencyKey } = submission
    const job = toJobRecord(submission, now())
    notifier.preWake(job.endpoint)
    const inserted = yield* store.insert(job, submissionKey(submission))
    switch (inserted._tag) {
      case "Kept":
        notifier.notifyEnqueued(job.endpoint, 1)
        return job
      case "Known":
        return inserted.job
      case "KeyTaken":
        return yield* new QueueError({ reason: new IdempotencyConflict({ key: idempotencyKey ?? "", id: inserted.id }) })
      case "EndpointGone":
        return yield* new QueueError({ reason: new EndpointGone({ endpoint: endpoint.id }) })
    }
  }, Effect.uninterruptible)

  const awaitEnd = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, waitMs: number) {
    const until = now() + waitMs
    while (true) {
      const ticket = yield* readers.take(id)
      const job = yield* get(endpoint, id).pipe(Effect.onError(() => ticket.cancel))
      const left = until - now()
      if (isTerminal(job.status) || left <= 0 || notifier.isClosing()) {
        yield* ticket.cancel
        return job
      }
      yield* ticket.wait(left)
    }
  })

  const drain = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, waitMs: number) {
    const until = now() + waitMs
    const job = yield* get(endpoint, id)
    while (true) {
      const ticket = yield* readers.take(id)
      const drained = yield* store.drain(endpoint, job.id, DRAIN_LIMIT).pipe(Effect.onError(() => ticket.cancel))
      if (drained === undefined) {
        yield* ticket.cancel
        return yield* missing(id)
      }
      const left = until - now()
      if (drained.chunks.length > 0 || isTerminal(drained.job.status) || left <= 0 || notifier.isClosing()) {
        yield* ticket.cancel
        return drained
      }
      yield* ticket.wait(left)
    }
  })

  /** Applies an event to a job by whatever id came from outside. */
  const apply = (endpoint: EndpointId, id: string, event: JobMachineEvent): Effect.Effect<ApplyResult, QueueError> =>
    isJobId(id) ? store.apply(endpoint, id, event) : Effect.succeed({ _tag: "Missing" })

  const cancel = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(endpoint, id, { _tag: "Cancel", now: now(), endpoint })
    yield* notify(applied)
    if (applied._tag === "Changed") return applied.after
    if (applied._tag === "Rejected" && applied.rejection._tag === "Ended") {
      const { job, rejection: { by } } = applied
      // Its worker was not told, where the answer to the cancel that ended it was lost.
      if (job.status === "CANCELLED" && by !== null && (yield* registry.released(endpoint, by, job.id))) {
        notifier.stop(endpoint, by, job.id)
      }
      return job
    }
    return yield* missing(id)
  }, Effect.uninterruptible)

  const retry = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(endpoint, id, { _tag: "Retry", now: now(), endpoint })
    yield* notify(applied)
    if (applied._tag === "Changed") return applied.after
    if (applied._tag === "Rejected" && applied.rejection._tag === "NotRetryable") {
      return yield* new QueueError({ reason: new NotRetryable({ id, status: applied.job.status }) })
    }
    return yield* missing(id)
  }, Effect.uninterruptible)

  const purge = Effect.fnUntraced(function*(endpoint: EndpointId) {
    let removed = 0
    while (true) {
      const applied = yield* store.applyWaiting(endpoint, { _tag: "Cancel", now: now(), endpoint }, PURGE_LIMIT)
      yield* notifyAll(applied)
      removed += applied.length
      if (applied.length < PURGE_LIMIT) return removed
    }
  }, Effect.uninterruptible)

  // While the platform was down no worker could beat: every running lease gets its full time again.
  yield* store.applyRunning("all", { _tag: "Recover", now: now() })

  return JobQueue.of({
    durability: store.durability,
    submit,
    get,
    awaitEnd,
    drain,
    ...queries,
    cancel,
    retry,
    purge,
    ...LeaseOperations.make({ store, registry, notifier, apply, now, random }),
    depth: (endpoint) => store.depth(endpoint),
    notifyEnqueued: (endpoint, count) => Effect.sync(() => notifier.notifyEnqueued(endpoint, count)),
    changed: (applied) => Effect.andThen(notifyAll(applied), Effect.sync(() => webhookSenders.wake(""))),
    awaitDemand: (endpoint, waitMs) => Effect.flatMap(demand.take(endpoint), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    awaitDeliveries: (waitMs) => Effect.flatMap(webhookSenders.take(""), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    tick: Effect.gen(function*() {
      const applied = yield* store.tick({ _tag: "Tick", now: now(), random: random() }, TICK_LIMIT)
      yield* notifyAll(applied)
      return applied.length === TICK_LIMIT
    }).pipe(Effect.uninterruptible),
    completeWaits: Effect.sync(notifier.close)
  })
})

/** The queue over whatever store is given. */
export const layer: Layer.Layer<JobQueue, QueueError, JobStore | WorkerRegistry> = Layer.effect(JobQueue, make)
