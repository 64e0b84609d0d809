/**
 * Who waits in this process, and whom a change of a job wakes.
 *
 * ```
 *   takers     by endpoint   workers that wait for a job        a job is ready
 *   readers    by job        callers of results and chunks      a chunk, an end
 *   followers  by job        readers of events                  anything
 *   stoppers   by worker     job-stop polls                     an attempt ended by somebody else than its worker
 *   demand     by endpoint   autoscalers                        a job is ready, taken, or over
 *   senders    all as one    who sends webhooks                 a change of a job that has one
 * ```
 *
 * A wake-up is only a hint: every waiter re-reads the store. A stop signal is more: it is sent again every second until the worker shows
 * that it no longer runs the job, because the answer that carried it may have been lost on the way.
 *
 * ```
 *   stop --> due --takeStopSignals--> sent --1 s later--> due ...
 *                                |--heartbeat without the job, result, new claim--> removed
 *                                +--30 s after it was first sent------------------> removed; a heartbeat that names the job starts it again
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { isReady } from "@stint/store/JobMachine"
import type { ApplyResult } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import type { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import type { AffectedKeys } from "./UncertainWrites.ts"
import * as WaitList from "./WaitList.ts"

/** The waiting of one queue. */
export interface JobNotifier {
  readonly waitingWorkers: WaitList.WaitList
  readonly readers: WaitList.WaitList
  readonly followers: WaitList.WaitList
  readonly webhookSenders: WaitList.WaitList
  readonly stopPollers: WaitList.WaitList
  readonly demand: WaitList.WaitList

  /**
   * Wakes whoever a change concerns. `by` is the worker whose own result made the change: it is the one worker that needs no stop signal
   * when the attempt ends.
   */
  readonly notify: (applied: ApplyResult, by?: string) => Effect.Effect<void>
  readonly notifyAll: (all: ReadonlyArray<ApplyResult>, by?: string) => Effect.Effect<void>
  /** Jobs of an endpoint are ready. */
  readonly notifyEnqueued: (endpoint: EndpointId, count: number) => void
  /**
   * Lets one waiting worker look after the store was asked to keep jobs, and before it has: a store that shares its transactions claims them
   * in the one that keeps them, and the worker does not wait for a second commit. Once for all that are submitted in one turn of the event
   * loop, after the last of them. A worker that finds nothing waits on, and is woken when they are kept.
   */
  readonly preWake: (endpoint: EndpointId) => void
  /** A write may have been kept although it failed: whoever it may concern looks again. */
  readonly notifyUncertain: (concern: AffectedKeys) => void

  /** The worker is to be told to stop the job. */
  readonly stop: (endpoint: string, worker: string, job: string) => void
  /** The stop signals of a worker that are due at `now`, which counts as sending them, and when the next one is due. */
  readonly takeStopSignals: (endpoint: string, worker: string, now: number) => DueStops
  /** Removes the signal for one job, or all signals of the worker. */
  readonly discardStopSignals: (endpoint: string, worker: string, job?: string) => void
  /** The worker reports the jobs that it runs: signals that were sent to it and that name none of them have arrived. */
  readonly confirmStops: (endpoint: string, worker: string, running: ReadonlyArray<string>) => void

  readonly isClosing: () => boolean
  /** Ends all waits, now and from now on. */
  readonly close: () => void
}

/** Stop signals for one poll. */
export interface DueStops {
  readonly jobs: ReadonlyArray<string>
  /** Milliseconds since the epoch; null when no signal is left to repeat. */
  readonly nextAt: number | null
}

interface PendingStop {
  /** When it is sent next. Milliseconds since the epoch; 0 is at once. */
  due: number
  /** When it was sent first; null before that. */
  sentAt: number | null
}

/** How long after a stop signal was sent it is sent again. Milliseconds. A cancel must interrupt the handler within 3 s (R8). */
export const STOP_REPEAT_MILLIS = 1_000

/** How long a stop signal is repeated. Milliseconds. Longer than the interval of any heartbeat, which confirms or renews it. */
export const STOP_REPEAT_LIMIT_MILLIS = 30_000

/** By what stop polls wait. */
export const workerKey = (endpoint: string, worker: string): string => `${endpoint}\n${worker}`

/** The waiting of a queue. `followers` are shared with whoever keeps log lines, who wakes them, too. */
export const make = (registry: WorkerRegistry["Service"], followers: WaitList.WaitList): JobNotifier => {
  const waitingWorkers = WaitList.make()
  const readers = WaitList.make()
  const webhookSenders = WaitList.make()
  const stopPollers = WaitList.make()
  const demand = WaitList.make()
  /** By worker. */
  const pendingStops = new Map<string, Map<string, PendingStop>>()
  /** Endpoints whose waiting worker is about to look ahead. */
  const preWaking = new Set<EndpointId>()
  let closing = false

  const stop: JobNotifier["stop"] = (endpoint, worker, job) => {
    const key = workerKey(endpoint, worker)
    const signal: PendingStop = { due: 0, sentAt: null }
    const stops = pendingStops.get(key)
    if (stops === undefined) pendingStops.set(key, new Map([[job, signal]]))
    else stops.set(job, signal)
    stopPollers.wake(key)
  }

  const notify: JobNotifier["notify"] = Effect.fnUntraced(function*(applied, by) {
    if (applied._tag !== "Changed") return
    const { after, before } = applied
    // The end of a batch's last job is the end of the batch, which may have a webhook where the job has none.
    if (after.webhook !== null || after.batchId !== null) webhookSenders.wake("")
    if (before.status === after.status) {
      if (after.chunks !== before.chunks) {
        readers.wake(after.id)
        followers.wake(after.id)
      }
      if (isReady(after) && !isReady(before)) {
        waitingWorkers.wake(after.endpoint, 1)
        demand.wake(after.endpoint)
      }
      return
    }
    followers.wake(after.id)
    if (before.status === "IN_PROGRESS" && before.worker !== null) {
      yield* registry.released(before.endpoint, before.worker, before.id)
      if (by !== before.worker) stop(before.endpoint, before.worker, before.id)
    }
    if (isReady(after)) waitingWorkers.wake(after.endpoint, 1)
    if (isTerminal(after.status)) readers.wake(after.id)
    demand.wake(after.endpoint)
  })

  return {
    waitingWorkers,
    readers,
    followers,
    webhookSenders,
    stopPollers,
    demand,
    notify,
    notifyAll: (all, by) => Effect.forEach(all, (one) => notify(one, by), { discard: true }),
    notifyEnqueued: (endpoint, count) => {
      if (count === 0) return
      waitingWorkers.wake(endpoint, count)
      demand.wake(endpoint)
    },
    preWake: (endpoint) => {
      if (preWaking.has(endpoint) || waitingWorkers.size(endpoint) === 0) return
      preWaking.add(endpoint)
      setImmediate(() => {
        preWaking.delete(endpoint)
        waitingWorkers.wake(endpoint, 1)
      })
    },
    notifyUncertain: ({ endpoint, job }) => {
      for (const waiters of [waitingWorkers, demand]) {
        if (endpoint === undefined) waiters.wakeAll()
        else waiters.wake(endpoint)
      }
      for (const waiters of [readers, followers]) {
        if (job === undefined) waiters.wakeAll()
        else waiters.wake(job)
      }
      webhookSenders.wake("")
    },
    stop,
    takeStopSignals: (endpoint, worker, now) => {
      const key = workerKey(endpoint, worker)
      const stops = pendingStops.get(key)
      if (stops === undefined) return { jobs: [], nextAt: null }
      const jobs: Array<string> = []
      let nextAt: number | null = null
      for (const [job, signal] of stops) {
        if (signal.sentAt !== null && now - signal.sentAt >= STOP_REPEAT_LIMIT_MILLIS) {
          stops.delete(job)
          continue
        }
        if (signal.due <= now) {
          jobs.push(job)
          signal.sentAt ??= now
          signal.due = now + STOP_REPEAT_MILLIS
        }
        nextAt = Math.min(nextAt ?? signal.due, signal.due)
      }
      if (stops.size === 0) pendingStops.delete(key)
      return { jobs, nextAt }
    },
    discardStopSignals: (endpoint, worker, job) => {
      const key = workerKey(endpoint, worker)
      const stops = pendingStops.get(key)
      if (job !== undefined) stops?.delete(job)
      if (job === undefined || stops?.size === 0) pendingStops.delete(key)
    },
    confirmStops: (endpoint, worker, running) => {
      const key = workerKey(endpoint, worker)
      const stops = pendingStops.get(key)
      if (stops === undefined) return
      for (const [job, { sentAt }] of stops) if (sentAt !== null && !running.includes(job)) stops.delete(job)
      if (stops.size === 0) pendingStops.delete(key)
    },
    isClosing: () => closing,
    close: () => {
      closing = true
      for (const waiters of [waitingWorkers, readers, followers, webhookSenders, stopPollers, demand]) waiters.wakeAll()
    }
  }
}
