/**
 * Workers, as the API shows them.
 */
import type { WorkerOverview } from "@stint/contract/OverviewApi"
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"

/** The maximum length of a worker's reason in a response. The whole reason may contain all of the worker's output. */
export const REASON_LENGTH = 2_000

/** Whether no pool started the worker. A failed start is also shown as a worker. */
const isExternal = ({ pooled, state }: WorkerStatus): boolean =>
  pooled === undefined && state !== "unhealthy" && state !== "throttled"

/** A worker, as the API shows it. */
export const workerOf = (worker: WorkerStatus): WorkerOverview => ({
  id: worker.id,
  state: worker.state,
  jobs: worker.jobs,
  ...(worker.slots === undefined ? {} : { slots: worker.slots }),
  ...(worker.reason === null ? {} : { reason: worker.reason.slice(0, REASON_LENGTH) }),
  ...(worker.retryAt === null ? {} : { retryAt: Math.round(worker.retryAt) }),
  firstSeenAt: worker.firstSeenAt,
  lastSeenAt: worker.lastSeenAt,
  ...(worker.idleSince === null ? {} : { idleSince: worker.idleSince }),
  ...(worker.heartbeatAt === undefined ? {} : { heartbeatAt: worker.heartbeatAt }),
  ...(worker.leaving === undefined ? {} : { leaving: worker.leaving }),
  ...(isExternal(worker) ? { external: true as const } : {}),
  results: worker.results,
  ...(worker.lastJob === undefined ? {} : { lastJob: worker.lastJob }),
  ...(worker.release === undefined ? {} : { release: worker.release }),
  ...(worker.version === undefined ? {} : { version: worker.version }),
  ...(worker.memoryBytes === undefined ? {} : { memoryBytes: Math.round(worker.memoryBytes) })
})
