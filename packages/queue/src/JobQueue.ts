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
import type { JsonText } from "@stint/contract/Json"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { Followed } from "./Following.ts"
import { JobLogs } from "./JobLogs.ts"
import { isReady, isRetriedError, type JobEvent } from "./JobMachine.ts"
import type { JobHead, JobRecord, JobReport } from "./JobRecord.ts"
import { type Applied, type Depth, type Drained, type Durability, JobStore } from "./JobStore.ts"
import * as JobViews from "./JobViews.ts"
import type { FollowOptions, Listed, ListOptions, Position } from "./JobViews.ts"
import { wakingAfter } from "./LostAnswers.ts"
import { ChunkGap, EndpointGone, IdempotencyConflict, JobMissing, LeaseLost, NotRetryable, QueueError } from "./QueueError.ts"
import { jobOf, keyOf, type Submission } from "./Submission.ts"
import * as WaitList from "./WaitList.ts"
import { WorkerRegistry } from "./WorkerRegistry.ts"

export type { FollowOptions, Listed, ListOptions, Position } from "./JobViews.ts"
export type { Submission } from "./Submission.ts"

/** Who writes: a worker and, where it knows, the attempt that it was given. */
export interface Holder {
  readonly endpoint: EndpointId
  readonly worker: string
  readonly job: JobId
  readonly attempt?: number | undefined
}

/**
 * What became of a worker's write. `ignored`: the job had ended before, by this same worker or by a cancel or a timer, so the write
 * changed nothing and there is nothing for the worker to do about it.
 */
export type Delivery = "accepted" | "ignored"

/** How long a take of a worker that is to leave is held before it comes back empty. Milliseconds. */
const DRAINING_PAUSE = 1_000

/** How much longer than its wait a take goes on where it finds jobs that cannot be handed out. Milliseconds. */
const OVERTIME = 5_000

/**
 * The most jobs that one sweep of the timers looks at in one transaction. More is a little faster in all and holds up everybody else for
 * longer: 200 take SQLite about 3 ms.
 */
const TICK_LIMIT = 200

/** The most jobs that a purge cancels in one transaction, for the same reason. */
const PURGE_LIMIT = 200

/** The most chunks that one reading of a stream takes. */
const DRAIN_LIMIT = 1_000

export class JobQueue extends Context.Service<JobQueue, {
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
  readonly drain: (endpoint: EndpointId, id: string, waitMs: number) => Effect.Effect<Drained, QueueError>

  /**
   * Everything that happens to a job from now on or, with the `position` of an earlier telling, from there on, to its end. Takes nothing
   * from `drain`. Log lines are told where `JobLogs` is there to keep them. Fails with `JobMissing`, and with `InvalidPlace` where `after`
   * is no position. Ends early when the queue ends its waits: the reader comes back with its last position.
   */
  readonly follow: (
    endpoint: EndpointId,
    id: string,
    after?: string,
    options?: FollowOptions
  ) => Stream.Stream<Followed, QueueError>

  /** Whether a follower with this position knows the job's end and every line by now. Fails with `InvalidPlace` where it is no position. */
  readonly knowsEnd: (job: JobReport, position: string, options?: FollowOptions) => Effect.Effect<boolean, QueueError>

  /** The jobs of an endpoint, newest first. Fails with `InvalidPlace` where the cursor is none. */
  readonly list: (endpoint: EndpointId, options?: ListOptions) => Effect.Effect<Listed, QueueError>

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

  /**
   * Up to `limit` jobs for a worker, the highest priority first and then the oldest; waits up to `waitMs` for one. Empty when none came, or when the worker is to
   * leave.
   */
  readonly take: (options: {
    readonly endpoint: EndpointId
    readonly worker: string
    readonly limit: number
    readonly waitMs: number
    /**
     * False: the worker says that it holds nothing, so a job that it was handed and never got is lost at once instead of at the end of its
     * lease (wire-facts 2.2 and 5.3: there is no other acknowledgement).
     */
    readonly holding: boolean
  }) => Effect.Effect<ReadonlyArray<JobRecord>, QueueError>

  /** The worker's heartbeat: the leases of the jobs it names start anew; those that it should not be running become stop signals. */
  readonly beat: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>

  /** Keeps the latest progress. Fails with `LeaseLost` where the job is no longer this worker's. */
  readonly progress: (holder: Holder, output: JsonText) => Effect.Effect<Delivery, QueueError>

  /**
   * Keeps a chunk. `number`, from 1, where the worker counts its chunks: one that is kept already is accepted and changes nothing, and one
   * that is not the next fails with `ChunkGap`.
   */
  readonly append: (holder: Holder, chunk: JsonText, number?: number) => Effect.Effect<Delivery, QueueError>

  /** Ends the job: COMPLETED, or FAILED when there is an error. */
  readonly finish: (
    holder: Holder,
    result: { readonly output: JsonText | null; readonly error: string | null }
  ) => Effect.Effect<Delivery, QueueError>

  /** Ids of jobs that the worker is to stop; waits up to `waitMs` for one. */
  readonly stops: (endpoint: EndpointId, worker: string, waitMs: number) => Effect.Effect<ReadonlyArray<string>, QueueError>

  /** The worker was not told of these stops after all: its next call of `stops` is. */
  readonly stopAgain: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void>

  /** The worker gets no more jobs and an open take of it returns at once. */
  readonly drainWorker: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /**
   * The worker is gone. With a `cause` its jobs are lost with it and count an attempt; without one it left in order and its jobs were
   * never started.
   */
  readonly workerGone: (endpoint: EndpointId, worker: string, cause: string | undefined) => Effect.Effect<void, QueueError>

  /** Jobs that were claimed for a worker and could not be handed over go back to the queue, unstarted. Costs no attempt. */
  readonly giveBack: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>

  /**
   * The worker says goodbye: it finishes the jobs it names and takes no others. A job that was handed to it in that instant, and that it
   * does not name, goes back unstarted.
   */
  readonly workerLeaves: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>

  readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, QueueError>

  /** Wakes whoever waits for jobs that came into the queue past `submit`. */
  readonly arrived: (endpoint: EndpointId, count: number) => Effect.Effect<void>

  /** Wakes whoever changes concern that were made to the store past this queue, and who sends webhooks. */
  readonly changed: (applied: ReadonlyArray<Applied>) => Effect.Effect<void>

  /** Returns when jobs of the endpoint were added, freed or ended, or after `waitMs`. */
  readonly awaitDemand: (endpoint: EndpointId, waitMs: number) => Effect.Effect<void>

  /** Returns when a job with a webhook changed, so that a delivery may be due, or after `waitMs`. */
  readonly awaitDeliveries: (waitMs: number) => Effect.Effect<void>

  /** Fires what is due. True when there may be more. */
  readonly tick: Effect.Effect<boolean, QueueError>

  /** Ends all waits at once: takes come back empty, results as they stand. For a server that is about to close. */
  readonly endWaits: Effect.Effect<void>
}>()("@stint/queue/JobQueue") {}

const isJobId = Schema.is(JobId)

const missing = (id: string) => new QueueError({ reason: new JobMissing({ id }) })

const workerKey = (endpoint: string, worker: string) => `${endpoint}\n${worker}`

const make = Effect.gen(function*() {
  const certain = yield* JobStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const dice = yield* Random.Random
  const random = () => dice.nextDoubleUnsafe()

  /** By endpoint: workers that wait for a job. */
  const takers = WaitList.make()
  /** By job: callers that wait for its end or for a chunk. */
  const readers = WaitList.make()
  /** Who keeps log lines wakes those who follow their job, too. */
  const logs = Option.getOrUndefined(yield* Effect.serviceOption(JobLogs))
  /** By job: those who follow it. */
  const followers = logs?.followers ?? WaitList.make()
  /** Who sends webhooks, all under one key. */
  const senders = WaitList.make()
  /** By worker: job-stop polls. */
  const stoppers = WaitList.make()
  /** By endpoint: autoscalers. */
  const demand = WaitList.make()
  /** By worker: jobs that it is to stop and has not been told of. */
  const pendingStops = new Map<string, Set<string>>()
  let closing = false

  const store = wakingAfter(certain, ({ endpoint, job }) => {
    if (endpoint === undefined) takers.wakeAll()
    else takers.wake(endpoint)
    if (endpoint === undefined) demand.wakeAll()
    else demand.wake(endpoint)
    for (const waiters of [readers, followers]) {
      if (job === undefined) waiters.wakeAll()
      else waiters.wake(job)
    }
    senders.wake("")
  })

  const stop = (endpoint: string, worker: string, job: string) => {
    const key = workerKey(endpoint, worker)
    const stops = pendingStops.get(key)
    if (stops === undefined) pendingStops.set(key, new Set([job]))
    else stops.add(job)
    stoppers.wake(key)
  }

  /**
   * Wakes whoever a change concerns. `by` is the worker whose own result made the change: it is the one worker that needs no stop
   * signal when the attempt ends.
   */
  const announce = Effect.fnUntraced(function*(applied: Applied, by?: string) {
    if (applied._tag !== "Changed") return
    const { after, before } = applied
    // The end of a batch's last job is the end of the batch, which may have a webhook where the job has none.
    if (after.webhook !== null || after.batchId !== null) senders.wake("")
    if (before.status === after.status) {
      if (after.chunks !== before.chunks) {
        readers.wake(after.id)
        followers.wake(after.id)
      }
      if (isReady(after) && !isReady(before)) {
        takers.wake(after.endpoint, 1)
        demand.wake(after.endpoint)
      }
      return
    }
    followers.wake(after.id)
    if (before.status === "IN_PROGRESS" && before.worker !== null) {
      yield* registry.freed(before.endpoint, before.worker, before.id)
      if (by !== before.worker) stop(before.endpoint, before.worker, before.id)
    }
    if (isReady(after)) takers.wake(after.endpoint, 1)
    if (isTerminal(after.status)) readers.wake(after.id)
    demand.wake(after.endpoint)
  })

  const announceAll = (all: ReadonlyArray<Applied>, by?: string) =>
    Effect.forEach(all, (one) => announce(one, by), { discard: true })

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const job = isJobId(id) ? yield* store.get(id) : undefined
    if (job === undefined || job.endpoint !== endpoint) return yield* missing(id)
    return job
  })

  const views = JobViews.make({ store, followers, logs, get, now, isClosing: () => closing })

  /** Endpoints whose waiting worker is about to look ahead. */
  const lookingAhead = new Set<EndpointId>()

  /**
   * Lets one waiting worker look after the store was asked to keep jobs, and before it has: a store that shares its transactions claims them in
   * the one that keeps them, and the worker does not wait for a second commit. Once for all that are submitted in one turn of the event loop,
   * after the last of them. A worker that finds nothing waits on, and is woken when they are kept.
   */
  const lookAhead = (endpoint: EndpointId) => {
    if (lookingAhead.has(endpoint) || takers.size(endpoint) === 0) return
    lookingAhead.add(endpoint)
    setImmediate(() => {
      lookingAhead.delete(endpoint)
      takers.wake(endpoint, 1)
    })
  }

  const submit = Effect.fnUntraced(function*(submission: Submission): Effect.fn.Return<JobRecord, QueueError> {
    const { endpoint, idempotencyKey } = submission
    const job = jobOf(submission, now())
    lookAhead(job.endpoint)
    const inserted = yield* store.insert(job, keyOf(submission))
    switch (inserted._tag) {
      case "Kept":
        takers.wake(job.endpoint, 1)
        demand.wake(job.endpoint)
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
      if (isTerminal(job.status) || left <= 0 || closing) {
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
      const drained = yield* store.drain(job.id, DRAIN_LIMIT).pipe(Effect.onError(() => ticket.cancel))
      if (drained === undefined) {
        yield* ticket.cancel
        return yield* missing(id)
      }
      const left = until - now()
      if (drained.chunks.length > 0 || isTerminal(drained.job.status) || left <= 0 || closing) {
        yield* ticket.cancel
        return drained
      }
      yield* ticket.wait(left)
    }
  })

  /** Applies an event to a job by whatever id came from outside. */
  const apply = (id: string, event: JobEvent): Effect.Effect<Applied, QueueError> =>
    isJobId(id) ? store.apply(id, event) : Effect.succeed({ _tag: "Missing" })

  const cancel = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(id, { _tag: "Cancel", now: now(), endpoint })
    yield* announce(applied)
    if (applied._tag === "Changed") return applied.after
    if (applied._tag === "Rejected" && applied.rejection._tag === "Ended") {
      const { job, rejection: { by } } = applied
      // Its worker was not told, where the answer to the cancel that ended it was lost.
      if (job.status === "CANCELLED" && by !== null && (yield* registry.freed(endpoint, by, job.id))) stop(endpoint, by, job.id)
      return job
    }
    return yield* missing(id)
  }, Effect.uninterruptible)

  const retry = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const applied = yield* apply(id, { _tag: "Retry", now: now(), endpoint })
    yield* announce(applied)
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
      yield* announceAll(applied)
      removed += applied.length
      if (applied.length < PURGE_LIMIT) return removed
    }
  }, Effect.uninterruptible)

  /**
   * What the store says the worker holds is lost, for it says itself that it holds nothing. That counts an attempt: a worker that drops
   * a job each time it is handed one must not be handed it for ever.
   */
  const reclaimUnreceived = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const cause = `Worker ${worker} was handed the job and asked for another one without delivering a result.`
    const event = { _tag: "LoseLease", now: now(), endpoint, worker, cause, random: random() } as const
    yield* announceAll(yield* store.applyRunning({ endpoint, worker }, event), worker)
    pendingStops.delete(workerKey(endpoint, worker))
  })

  const take: JobQueue["Service"]["take"] = Effect.fnUntraced(function*({ endpoint, holding, limit, waitMs, worker }) {
    yield* registry.seen(endpoint, worker)
    const until = now() + waitMs
    if (!holding) yield* reclaimUnreceived(endpoint, worker)
    // A worker that asks although it is to leave would ask again at once: existing ones do not pause between takes (wire-facts 5.3).
    if (yield* registry.isDraining(endpoint, worker)) {
      yield* Effect.interruptible(Effect.sleep(Math.min(waitMs, DRAINING_PAUSE)))
      return []
    }
    while (true) {
      if (closing || (yield* registry.isDraining(endpoint, worker))) return []
      const ticket = yield* takers.take(endpoint)
      const { expired, jobs } = yield* store.claim(endpoint, limit, { _tag: "Claim", now: now(), worker }).pipe(
        Effect.onError(() => ticket.cancel)
      )
      yield* announceAll(expired)
      const left = until - now()
      if (jobs.length > 0) {
        yield* ticket.cancel
        for (const job of jobs) {
          yield* registry.holds(endpoint, worker, job.id, job.attempt)
          followers.wake(job.id)
          if (job.webhook !== null) senders.wake("")
          // A stop that was meant for an earlier attempt must not hit this one.
          pendingStops.get(workerKey(endpoint, worker))?.delete(job.id)
        }
        demand.wake(endpoint)
        return jobs
      }
      // There may be others behind those whose time was over, and so many that the worker would give up on the answer.
      if (expired.length > 0 && left > -OVERTIME) {
        yield* ticket.cancel
        continue
      }
      if (left <= 0) {
        yield* ticket.cancel
        return []
      }
      yield* Effect.interruptible(ticket.wait(left))
    }
    // Only the waiting may be interrupted: between a claim and its return a job would be nobody's until its lease runs out.
  }, Effect.uninterruptible)

  const beat = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    yield* registry.seen(endpoint, worker)
    for (const id of jobs) {
      const applied = yield* apply(id, { _tag: "Beat", now: now(), endpoint, worker })
      // A beat that was sent before the worker's own result arrived names a job that has ended as it should.
      const ownEnd = applied._tag === "Rejected" && applied.rejection._tag === "Ended" &&
        (applied.rejection.status === "COMPLETED" || applied.rejection.status === "FAILED") && applied.rejection.by === worker
      if (applied._tag === "Missing" || (applied._tag === "Rejected" && !ownEnd)) stop(endpoint, worker, id)
    }
  }, Effect.uninterruptible)

  /** What a worker is told of its write. */
  const delivered = Effect.fnUntraced(function*(holder: Holder, applied: Applied): Effect.fn.Return<Delivery, QueueError> {
    yield* registry.seen(holder.endpoint, holder.worker)
    yield* announce(applied, holder.worker)
    if (applied._tag === "Changed") return "accepted"
    if (applied._tag === "Missing" || applied._tag === "Removed") return yield* missing(holder.job)
    const { rejection } = applied
    if (rejection._tag === "OtherEndpoint") return yield* missing(holder.job)
    if (rejection._tag === "Repeated") return "accepted"
    // Whatever it was, this worker does not have the job; it may have been told so by an answer that was lost.
    const holds = rejection._tag === "NotHeld" && rejection.by === holder.worker
    if (!holds) yield* registry.freed(holder.endpoint, holder.worker, holder.job)
    if (
      rejection._tag === "Ended" && rejection.by === holder.worker &&
      (holder.attempt === undefined || holder.attempt === rejection.attempt)
    ) {
      return "ignored"
    }
    const by = rejection._tag === "NotHeld" ? rejection.by : null
    return yield* new QueueError({ reason: new LeaseLost({ id: holder.job, worker: holder.worker, holder: by }) })
  })

  /** A worker's write: to the store, then to whoever waits for it. */
  const deliver = (holder: Holder, applying: Effect.Effect<Applied, QueueError>) =>
    Effect.uninterruptible(Effect.flatMap(applying, (applied) => delivered(holder, applied)))

  const fence = ({ attempt, endpoint, worker }: Holder) =>
    attempt === undefined ? { now: now(), endpoint, worker } : { now: now(), endpoint, worker, attempt }

  const finish: JobQueue["Service"]["finish"] = (holder, { error, output }) =>
    deliver(
      holder,
      Effect.suspend(() => store.apply(holder.job, { _tag: "Finish", output, error, random: random(), ...fence(holder) }))
    ).pipe(
      // The same error again, of an attempt that it has ended: its answer was lost.
      Effect.catchReason("QueueError", "LeaseLost", (_, refused) =>
        Effect.flatMap(
          store.get(holder.job),
          (job): Effect.Effect<Delivery, QueueError> =>
            job !== undefined && isRetriedError(job, holder, error) ? Effect.succeed("ignored") : Effect.fail(refused)
        ))
    )

  const append: JobQueue["Service"]["append"] = (holder, chunk, number) =>
    deliver(
      holder,
      Effect.suspend(() =>
        store.append(holder.job, { _tag: "Chunk", ...(number === undefined ? {} : { number }), ...fence(holder) }, chunk)
      ).pipe(
        Effect.tap((applied) => {
          if (applied._tag !== "Rejected" || applied.rejection._tag !== "Gap" || number === undefined) return Effect.void
          const { expected } = applied.rejection
          return new QueueError({ reason: new ChunkGap({ id: holder.job, chunk: number, expected }) })
        })
      )
    )

  const stops = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, waitMs: number) {
    yield* registry.seen(endpoint, worker)
    const key = workerKey(endpoint, worker)
    const until = now() + waitMs
    while (true) {
      // In line before it looks, as all waiters are: a stop that comes between the two must not be missed.
      const ticket = yield* stoppers.take(key)
      const ids = pendingStops.get(key)
      pendingStops.delete(key)
      const left = until - now()
      // A draining worker waits like any other: it may still run a job that is cancelled.
      if (left <= 0 || closing || (ids !== undefined && ids.size > 0)) {
        yield* ticket.cancel
        return ids === undefined ? [] : [...ids]
      }
      yield* Effect.interruptible(ticket.wait(left))
    }
    // Only the waiting may be interrupted: a stop that was looked up and not answered would be forgotten.
  }, Effect.uninterruptible)

  const drainWorker = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    yield* registry.drain(endpoint, worker)
    // Takers wait by endpoint; all look again and only this one leaves.
    takers.wake(endpoint)
  })

  const workerGone = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, cause: string | undefined) {
    const time = now()
    const applied = yield* store.applyRunning(
      { endpoint, worker },
      cause === undefined
        ? { _tag: "Return", now: time, endpoint, worker }
        : { _tag: "LoseLease", now: time, endpoint, worker, cause, random: random() }
    )
    yield* announceAll(applied)
    yield* registry.gone(endpoint, worker)
    pendingStops.delete(workerKey(endpoint, worker))
    demand.wake(endpoint)
  }, Effect.uninterruptible)

  const giveBack = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    for (const id of jobs) {
      const applied = yield* apply(id, { _tag: "Return", now: now(), endpoint, worker })
      yield* announce(applied, worker)
      yield* registry.freed(endpoint, worker, id)
    }
  }, Effect.uninterruptible)

  const workerLeaves = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    yield* beat(endpoint, worker, jobs)
    yield* drainWorker(endpoint, worker)
    const status = (yield* registry.list(endpoint)).find((one) => one.id === worker)
    yield* giveBack(endpoint, worker, (status?.jobs ?? []).filter((id) => !jobs.includes(id)))
  }, Effect.uninterruptible)

  // While the platform was down no worker could beat: every running lease gets its full time again.
  yield* store.applyRunning("all", { _tag: "Recover", now: now() })

  return JobQueue.of({
    durability: store.durability,
    submit,
    get,
    awaitEnd,
    drain,
    ...views,
    cancel,
    retry,
    purge,
    take,
    beat,
    progress: (holder, output) =>
      deliver(holder, Effect.suspend(() => store.apply(holder.job, { _tag: "Progress", output, ...fence(holder) }))).pipe(
        Effect.tap(() => Effect.sync(() => followers.wake(holder.job)))
      ),
    append,
    finish,
    stops,
    stopAgain: (endpoint, worker, jobs) =>
      Effect.map(registry.list(endpoint), (workers) => {
        // One that it was handed anew meanwhile is not to stop.
        const held = workers.find(({ id }) => id === worker)?.jobs ?? []
        for (const job of jobs) if (!held.includes(job)) stop(endpoint, worker, job)
      }),
    drainWorker,
    workerGone,
    giveBack,
    workerLeaves,
    depth: (endpoint) => store.depth(endpoint),
    arrived: (endpoint, count) =>
      Effect.sync(() => {
        if (count === 0) return
        takers.wake(endpoint, count)
        demand.wake(endpoint)
      }),
    changed: (applied) => Effect.andThen(announceAll(applied), Effect.sync(() => senders.wake(""))),
    awaitDemand: (endpoint, waitMs) => Effect.flatMap(demand.take(endpoint), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    awaitDeliveries: (waitMs) => Effect.flatMap(senders.take(""), (ticket) => ticket.wait(waitMs)).pipe(Effect.asVoid),
    tick: Effect.gen(function*() {
      const applied = yield* store.tick({ _tag: "Tick", now: now(), random: random() }, TICK_LIMIT)
      yield* announceAll(applied)
      return applied.length === TICK_LIMIT
    }).pipe(Effect.uninterruptible),
    endWaits: Effect.sync(() => {
      closing = true
      takers.wakeAll()
      readers.wakeAll()
      followers.wakeAll()
      senders.wakeAll()
      stoppers.wakeAll()
      demand.wakeAll()
    })
  })
})

/** The queue over whatever store is given. */
export const layer: Layer.Layer<JobQueue, QueueError, JobStore | WorkerRegistry> = Layer.effect(JobQueue, make)
