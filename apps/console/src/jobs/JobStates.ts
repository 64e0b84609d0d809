/**
 * Job statuses as words.
 */
import type { JobStatus } from "@stint/contract/Job"

/** How a status looks: five groups that differ by colour, icon and word. */
export type Tone = "waiting" | "running" | "done" | "failed" | "ended"

/** A status for readers. */
export interface StatusText {
  readonly tone: Tone
  readonly word: string
}

const BY_STATUS: Readonly<Record<JobStatus, StatusText>> = {
  IN_QUEUE: { tone: "waiting", word: "Waiting" },
  IN_PROGRESS: { tone: "running", word: "Running" },
  COMPLETED: { tone: "done", word: "Completed" },
  FAILED: { tone: "failed", word: "Failed" },
  CANCELLED: { tone: "ended", word: "Cancelled" },
  TIMED_OUT: { tone: "failed", word: "Timed out" }
}

const STATUSES: Readonly<Record<string, StatusText>> = BY_STATUS

/** All statuses, in the order of a job's life. */
export const JOB_STATUSES: ReadonlyArray<JobStatus> = ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"]

/** How a status looks, and its word. */
export const statusText = (status: string): StatusText => STATUSES[status] ?? { tone: "ended", word: status }

/** Whether the job has ended. */
export const hasEnded = (status: string): boolean => status !== "IN_QUEUE" && status !== "IN_PROGRESS"

/** Whether the job can be retried. */
export const mayRetry = (status: string): boolean => status === "FAILED" || status === "TIMED_OUT"
