/**
 * How a job ended, read from its job object (docs/spec/handler.md#exceptions, docs/spec/jobs-api.md#job-object). Pure.
 *
 * ```
 *   COMPLETED   its output
 *   FAILED      its error: JSON of a declared failure | JSON of the six fields of an exception | a sentence
 *   CANCELLED   nothing
 *   TIMED_OUT   a sentence, perhaps
 * ```
 */
import type { Job } from "@stint/contract/Job"
import { isRecord, parseJson } from "./CallError.ts"

/** An exception of a handler, as its worker reported it (docs/spec/handler.md#exceptions). What it did not say is undefined. */
export interface Exception {
  readonly type: string
  readonly message: string
  /** Undefined where the endpoint keeps it from callers, too. */
  readonly traceback: string | undefined
  readonly hostname: string | undefined
  readonly workerId: string | undefined
  /** The version of the worker's SDK. */
  readonly version: string | undefined
}

const textOrNothing = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

/** The exception in a job's `error`; undefined where it is anything else. */
export const exceptionOf = (error: string): Exception | undefined => {
  const json = parseJson(error)
  if (!isRecord(json) || typeof json["error_type"] !== "string" || typeof json["error_message"] !== "string") return undefined
  return {
    type: json["error_type"],
    message: json["error_message"],
    traceback: textOrNothing(json["error_traceback"]),
    hostname: textOrNothing(json["hostname"]),
    workerId: textOrNothing(json["worker_id"]),
    version: textOrNothing(json["runpod_version"])
  }
}

/** The status of a job that does not go on. */
export type EndStatus = Exclude<Job["status"], "IN_QUEUE" | "IN_PROGRESS">

/** A job that does not go on. */
export interface EndedJob extends Job {
  readonly status: EndStatus
}

/** Whether a job does not go on. As `isTerminal` of the contract, which narrows nothing. */
export const hasEnded = (job: Job): job is EndedJob => job.status !== "IN_QUEUE" && job.status !== "IN_PROGRESS"

/** Why a job failed, in words. */
export const failureText = (error: string): string => {
  const exception = exceptionOf(error)
  if (exception !== undefined) return `${exception.type}: ${exception.message}`
  return error.length > 500 ? `${error.slice(0, 500)}...` : error
}
