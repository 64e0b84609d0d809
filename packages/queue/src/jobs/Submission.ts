/**
 * Turns a caller's submission into a job record.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { Endpoint } from "@stint/contract/Endpoint"
import type { JobId } from "@stint/contract/Ids"
import type { Policy, Webhook } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { TraceContext } from "@stint/contract/TraceContext"
import { submitted } from "@stint/store/JobMachine"
import type { JobRecord, RetryRule } from "@stint/store/JobRecord"
import type { SubmissionKey } from "@stint/store/JobStore"
import { NO_OWNER } from "@stint/store/Owner"
import type { Quota, Quotas } from "@stint/store/Quota"
import { createHash } from "node:crypto"
import { concurrencyOf } from "./ConcurrencyKey.ts"

/** A job to submit. */
export interface Submission {
  readonly endpoint: Endpoint
  readonly input: JsonText
  readonly s3Config?: JsonText | undefined
  /** The caller's span. */
  readonly trace?: TraceContext | undefined
  /** The caller's policy, which overrides the endpoint's settings. */
  readonly policy?: Policy | undefined
  /** Default: 0. */
  readonly priority?: number | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  /** When the job may start, in milliseconds since 1970. Default: at once. */
  readonly startAt?: number | undefined
  /** When the job may start, in milliseconds after the submission. Takes precedence over `startAt`. */
  readonly startAfterMs?: number | undefined
  /** Where to send the job's events. */
  readonly webhook?: Webhook | undefined
  /** As long as the endpoint has a job of this owner with this key, submitting the same request again returns that job. */
  readonly idempotencyKey?: string | undefined
  /** The id of the access key that submits the job, to which the idempotency key belongs. Default: `NO_OWNER`. */
  readonly owner?: string | undefined
  /** The quotas of that key. Default: none. */
  readonly keyQuota?: Quota | undefined
  /** The id of the new job. */
  readonly id: JobId
  /** The batch that the job belongs to. */
  readonly batchId?: BatchId | undefined
}

/** The retry rule: the request's policy, then the endpoint's settings; null when neither sets one. */
const retryOf = (endpoint: Endpoint, policy: Policy | undefined): RetryRule | null => {
  const onError = policy?.retry?.onError ?? endpoint.retry?.onError ?? false
  const backoff = policy?.retry?.backoff ?? endpoint.retry?.backoff ?? null
  return onError || backoff !== null ? { onError, backoff } : null
}

/** Identifies a request for idempotency. Payloads are compared byte by byte: `{"a":1}` and `{ "a": 1 }` are different requests. */
const fingerprintOf = ({ input, policy, priority, s3Config, startAfterMs, startAt, tags, webhook }: Submission): string => {
  const parts: Array<unknown> = [input, s3Config ?? null, policy ?? null, priority ?? 0, tags ?? [], webhook ?? null]
  // Only when set, because stored fingerprints of earlier versions do not contain them.
  if (startAt !== undefined || startAfterMs !== undefined) parts.push(startAt ?? null, startAfterMs ?? null)
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex")
}

/** The start time of a job; null when it may start at once. */
const notBeforeOf = ({ startAfterMs, startAt }: Submission, now: number): number | null => {
  const time = startAfterMs === undefined ? startAt : now + startAfterMs
  return time === undefined || time <= now ? null : time
}

/** The job record of a submission: the caller's policy overrides the endpoint's settings. */
export const toJobRecord = (submission: Submission, now: number): JobRecord => {
  const { batchId, endpoint, id, input, policy, priority, s3Config, tags, trace, webhook } = submission
  return submitted({
    id,
    endpoint: endpoint.id,
    input,
    s3Config: s3Config ?? null,
    traceparent: trace?.traceparent ?? null,
    tracestate: trace?.tracestate ?? null,
    lowPriority: policy?.lowPriority ?? false,
    priority: priority ?? 0,
    createdAt: now,
    notBefore: notBeforeOf(submission, now),
    // The server rejects requests that ask for more. The minimum applies to defaults, and to batches from before a limit was lowered.
    ttlMs: Math.min(policy?.ttl ?? endpoint.ttlMs, endpoint.limits.ttlMs),
    executionTimeoutMs: Math.min(policy?.executionTimeout ?? endpoint.executionTimeoutMs, endpoint.limits.executionTimeoutMs),
    leaseMs: endpoint.leaseMs,
    maxAttempts: policy?.retry?.maxAttempts ?? endpoint.retry?.maxAttempts ?? endpoint.maxAttempts,
    retry: retryOf(endpoint, policy),
    retentionMs: endpoint.retentionMs,
    webhook: webhook === undefined ? null : { ...webhook, errorTraceback: endpoint.errorTraceback },
    tags: tags === undefined ? [] : [...new Set(tags)],
    batchId: batchId ?? null,
    concurrency: concurrencyOf(endpoint, input),
    owner: submission.owner ?? NO_OWNER
  })
}

const NO_QUOTA: Quota = {}

/** The quotas of a submission; undefined when there are none. */
export const quotasOf = ({ limits }: Endpoint, key: Quota = NO_QUOTA): Quotas | undefined =>
  limits.waitingJobs === undefined && limits.storedBytes === undefined && key.waitingJobs === undefined &&
    key.storedBytes === undefined
    ? undefined
    : { endpoint: limits, key }

/** The idempotency key and fingerprint of a submission; undefined when it has no key. */
export const submissionKey = (submission: Submission): SubmissionKey | undefined =>
  submission.idempotencyKey === undefined
    ? undefined
    : { key: submission.idempotencyKey, owner: submission.owner ?? NO_OWNER, fingerprint: fingerprintOf(submission) }
