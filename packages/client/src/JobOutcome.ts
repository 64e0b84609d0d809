/**
 * Derives the outcome of a job from its job object (docs/spec/handler.md#exceptions, docs/spec/jobs-api.md#job-object).
 *
 * ```
 *   COMPLETED   its output
 *   FAILED      its error: JSON of a declared failure | JSON of the six fields of an exception | text
 *   CANCELLED   nothing
 *   TIMED_OUT   text, or nothing
 * ```
 */
import type { Job, JobStatus } from "./ApiTypes.ts"
import { isRecord, parseJson } from "./CallError.ts"

/** An exception of a handler, as reported by its worker (docs/spec/handler.md#exceptions). Missing members are undefined. */
export interface Exception {
  readonly type: string
  readonly message: string
  /** Also undefined if the endpoint does not show tracebacks to callers. */
  readonly traceback: string | undefined
  readonly hostname: string | undefined
  readonly workerId: string | undefined
  /** The version of the worker's SDK. */
  readonly version: string | undefined
}

const stringOrUndefined = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

/** Parses a job's `error` as an exception. Returns undefined for any other error. */
export const exceptionOf = (error: string): Exception | undefined => {
  const json = parseJson(error)
  if (!isRecord(json) || typeof json["error_type"] !== "string" || typeof json["error_message"] !== "string") return undefined
  return {
    type: json["error_type"],
    message: json["error_message"],
    traceback: stringOrUndefined(json["error_traceback"]),
    hostname: stringOrUndefined(json["hostname"]),
    workerId: stringOrUndefined(json["worker_id"]),
    version: stringOrUndefined(json["runpod_version"])
  }
}

/** A job in a terminal status. */
export interface EndedJob extends Job {
  readonly status: Exclude<JobStatus, "IN_QUEUE" | "IN_PROGRESS">
}

/** Whether a job has ended. */
export const hasEnded = (job: Job): job is EndedJob => job.status !== "IN_QUEUE" && job.status !== "IN_PROGRESS"

/** A job's `error`, formatted for a message: the type and message of an exception, or the first 500 characters. */
export const failureText = (error: string): string => {
  const exception = exceptionOf(error)
  if (exception !== undefined) return `${exception.type}: ${exception.message}`
  return error.length > 500 ? `${error.slice(0, 500)}...` : error
}
