/**
 * The events for a change to a job's status and for a claim.
 */
import { isTerminal } from "@stint/contract/Job"
import type { JobHead } from "@stint/store/JobRecord"
import type { NewPlatformEvent } from "./PlatformEvents.ts"

/** A worker took the job. */
export const startedEvent = ({ attempt, endpoint, id, worker }: JobHead): NewPlatformEvent => ({
  type: "job.started",
  endpoint,
  job: id,
  worker: worker ?? "",
  attempt
})

/** The job's status has changed. */
export const changedEvent = (after: JobHead): NewPlatformEvent => {
  const { attempt, endpoint, id, status } = after
  if (isTerminal(status)) return { type: "job.ended", endpoint, job: id, status }
  return status === "IN_PROGRESS" ? startedEvent(after) : { type: "job.requeued", endpoint, job: id, attempt }
}
