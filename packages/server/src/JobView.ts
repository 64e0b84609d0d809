/**
 * Jobs as JSON text, for callers and for workers.
 *
 * Payloads are kept as JSON text and are spliced in as they are: parsing and printing a 20 MB result for every status call would be the
 * most expensive thing that the server does.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { isTerminal } from "@stint/contract/Job"
import * as JobMachine from "@stint/queue/JobMachine"
import type { JobRecord, JobReport } from "@stint/queue/JobRecord"
import { jobMembers } from "@stint/queue/JobText"

/** The job object of wire-facts 1.3. */
export const jobText = (job: JobReport, endpoint: Endpoint): string => `{${jobMembers(job, endpoint).join(",")}}`

/** The answer of `/stream`. While chunks are left to be read the job is not reported as ended: clients stop reading at that (wire-facts 8). */
export const streamText = (job: JobReport, endpoint: Endpoint, chunks: ReadonlyArray<string>, more: boolean): string => {
  const shown: JobReport = more && isTerminal(job.status)
    ? { ...job, status: "IN_PROGRESS", finishedAt: null, output: null, error: null }
    : job
  const stream = chunks.map((chunk) => `{"output":${chunk}}`).join(",")
  return `{${[...jobMembers(shown, endpoint), `"stream":[${stream}]`].join(",")}}`
}

/** The job as its worker receives it (wire-facts 5.3). */
export const takenText = (job: JobRecord): string => {
  const parts = [
    `"id":${JSON.stringify(job.id)}`,
    `"input":${job.input}`,
    `"delayTime":${JobMachine.delayTime(job) ?? 0}`,
    `"attempt":${job.attempt}`
  ]
  if (job.s3Config !== null) parts.push(`"s3Config":${job.s3Config}`)
  return `{${parts.join(",")}}`
}
