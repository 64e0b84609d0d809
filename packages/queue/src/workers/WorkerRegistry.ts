/**
 * Which workers there are, as far as this process has heard: from pools that start them and from the workers' own calls.
 *
 * ```
 *   starting ----> initializing --first take or ping--> idle <--claim / finish--> running
 *       (pool)         |                                  |                          |
 *       failed         v                                  +-------- draining --------+--> gone
 *   ----------> unhealthy (shown until the pool tries again)
 * ```
 *
 * It is a gauge, not the truth about jobs: leases are in the store. It is lost with the process and fills again within a heartbeat.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Where a worker stands. `unhealthy` cannot work, `throttled` could not be started; both have a reason. */
export type WorkerState = "initializing" | "idle" | "running" | "draining" | "unhealthy" | "throttled"

/** A worker as the autoscaler and the console see it. */
export interface WorkerStatus {
  readonly id: string
  readonly endpoint: EndpointId
  readonly state: WorkerState
  /** Ids of the jobs it holds. */
  readonly jobs: ReadonlyArray<string>
  /** Why it is unhealthy or throttled, in words; null otherwise. */
  readonly reason: string | null
  /** When the next one is started in its place, where somebody said so; null otherwise. */
  readonly retryAt: number | null
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** Since when it has held no job; null while it holds one or has not called yet. */
  readonly idleSince: number | null
}

interface Entry {
  readonly id: string
  readonly endpoint: EndpointId
  state: "initializing" | "ready" | "unhealthy" | "throttled"
  /** Since when it gets no more jobs. */
  drainingSince: number | null
  readonly jobs: Set<string>
  /** The attempts of the jobs that it was handed last, ended ones included. */
  readonly attempts: Map<string, number>
  /** The job that it held last, and until when. */
  released: { readonly job: string; readonly at: number } | null
  reason: string | null
  retryAt: number | null
  readonly firstSeenAt: number
  lastSeenAt: number
  idleSince: number | null
  /** A pool started it and will say when it is gone; others are forgotten when they stay silent. */
  pooled: boolean
}

/**
 * How long after its goodbye a worker that no pool answers for is taken at its word. When it calls after that and holds nothing, it is
 * another process under the same name, and may have jobs. Until then it may be a call that the goodbye overtook.
 */
export const EXIT_GRACE_MILLIS = 10_000

/** How long a worker that no pool answers for may be silent before it is forgotten: two long polls of 90 s. */
export const FORGET_AFTER_MILLIS = 180_000

/** So many jobs that a worker was handed are remembered, for what it says of them after their end. */
const TRACKED_ATTEMPTS_LIMIT = 1_000

/** A job and the attempt that a worker was handed. */
export interface AssignedJob {
  readonly job: string
  readonly attempt: number
}

export class WorkerRegistry extends Context.Service<WorkerRegistry, {
  /** A pool starts a worker. */
  readonly starting: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The worker called: it takes, pings or delivers. */
  readonly seen: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  /** The worker holds a job from now on. */
  readonly assigned: (endpoint: EndpointId, worker: string, job: string, attempt?: number) => Effect.Effect<void>
  /** The worker holds that job no longer. False where it was not known to. */
  readonly released: (endpoint: EndpointId, worker: string, job: string) => Effect.Effect<boolean>
  /** The worker gets no more jobs. */
  readonly drain: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  readonly isDraining: (endpoint: EndpointId, worker: string) => Effect.Effect<boolean>
  /** The worker cannot work, or cannot be started; shown with its reason until it is gone or seen again. */
  readonly failing: (
    endpoint: EndpointId,
    worker: string,
    state: "unhealthy" | "throttled",
    reason: string,
    retryAt?: number
  ) => Effect.Effect<void>
  readonly gone: (endpoint: EndpointId, worker: string) => Effect.Effect<void>
  readonly list: (endpoint: EndpointId) => Effect.Effect<ReadonlyArray<WorkerStatus>>
  /** The attempt of a job that a worker was handed, also when it is over; undefined where nobody remembers. */
  readonly attemptOf: (endpoint: EndpointId, worker: string, job: string) => number | undefined
  /**
   * The one job that a worker holds. Where it holds none, the one that it held until `within` milliseconds ago. Undefined where there is
   * none, or more than one.
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
          pooled: false
        }
        workers.set(worker, entry)
      }
      return entry
    }

    const touch = (entry: Entry) => {
      entry.lastSeenAt = clock.currentTimeMillisUnsafe()
      const isGone = !entry.pooled && entry.jobs.size === 0
      if (isGone && entry.drainingSince !== null && entry.lastSeenAt - entry.drainingSince > EXIT_GRACE_MILLIS) {
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
      seen: (endpoint, worker) => Effect.sync(() => touch(entryOf(endpoint, worker))),
      assigned: (endpoint, worker, job, attempt) =>
        Effect.sync(() => {
          const entry = entryOf(endpoint, worker)
          touch(entry)
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
      gone: (endpoint, worker) =>
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
            idleSince: entry.idleSince
          }))
        }),
      attemptOf: (endpoint, worker, job) => endpoints.get(endpoint)?.get(worker)?.attempts.get(job),
      soleJob: (endpoint, worker, within) => {
        const entry = endpoints.get(endpoint)?.get(worker)
        if (entry === undefined || entry.jobs.size > 1) return undefined
        const { released } = entry
        const [held] = entry.jobs
        const late = released !== null && clock.currentTimeMillisUnsafe() - released.at <= within ? released.job : undefined
        const job = held ?? late
        const attempt = job === undefined ? undefined : entry.attempts.get(job)
        return job === undefined || attempt === undefined ? undefined : { job, attempt }
      }
    })
  })
)
