/**
 * The job counts of one endpoint ({@link Depth}), updated whenever a job changes instead of being counted for each query.
 */
import { isParked, isReady } from "./JobMachine.ts"
import type { JobHead } from "./JobRecord.ts"
import type { Depth } from "./JobStore.ts"

/** The counts of {@link Depth}. */
export type Tally = { -readonly [Key in keyof Omit<Depth, "oldestQueuedAt">]: number }

export const make = (): Tally => ({
  waiting: 0,
  waitingLow: 0,
  delayed: 0,
  running: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  isolated: 0
})

/** Adds (1) or subtracts (-1) a job. For a change, subtract the old state of the job and add the new state. */
export const add = (tally: Tally, job: JobHead, by: 1 | -1): void => {
  if (job.retries > 0) tally.retried += by
  if (job.isolated && job.finishedAt === null) tally.isolated += by
  switch (job.status) {
    case "IN_QUEUE":
      if (!isReady(job)) {
        tally.delayed += by
        return
      }
      tally.waiting += by
      if (job.lowPriority) tally.waitingLow += by
      return
    case "IN_PROGRESS":
      // A parked run needs no worker.
      if (!isParked(job)) tally.running += by
      return
    case "COMPLETED":
      tally.completed += by
      return
    case "FAILED":
    case "TIMED_OUT":
      tally.failed += by
      return
    case "CANCELLED":
      return
  }
}
