/**
 * The job object (docs/spec/jobs-api.md#job-object) as JSON text, for responses and webhooks.
 *
 * Payloads are stored as JSON text and inserted unchanged. Parsing and serializing a 20 MB result for each response would dominate the
 * platform's CPU time.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { isTerminal, type WebhookEvent } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { delayTime, executionTime } from "./JobMachine.ts"
import type { JobInput, JobReport, JobWebhook } from "./JobRecord.ts"

/** The exception object (docs/spec/handler.md#exceptions). Only the traceback matters here. */
const ErrorBlob = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown))

const decodeBlob = Schema.decodeUnknownOption(ErrorBlob)

/**
 * The error without its traceback (docs/spec/rulings.md#error-on-the-wire). Existing SDKs send the exception of a generator as a sentence
 * followed by its traceback (docs/spec/worker-protocol.md#result-bodies).
 */
const withoutTraceback = (error: string): string =>
  Option.match(decodeBlob(error), {
    onNone: () => error.split(/\s*\ntraceback: /, 1)[0] ?? "",
    onSome: ({ error_traceback: _, ...rest }) => JSON.stringify(rest)
  })

/** The members of the job object, each as `"key":value`. */
export const jobMembers = (job: JobReport, { errorTraceback }: Pick<Endpoint, "errorTraceback">): Array<string> => {
  const parts = [`"id":${JSON.stringify(job.id)}`, `"status":"${job.status}"`]
  const delay = delayTime(job)
  if (delay !== undefined) parts.push(`"delayTime":${delay}`)
  const execution = executionTime(job)
  if (execution !== undefined) parts.push(`"executionTime":${execution}`)
  const output = isTerminal(job.status) ? job.output : job.progress
  if (output !== null) parts.push(`"output":${output}`)
  if (job.error !== null) {
    parts.push(`"error":${JSON.stringify(errorTraceback === "none" ? withoutTraceback(job.error) : job.error)}`)
  }
  if (job.retries > 0) parts.push(`"retries":${job.retries}`)
  if (job.worker !== null) parts.push(`"workerId":${JSON.stringify(job.worker)}`)
  return parts
}

/**
 * The body of a webhook: the job object (docs/spec/jobs-api.md#job-object) with `input` and `webhook`. For a chunk, also `stream`, in the format of
 * `/stream`.
 */
export const webhookJson = (
  job: JobReport,
  { input }: Pick<JobInput, "input">,
  webhook: JobWebhook,
  event: WebhookEvent,
  chunk: JsonText | undefined
): JsonText => {
  const parts = [...jobMembers(job, webhook), `"input":${input}`, `"webhook":${JSON.stringify(webhook.url)}`]
  if (event === "output" && chunk !== undefined) parts.push(`"stream":[{"output":${chunk}}]`)
  return JsonText.make(`{${parts.join(",")}}`)
}
