/**
 * Jobs as JSON text, for callers and for workers.
 *
 * Payloads are stored as JSON text and spliced into responses unchanged: parsing and printing a 20 MB result for every status call would be
 * the most expensive work of the server.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Explanation } from "@stint/contract/Explanation"
import { isTerminal } from "@stint/contract/Job"
import type { ListedJob } from "@stint/contract/JobList"
import type { JsonText } from "@stint/contract/Json"
import { jobMembers } from "@stint/store/JobJson"
import * as JobMachine from "@stint/store/JobMachine"
import type { JobHead, JobRecord, JobReport, JobSummary } from "@stint/store/JobRecord"

/** The job object (docs/spec/jobs-api.md#job-object). */
export const jobJson = (job: JobReport, endpoint: Endpoint): string => `{${jobMembers(job, endpoint).join(",")}}`

/**
 * An error that comes from another attempt or was shortened. Its traceback is removed unless the endpoint shows tracebacks to callers. A
 * shortened error may be invalid JSON, so everything from the start of the traceback is removed.
 */
export const errorForCaller = (error: string, { errorTraceback }: Pick<Endpoint, "errorTraceback">): string =>
  errorTraceback === "full" ? error : error.split(/\s*\ntraceback: |,?\s*"error_traceback"/, 1)[0] ?? ""

/** The response to submitting or changing a job. */
export const receiptJson = (job: JobHead): string => `{"id":${JSON.stringify(job.id)},"status":"${job.status}"}`

/** A job in a list. */
export const jobListItem = (job: JobSummary, endpoint: Pick<Endpoint, "errorTraceback">): ListedJob => {
  const delayTime = JobMachine.delayTime(job)
  const executionTime = JobMachine.executionTime(job)
  return {
    id: job.id,
    status: job.status,
    createdAt: job.createdAt,
    ...(JobMachine.isScheduled(job) ? { startAt: job.notBefore } : {}),
    ...(job.startedAt === null ? {} : { startedAt: job.startedAt }),
    ...(job.finishedAt === null ? {} : { finishedAt: job.finishedAt }),
    ...(delayTime === undefined ? {} : { delayTime }),
    ...(executionTime === undefined ? {} : { executionTime }),
    attempt: job.attempt,
    ...(job.retries === 0 ? {} : { retries: job.retries }),
    ...(job.worker === null ? {} : { workerId: job.worker }),
    ...(job.release === null ? {} : { release: job.release }),
    priority: job.priority,
    tags: job.tags,
    ...(job.batchId === null ? {} : { batchId: job.batchId }),
    ...(job.error === null ? {} : { error: errorForCaller(job.error, endpoint) })
  }
}

/** The job object with its explanation, its input, or both. */
export const extendedJobJson = (
  job: JobReport,
  endpoint: Endpoint,
  { explanation, input }: { readonly explanation?: Explanation | undefined; readonly input?: JsonText | undefined }
): string =>
  `{${
    [
      ...jobMembers(job, endpoint),
      ...(explanation === undefined ? [] : [`"explain":${JSON.stringify(explanation)}`]),
      ...(input === undefined ? [] : [`"input":${input}`])
    ].join(",")
  }}`

/**
 * The response of `/stream`. The job is not reported as ended while unread chunks remain, because clients stop reading once a job has
 * ended (docs/spec/streaming.md#end-of-a-stream).
 */
export const streamJson = (job: JobReport, endpoint: Endpoint, chunks: ReadonlyArray<string>, more: boolean): string => {
  const reported: JobReport = more && isTerminal(job.status)
    ? { ...job, status: "IN_PROGRESS", finishedAt: null, output: null, error: null }
    : job
  const stream = chunks.map((chunk) => `{"output":${chunk}}`).join(",")
  return `{${[...jobMembers(reported, endpoint), `"stream":[${stream}]`].join(",")}}`
}

/** The job as its worker receives it (docs/spec/worker-protocol.md#the-taken-job). */
export const claimedJobJson = (job: JobRecord, leaseToken: string | undefined): string => {
  const parts = [
    `"id":${JSON.stringify(job.id)}`,
    `"input":${job.input}`,
    `"delayTime":${JobMachine.delayTime(job) ?? 0}`,
    `"attempt":${job.attempt}`
  ]
  if (leaseToken !== undefined) parts.push(`"leaseToken":"${leaseToken}"`)
  if (job.batchId !== null) parts.push(`"batchId":${JSON.stringify(job.batchId)}`)
  if (job.s3Config !== null) parts.push(`"s3Config":${job.s3Config}`)
  if (job.traceparent !== null) parts.push(`"traceparent":${JSON.stringify(job.traceparent)}`)
  if (job.tracestate !== null) parts.push(`"tracestate":${JSON.stringify(job.tracestate)}`)
  return `{${parts.join(",")}}`
}
