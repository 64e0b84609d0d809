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
 * Advisory only: the store holds the authoritative leases. The registry is lost when the process ends, and is complete again one heartbeat
 * interval after a restart.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A worker's state. `unhealthy`: it cannot work. `throttled`: it could not be started. Both have a reason. */
export type WorkerState = "initializing" | "idle" | "running" | "draining" | "unhealthy" | "throttled"

/** A worker as the autoscaler and the console see it. */
export interface WorkerStatus {
  readonly id: string
  readonly endpoint: EndpointId
  readonly state: WorkerState
  /** Ids of the jobs it runs. */
  readonly jobs: ReadonlyArray<string>
  /** Why the worker is unhealthy or throttled; null otherwise. */
  readonly reason: string | null
  /** When the pool starts a replacement. Milliseconds since the epoch; null: unknown. */
  readonly retryAt: number | null
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** When the worker became idle; null while it has a job, and before its first call. */
  readonly idleSince: number | null
  /** The number of results that it has delivered. */
  readonly results: number
}

interface Entry {
  readonly id: string
  readonly endpoint: EndpointId
  state: "initializing" | "ready" | "unhealthy" | "throttled"
  /** When the worker began to drain and stopped receiving jobs; null when it is not draining. */
  drainingSince: number | null
  readonly jobs: Set<string>
  /** The attempt number of each job that the worker took recently, including ended jobs. */
  readonly attempts: Map<string, number>
  /** The job that the worker ran last, and when it was released. */
  released: { readonly job: string; readonly at: number } | null
  reason: string | null
  retryAt: number | null
  readonly firstSeenAt: number
  lastSeenAt: number
  idleSince: number | null
  results: number
  /**
   * Whether a pool started the worker and will report its removal. Other workers are removed after {@link FORGET_AFTER_MILLIS} without a
   * call.
   */
  pooled: boolean
}

/**
 * A worker without a pool that calls again within this time after it announced its exit is still treated as exiting, because it may have
 * sent the call before the exit ping. A later call while it runs no job comes from a new process with the same name, which may take jobs.
 */
export const EXIT_GRACE_MILLIS = 10_000

/** A worker without a pool is removed after this many milliseconds without a call: the duration of two long polls of 90 s. */
export const FORGET_AFTER_MILLIS = 180_000

/** The maximum number of jobs per worker whose attempt number is remembered, to attribute log lines that arrive after the job's end. */
const TRACKED_ATTEMPTS_LIMIT = 1_000

/** A job that a worker took, and its attempt number. */
export interface AssignedJob {
  readonly job: string
  readonly attempt: number
}

export class WorkerRegistry extends Context.Service<WorkerRegistry, {
  /** A pool is starting the worker. */
  readonly starting: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The worker made a call. */
  readonly touch: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The worker took a job. */
  readonly assigned: (endpoint: EndpointId, worker: string, job: string, attempt?: number) => Effect.Effect<void>
  /** The worker no longer runs the job. Returns false when the registry did not know that the worker ran it. */
  readonly released: (endpoint: EndpointId, worker: string, job: string) => Effect.Effect<boolean>
  /** The worker delivered a result. */
  readonly delivered: (endpoint: EndpointId, worker: string) => void
  /** Stops sending jobs to the worker. */
  readonly drain: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  readonly isDraining: (endpoint: EndpointId, worker: string) => Effect.Effect<boolean>
  /** The worker cannot work or cannot be started. Shown with the reason until the worker calls or is removed. */
  readonly failing: (
    endpoint: EndpointId,
    worker: string,
    state: "unhealthy" | "throttled",
    reason: string,
    retryAt?: number
  ) => Effect.Effect<void>
  readonly removed: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  readonly list: (endpoint: EndpointId) => Effect.Effect<ReadonlyArray<WorkerStatus>>
  /** The attempt number of a job that the worker took, including ended jobs; undefined when it is not remembered. */
  readonly attemptOf: (endpoint: EndpointId, worker: string, job: string) => number | undefined
  /**
   * The only job that the worker runs. If the worker runs no job, its last job, provided that it was released at most `within` milliseconds
   * ago. Undefined otherwise, and when the worker runs several jobs.
   */
  readonly soleJob: (endpoint: EndpointId, worker: string, within: number) => AssignedJob | undefined
}>()("@stint/queue/WorkerRegistry") {}

const stateOf = (entry: Entry): WorkerState => {
  if (entry.state !== "ready") return entry.state
  if (entry.drainingSince !== null) return "draining"
  return entry.jobs.size > 0 ? "running" : "idle"
}

export const layer: Layer.Layer<WorkerRegistry> = Layer.effect(
  WorkerRegistry,
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const endpoints = new Map<EndpointId, Map<string, Entry>>()

    const entryOf = (endpoint: EndpointId, worker: string): Entry => {
      let workers = endpoints.get(endpoint)
      if (workers === undefined) {
        workers = new Map()
        endpoints.set(endpoint, workers)
      }
      let entry = workers.get(worker)
      if (entry === undefined) {
        const now = clock.currentTimeMillisUnsafe()
        entry = {
          id: worker,
          endpoint,
          state: "initializing",
          drainingSince: null,
          jobs: new Set(),
          attempts: new Map(),
          released: null,
          reason: null,
          retryAt: null,
          firstSeenAt: now,
          lastSeenAt: now,
          idleSince: null,
          results: 0,
          pooled: false
        }
        workers.set(worker, entry)
      }
      return entry
    }

    const markSeen = (entry: Entry) => {
      entry.lastSeenAt = clock.currentTimeMillisUnsafe()
      const mayHaveExited = !entry.pooled && entry.jobs.size === 0
      if (mayHaveExited && entry.drainingSince !== null && entry.lastSeenAt - entry.drainingSince > EXIT_GRACE_MILLIS) {
        entry.drainingSince = null
        entry.idleSince = entry.lastSeenAt
      }
      if (entry.state !== "ready") {
        entry.state = "ready"
        entry.reason = null
        entry.retryAt = null
        entry.idleSince = entry.jobs.size === 0 ? entry.lastSeenAt : null
      }
    }

    return WorkerRegistry.of({
      starting: (endpoint, worker) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          entry.pooled = true
        }),
      touch: (endpoint, worker) => Effect.sync(() => markSeen(entryOf(endpoint, worker))),
      assigned: (endpoint, worker, job, attempt) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          markSeen(entry)
          entry.jobs.add(job)
          if (attempt !== undefined) {
            entry.attempts.delete(job)
            entry.attempts.set(job, attempt)
            if (entry.attempts.size > TRACKED_ATTEMPTS_LIMIT) {
              const [oldest] = entry.attempts.keys()
              if (oldest !== undefined) entry.attempts.delete(oldest)
            }
          }
          entry.idleSince = null
        }),
      released: (endpoint, worker, job) =>
        Effect.sync(() => {
          const entry = endpoints.get(endpoint)?.get(worker)
          if (entry === undefined || !entry.jobs.delete(job)) return false
          const at = clock.currentTimeMillisUnsafe()
          entry.released = { job, at }
          if (entry.jobs.size === 0) entry.idleSince = at
          return true
        }),
      delivered: (endpoint, worker) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry !== undefined) entry.results += 1
      },
      drain: (endpoint, worker) =>
        Effect.sync(() => {
          const entry = endpoints.get(endpoint)?.get(worker)
          if (entry !== undefined) entry.drainingSince ??= clock.currentTimeMillisUnsafe()
        }),
      isDraining: (endpoint, worker) => Effect.sync(() => (endpoints.get(endpoint)?.get(worker)?.drainingSince ?? null) !== null),
      failing: (endpoint, worker, state, reason, retryAt) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          entry.state = state
          entry.reason = reason
          entry.retryAt = retryAt ?? null
        }),
      removed: (endpoint, worker) =>
        Effect.sync(() => {
          const workers = endpoints.get(endpoint)
          if (workers?.delete(worker) === true && workers.size === 0) endpoints.delete(endpoint)
        }),
      list: (endpoint) =>
        Effect.sync(() => {
          const now = clock.currentTimeMillisUnsafe()
          const workers = endpoints.get(endpoint) ?? new Map<string, Entry>()
          for (const entry of workers.values()) {
            if (!entry.pooled && entry.jobs.size === 0 && now - entry.lastSeenAt > FORGET_AFTER_MILLIS) workers.delete(entry.id)
          }
          return [...workers.values()].map((entry) => ({
            id: entry.id,
            endpoint,
            state: stateOf(entry),
            jobs: [...entry.jobs],
            reason: entry.reason,
            retryAt: entry.retryAt,
            firstSeenAt: entry.firstSeenAt,
            lastSeenAt: entry.lastSeenAt,
            idleSince: entry.idleSince,
            results: entry.results
          }))
        }),
      attemptOf: (endpoint, worker, job) => endpoints.get(endpoint)?.get(worker)?.attempts.get(job),
      soleJob: (endpoint, worker, within) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry === undefined || entry.jobs.size > 1) return undefined
        const { released } = entry
        const [current] = entry.jobs
        const recent = released !== null && clock.currentTimeMillisUnsafe() - released.at <= within ? released.job : undefined
        const job = current ?? recent
        const attempt = job === undefined ? undefined : entry.attempts.get(job)
        return job === undefined || attempt === undefined ? undefined : { job, attempt }
      }
    })
  })
)
