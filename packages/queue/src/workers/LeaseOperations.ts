/**
 * What workers do with jobs: take them, hold them, deliver what comes out of them, be told to stop them, and leave.
 *
 * ```
 *   take --> claimed --> registry: who holds what
 *   beat, progress, append, finish --> store (fenced) --> announced, and the worker is told what became of it
 *   stops <-- of jobs whose attempt was ended by somebody else
 * ```
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { isRetriedError, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import type { ApplyResult, JobStore } from "@stint/store/JobStore"
import { ChunkGap, JobMissing, LeaseLost, QueueError } from "@stint/store/QueueError"
import * as Effect from "effect/Effect"
import { type JobNotifier, workerKey } from "../events/JobNotifier.ts"
import type { WorkerRegistry } from "./WorkerRegistry.ts"

/** Who writes: a worker and, where it knows, the attempt that it was given. */
export interface LeaseHolder {
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
const DRAINING_TAKE_DELAY_MILLIS = 1_000

/** How much longer than its wait a take goes on where it finds jobs that cannot be handed out. Milliseconds. */
const TAKE_OVERRUN_MILLIS = 5_000

/** The workers' side of the queue. */
export interface LeaseOperations {
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
     * lease (docs/spec/worker-protocol.md#acknowledgement: there is no other acknowledgement).
     */
    readonly holding: boolean
  }) => Effect.Effect<ReadonlyArray<JobRecord>, QueueError>

  /** The worker's heartbeat: the leases of the jobs it names start anew; those that it should not be running become stop signals. */
  readonly heartbeat: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>

  /** Keeps the latest progress. Fails with `LeaseLost` where the job is no longer this worker's. */
  readonly progress: (holder: LeaseHolder, output: JsonText) => Effect.Effect<Delivery, QueueError>

  /**
   * Keeps a chunk. `number`, from 1, where the worker counts its chunks: one that is kept already is accepted and changes nothing, and one
   * that is not the next fails with `ChunkGap`.
   */
  readonly append: (holder: LeaseHolder, chunk: JsonText, number?: number) => Effect.Effect<Delivery, QueueError>

  /** Ends the job: COMPLETED, or FAILED when there is an error. */
  readonly finish: (
    holder: LeaseHolder,
    result: { readonly output: JsonText | null; readonly error: string | null }
  ) => Effect.Effect<Delivery, QueueError>

  /**
   * Ids of jobs that the worker must stop; waits up to `waitMs` for one. An id is returned again every second until the worker's heartbeat
   * omits the job, or the worker delivers its result: a lost answer must not lose a stop.
   */
  readonly stopSignals: (endpoint: EndpointId, worker: string, waitMs: number) => Effect.Effect<ReadonlyArray<string>, QueueError>

  /** The worker was not told of these stops after all: its next call of `stops` is. */
  readonly requeueStopSignals: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void>

  /** The worker gets no more jobs and an open take of it returns at once. */
  readonly drainWorker: (endpoint: EndpointId, worker: string) => Effect.Effect<void>

  /**
   * The worker is gone. With a `cause` its jobs are lost with it and count an attempt; without one it left in order and its jobs were
   * never started.
   */
  readonly workerGone: (endpoint: EndpointId, worker: string, cause: string | undefined) => Effect.Effect<void, QueueError>

  /** Jobs that were claimed for a worker and could not be handed over go back to the queue, unstarted. Costs no attempt. */
  readonly returnJobs: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>

  /**
   * The worker says goodbye: it finishes the jobs it names and takes no others. A job that was handed to it in that instant, and that it
   * does not name, goes back unstarted.
   */
  readonly workerExiting: (endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) => Effect.Effect<void, QueueError>
}

/** What the calls stand on. */
export interface Dependencies {
  readonly store: JobStore["Service"]
  readonly registry: WorkerRegistry["Service"]
  readonly notifier: JobNotifier
  /** Applies an event to a job by whatever id came from outside. */
  readonly apply: (endpoint: EndpointId, id: string, event: JobMachineEvent) => Effect.Effect<ApplyResult, QueueError>
  readonly now: () => number
  readonly random: () => number
}

const missing = (id: string) => new QueueError({ reason: new JobMissing({ id }) })

/** The calls. */
export const make = ({ apply, now, random, registry, store, notifier }: Dependencies): LeaseOperations => {
  /**
   * What the store says the worker holds is lost, for it says itself that it holds nothing. That counts an attempt: a worker that drops
   * a job each time it is handed one must not be handed it for ever.
   */
  const loseUnreceivedJobs = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    const cause = `Worker ${worker} was handed the job and asked for another one without delivering a result.`
    const event = { _tag: "LoseLease", now: now(), endpoint, worker, cause, random: random() } as const
    yield* notifier.notifyAll(yield* store.applyRunning({ endpoint, worker }, event), worker)
    notifier.discardStopSignals(endpoint, worker)
  })

  const take: LeaseOperations["take"] = Effect.fnUntraced(function*({ endpoint, holding, limit, waitMs, worker }) {
    yield* registry.seen(endpoint, worker)
    const until = now() + waitMs
    if (!holding) yield* loseUnreceivedJobs(endpoint, worker)
    // A worker that asks although it is to leave would ask again at once: existing ones do not pause between takes
    // (docs/spec/worker-protocol.md#taking-a-job).
    if (yield* registry.isDraining(endpoint, worker)) {
      yield* Effect.interruptible(Effect.sleep(Math.min(waitMs, DRAINING_TAKE_DELAY_MILLIS)))
      return []
    }
    while (true) {
      if (notifier.isClosing() || (yield* registry.isDraining(endpoint, worker))) return []
      const ticket = yield* notifier.waitingWorkers.take(endpoint)
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
          // A stop that was meant for an earlier attempt must not hit this one.
          notifier.discardStopSignals(endpoint, worker, job.id)
        }
        notifier.demand.wake(endpoint)
        return jobs
      }
      // There may be others behind those whose time was over, and so many that the worker would give up on the answer.
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
    // Only the waiting may be interrupted: between a claim and its return a job would be nobody's until its lease runs out.
  }, Effect.uninterruptible)

  const heartbeat = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, jobs: ReadonlyArray<string>) {
    yield* registry.seen(endpoint, worker)
    notifier.confirmStops(endpoint, worker, jobs)
    for (const id of jobs) {
      const applied = yield* apply(endpoint, id, { _tag: "Heartbeat", now: now(), endpoint, worker })
      // A beat that was sent before the worker's own result arrived names a job that has ended as it should.
      const ownEnd = applied._tag === "Rejected" && applied.rejection._tag === "Ended" &&
        (applied.rejection.status === "COMPLETED" || applied.rejection.status === "FAILED") && applied.rejection.by === worker
      if (applied._tag === "Missing" || (applied._tag === "Rejected" && !ownEnd)) notifier.stop(endpoint, worker, id)
    }
  }, Effect.uninterruptible)

  /** What a worker is told of its write. */
  const delivered = Effect.fnUntraced(
    function*(holder: LeaseHolder, applied: ApplyResult): Effect.fn.Return<Delivery, QueueError> {
      yield* registry.seen(holder.endpoint, holder.worker)
      yield* notifier.notify(applied, holder.worker)
      if (applied._tag === "Changed") return "accepted"
      if (applied._tag === "Missing" || applied._tag === "Removed") return yield* missing(holder.job)
      const { rejection } = applied
      if (rejection._tag === "OtherEndpoint") return yield* missing(holder.job)
      if (rejection._tag === "Repeated") return "accepted"
      // Whatever it was, this worker does not have the job; it may have been told so by an answer that was lost.
      const assigned = rejection._tag === "NotHeld" && rejection.by === holder.worker
      if (!assigned) yield* registry.released(holder.endpoint, holder.worker, holder.job)
      if (
        rejection._tag === "Ended" && rejection.by === holder.worker &&
        (holder.attempt === undefined || holder.attempt === rejection.attempt)
      ) {
        return "ignored"
      }
      const by = rejection._tag === "NotHeld" ? rejection.by : null
      return yield* new QueueError({ reason: new LeaseLost({ id: holder.job, worker: holder.worker, holder: by }) })
    }
  )

  /** A worker's write: to the store, then to whoever waits for it. */
  const deliver = (holder: LeaseHolder, applying: Effect.Effect<ApplyResult, QueueError>) =>
    Effect.uninterruptible(Effect.flatMap(applying, (applied) => delivered(holder, applied)))

  const fence = ({ attempt, endpoint, worker }: LeaseHolder) =>
    attempt === undefined ? { now: now(), endpoint, worker } : { now: now(), endpoint, worker, attempt }

  const finish: LeaseOperations["finish"] = (holder, { error, output }) =>
    deliver(
      holder,
      Effect.suspend(() => {
        // A worker that delivers a result no longer runs the job: there is nothing left to stop.
        notifier.discardStopSignals(holder.endpoint, holder.worker, holder.job)
        return store.apply(holder.endpoint, holder.job, { _tag: "Finish", output, error, random: random(), ...fence(holder) })
      })
    ).pipe(
      // The same error again, of an attempt that it has ended: its answer was lost.
      Effect.catchReason("QueueError", "LeaseLost", (_, refused) =>
        Effect.flatMap(
          store.get(holder.endpoint, holder.job),
          (job): Effect.Effect<Delivery, QueueError> =>
            job !== undefined && isRetriedError(job, holder, error) ? Effect.succeed("ignored") : Effect.fail(refused)
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
          return new QueueError({ reason: new ChunkGap({ id: holder.job, chunk: number, expected }) })
        })
      )
    )

  const stopSignals = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, waitMs: number) {
    yield* registry.seen(endpoint, worker)
    const key = workerKey(endpoint, worker)
    const until = now() + waitMs
    while (true) {
      // In line before it looks, as all waiters are: a stop that comes between the two must not be missed.
      const ticket = yield* notifier.stopPollers.take(key)
      const time = now()
      const { jobs, nextAt } = notifier.takeStopSignals(endpoint, worker, time)
      const left = until - time
      // A draining worker waits like any other: it may still run a job that is cancelled.
      if (left <= 0 || notifier.isClosing() || jobs.length > 0) {
        yield* ticket.cancel
        return jobs
      }
      yield* Effect.interruptible(ticket.wait(nextAt === null ? left : Math.min(left, nextAt - time)))
    }
    // Only the waiting may be interrupted: a stop that was looked up and not answered would be forgotten.
  }, Effect.uninterruptible)

  const drainWorker = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string) {
    yield* registry.drain(endpoint, worker)
    // Takers wait by endpoint; all look again and only this one leaves.
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
    yield* registry.gone(endpoint, worker)
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
    const status = (yield* registry.list(endpoint)).find((one) => one.id === worker)
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
        // One that it was handed anew meanwhile is not to stop.
        const held = workers.find(({ id }) => id === worker)?.jobs ?? []
        for (const job of jobs) if (!held.includes(job)) notifier.stop(endpoint, worker, job)
      }),
    drainWorker,
    workerGone,
    returnJobs,
    workerExiting
  }
}
