/**
 * The ids of a job's trace and of its spans. They are derived from the ids of the job and the delivery, so nothing is stored: a platform that
 * is restarted during a job continues the job's trace.
 *
 * ```
 *   the caller's trace (traceparent), or the job's own
 *     send                the submission
 *       wait 1            in the queue, before attempt 1
 *       attempt 1         from the take to the result; the parent of the worker's spans
 *         send            the submission of a child of the run, if the job is one
 *       wait 2, attempt 2, ...
 *       webhook           each attempt to send one
 * ```
 */
import { parseTraceparent } from "@stint/contract/TraceContext"
import type { Settings } from "@stint/otel/OtlpConfig"
import type { JobInput } from "@stint/store/JobRecord"
import { hash } from "node:crypto"

const idOf = (role: string, of: string, digits: number): string => hash("sha256", `${role}\n${of}`, "hex").slice(0, digits)

/** The span of a job's submission, the ancestor of all its other spans. */
export const sendSpan = (job: string): string => idOf("send", job, 16)

/** The span of the wait before an attempt. Attempts are numbered from 1. */
export const waitSpan = (job: string, attempt: number): string => idOf(`wait ${attempt}`, job, 16)

/** The span of a wait that the job's end ended. A job may be retried and wait again before the same attempt, so `endedAt` is a part of the id. */
export const lastWaitSpan = (job: string, endedAt: number): string => idOf(`wait until ${endedAt}`, job, 16)

/** The span of a worker's start before its attempt, or of a part of that start. */
export const coldStartSpan = (job: string, attempt: number, part: string): string =>
  idOf(`cold start ${attempt} ${part}`, job, 16)

/** The span of an attempt. */
export const attemptSpan = (job: string, attempt: number): string => idOf(`attempt ${attempt}`, job, 16)

/** The span of an attempt to send a webhook. */
export const webhookSpan = (delivery: string, attempt: number): string => idOf(`webhook ${attempt}`, delivery, 16)

/** The trace of a job. */
export interface JobTrace {
  readonly traceId: string
  /** The caller's span; undefined when the caller sent none. */
  readonly caller: string | undefined
  readonly traceState: string | undefined
  /** Whether spans are recorded. */
  readonly sampled: boolean
}

/** Decides whether a trace is recorded. `caller`: the caller's decision; undefined when there is no caller. */
export type Sampler = (traceId: string, caller: boolean | undefined) => boolean

/** The sampler that the settings name. Depends only on the trace id, so that the decision is the same after a restart. */
export const samplerOf = ({ ratio, sampler }: Pick<Settings, "ratio" | "sampler">): Sampler => {
  const share = sampler.endsWith("always_on") ? 1 : sampler.endsWith("always_off") ? 0 : ratio
  const decide = (traceId: string) => Number.parseInt(traceId.slice(-8), 16) < share * 2 ** 32
  return sampler.startsWith("parentbased_") ? (traceId, caller) => caller ?? decide(traceId) : decide
}

/** The trace of a job, from the context that its caller sent. */
export const traceOf = (
  job: string,
  { traceparent, tracestate }: Pick<JobInput, "traceparent" | "tracestate">,
  sampler: Sampler
): JobTrace => {
  const caller = traceparent === null ? undefined : parseTraceparent(traceparent)
  const traceId = caller?.traceId ?? idOf("trace", job, 32)
  return {
    traceId,
    caller: caller?.spanId,
    traceState: caller === undefined ? undefined : tracestate ?? undefined,
    sampled: sampler(traceId, caller?.sampled)
  }
}

/** The `traceparent` that makes this span the parent. */
export const traceparentOf = ({ sampled, traceId }: JobTrace, span: string): string =>
  `00-${traceId}-${span}-${sampled ? "01" : "00"}`
