/**
 * Wakes the callers in this process that a change to a job affects.
 *
 * ```
 *   wait list        key        waits here                           woken when
 *   waitingWorkers   endpoint   long polls of workers for a job      a job becomes ready; on an endpoint with isolated jobs: a job ends, an isolated one is taken
 *   readers          job        callers that wait for output         a chunk arrives, the job ends
 *   followers        job        readers of events                    anything about the job changes
 *   stopPollers      worker     long polls of workers for stops      an attempt ends that its worker did not end; the worker may exit
 *   demand           endpoint   autoscalers                          a job becomes ready, is claimed, ends
 *   webhookSenders   (one)      webhook senders                      a job with a webhook changes
 * ```
 *
 * With several nodes, wake-ups and stop signals also reach the other nodes, except for webhook senders: the node that stores a change sends its
 * deliveries. When that node has ended, another node sends them when they are due.
 *
 * Every change to a job's status on this node passes through here once, after its commit, so it is also published here as a platform event, and
 * the end of an attempt is counted as usage.
 *
 * A notification is only a hint: each waiter re-reads the store. A stop signal is stored and sent again every second until a call from the
 * worker shows that it no longer runs the job, because the response that contained the signal may have been lost.
 *
 * ```
 *   stop --> due --takeStopSignals--> sent --1 s later--> due ...
 *                                |--heartbeat without the job, result, new claim--> removed
 *                                +--30 s after it was first sent------------------> removed; a heartbeat that names the job starts it again
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { isParked, isReady } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import type { ApplyResult } from "@stint/store/JobStore"
import type { Nodes } from "@stint/store/Nodes"
import * as Effect from "effect/Effect"
import type { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import { changedEvent } from "./JobStateEvents.ts"
import type { PlatformEventsService } from "./PlatformEvents.ts"
import type { AffectedKeys } from "./UncertainWrites.ts"
import * as WaitList from "./WaitList.ts"

/** The wait lists and stop signals of one queue. */
export interface JobNotifier {
  readonly waitingWorkers: WaitList.WaitList
  readonly readers: WaitList.WaitList
  readonly followers: WaitList.WaitList
  readonly webhookSenders: WaitList.WaitList
  readonly stopPollers: WaitList.WaitList
  readonly demand: WaitList.WaitList

  /**
   * Wakes the waiters that a change affects. `by` is the worker whose own result caused the change; it does not receive a stop signal when
   * the attempt ends. `blameless`: the end of the attempt says nothing about the worker's release, so a canary does not count it.
   */
  readonly notify: (applied: ApplyResult, by?: string, blameless?: boolean) => Effect.Effect<void>
  readonly notifyAll: (all: ReadonlyArray<ApplyResult>, by?: string, blameless?: boolean) => Effect.Effect<void>
  /** Wakes one waiting worker per job, and the endpoint's autoscaler. */
  readonly notifyEnqueued: (endpoint: EndpointId, count: number) => void
  /**
   * Wakes one waiting worker before the store has committed a new job. A store with group commit then claims the job in the commit that
   * inserts it, so no second commit is needed for the claim. Runs once per turn of the event loop, after the turn's last submission. A
   * worker that finds no job keeps waiting and is woken again after the commit.
   */
  readonly preWake: (endpoint: EndpointId) => void
  /**
   * Records whether an endpoint has isolated jobs, from the result of a claim. If it does, not every worker may take every job: each ready job
   * and each ended attempt then wakes all waiting workers. Returns true when the endpoint was not known to have isolated jobs: the caller
   * must claim again before it waits, because an attempt may have ended in between.
   */
  readonly isolating: (endpoint: EndpointId, isolating: boolean) => boolean
  /** Wakes every waiter that a failed write may affect, because the write may have been stored nevertheless. */
  readonly notifyUncertain: (concern: AffectedKeys) => void

  /** Stores a stop signal for a job and wakes the worker's stop poll. */
  readonly stop: (endpoint: string, worker: string, job: string) => void
  /**
   * Returns the worker's stop signals that are due at `now` and the time at which the next one is due. Marks the returned signals as sent.
   */
  readonly takeStopSignals: (endpoint: string, worker: string, now: number) => DueStops
  /** Removes the signal for one job, or all signals of the worker. */
  readonly discardStopSignals: (endpoint: string, worker: string, job?: string) => void
  /** Removes the sent signals of jobs that are not in `running`, the jobs that the worker's heartbeat lists. */
  readonly confirmStops: (endpoint: string, worker: string, running: ReadonlyArray<string>) => void

  readonly isClosing: () => boolean
  /** Completes every current and future wait. */
  readonly close: () => void
}

/** The stop signals to send in one poll. */
export interface DueStops {
  readonly jobs: ReadonlyArray<string>
  /** Monotonic time in milliseconds; null when no signal is left to repeat. */
  readonly nextAt: number | null
}

interface PendingStop {
  /** When to send the signal next, in milliseconds of monotonic time; -Infinity: at once. */
  due: number
  /** When the signal was first sent; null: not yet. */
  sentAt: number | null
}

/**
 * The interval at which a stop signal is repeated, in milliseconds. A cancel must interrupt the handler within 3 s (R8,
 * docs/spec/figures.md#reliability).
 */
const STOP_REPEAT_MILLIS = 1_000

/**
 * For how long a stop signal is repeated, in milliseconds. Longer than any heartbeat interval, because a heartbeat either confirms the stop
 * or restarts the signal.
 */
const STOP_REPEAT_LIMIT_MILLIS = 30_000

/**
 * The maximum number of stop signals per worker, and of workers with stop signals. A heartbeat that names missing jobs creates signals, under any
 * worker id, and perhaps no worker ever asks for them.
 */
const MAX_STOPS = 1_000
const MAX_STOPPED_WORKERS = 10_000

const dropOldest = <K, V>(entries: Map<K, V>, limit: number): void => {
  if (entries.size <= limit) return
  for (const key of entries.keys()) {
    entries.delete(key)
    return
  }
}

/** The topic of {@link JobNotifier.followers} between nodes. `JobLogs` makes the list. */
export const FOLLOWERS = "followers"

/** The wait list key for a worker's long polls for stop requests. */
export const workerKey = (endpoint: string, worker: string): string => `${endpoint}\n${worker}`

/** `followers` is shared with `JobLogs`, which wakes followers when it stores log lines. */
export const make = (
  registry: WorkerRegistry["Service"],
  followers: WaitList.WaitList,
  events: PlatformEventsService,
  attemptEnded: (before: JobHead, after: JobHead, by: string | undefined) => void,
  nodes?: Nodes["Service"]
): JobNotifier => {
  /** Endpoints that have isolated jobs. */
  const isolatingEndpoints = new Set<string>()
  /** The waiting workers of this node alone. */
  const localWorkers = WaitList.make()
  // A node that has just started does not know that the endpoint has isolated jobs.
  const waitingWorkers = WaitList.shared(
    localWorkers,
    "workers",
    nodes,
    (endpoint, count) => isolatingEndpoints.has(endpoint) ? undefined : count
  )
  const readers = WaitList.shared(WaitList.make(), "readers", nodes)
  const webhookSenders = WaitList.make()
  const stopPollers = WaitList.make()
  const demand = WaitList.shared(WaitList.make(), "demand", nodes)
  /** Key: {@link workerKey}. */
  const pendingStops = new Map<string, Map<string, PendingStop>>()
  /** Endpoints with a pre-wake scheduled in this turn of the event loop. */
  const preWaking = new Set<EndpointId>()
  let closing = false

  const isIsolating = (endpoint: EndpointId) => isolatingEndpoints.size > 0 && isolatingEndpoints.has(endpoint)

  const startIsolating = (endpoint: EndpointId) => {
    if (isIsolating(endpoint)) return
    isolatingEndpoints.add(endpoint)
    nodes?.publish("isolating", endpoint)
  }
  // A worker that waits at another node may be held back until a job ends at this one.
  nodes?.subscribe("isolating", (hint) => {
    if (hint !== undefined) isolatingEndpoints.add(hint.key)
  })

  const wakeWorkers = (endpoint: EndpointId, count: number) =>
    waitingWorkers.wake(endpoint, isIsolating(endpoint) ? undefined : count)

  const addStop = (key: string, job: string) => {
    const signal: PendingStop = { due: -Infinity, sentAt: null }
    const stops = pendingStops.get(key)
    if (stops !== undefined) {
      stops.set(job, signal)
      dropOldest(stops, MAX_STOPS)
    } else {
      pendingStops.set(key, new Map([[job, signal]]))
      dropOldest(pendingStops, MAX_STOPPED_WORKERS)
    }
    stopPollers.wake(key)
  }

  const stop: JobNotifier["stop"] = (endpoint, worker, job) => {
    const key = workerKey(endpoint, worker)
    addStop(key, job)
    nodes?.publish("stops", `${key}\n${job}`)
  }
  // The worker polls at any node. A lost hint is repaired by the worker's next heartbeat, which names the job.
  nodes?.subscribe("stops", (hint) => {
    const [endpoint, worker, job] = hint?.key.split("\n") ?? []
    if (endpoint !== undefined && worker !== undefined && job !== undefined) addStop(workerKey(endpoint, worker), job)
  })

  /** Notifies the waiters of jobs that changed in the same commit as another job. The journal of a run may have changed even if its job did not. */
  const notifyOthers = (others: ReadonlyArray<ApplyResult>): Effect.Effect<void> =>
    Effect.forEach(others, (other) => {
      if (other._tag === "Changed") followers.wake(other.after.id)
      return notify(other)
    }, { discard: true })

  const notify: JobNotifier["notify"] = Effect.fnUntraced(function*(applied, by, blameless = false) {
    if (applied._tag !== "Changed") return
    const { after, before, others } = applied
    if (applied.released !== undefined) wakeWorkers(after.endpoint, applied.released)
    if (others !== undefined) yield* notifyOthers(others)
    // When the last job of a batch ends, the batch ends too, and it may have a webhook even if the job has none.
    if (after.webhook !== null || after.batchId !== null) webhookSenders.wake("")
    if (before.status === after.status) {
      if (after.chunks !== before.chunks) {
        readers.wake(after.id)
        followers.wake(after.id)
      }
      if (isReady(after) && !isReady(before)) {
        if (after.isolated) startIsolating(after.endpoint)
        wakeWorkers(after.endpoint, 1)
        demand.wake(after.endpoint)
      }
      if (before.worker !== null && isParked(after)) {
        attemptEnded(before, after, by)
        yield* registry.released(before.endpoint, before.worker, before.id)
        if (registry.mayExit(before.endpoint, before.worker)) stopPollers.wake(workerKey(before.endpoint, before.worker))
        demand.wake(after.endpoint)
      }
      return
    }
    if (events.isOpen()) events.publish(changedEvent(after))
    followers.wake(after.id)
    if (before.status === "IN_PROGRESS" && before.worker !== null) {
      attemptEnded(before, after, by)
      yield* registry.released(before.endpoint, before.worker, before.id)
      if (!blameless) registry.canaries.changed(before, after)
      if (by !== before.worker) stop(before.endpoint, before.worker, before.id)
      else if (registry.mayExit(before.endpoint, before.worker)) stopPollers.wake(workerKey(before.endpoint, before.worker))
      if (after.isolated) startIsolating(after.endpoint)
      if (before.isolated || isIsolating(after.endpoint)) waitingWorkers.wake(after.endpoint)
    }
    // A busy worker may have been held back for the isolated job, and may take others now.
    if (before.status === "IN_QUEUE" && before.isolated) waitingWorkers.wake(after.endpoint)
    if (isReady(after)) wakeWorkers(after.endpoint, 1)
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
    notifyAll: (all, by, blameless) => Effect.forEach(all, (one) => notify(one, by, blameless), { discard: true }),
    notifyEnqueued: (endpoint, count) => {
      if (count === 0) return
      wakeWorkers(endpoint, count)
      demand.wake(endpoint)
    },
    isolating: (endpoint, isolating) => {
      if (isolating === isIsolating(endpoint)) return false
      if (isolating) startIsolating(endpoint)
      else isolatingEndpoints.delete(endpoint)
      return isolating
    },
    preWake: (endpoint) => {
      if (preWaking.has(endpoint) || waitingWorkers.size(endpoint) === 0) return
      preWaking.add(endpoint)
      setImmediate(() => {
        preWaking.delete(endpoint)
        // The other nodes have nothing to claim before the commit.
        localWorkers.wake(endpoint, isIsolating(endpoint) ? undefined : 1)
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
      if (endpoint === undefined || job === undefined) nodes?.publishAll()
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
      // Called for each job that is taken or finished, when there is almost always no signal at all.
      if (pendingStops.size === 0) return
      const key = workerKey(endpoint, worker)
      const stops = pendingStops.get(key)
      if (job !== undefined) stops?.delete(job)
      if (job === undefined || stops?.size === 0) pendingStops.delete(key)
    },
    confirmStops: (endpoint, worker, running) => {
      // Called for each heartbeat, when there is almost always no signal at all.
      if (pendingStops.size === 0) return
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
