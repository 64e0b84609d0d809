/**
 * The operations of workers on their jobs: take, heartbeat, deliver, receive stop signals, exit.
 *
 * ```
 *   take --> store claims jobs (lease starts) --> registry: worker runs these jobs
 *   heartbeat ------------------> store renews the leases; jobs that the worker must not run become stop signals
 *   progress, append, finish ---> store (fenced by the lease) --> waiters notified --> accepted | ignored | LeaseLost
 *   stopSignals <---------------- jobs whose attempt ended without this worker: cancel, timeout, lost lease
 *   workerExiting, workerGone --> jobs return to the queue, or count a lost attempt
 * ```
 *
 * A write is fenced: it changes the job only while the worker holds the job's lease.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { isRetriedError, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import type { ApplyResult, JobStore } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { type JobNotifier, workerKey } from "../events/JobNotifier.ts"
import { ChunkGap, JobMissing, LeaseLost } from "../jobs/JobErrors.ts"
import type { WorkerRegistry } from "./WorkerRegistry.ts"

/** The writer: a worker and, if it sends one, the attempt it is running. */
export interface LeaseHolder {
  readonly endpoint: EndpointId
  readonly worker: string
  readonly job: JobId
  readonly attempt?: number | undefined
}

/**
 * The outcome of a worker's write. `ignored`: the attempt had already ended, by this worker's result, a cancel or a timer. The write changed
 * nothing, and the worker need not act.
 */
export type Delivery = "accepted" | "ignored"

/** How long the take of a draining worker waits before it returns no job. Milliseconds. */
const DRAINING_TAKE_DELAY_MILLIS = 1_000

/** How much longer than its wait a take continues while it finds only expired jobs. Milliseconds. */
const TAKE_OVERRUN_MILLIS = 5_000

/** The queue's operations for workers. */
export interface LeaseOperations {
  /**
   * Takes up to `limit` jobs, highest priority first, then oldest first. Waits up to `waitMs` for the first one. Returns none after `waitMs`,
   * or when the worker is draining.
   */
  readonly take: (options: {
    readonly endpoint: EndpointId
    readonly worker: string
    readonly limit: number
    readonly waitMs: number
    /**
     * False: the worker reports that it runs no job, so a job that it claimed but never received is lost now instead of when its lease
     * expires. There is no other acknowledgement (docs/spec/worker-protocol.md#acknowledgement).
     */
    readonly holding: boolean
  }) => Effect.Effect<ReadonlyArray<JobRecord>, StoreError>

  /** Renews the leases of the jobs that the heartbeat names. Jobs that the worker must not run become stop signals. */
  readonly heartbeat: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, StoreError>

  /** Stores the latest progress. Fails with `LeaseLost` when the worker no longer holds the job. */
  readonly progress: (holder: LeaseHolder, output: JsonText) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost>

  /**
   * Stores a chunk. `number` starts at 1 and is undefined when the worker does not count its chunks. A number that is already stored is
   * accepted and changes nothing; a number beyond the next fails with `ChunkGap`.
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
   * Ids of jobs that the worker must stop. Waits up to `waitMs` for one. An id is returned again every second until the worker's heartbeat
   * omits the job or the worker delivers its result, because a response may be lost.
   */
  readonly stopSignals: (endpoint: EndpointId, worker: string, waitMs: number) => Effect.Effect<ReadonlyArray<string>, StoreError>

  /** The response with these stop signals was not delivered: the worker's next call of `stopSignals` returns them again. */
  readonly requeueStopSignals: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void>

  /** The worker receives no more jobs, and its open take returns at once. */
  readonly drainWorker: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /**
   * The worker has exited. With a `cause`, its jobs count a lost attempt; without one, the worker exited in order and its jobs return to the
   * queue as never started.
   */
  readonly workerGone: (endpoint: EndpointId, worker: string, cause: string | undefined) => Effect.Effect<void, StoreError>

  /** Returns jobs to the queue that were claimed but could not be delivered to the worker. They do not count an attempt. */
  readonly returnJobs: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, StoreError>

  /**
   * The worker announces its exit: it finishes the jobs it names and takes no others. A job that it claimed but does not name returns to the
   * queue as never started.
   */
  readonly workerExiting: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, StoreError>
}

/** What the operations use. */
export interface Dependencies {
  readonly store: JobStore["Service"]
  readonly registry: WorkerRegistry["Service"]
  readonly notifier: JobNotifier
  /** Applies an event to a job. An id from outside that is not a valid job id is a missing job. */
  readonly apply: (endpoint: EndpointId, id: string, event: JobMachineEvent) => Effect.Effect<ApplyResult, StoreError>
  readonly now: () => number
  readonly random: () => number
}

/** The operations over a store, a registry and a notifier. */
export const make = ({ apply, now, random, registry, store, notifier }: Dependencies): LeaseOperations => {
  /**
   * The worker reports that it runs no job: every job that it holds in the store counts a lost attempt. Otherwise a worker that drops each job
   * it takes would take the same job forever.
   */
  const loseUnreceivedJobs = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const cause = `Worker ${worker} was handed the job and asked for another one without delivering a result.`
    const event = { _tag: "LoseLease", now: now(), endpoint, worker, cause, random: random() } as const
    yield* notifier.notifyAll(yield* store.applyRunning({ endpoint, worker }, event), worker)
    notifier.discardStopSignals(endpoint, worker)
  })

  const take: LeaseOperations["take"] = Effect.fnUntraced(function*({ endpoint, holding, limit, waitMs, worker }) {
    yield* registry.touch(endpoint, worker)
    const until = now() + waitMs
    if (!holding) yield* loseUnreceivedJobs(endpoint, worker)
    // Existing workers do not pause between takes, so a draining worker would take again at once
    // (docs/spec/worker-protocol.md#taking-a-job).
    if (yield* registry.isDraining(endpoint, worker)) {
      yield* Effect.interruptible(Effect.sleep(Math.min(waitMs, DRAINING_TAKE_DELAY_MILLIS)))
      return []
    }
    while (true) {
      if (notifier.isClosing() || (yield* registry.isDraining(endpoint, worker))) return []
      const ticket = yield* notifier.waitingWorkers.register(endpoint)
      const { expired, jobs } = yield* store.claim(endpoint, limit, { _tag: "Claim", now: now(), worker }).pipe(
        Effect.onError(() => ticket.cancel)
      )
      yield* notifier.notifyAll(expired)
      const left = until - now()
      if (jobs.length > 0) {
        yield* ticket.cancel
        for (const job of jobs) {
          yield* registry.assigned(endpoint, worker, job.id, job.attempt)
          notifier.followers.wake(job.id)
          if (job.webhook !== null) notifier.webhookSenders.wake("")
          // A stop signal of an earlier attempt must not stop this one.
          notifier.discardStopSignals(endpoint, worker, job.id)
        }
        notifier.demand.wake(endpoint)
        return jobs
      }
      // More jobs may follow the expired ones, but the worker's request must not time out while they are removed.
      if (expired.length > 0 && left > -TAKE_OVERRUN_MILLIS) {
        yield* ticket.cancel
        continue
      }
      if (left <= 0) {
        yield* ticket.cancel
        return []
      }
      yield* Effect.interruptible(ticket.wait(left))
    }
    // Only the wait is interruptible: a job claimed but not returned would be stuck until its lease expires.
  }, Effect.uninterruptible)

  const heartbeat = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    yield* registry.touch(endpoint, worker)
    notifier.confirmStops(endpoint, worker, jobs)
    for (const id of jobs) {
      const applied = yield* apply(endpoint, id, { _tag: "Heartbeat", now: now(), endpoint, worker })
      // A heartbeat sent before the worker's own result was stored names a job that ended as it should: no stop signal.
      const endedByWorker = applied._tag === "Rejected" && applied.rejection._tag === "Ended" &&
        (applied.rejection.status === "COMPLETED" || applied.rejection.status === "FAILED") && applied.rejection.by === worker
      if (applied._tag === "Missing" || (applied._tag === "Rejected" && !endedByWorker)) notifier.stop(endpoint, worker, id)
    }
  }, Effect.uninterruptible)

  /** Maps the store's answer to the outcome of a worker's write. */
  const toDelivery = Effect.fnUntraced(
    function*(holder: LeaseHolder, applied: ApplyResult): Effect.fn.Return<Delivery, JobMissing | LeaseLost> {
      yield* registry.touch(holder.endpoint, holder.worker)
      yield* notifier.notify(applied, holder.worker)
      if (applied._tag === "Changed") return "accepted"
      if (applied._tag === "Missing" || applied._tag === "Removed") return yield* new JobMissing({ id: holder.job })
      const { rejection } = applied
      if (rejection._tag === "OtherEndpoint") return yield* new JobMissing({ id: holder.job })
      if (rejection._tag === "Repeated") return "accepted"
      // The worker does not hold the job. It may have been told so before in a response that was lost.
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

  const finish: LeaseOperations["finish"] = (holder, { error, output }) =>
    deliver(
      holder,
      Effect.suspend(() => {
        // A worker that delivers a result no longer runs the job, so it has nothing to stop.
        notifier.discardStopSignals(holder.endpoint, holder.worker, holder.job)
        return store.apply(holder.endpoint, holder.job, { _tag: "Finish", output, error, random: random(), ...fence(holder) })
      })
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

  const stopSignals = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, waitMs: number) {
    yield* registry.touch(endpoint, worker)
    const key = workerKey(endpoint, worker)
    const until = now() + waitMs
    while (true) {
      // Registers before it reads, as every waiter does, so that it misses no stop signal in between.
      const ticket = yield* notifier.stopPollers.register(key)
      const time = now()
      const { jobs, nextAt } = notifier.takeStopSignals(endpoint, worker, time)
      const left = until - time
      // A draining worker waits as well: it may still run a job that is cancelled.
      if (left <= 0 || notifier.isClosing() || jobs.length > 0) {
        yield* ticket.cancel
        return jobs
      }
      yield* Effect.interruptible(ticket.wait(nextAt === null ? left : Math.min(left, nextAt - time)))
    }
    // Only the wait is interruptible: a stop signal that was read but not returned would be lost.
  }, Effect.uninterruptible)

  const drainWorker = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    yield* registry.drain(endpoint, worker)
    // Takes wait by endpoint: every one of them checks again, and only this worker's returns.
    notifier.waitingWorkers.wake(endpoint)
  })

  const workerGone = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, cause: string | undefined) {
    const time = now()
    const applied = yield* store.applyRunning(
      { endpoint, worker },
      cause === undefined
        ? { _tag: "Return", now: time, endpoint, worker }
        : { _tag: "LoseLease", now: time, endpoint, worker, cause, random: random() }
    )
    yield* notifier.notifyAll(applied)
    yield* registry.removed(endpoint, worker)
    notifier.discardStopSignals(endpoint, worker)
    notifier.demand.wake(endpoint)
  }, Effect.uninterruptible)

  const returnJobs = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    for (const id of jobs) {
      const applied = yield* apply(endpoint, id, { _tag: "Return", now: now(), endpoint, worker })
      yield* notifier.notify(applied, worker)
      yield* registry.released(endpoint, worker, id)
    }
  }, Effect.uninterruptible)

  const workerExiting = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    yield* heartbeat(endpoint, worker, jobs)
    yield* drainWorker(endpoint, worker)
    const status = (yield* registry.list(endpoint)).find(({ id }) => id === worker)
    yield* returnJobs(endpoint, worker, (status?.jobs ?? []).filter((id) => !jobs.includes(id)))
  }, Effect.uninterruptible)

  return {
    take,
    heartbeat,
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
    drainWorker,
    workerGone,
    returnJobs,
    workerExiting
  }
}
