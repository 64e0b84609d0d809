/**
 * The attempts of a job. The last one is in the job itself; the platform reports the end of each earlier one as a line of the job's log.
 */
import type { JobLogLine } from "@stint/client"

/** How an attempt ended, or that it has not. `unknown`: its line was dropped, or an earlier version of the platform ran it. */
export type AttemptState = NonNullable<JobLogLine["ended"]>["outcome"] | "completed" | "cancelled" | "running" | "unknown"

/** An attempt. Times are milliseconds since 1970. */
export interface Attempt {
  readonly number: number
  readonly state: AttemptState
  readonly startedAt: number | undefined
  /** Undefined while it runs, and if it is unknown. */
  readonly endedAt: number | undefined
  readonly worker: string | undefined
  readonly release: number | undefined
  readonly error: string | undefined
  /** What it logged and printed. */
  readonly lines: ReadonlyArray<JobLogLine>
  /** Whether its times are only those of its first and last line. */
  readonly isEstimate: boolean
}

/** The job, as far as its last attempt is concerned. */
export interface AttemptedJob {
  readonly status: string
  /** The number of attempts so far. */
  readonly attempts: number
  readonly startedAt?: number | undefined
  readonly finishedAt?: number | undefined
  readonly worker?: string | undefined
  readonly release?: number | undefined
  readonly error?: string | undefined
}

/** The attempts that are shown: a job with a thousand lost workers does not slow down the page. */
export const MAX_SHOWN = 50

const STATES: Readonly<Record<string, AttemptState>> = {
  COMPLETED: "completed",
  FAILED: "failed",
  TIMED_OUT: "timed_out",
  CANCELLED: "cancelled",
  IN_PROGRESS: "running"
}

const earlier = (number: number, lines: ReadonlyArray<JobLogLine>): Attempt => {
  const own = lines.filter((line) => line.attempt === number)
  const end = own.find(({ ended }) => ended !== undefined)
  const printed = own.filter(({ source }) => source !== "platform")
  const times = printed.map(({ time }) => time)
  const [first] = printed
  return {
    number,
    state: end?.ended?.outcome ?? "unknown",
    startedAt: end?.ended?.startedAt ?? (times.length === 0 ? undefined : Math.min(...times)),
    endedAt: end?.time ?? (times.length === 0 ? undefined : Math.max(...times)),
    worker: end?.workerId ?? first?.workerId,
    release: end?.release ?? first?.release,
    error: end?.ended?.error,
    lines: printed,
    isEstimate: end === undefined
  }
}

/** The newest {@link MAX_SHOWN} attempts, oldest first. */
export const attemptsOf = (job: AttemptedJob, lines: ReadonlyArray<JobLogLine>): ReadonlyArray<Attempt> => {
  const { attempts, error, finishedAt, release, startedAt, status, worker } = job
  const from = Math.max(1, attempts - MAX_SHOWN + 1)
  return Array.from({ length: Math.max(0, attempts - from + 1) }, (_, index): Attempt => {
    const number = from + index
    const found = earlier(number, lines)
    // A job that waits again, or ended while it waited, has no attempt that its own times describe.
    if (number < attempts || startedAt === undefined || status === "IN_QUEUE") return found
    return {
      ...found,
      state: STATES[status] ?? "unknown",
      startedAt,
      endedAt: finishedAt,
      worker,
      release,
      error,
      isEstimate: false
    }
  })
}
