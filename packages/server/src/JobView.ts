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
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** The exception blob of specification 2.4: a JSON object, of which only the traceback has to be known here. */
const ErrorBlob = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown))

const decodeBlob = Schema.decodeUnknownOption(ErrorBlob)

/**
 * The error without its traceback, where the endpoint keeps tracebacks from callers (rulings, "`error` on the wire"). Existing SDKs send a
 * generator's exception as a sentence that ends in its traceback (wire-facts 2.3).
 */
const withoutTraceback = (error: string): string =>
  Option.match(decodeBlob(error), {
    onNone: () => error.split(/\s*\ntraceback: /, 1)[0] ?? "",
    onSome: ({ error_traceback: _, ...rest }) => JSON.stringify(rest)
  })

const members = (job: JobReport, endpoint: Endpoint): Array<string> => {
  const parts = [`"id":${JSON.stringify(job.id)}`, `"status":"${job.status}"`]
  const delay = JobMachine.delayTime(job)
  if (delay !== undefined) parts.push(`"delayTime":${delay}`)
  const execution = JobMachine.executionTime(job)
  if (execution !== undefined) parts.push(`"executionTime":${execution}`)
  const output = isTerminal(job.status) ? job.output : job.progress
  if (output !== null) parts.push(`"output":${output}`)
  if (job.error !== null) {
    parts.push(`"error":${JSON.stringify(endpoint.errorTraceback === "none" ? withoutTraceback(job.error) : job.error)}`)
  }
  if (job.retries > 0) parts.push(`"retries":${job.retries}`)
  if (job.worker !== null) parts.push(`"workerId":${JSON.stringify(job.worker)}`)
  return parts
}

/** The job object of wire-facts 1.3. */
export const jobText = (job: JobReport, endpoint: Endpoint): string => `{${members(job, endpoint).join(",")}}`

/** The answer of `/stream`. While chunks are left to be read the job is not reported as ended: clients stop reading at that (wire-facts 8). */
export const streamText = (job: JobReport, endpoint: Endpoint, chunks: ReadonlyArray<string>, more: boolean): string => {
  const shown: JobReport = more && isTerminal(job.status)
    ? { ...job, status: "IN_PROGRESS", finishedAt: null, output: null, error: null }
    : job
  const stream = chunks.map((chunk) => `{"output":${chunk}}`).join(",")
  return `{${[...members(shown, endpoint), `"stream":[${stream}]`].join(",")}}`
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
  if (job.traceparent !== null) parts.push(`"traceparent":${JSON.stringify(job.traceparent)}`)
  if (job.tracestate !== null) parts.push(`"tracestate":${JSON.stringify(job.tracestate)}`)
  return `{${parts.join(",")}}`
}
