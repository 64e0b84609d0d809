/**
 * How many jobs of one endpoint are in which state, kept up to date change by change: the counts of {@link Depth} without counting.
 */
import { isReady } from "./JobMachine.ts"
import type { JobHead } from "./JobRecord.ts"
import type { Depth } from "./JobStore.ts"

/** {@link Depth} without the one value that is not a count. */
export type Tally = { -readonly [Key in keyof Omit<Depth, "oldestQueuedAt">]: number }

export const make = (): Tally => ({ waiting: 0, waitingLow: 0, delayed: 0, running: 0, completed: 0, failed: 0, retried: 0 })

/** Counts a job in (`by` 1) or out (-1). A change is both: out as it was, in as it is. */
export const add = (tally: Tally, job: JobHead, by: 1 | -1): void => {
  if (job.retries > 0) tally.retried += by
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
      tally.running += by
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
