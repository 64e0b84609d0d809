/**
 * The workers known to this process, as reported by the pools that start them and by the workers' own calls.
 *
 * ```
 *   starting ----> initializing --first take or ping--> idle <--claim / finish--> running
 *       (pool)         |                                  |                          |
 *       failing        v                                  +-------- draining --------+--> removed
 *   ----------> unhealthy (until the pool starts it again)
 * ```
 *
 * Advisory only: the store holds the authoritative leases. The registry is lost when the process ends. After a restart it contains the
 * workers that hold a lease, and is complete again one heartbeat interval later.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import { MAX_REASON } from "@stint/contract/PlatformEvent"
import type { WorkerBatch } from "@stint/contract/WorkerProtocol"
import { Nodes } from "@stint/store/Nodes"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { monotonicMillis } from "../ClockWatch.ts"
import { PlatformEvents } from "../events/PlatformEvents.ts"
import * as Canaries from "./Canaries.ts"
import { type Entry, statusOf } from "./WorkerEntry.ts"
import * as WorkerHints from "./WorkerHints.ts"
import * as WorkerReports from "./WorkerReports.ts"
import type { Leaving, WorkerStatus } from "./WorkerReports.ts"
import * as WorkerSlots from "./WorkerSlots.ts"
import * as WorkerStarts from "./WorkerStarts.ts"

export type { Leaving, WorkerState, WorkerStatus } from "./WorkerReports.ts"
export type { WorkerStart } from "./WorkerStarts.ts"

/**
 * A worker without a pool that calls again within this time after it announced its exit is still treated as exiting, because it may have
 * sent the call before the exit ping. A later call while it runs no job comes from a new process with the same name, which may take jobs.
 */
export const EXIT_GRACE_MILLIS = 10_000

/**
 * A worker without a pool is removed when it runs no job, has no open poll, and has not called for this many milliseconds. It polls again at
 * once after a poll has ended, or after 5 s when it was refused.
 */
export const FORGET_AFTER_MILLIS = 30_000

/** The same limit for a worker whose connection was closed during a poll: it was probably killed. A live worker reconnects within seconds. */
export const FORGET_AFTER_CUT_MILLIS = 10_000

/** How long a failure is shown when the pool does not remove it. Longer than the longest wait before the next start. Milliseconds. */
const FORGET_FAILURE_MILLIS = 180_000

/**
 * After this share of a lease, the next call of a worker that sends no heartbeats renews its leases. The rest of the lease must cover
 * the one-second pause that workers make between two polls: the shortest lease of such a worker is 3 s.
 */
const RENEWAL_SHARE = 0.4

/**
 * The same share for a worker that sends heartbeats. Larger than two heartbeat intervals, because only heartbeats list the worker's jobs, and a job
 * that they do not list must lose its lease.
 */
const RENEWAL_SHARE_WITH_HEARTBEATS = 0.8

/**
 * The attempt numbers of at least this many recent jobs per worker are remembered, and of at most twice as many, to attribute log lines that
 * arrive after the job's end.
 */
const TRACKED_ATTEMPTS = 1_000

const attemptIn = (entry: Entry | undefined, job: string): number | undefined =>
  entry?.attempts.get(job) ?? entry?.earlierAttempts.get(job)

/** A job that a worker took, and its attempt number. */
export interface AssignedJob {
  readonly job: string
  readonly attempt: number
}

export class WorkerRegistry extends Context.Service<WorkerRegistry, {
  /** A pool is starting the worker. `release`: what the worker will run, if its endpoint has releases. */
  readonly starting: (endpoint: EndpointId, worker: string, release?: number) => Effect.Effect<void>
  /** The pool pulls the image of a worker that it is starting. `progress` is called until the pull has ended. */
  readonly pulling: (endpoint: EndpointId, worker: string, image: string, progress: () => ImagePullProgress) => void
  /** The pull of the worker's image has ended. */
  readonly pulled: (endpoint: EndpointId, worker: string) => void
  /** The pool has created the worker, which has not called yet. `standby`: from a process that it had started in advance. */
  readonly created: (endpoint: EndpointId, worker: string, standby?: boolean) => Effect.Effect<void>
  /** A pool took over the worker of an earlier platform process. It is draining. */
  readonly adopted: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /**
   * The worker made a call; with `take`, it asked for a job. Returns true when the call must renew the worker's leases, because no heartbeat
   * has renewed them.
   */
  readonly touch: (endpoint: EndpointId, worker: string, call?: "take") => Effect.Effect<boolean>
  /** The worker, which has called `touch`, asks for this many jobs. `idle`: it says that it holds none. */
  readonly asked: (endpoint: EndpointId, worker: string, jobs: number, idle: boolean) => void
  /** The worker began its setup, which may take `limitMs` milliseconds. It has not asked for a job yet. */
  readonly settingUp: (endpoint: EndpointId, worker: string, limitMs: number) => Effect.Effect<void>
  /** The worker took a job. */
  readonly assigned: (
    endpoint: EndpointId,
    worker: string,
    job: string,
    attempt?: number,
    needsToken?: boolean
  ) => Effect.Effect<void>
  /**
   * The running jobs for which the worker must send a lease token. After a restart of the platform, jobs that were taken before are missing:
   * their tokens are checked if they are sent, but not required.
   */
  readonly tokenJobs: (endpoint: EndpointId, worker: string) => ReadonlySet<string>
  /**
   * The worker holds a new lease of `leaseMs` milliseconds. Returns true when it was known to hold none: its open polls do not yet end at
   * `renewalDueAt`.
   */
  readonly leased: (endpoint: EndpointId, worker: string, leaseMs: number) => boolean
  /** The worker's leases were renewed. `leases` are their durations in milliseconds; empty when the worker holds no jobs. */
  readonly renewed: (endpoint: EndpointId, worker: string, leases: ReadonlyArray<number>, by?: "heartbeat") => void
  /**
   * The monotonic time at which the worker's next call renews its leases, unless a heartbeat comes first; null when the worker holds no jobs. A poll must not be
   * held for longer than this, so that the worker calls again.
   */
  readonly renewalDueAt: (endpoint: EndpointId, worker: string) => number | null
  /** The worker no longer runs the job. Returns false when the registry did not know that the worker ran it. */
  readonly released: (endpoint: EndpointId, worker: string, job: string) => Effect.Effect<boolean>
  /** Stops sending jobs to the worker. `announced`: the worker reported that it is exiting. */
  readonly drain: (endpoint: EndpointId, worker: string, announced?: "announced") => Effect.Effect<void>
  /** An operator drains or stops the worker. Ignored for a worker that this node does not know. */
  readonly leave: (endpoint: EndpointId, worker: string, leaving: Leaving) => void
  /**
   * The connection to the worker's machine was lost, so the pool no longer knows the worker. If it still runs, it keeps its jobs but receives no
   * others.
   */
  readonly lost: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The platform holds a poll of the worker open. Call the result when the poll ends: with true when the worker closed its connection. */
  readonly polling: (endpoint: EndpointId, worker: string) => (cut: boolean) => void
  /** The worker delivered a result. */
  readonly delivered: (endpoint: EndpointId, worker: string) => void
  /** The worker has exited. The result takes that back. Its calls that are still open are those of a worker that is gone. */
  readonly exited: (endpoint: EndpointId, worker: string) => () => void
  /** Whether the worker that calls now is draining, or is gone: it has exited or was removed. A worker of the same name may come later. */
  readonly leaving: (endpoint: EndpointId, worker: string) => () => "draining" | "gone" | undefined
  /** Whether the worker is draining and runs no jobs, so that it only needs to exit. */
  readonly mayExit: (endpoint: EndpointId, worker: string) => boolean
  /** The worker cannot work or cannot be started. Shown with the reason until the worker calls or is removed. */
  readonly failing: (
    endpoint: EndpointId,
    worker: string,
    state: "unhealthy" | "throttled",
    reason: string,
    retryAt?: number
  ) => Effect.Effect<void>
  readonly removed: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The workers that have called this node. */
  readonly list: (endpoint: EndpointId) => Effect.Effect<ReadonlyArray<WorkerStatus>>
  /** The workers that any node knows, as of its last heartbeat. A worker that calls several nodes is listed once. */
  readonly listAll: (endpoint: EndpointId) => Effect.Effect<ReadonlyArray<WorkerStatus>>
  /** What each other node reports about the worker, as of its last heartbeat. */
  readonly reported: (endpoint: EndpointId, worker: string) => ReadonlyArray<WorkerStatus>
  /** The worker runs this release from now on. Either the new release changes nothing for its workers, or the release is known from its jobs. */
  readonly labelled: (endpoint: EndpointId, worker: string, release: number) => void
  /** A heartbeat of the worker named the version of its SDK. Ignored for a worker that the registry does not know. */
  readonly versioned: (endpoint: EndpointId, worker: string, version: string) => void
  /** How the worker collects jobs, as its heartbeat says. Ignored for a worker that the registry does not know. */
  readonly batching: (endpoint: EndpointId, worker: string, batch: WorkerBatch) => void
  /** The memory that the worker occupies; undefined when it is unknown. Ignored for a worker that the registry does not know. */
  readonly measured: (endpoint: EndpointId, worker: string, memoryBytes: number | undefined) => void
  /** The release that the worker runs; undefined when it is unknown. */
  readonly releaseOf: (endpoint: EndpointId, worker: string) => number | undefined
  /** When a pool of this process started the worker, even after its exit; undefined if no longer remembered. */
  readonly startOf: (endpoint: EndpointId, worker: string) => Readonly<WorkerStarts.WorkerStart> | undefined
  /** The remembered starts of workers by pools of this process, including workers that have exited. */
  readonly starts: () => Iterable<WorkerStarts.EndpointStart>
  /** The shares and results of canaries. */
  readonly canaries: Canaries.Canaries
  /** When this registry was created. It does not know earlier starts. Milliseconds since 1970. */
  readonly createdAt: number
  /** The attempt number of a job that the worker took, including ended jobs; undefined when it is not remembered. */
  readonly attemptOf: (endpoint: EndpointId, worker: string, job: string) => number | undefined
  /**
   * The only job that the worker runs. If the worker runs no job, its last job, provided that it was released at most `within` milliseconds
   * ago, or that the worker was adopted: its earlier output is read late, and it takes no other job. Undefined otherwise, and when the worker
   * runs several jobs.
   */
  readonly soleJob: (endpoint: EndpointId, worker: string, within: number) => AssignedJob | undefined
}>()("@stint/queue/WorkerRegistry") {}

/**
 * The maximum number of workers per endpoint that no pool started and that neither run a job nor poll. A worker chooses its id, so a caller with a worker
 * key can invent any number of them. When there are more, those that have been silent for longest are forgotten; a forgotten worker that
 * calls again is known again.
 */
export const MAX_IDLE_WORKERS = 10_000

/** How many idle workers are forgotten at once, so that finding them costs little per invented worker. */
const FORGOTTEN_AT_ONCE = 1_000

/** Removes the idle workers that have been silent for longest when there are too many. */
const forgetIdle = (workers: Map<string, Entry>): void => {
  if (workers.size <= MAX_IDLE_WORKERS) return
  const idle = [...workers.values()].filter(({ jobs, openPolls, pooled }) => !pooled && openPolls === 0 && jobs.size === 0)
  if (idle.length <= MAX_IDLE_WORKERS) return
  idle.sort((a, b) => a.lastSeenAt - b.lastSeenAt)
  for (const { id } of idle.slice(0, FORGOTTEN_AT_ONCE)) workers.delete(id)
}

/** The maximum length of a version, in characters. A worker may send any string, and nodes report it to each other every second. */
const MAX_VERSION = 100

const NO_JOBS: ReadonlySet<string> = new Set()

const renewalDueAt = ({ heartbeatAt }: Entry, now: number, leaseMs: number): number =>
  now + leaseMs * (heartbeatAt !== null && now - heartbeatAt < leaseMs ? RENEWAL_SHARE_WITH_HEARTBEATS : RENEWAL_SHARE)

export const layer: Layer.Layer<WorkerRegistry> = Layer.effect(
  WorkerRegistry,
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const events = yield* PlatformEvents
    const elapsed = () => monotonicMillis(clock)
    const endpoints = new Map<EndpointId, Map<string, Entry>>()
    const wallClock = () => clock.currentTimeMillisUnsafe()
    const starts = WorkerStarts.make()
    const startObserver = yield* WorkerStarts.StartObserver
    const createdAt = wallClock()

    /** The lost workers, oldest first. A lost worker may call again after its entry has been removed. */
    const lost = new Set<string>()
    const keyOf = (endpoint: EndpointId, worker: string) => `${endpoint}\n${worker}`
    const markLost = (entry: Entry) => {
      entry.lost = true
      entry.pooled = false
      entry.drainingSince ??= elapsed()
    }

    const entryOf = (endpoint: EndpointId, worker: string): Entry => {
      let workers = endpoints.get(endpoint)
      if (workers === undefined) {
        workers = new Map()
        endpoints.set(endpoint, workers)
      }
      let entry = workers.get(worker)
      if (entry === undefined) {
        const now = elapsed()
        // The worker called another node before, and an operator drained or stopped it there.
        const leaving = WorkerReports.leavingOf(elsewhere?.(endpoint) ?? [], worker)
        entry = {
          id: worker,
          endpoint,
          state: "initializing",
          drainingSince: leaving === null ? null : now,
          leaving,
          exitAnnounced: false,
          renewalDueAt: 0,
          heartbeatAt: null,
          jobs: new Set(),
          tokenJobs: new Set(),
          slots: WorkerSlots.make(),
          attempts: new Map(),
          earlierAttempts: new Map(),
          released: null,
          reason: null,
          retryAt: null,
          firstSeenAt: now,
          lastSeenAt: now,
          idleSince: null,
          results: 0,
          openPolls: 0,
          answeredAt: 0,
          cutAt: null,
          pooled: false,
          adopted: false,
          lost: false,
          exited: false,
          start: null,
          pull: null,
          setup: null,
          release: undefined,
          version: undefined,
          batch: undefined,
          memoryBytes: undefined
        }
        if (lost.has(keyOf(endpoint, worker))) markLost(entry)
        forgetIdle(workers)
        workers.set(worker, entry)
      }
      return entry
    }

    const mayBeForgotten = (entry: Entry, now: number): boolean => {
      // Its machine may be gone without having closed its connections.
      if (entry.lost) return entry.jobs.size === 0 && now - entry.lastSeenAt > FORGET_AFTER_CUT_MILLIS
      if (entry.pooled || entry.jobs.size > 0 || entry.openPolls > 0) return false
      if (entry.setup !== null && now < entry.setup.limitAt) return false
      if (entry.state === "unhealthy" || entry.state === "throttled") return now - entry.lastSeenAt > FORGET_FAILURE_MILLIS
      return now - Math.max(entry.lastSeenAt, entry.answeredAt) > FORGET_AFTER_MILLIS ||
        (entry.cutAt !== null && now - entry.cutAt > FORGET_AFTER_CUT_MILLIS)
    }

    const markSeen = (entry: Entry) => {
      entry.lastSeenAt = elapsed()
      entry.cutAt = null
      const mayHaveExited = !entry.pooled && !entry.lost && entry.jobs.size === 0 &&
        (entry.leaving === null || entry.exitAnnounced)
      if (mayHaveExited && entry.drainingSince !== null && entry.lastSeenAt - entry.drainingSince > EXIT_GRACE_MILLIS) {
        entry.drainingSince = null
        entry.exitAnnounced = false
        entry.leaving = null
        entry.idleSince = entry.lastSeenAt
      }
      if (entry.state !== "ready") {
        entry.state = "ready"
        entry.setup = null
        entry.reason = null
        entry.retryAt = null
        entry.idleSince = entry.jobs.size === 0 ? entry.lastSeenAt : null
        if (entry.start !== null) entry.start.calledAt ??= wallClock()
        if (events.isOpen()) events.publish({ type: "worker.ready", endpoint: entry.endpoint, worker: entry.id })
      }
    }

    const publishEnd = ({ endpoint, id, pooled, state }: Entry) => {
      // The entry is a failed worker, whose end was already published.
      if (!pooled && (state === "unhealthy" || state === "throttled")) return
      if (events.isOpen()) events.publish({ type: "worker.ended", endpoint, worker: id })
    }

    const list = (endpoint: EndpointId): ReadonlyArray<WorkerStatus> => {
      const now = elapsed()
      const offset = clock.currentTimeMillisUnsafe() - now
      const workers = endpoints.get(endpoint) ?? new Map<string, Entry>()
      for (const entry of workers.values()) {
        if (!mayBeForgotten(entry, now)) continue
        workers.delete(entry.id)
        publishEnd(entry)
      }
      return [...workers.values()].map((entry) => statusOf(entry, offset))
    }

    const release = (endpoint: EndpointId, worker: string, job: string): boolean => {
      const entry = endpoints.get(endpoint)?.get(worker)
      if (entry === undefined || !entry.jobs.delete(job)) return false
      entry.tokenJobs.delete(job)
      WorkerSlots.released(entry.slots, job)
      const at = elapsed()
      entry.released = { job, at }
      if (entry.jobs.size === 0) entry.idleSince = at
      return true
    }

    const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
    const elsewhere = nodes === undefined ? undefined : WorkerReports.make(nodes, () => [...endpoints.keys()].flatMap(list))
    const announceExit = (entry: Entry | undefined) => {
      if (entry === undefined) return
      entry.exitAnnounced = true
      // A worker that exits does what the operator asked for. A later process with its name may take jobs.
      if (!entry.pooled && entry.leaving !== null) entry.drainingSince = elapsed()
    }
    WorkerHints.subscribe(nodes, "released", release)
    WorkerHints.subscribe(nodes, "exiting", (endpoint, worker) => announceExit(endpoints.get(endpoint)?.get(worker)))

    return WorkerRegistry.of({
      starting: (endpoint, worker, release) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          entry.pooled = true
          entry.release = release
          entry.start = starts.requested(endpoint, worker, wallClock())
          if (events.isOpen()) events.publish({ type: "worker.started", endpoint, worker })
        }),
      pulling: (endpoint, worker, image, progress) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.pull = { image, progress }
      },
      pulled: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry === undefined || entry.pull === null) return
        entry.pull = null
        if (entry.start !== null) entry.start.pulledAt = wallClock()
      },
      created: (endpoint, worker, standby = false) =>
        Effect.sync(() => {
          const start = starts.find(endpoint, worker)
          if (start === undefined) return
          start.createdAt ??= wallClock()
          if (standby) start.standby = true
        }),
      adopted: (endpoint, worker) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          entry.pooled = true
          entry.adopted = true
          entry.lost = false
          lost.delete(keyOf(endpoint, worker))
          markSeen(entry)
          entry.drainingSince ??= entry.lastSeenAt
        }),
      touch: (endpoint, worker, call) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          markSeen(entry)
          if (call !== undefined && entry.start !== null && entry.start.readyAt === null) {
            entry.start.readyAt = wallClock()
            startObserver({ endpoint, start: entry.start })
          }
          return entry.renewalDueAt !== null && entry.renewalDueAt <= entry.lastSeenAt
        }),
      asked: (endpoint, worker, jobs, idle) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) WorkerSlots.asks(entry.slots, jobs, idle ? undefined : entry.jobs.size)
      },
      settingUp: (endpoint, worker, limitMs) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          // A notice that arrives after the first take, or is repeated, changes nothing.
          if (entry.state !== "initializing" || entry.setup !== null) return
          const now = elapsed()
          entry.lastSeenAt = now
          entry.setup = { startedAt: now, limitAt: now + limitMs }
          if (entry.start === null) return
          entry.start.calledAt ??= wallClock()
          entry.start.setupAt ??= wallClock()
        }),
      assigned: (endpoint, worker, job, attempt, needsToken) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          markSeen(entry)
          if (!entry.jobs.has(job)) entry.slots.taken.add(job)
          entry.jobs.add(job)
          if (needsToken === true) entry.tokenJobs.add(job)
          else entry.tokenJobs.delete(job)
          if (attempt !== undefined) {
            if (entry.attempts.size === TRACKED_ATTEMPTS) {
              entry.earlierAttempts = entry.attempts
              entry.attempts = new Map()
            }
            entry.attempts.set(job, attempt)
          }
          entry.idleSince = null
        }),
      leased: (endpoint, worker, leaseMs) => {
        const entry = entryOf(endpoint, worker)
        const known = entry.renewalDueAt
        const dueAt = renewalDueAt(entry, entry.lastSeenAt, leaseMs)
        entry.renewalDueAt = known === null ? dueAt : Math.min(known, dueAt)
        return known === null
      },
      renewed: (endpoint, worker, leases, by) => {
        const entry = entryOf(endpoint, worker)
        const now = elapsed()
        if (by !== undefined) entry.heartbeatAt = now
        entry.renewalDueAt = leases.length === 0 ? null : renewalDueAt(entry, now, Math.min(...leases))
      },
      renewalDueAt: (endpoint, worker) => endpoints.get(endpoint)?.get(worker)?.renewalDueAt ?? null,
      released: (endpoint, worker, job) =>
        Effect.sync(() => {
          WorkerHints.publish(nodes, "released", endpoint, worker, job)
          return release(endpoint, worker, job)
        }),
      lost: (endpoint, worker) =>
        Effect.sync(() => {
          lost.add(keyOf(endpoint, worker))
          for (const oldest of lost) {
            if (lost.size <= MAX_IDLE_WORKERS) break
            lost.delete(oldest)
          }
          const entry = endpoints.get(endpoint)?.get(worker)
          if (entry !== undefined) markLost(entry)
        }),
      polling: (endpoint, worker) => {
        const entry = entryOf(endpoint, worker)
        entry.openPolls += 1
        return (cut) => {
          entry.openPolls -= 1
          const now = elapsed()
          entry.cutAt = cut ? now : null
          if (!cut) entry.answeredAt = now
        }
      },
      tokenJobs: (endpoint, worker) => endpoints.get(endpoint)?.get(worker)?.tokenJobs ?? NO_JOBS,
      delivered: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.results += 1
      },
      drain: (endpoint, worker, announced) =>
        Effect.sync(() => {
          const entry = endpoints.get(endpoint)?.get(worker)
          if (entry === undefined) return
          entry.drainingSince ??= elapsed()
          if (announced !== undefined) announceExit(entry)
          if (entry.exitAnnounced && entry.leaving !== null && !entry.pooled) {
            WorkerHints.publish(nodes, "exiting", endpoint, worker)
          }
        }),
      leave: (endpoint, worker, leaving) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry === undefined) return
        entry.drainingSince ??= elapsed()
        if (entry.leaving !== "stop") entry.leaving = leaving
        if (entry.exitAnnounced && !entry.pooled) WorkerHints.publish(nodes, "exiting", endpoint, worker)
      },
      exited: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.exited = true
        return () => {
          if (entry !== undefined) entry.exited = false
        }
      },
      leaving: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        const isGone = (known: Entry) => known.exited || endpoints.get(endpoint)?.get(worker) !== known
        return () =>
          entry === undefined ? undefined : isGone(entry) ? "gone" : entry.drainingSince === null ? undefined : "draining"
      },
      mayExit: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        return entry !== undefined && entry.drainingSince !== null && entry.jobs.size === 0
      },
      failing: (endpoint, worker, state, reason, retryAt) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          entry.state = state
          entry.setup = null
          entry.reason = reason
          entry.retryAt = retryAt ?? null
          if (events.isOpen()) events.publish({ type: "worker.failed", endpoint, worker, reason: reason.slice(0, MAX_REASON) })
        }),
      removed: (endpoint, worker) =>
        Effect.sync(() => {
          const workers = endpoints.get(endpoint)
          const entry = workers?.get(worker)
          if (workers === undefined || entry === undefined) return
          workers.delete(worker)
          if (workers.size === 0) endpoints.delete(endpoint)
          publishEnd(entry)
        }),
      list: (endpoint) => Effect.sync(() => list(endpoint)),
      listAll: (endpoint) =>
        Effect.sync(() =>
          elsewhere === undefined ? list(endpoint) : WorkerReports.merge([...list(endpoint), ...elsewhere(endpoint)])
        ),
      reported: (endpoint, worker) => elsewhere?.(endpoint).filter(({ id }) => id === worker) ?? [],
      labelled: (endpoint, worker, release) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.release = release
      },
      versioned: (endpoint, worker, version) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.version = version.slice(0, MAX_VERSION)
      },
      batching: (endpoint, worker, batch) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.batch = batch
      },
      measured: (endpoint, worker, memoryBytes) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.memoryBytes = memoryBytes
      },
      releaseOf: (endpoint, worker) => endpoints.get(endpoint)?.get(worker)?.release,
      startOf: starts.find,
      starts: starts.all,
      canaries: Canaries.make(),
      createdAt,
      attemptOf: (endpoint, worker, job) => attemptIn(endpoints.get(endpoint)?.get(worker), job),
      soleJob: (endpoint, worker, within) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry === undefined || entry.jobs.size > 1) return undefined
        const { released } = entry
        const [current] = entry.jobs
        const recent = released !== null && (entry.adopted || elapsed() - released.at <= within)
          ? released.job
          : undefined
        const job = current ?? recent
        const attempt = job === undefined ? undefined : attemptIn(entry, job)
        return job === undefined || attempt === undefined ? undefined : { job, attempt }
      }
    })
  })
)
