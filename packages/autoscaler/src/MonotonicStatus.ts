/**
 * The status of a worker with monotonic times. Setting the wall clock must not make a worker look silent, idle or slow.
 */
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"

/** Converts the wall-clock times of a status. `toMonotonic` converts one time. */
export const monotonicStatus = (status: WorkerStatus, toMonotonic: (at: number) => number): WorkerStatus => ({
  ...status,
  firstSeenAt: toMonotonic(status.firstSeenAt),
  lastSeenAt: toMonotonic(status.lastSeenAt),
  idleSince: status.idleSince === null ? null : toMonotonic(status.idleSince),
  ...(status.setup === undefined ? {} : {
    setup: { startedAt: toMonotonic(status.setup.startedAt), limitAt: toMonotonic(status.setup.limitAt) }
  })
})
