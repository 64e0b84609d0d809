/**
 * A worker as the registry of this process knows it, and the status that others see.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import type { WorkerBatch } from "@stint/contract/WorkerProtocol"
import type { Leaving, WorkerState, WorkerStatus } from "./WorkerReports.ts"
import type * as WorkerSlots from "./WorkerSlots.ts"
import type * as WorkerStarts from "./WorkerStarts.ts"

/** All times are monotonic, so that setting the wall clock affects no worker. `list` converts them to the current wall clock. */
export interface Entry {
  readonly id: string
  readonly endpoint: EndpointId
  state: "initializing" | "ready" | "unhealthy" | "throttled"
  /** When the worker began to drain and stopped receiving jobs; null when it is not draining. */
  drainingSince: number | null
  /** What an operator requested. Unlike a worker that leaves by itself, such a worker gets no jobs when it calls again later. */
  leaving: Leaving | null
  exitAnnounced: boolean
  /**
   * From this time on, the worker's next call renews its leases, because no heartbeat has renewed them. Null when the worker holds no jobs. 0 when it
   * is unknown whether it holds jobs: the previous process of the platform may have leased some to it.
   */
  renewalDueAt: number | null
  /** The time of the last heartbeat; null before the first. */
  heartbeatAt: number | null
  readonly jobs: Set<string>
  /** The jobs of `jobs` that need a lease token. */
  readonly tokenJobs: Set<string>
  readonly slots: WorkerSlots.Slots
  /** The attempt number of each job that the worker took recently, including ended jobs. */
  attempts: Map<string, number>
  /** The attempts before those. Two maps, because deleting the oldest entry of a full map at each take is slow. */
  earlierAttempts: Map<string, number>
  /** The job that the worker ran last, and when it was released. */
  released: { readonly job: string; readonly at: number } | null
  reason: string | null
  retryAt: number | null
  readonly firstSeenAt: number
  lastSeenAt: number
  idleSince: number | null
  results: number
  /** The number of its polls that the platform holds open. */
  openPolls: number
  /** When its last poll got a response. This does not count as a call, because a frozen worker's connection also receives the response. */
  answeredAt: number
  /** When its connection was closed during a poll; null when it has called since, or a poll has got a response. */
  cutAt: number | null
  /**
   * Whether a pool started the worker and will report its removal. Other workers are removed when they no longer call: see
   * `FORGET_AFTER_MILLIS` of WorkerRegistry.ts.
   */
  pooled: boolean
  /** Whether a pool of an earlier platform process started the worker. */
  adopted: boolean
  /** Whether the connection to its machine was lost. It receives no more jobs, because the platform could not stop it. */
  lost: boolean
  /** It has exited, and its jobs return to the queue. */
  exited: boolean
  /** When a pool of this process started the worker; null for other workers. */
  start: WorkerStarts.WorkerStart | null
  /** The pull of its image; null before and after. */
  pull: { readonly image: string; readonly progress: () => ImagePullProgress } | null
  /** The setup that the worker runs before it asks for a job; null before and after. */
  setup: { readonly startedAt: number; readonly limitAt: number } | null
  /** The release that it runs; undefined when it is unknown. */
  release: number | undefined
  /** The version of its SDK, as its heartbeats say; undefined before the first one. */
  version: string | undefined
  /** How it collects jobs, as its heartbeats say; undefined if it runs each job alone. */
  batch: WorkerBatch | undefined
  /** The memory that it and its children occupy, as its pool last measured it; undefined when it is unknown. */
  memoryBytes: number | undefined
}

const stateOf = (entry: Entry): WorkerState => {
  if (entry.state === "initializing" && entry.leaving !== null) return "draining"
  if (entry.state !== "ready") return entry.state
  if (entry.drainingSince !== null) return "draining"
  return entry.jobs.size > 0 ? "running" : "idle"
}

/** The status. `offset` converts monotonic times to the current wall clock. */
export const statusOf = (entry: Entry, offset: number): WorkerStatus => ({
  id: entry.id,
  endpoint: entry.endpoint,
  state: stateOf(entry),
  jobs: [...entry.jobs],
  ...(entry.slots.count === undefined ? {} : { slots: entry.slots.count }),
  reason: entry.reason,
  retryAt: entry.retryAt,
  firstSeenAt: Math.round(entry.firstSeenAt + offset),
  lastSeenAt: Math.round(entry.lastSeenAt + offset),
  idleSince: entry.idleSince === null ? null : Math.round(entry.idleSince + offset),
  exitAnnounced: entry.exitAnnounced,
  results: entry.results,
  ...(entry.leaving === null ? {} : { leaving: entry.leaving }),
  ...(entry.pooled ? { pooled: true as const } : {}),
  ...(entry.heartbeatAt === null ? {} : { heartbeatAt: Math.round(entry.heartbeatAt + offset) }),
  ...(entry.released === null ? {} : { lastJob: entry.released.job }),
  ...(entry.release === undefined ? {} : { release: entry.release }),
  ...(entry.version === undefined ? {} : { version: entry.version }),
  ...(entry.batch === undefined ? {} : { batch: entry.batch }),
  ...(entry.memoryBytes === undefined ? {} : { memoryBytes: entry.memoryBytes }),
  ...(entry.pull === null ? {} : { pull: { image: entry.pull.image, progress: entry.pull.progress() } }),
  ...(entry.setup === null ? {} : {
    setup: { startedAt: Math.round(entry.setup.startedAt + offset), limitAt: Math.round(entry.setup.limitAt + offset) }
  })
})
