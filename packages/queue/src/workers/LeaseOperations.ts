/**
 * The operations of workers on their jobs: take, heartbeat, deliver, receive stop signals, exit.
 *
 * ```
 *   take --> store claims jobs (lease starts) --> registry: worker runs these jobs
 *   heartbeat ------------------> store renews the leases; jobs that the worker must not run become stop signals
 *   any other call -------------> the same renewal for all jobs of the worker, when its heartbeats are missing
 *   progress, append, finish ---> store (fenced by the lease) --> waiters notified --> accepted | ignored | LeaseLost
 *   stopSignals <---------------- jobs whose attempt ended without this worker: cancel, timeout, lost lease
 *   workerExiting, workerGone --> jobs return to the queue, or count a lost attempt
 * ```
 *
 * A write is fenced: it changes the job only while the worker holds the job's lease.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { isRetriedError, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import type { ApplyResult, JobStore } from "@stint/store/JobStore"
import type { Nodes } from "@stint/store/Nodes"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { type JobNotifier, workerKey } from "../events/JobNotifier.ts"
import { startedEvent } from "../events/JobStateEvents.ts"
import type { PlatformEventsService } from "../events/PlatformEvents.ts"
import type { Ticket } from "../events/WaitList.ts"
import { ChunkGap, JobMissing, LeaseLost } from "../jobs/JobErrors.ts"
import type { CanaryShare } from "./Canaries.ts"
import type { WorkerRegistry } from "./WorkerRegistry.ts"

/** The worker that makes a write and, if the worker sends it, the number of the attempt that it is running. */
export interface LeaseHolder {
  readonly endpoint: EndpointId
  readonly worker: string
  readonly job: JobId
  readonly attempt?: number | undefined
}

/**
 * The outcome of a worker's write. `ignored`: the attempt had already ended through this worker's result, a cancel or a timer. The write
 * changed nothing, and the worker does not need to do anything.
 */
export type Delivery = "accepted" | "ignored"

/** How long a take or a stop poll of a draining worker waits before it returns nothing, in milliseconds. */
const DRAINING_POLL_DELAY_MILLIS = 1_000

/**
 * Polls of at least this length end at a full second, at most a second early. The polls of many idle workers then end, and start again, at the same
 * time. If they ended separately, each poll would wake an idle platform twice. Milliseconds.
 */
const ALIGNED_POLL_MILLIS = 10_000
const POLL_END_INTERVAL_MILLIS = 1_000

/** When a poll that begins at the monotonic time `time` ends, if no event comes first. */
const endOfPoll = (time: number, waitMs: number): number =>
  waitMs < ALIGNED_POLL_MILLIS
    ? time + waitMs
    : Math.floor((time + waitMs) / POLL_END_INTERVAL_MILLIS) * POLL_END_INTERVAL_MILLIS

/** For how long a take continues past its wait while it finds only expired jobs, in milliseconds. */
const TAKE_OVERRUN_MILLIS = 5_000

const isJobId = Schema.is(JobId)

const NO_LEASES: ReadonlyArray<number> = []

/** After this time, a worker has either stopped a job that has ended or still reports it in a heartbeat. Milliseconds. */
const STALE_STOP_MILLIS = 60_000

/** The wait-list key of canary workers that have taken their share of the jobs. */
const heldBackKey = (endpoint: EndpointId): string => `${endpoint}\ncanary`

/** Ends the open polls of a worker that takes no more jobs, and wakes the autoscaler. */
export const wakeDraining = (notifier: JobNotifier, endpoint: EndpointId, worker: string): void => {
  // Takes wait per endpoint: all takes of the endpoint check again, and only this worker's take returns.
  notifier.waitingWorkers.wake(endpoint)
  notifier.waitingWorkers.wake(heldBackKey(endpoint))
  notifier.stopPollers.wake(workerKey(endpoint, worker))
  notifier.demand.wake(endpoint)
}

/** The queue's operations for workers. */
export interface LeaseOperations {
  /**
   * Takes up to `limit` jobs, highest priority first, then oldest first. Waits up to `waitMs` for the first job. Returns no jobs after
   * `waitMs`, or when the worker is draining.
   */
  readonly take: (options: {
    readonly endpoint: EndpointId
    readonly worker: string
    readonly limit: number
    readonly waitMs: number
    /**
     * False when the worker reports that it is running no jobs. A job that it claimed but never received then loses its lease now instead
     * of when the lease expires. There is no other acknowledgement (docs/spec/worker-protocol.md#acknowledgement).
     */
    readonly holding: boolean
    /** Whether the worker must send a lease token with its writes to the jobs (`WorkerRegistry.tokenJobs`). Default: false. */
    readonly tokens?: boolean
    /** The endpoint's current limit for each concurrency key. Default: none. */
    readonly keyLimit?: number | undefined
  }) => Effect.Effect<ReadonlyArray<JobRecord>, StoreError>

  /**
   * Renews the leases of the jobs that the heartbeat names. Sends stop signals for jobs that the worker must not run.
   *
   * When heartbeats are missing, the worker's other calls renew the leases of all its jobs, at most once per two fifths of a lease. A worker
   * that sends heartbeats loses a job that they do not name, because its other calls renew nothing.
   */
  readonly heartbeat: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, StoreError>

  /**
   * Renews the lease of a job before its large result is read. Does nothing when the worker does not hold the job. Fails with `JobMissing`
   * when the job does not exist.
   */
  readonly renewLease: (holder: LeaseHolder) => Effect.Effect<void, StoreError | JobMissing>

  /** Stores the latest progress. Fails with `LeaseLost` when the worker no longer holds the job. */
  readonly progress: (holder: LeaseHolder, output: JsonText) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost>

  /**
   * Stores a chunk. `number` starts at 1 and is undefined when the worker does not count its chunks. A chunk whose number is already stored
   * is accepted and changes nothing; a chunk with a number higher than the next one fails with `ChunkGap`.
   */
  readonly append: (
    holder: LeaseHolder,
    chunk: JsonText,
    number?: number
  ) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost | ChunkGap>

  /** Ends the job: COMPLETED, or FAILED when `error` is not null. */
  readonly finish: (
    holder: LeaseHolder,
    result: { readonly output: JsonText | null; readonly error: string | null }
  ) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost>

  /**
   * Ids of jobs that the worker must stop. Waits up to `waitMs` for the first one. An id is returned again every second until the worker's
   * heartbeat omits the job or the worker delivers its result, because a response may be lost.
   */
  readonly stopSignals: (endpoint: EndpointId, worker: string, waitMs: number) => Effect.Effect<ReadonlyArray<string>, StoreError>

  /** Requeues stop signals whose response could not be delivered: the worker's next call to `stopSignals` returns them again. */
  readonly requeueStopSignals: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void>

  /** Stops sending jobs to the worker. Its open take returns at once. */
  readonly drainWorker: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /**
   * The worker has exited. With a `cause`, each of its jobs is charged with a lost attempt. Without a `cause`, the worker exited gracefully
   * and its jobs return to the queue as if they had never been started. `blameless`: none of its jobs can be the cause, so their next
   * attempts are not isolated.
   */
  readonly workerGone: (
    endpoint: EndpointId,
    worker: string,
    cause: string | undefined,
    blameless?: "blameless"
  ) => Effect.Effect<void, StoreError>

  /**
   * The connection to the worker's machine was lost. If the worker still runs, it keeps its jobs but receives no others; otherwise the jobs
   * return to the queue when their leases expire.
   */
  readonly workerLost: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /**
   * Takes over a worker that an earlier platform process started. It finishes its jobs and receives no others, so that everything that it
   * prints belongs to these jobs.
   */
  readonly adoptWorker: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /** Begins, changes or ends (undefined) the canary of an endpoint. */
  readonly setCanary: (endpoint: EndpointId, share: CanaryShare | undefined) => Effect.Effect<void>

  /** Returns jobs to the queue that were claimed but could not be delivered to the worker. This does not use up an attempt. */
  readonly returnJobs: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, StoreError>

  /**
   * The worker announces its exit: it finishes the jobs it names and takes no others. A job that it claimed but does not name returns to
   * the queue as if it had never been started, except for the jobs in `kept`.
   */
  readonly workerExiting: (
    endpoint: EndpointId,
    worker: string,
    jobs: ReadonlyArray<string>,
    kept?: Iterable<string>
  ) => Effect.Effect<void, StoreError>
}

/** The dependencies of the operations. */
export interface Dependencies {
  readonly store: JobStore["Service"]
  readonly registry: WorkerRegistry["Service"]
  readonly notifier: JobNotifier
  readonly events: PlatformEventsService
  /** Applies an event to a job. An external id that is not a valid job id is treated as a missing job. */
  readonly apply: (endpoint: EndpointId, id: string, event: JobMachineEvent) => Effect.Effect<ApplyResult, StoreError>
  /** Wall-clock time, for everything that is stored. Milliseconds since the epoch. */
  readonly now: () => number
  /** Monotonic time, for waits. Milliseconds. */
  readonly elapsed: () => number
  readonly random: () => number
  /** The other nodes of the store; undefined if the store supports only one node. */
  readonly nodes?: Nodes["Service"] | undefined
}

/** Creates the operations from a store, a registry and a notifier. */
export const make = (
  { apply, elapsed, events, nodes, now, random, registry, store, notifier }: Dependencies
): LeaseOperations => {
  /**
   * The worker reports that it is running no jobs, so each job that the store still assigns to it is charged with a lost attempt. Otherwise
   * a worker that drops every job it takes would take the same job forever.
   */
  const loseUnreceivedJobs = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const cause = `Worker ${worker} received the job but requested another one without delivering a result.`
    const event = { _tag: "LoseLease", now: now(), endpoint, worker, cause, random: random() } as const
    yield* notifier.notifyAll(yield* store.applyRunning({ endpoint, worker }, event), worker)
    notifier.discardStopSignals(endpoint, worker)
    registry.renewed(endpoint, worker, [])
  })

  /**
   * Renews all leases of a worker whose heartbeats are missing. The RunPod SDK sends none without `RUNPOD_POD_ID`
   * (docs/spec/worker-protocol.md#heartbeat).
   */
  const renewLeases = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const applied = yield* store.applyRunning({ endpoint, worker }, { _tag: "Heartbeat", now: now(), endpoint, worker })
    registry.renewed(endpoint, worker, applied.flatMap((one) => one._tag === "Changed" ? [one.after.leaseMs] : []))
  })

  /** Milliseconds for which a poll may still be held, at the monotonic time `time`. */
  const timeLeft = (endpoint: EndpointId, worker: string, until: number, time: number) =>
    Math.min(until, registry.renewalDueAt(endpoint, worker) ?? Infinity) - time

  /**
   * Waits while the worker's poll is held open. The wait is interrupted when the worker closes its connection. A worker that has closed it before
   * interrupts the wait before it begins, so the ticket is cancelled here too.
   */
  const hold = (endpoint: EndpointId, worker: string, ticket: Ticket, millis: number) =>
    Effect.suspend(() => {
      const ended = registry.polling(endpoint, worker)
      return Effect.onExit(Effect.interruptible(ticket.wait(millis)), (exit) => {
        ended(Exit.isFailure(exit))
        return Exit.isFailure(exit) ? ticket.cancel : Effect.void
      })
    })

  const take: LeaseOperations["take"] = Effect.fnUntraced(function*(options) {
    const { endpoint, holding, keyLimit, limit, tokens, waitMs, worker } = options
    const renew = yield* registry.touch(endpoint, worker, "take")
    registry.asked(endpoint, worker, limit, !holding)
    const leaving = registry.leaving(endpoint, worker)
    let until: number | undefined
    let woken = false
    // The job that this take was woken for may still be ready, so another waiting take must look for it.
    const passWakeUpOn = Effect.sync(() => {
      if (woken) notifier.waitingWorkers.wake(endpoint, 1)
    })
    if (!holding) yield* loseUnreceivedJobs(endpoint, worker)
    else if (renew) yield* renewLeases(endpoint, worker)
    // Existing workers do not pause between takes, so a draining worker would send its next take at once
    // (docs/spec/worker-protocol.md#taking-a-job).
    if (leaving() === "draining") {
      yield* Effect.interruptible(Effect.sleep(Math.min(waitMs, DRAINING_POLL_DELAY_MILLIS)))
      return []
    }
    while (true) {
      if (notifier.isClosing()) return []
      // The worker may be gone, and its connection not closed yet.
      if (leaving() !== undefined) return yield* Effect.as(passWakeUpOn, [])
      const release = registry.releaseOf(endpoint, worker)
      const allowance = registry.canaries.allowance(endpoint, release)
      if (allowance === 0) {
        // This worker was woken for a job that another worker must take.
        if (woken) notifier.waitingWorkers.wake(endpoint, 1)
        woken = false
        const time = elapsed()
        until ??= endOfPoll(time, waitMs)
        const left = timeLeft(endpoint, worker, until, time)
        if (left <= 0) return []
        const ticket = yield* notifier.waitingWorkers.register(heldBackKey(endpoint))
        yield* hold(endpoint, worker, ticket, left)
        continue
      }
      const ticket = yield* notifier.waitingWorkers.register(endpoint)
      const most = allowance === undefined ? limit : Math.min(limit, allowance)
      const claim = { _tag: "Claim", now: now(), worker, release, keyLimit } as const
      const { expired, isolating, jobs } = yield* store.claim(endpoint, most, claim).pipe(
        Effect.onError(() => Effect.andThen(ticket.cancel, passWakeUpOn))
      )
      const mustClaimAgain = notifier.isolating(endpoint, isolating)
      yield* notifier.notifyAll(expired)
      if (jobs.length > 0) {
        yield* ticket.cancel
        // It was drained during the claim, or is gone. Its exit may have been requested already, because it held no job.
        if (leaving() !== undefined) {
          yield* returnJobs(endpoint, worker, jobs.map(({ id }) => id))
          return []
        }
        for (const job of jobs) {
          yield* registry.assigned(endpoint, worker, job.id, job.attempt, tokens)
          notifier.followers.wake(job.id)
          if (job.webhook !== null) notifier.webhookSenders.wake("")
          // A stop signal for an earlier attempt must not stop this attempt.
          notifier.discardStopSignals(endpoint, worker, job.id)
          if (registry.leased(endpoint, worker, job.leaseMs)) notifier.stopPollers.wake(workerKey(endpoint, worker))
          if (events.isOpen()) events.publish(startedEvent(job))
        }
        if (registry.canaries.claimed(endpoint, release, jobs.length)) notifier.waitingWorkers.wake(heldBackKey(endpoint))
        // A busy worker may have been held back for the isolated job, and may take others now.
        if (jobs.some(({ isolated }) => isolated)) notifier.waitingWorkers.wake(endpoint)
        notifier.demand.wake(endpoint)
        return jobs
      }
      // The clock is read only now, because a take that finds a job does not wait.
      const time = elapsed()
      until ??= endOfPoll(time, waitMs)
      const left = timeLeft(endpoint, worker, until, time)
      if (mustClaimAgain) {
        yield* ticket.cancel
        continue
      }
      // More jobs may follow the expired jobs, but the worker's request must not time out while the expired jobs are being removed.
      if (expired.length > 0 && left > -TAKE_OVERRUN_MILLIS) {
        yield* ticket.cancel
        continue
      }
      if (left <= 0) {
        yield* ticket.cancel
        return []
      }
      woken = yield* hold(endpoint, worker, ticket, left)
    }
    // Only the wait is interruptible: a job claimed but not returned would be stuck until its lease expires.
  }, Effect.uninterruptible)

  /** The durations of the leases that the heartbeat renewed. */
  const renewNamed = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    const leases: Array<number> = []
    for (const id of jobs) {
      const applied = yield* apply(endpoint, id, { _tag: "Heartbeat", now: now(), endpoint, worker })
      if (applied._tag === "Changed") leases.push(applied.after.leaseMs)
      // A heartbeat that was sent before the worker's own result was stored names a job that ended normally. It needs no stop signal.
      const endedByWorker = applied._tag === "Rejected" && applied.rejection._tag === "Ended" &&
        (applied.rejection.status === "COMPLETED" || applied.rejection.status === "FAILED") && applied.rejection.by === worker
      if (applied._tag === "Missing" || (applied._tag === "Rejected" && !endedByWorker)) notifier.stop(endpoint, worker, id)
    }
    return leases
  })

  // Most heartbeats name no job: a thousand idle workers send a hundred each second. Such a heartbeat starts no iterator.
  const heartbeat = (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>): Effect.Effect<void, StoreError> =>
    Effect.uninterruptible(Effect.flatMap(registry.touch(endpoint, worker), () => {
      notifier.confirmStops(endpoint, worker, jobs)
      const renewed = (leases: ReadonlyArray<number>) => registry.renewed(endpoint, worker, leases, "heartbeat")
      return jobs.length === 0 ? Effect.succeed(renewed(NO_LEASES)) : Effect.map(renewNamed(endpoint, worker, jobs), renewed)
    }))

  /** Maps the store's result to the outcome of a worker's write. */
  const toDelivery = Effect.fnUntraced(
    function*(holder: LeaseHolder, applied: ApplyResult): Effect.fn.Return<Delivery, JobMissing | LeaseLost> {
      // The write has been stored, so a failed renewal must not fail it. The worker's next call tries again.
      if (yield* registry.touch(holder.endpoint, holder.worker)) yield* Effect.ignore(renewLeases(holder.endpoint, holder.worker))
      yield* notifier.notify(applied, holder.worker)
      if (applied._tag === "Changed") return "accepted"
      if (applied._tag === "Missing" || applied._tag === "Removed") return yield* new JobMissing({ id: holder.job })
      const { rejection } = applied
      if (rejection._tag === "OtherEndpoint") return yield* new JobMissing({ id: holder.job })
      if (rejection._tag === "Repeated") return "accepted"
      // The worker does not hold the job. An earlier response that reported this may have been lost.
      const stillHolds = rejection._tag === "NotHeld" && rejection.by === holder.worker
      if (!stillHolds) yield* registry.released(holder.endpoint, holder.worker, holder.job)
      if (
        rejection._tag === "Ended" && rejection.by === holder.worker &&
        (holder.attempt === undefined || holder.attempt === rejection.attempt)
      ) {
        return "ignored"
      }
      const by = rejection._tag === "NotHeld" ? rejection.by : null
      return yield* new LeaseLost({ id: holder.job, worker: holder.worker, holder: by })
    }
  )

  /** Applies a worker's write, then notifies waiters. */
  const deliver = <E>(holder: LeaseHolder, write: Effect.Effect<ApplyResult, E>) =>
    Effect.uninterruptible(Effect.flatMap(write, (applied) => toDelivery(holder, applied)))

  const fence = ({ attempt, endpoint, worker }: LeaseHolder) =>
    attempt === undefined ? { now: now(), endpoint, worker } : { now: now(), endpoint, worker, attempt }

  const renewLease: LeaseOperations["renewLease"] = (holder) =>
    Effect.flatMap(
      apply(holder.endpoint, holder.job, { _tag: "Heartbeat", ...fence(holder) }),
      (applied) =>
        applied._tag === "Missing" || (applied._tag === "Rejected" && applied.rejection._tag === "OtherEndpoint")
          ? Effect.fail(new JobMissing({ id: holder.job }))
          : Effect.void
    )

  const finish: LeaseOperations["finish"] = (holder, { error, output }) =>
    deliver(
      holder,
      Effect.suspend(() => {
        // A worker that delivers a result no longer runs the job, so it has nothing to stop.
        notifier.discardStopSignals(holder.endpoint, holder.worker, holder.job)
        return store.apply(holder.endpoint, holder.job, { _tag: "Finish", output, error, random: random(), ...fence(holder) })
      }).pipe(Effect.tap((applied) => {
        if (applied._tag === "Changed") registry.delivered(holder.endpoint, holder.worker)
        return Effect.void
      }))
    ).pipe(
      // The worker repeats the error that ended its attempt, because the first response was lost.
      Effect.catchTag("LeaseLost", (leaseLost) =>
        Effect.flatMap(
          store.get(holder.endpoint, holder.job),
          (job): Effect.Effect<Delivery, LeaseLost> =>
            job !== undefined && isRetriedError(job, holder, error) ? Effect.succeed("ignored") : Effect.fail(leaseLost)
        ))
    )

  const append: LeaseOperations["append"] = (holder, chunk, number) =>
    deliver(
      holder,
      Effect.suspend(() =>
        store.append(holder.endpoint, holder.job, {
          _tag: "Chunk",
          ...(number === undefined ? {} : { number }),
          ...fence(holder)
        }, chunk)
      ).pipe(
        Effect.tap((applied) => {
          if (applied._tag !== "Rejected" || applied.rejection._tag !== "Gap" || number === undefined) return Effect.void
          const { expected } = applied.rejection
          return new ChunkGap({ id: holder.job, chunk: number, expected })
        })
      )
    )

  /**
   * The stop signals that are still valid. With several nodes, this node may not know that the worker has taken the job again or received the signal
   * elsewhere, so it asks the store.
   */
  const currentStops = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    const current: Array<string> = []
    for (const id of jobs) {
      const job = isJobId(id) ? yield* store.get(endpoint, id) : undefined
      const isRunning = job?.status === "IN_PROGRESS" && job.worker === worker
      const endedLongAgo = typeof job?.finishedAt === "number" && now() - job.finishedAt > STALE_STOP_MILLIS
      if (isRunning || endedLongAgo) notifier.discardStopSignals(endpoint, worker, id)
      else current.push(id)
    }
    return current
  })

  const stopSignals = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, waitMs: number) {
    if (yield* registry.touch(endpoint, worker)) yield* renewLeases(endpoint, worker)
    const key = workerKey(endpoint, worker)
    const until = endOfPoll(elapsed(), waitMs)
    // Workers do not pause for long between polls, so a draining worker would send its next poll at once.
    if (registry.mayExit(endpoint, worker)) {
      yield* Effect.interruptible(Effect.sleep(Math.min(waitMs, DRAINING_POLL_DELAY_MILLIS)))
    }
    while (true) {
      // Registers before it reads, as every waiter does, so that it misses no stop signal in between.
      const ticket = yield* notifier.stopPollers.register(key)
      const time = elapsed()
      const { jobs: due, nextAt } = notifier.takeStopSignals(endpoint, worker, time)
      const jobs = due.length === 0 || nodes?.hasOthers() !== true
        ? due
        : yield* Effect.onError(currentStops(endpoint, worker, due), () => ticket.cancel)
      const left = timeLeft(endpoint, worker, until, time)
      // A draining worker waits until its last job has ended, because the job may be cancelled. Then the poll must end: the RunPod SDK does not exit
      // until it does (docs/spec/worker-lifecycle.md#shutdown).
      if (left <= 0 || jobs.length > 0 || notifier.isClosing() || registry.mayExit(endpoint, worker)) {
        yield* ticket.cancel
        return jobs
      }
      yield* hold(endpoint, worker, ticket, nextAt === null ? left : Math.min(left, nextAt - time))
    }
    // Only the wait is interruptible: a stop signal that was read but not returned would be lost.
  }, Effect.uninterruptible)

  const drain = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, announced?: "announced") {
    yield* registry.drain(endpoint, worker, announced)
    wakeDraining(notifier, endpoint, worker)
  })

  const workerGone = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    worker: string,
    cause: string | undefined,
    blameless?: "blameless"
  ) {
    const time = now()
    // A take that it has left open must not receive one of its jobs when they return.
    const undo = registry.exited(endpoint, worker)
    const applied = yield* store.applyRunning(
      { endpoint, worker },
      cause === undefined
        ? { _tag: "Return", now: time, endpoint, worker }
        : { _tag: "LoseLease", now: time, endpoint, worker, cause, random: random(), blameless: blameless !== undefined }
    ).pipe(Effect.onError(() => Effect.sync(undo)))
    yield* notifier.notifyAll(applied, undefined, blameless !== undefined)
    yield* registry.removed(endpoint, worker)
    notifier.discardStopSignals(endpoint, worker)
    notifier.demand.wake(endpoint)
  }, Effect.uninterruptible)

  const workerLost = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    yield* registry.lost(endpoint, worker)
    yield* drain(endpoint, worker)
  })

  const adoptWorker = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    yield* registry.adopted(endpoint, worker)
    notifier.waitingWorkers.wake(endpoint)
  })

  const returnJobs = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    for (const id of jobs) {
      const applied = yield* apply(endpoint, id, { _tag: "Return", now: now(), endpoint, worker })
      yield* notifier.notify(applied, worker)
      yield* registry.released(endpoint, worker, id)
    }
    if (registry.mayExit(endpoint, worker)) notifier.stopPollers.wake(workerKey(endpoint, worker))
  }, Effect.uninterruptible)

  const workerExiting = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    worker: string,
    jobs: ReadonlyArray<string>,
    kept: Iterable<string> = []
  ) {
    yield* heartbeat(endpoint, worker, jobs)
    yield* drain(endpoint, worker, "announced")
    const status = (yield* registry.list(endpoint)).find(({ id }) => id === worker)
    const keeps = new Set([...jobs, ...kept])
    yield* returnJobs(endpoint, worker, (status?.jobs ?? []).filter((id) => !keeps.has(id)))
  }, Effect.uninterruptible)

  return {
    take,
    heartbeat,
    renewLease,
    progress: (holder, output) =>
      deliver(
        holder,
        Effect.suspend(() => store.apply(holder.endpoint, holder.job, { _tag: "Progress", output, ...fence(holder) }))
      ).pipe(
        Effect.tap(() => Effect.sync(() => notifier.followers.wake(holder.job)))
      ),
    append,
    finish,
    stopSignals,
    requeueStopSignals: (endpoint, worker, jobs) =>
      Effect.map(registry.list(endpoint), (workers) => {
        // Skip jobs that the worker has claimed again since.
        const current = workers.find(({ id }) => id === worker)?.jobs ?? []
        for (const job of jobs) if (!current.includes(job)) notifier.stop(endpoint, worker, job)
      }),
    drainWorker: (endpoint, worker) => drain(endpoint, worker),
    workerGone,
    workerLost,
    setCanary: (endpoint, share) =>
      Effect.sync(() => {
        registry.canaries.set(endpoint, share)
        notifier.waitingWorkers.wake(heldBackKey(endpoint))
      }),
    adoptWorker,
    returnJobs,
    workerExiting
  }
}
