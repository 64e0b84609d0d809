/**
 * Quotas of waiting jobs and stored bytes (docs/spec/endpoints.md#quotas).
 *
 * Only a submission is checked, in the same step that stores the job. All other changes are always allowed, so that a full quota never keeps a
 * job from ending. Outputs, streams and logs may therefore exceed a quota of bytes.
 */
import type { JobInput, JobOutcome, JobRecord } from "./JobRecord.ts"

/** The quotas of an endpoint, or of an access key. Undefined members are not limited. */
export interface Quota {
  /** The maximum number of IN_QUEUE jobs. */
  readonly waitingJobs?: number | undefined
  /** The maximum size of stored jobs, in bytes. */
  readonly storedBytes?: number | undefined
}

/** The quotas that apply to a submission: those of its endpoint, and those of the access key that submits it. */
export interface Quotas {
  readonly endpoint: Quota
  readonly key: Quota
}

/** Whose jobs a quota covers. */
export type QuotaScope = keyof Quotas

/** What the jobs of an endpoint or of a key use. */
export interface QuotaUsage {
  /** IN_QUEUE jobs. */
  readonly waiting: number
  /** Inputs, outputs, errors, progress, streams and log lines. */
  readonly bytes: number
}

/** The quota that does not admit a job. */
export interface ExceededQuota {
  readonly scope: QuotaScope
  readonly resource: "waitingJobs" | "storedBytes"
  readonly limit: number
  /** The waiting jobs, or the stored bytes, not counting the job. */
  readonly used: number
  /** The size of the job, in bytes. */
  readonly size: number
}

/**
 * The size of a payload outside the database. Its row contains U+0001, a key, a space, the size and a space (`PayloadReference` of
 * `@stint/payloads`). JSON never contains U+0001.
 */
const referencedBytes = (text: string): number | undefined => {
  if (text.charCodeAt(0) !== 1) return undefined
  const [, bytes] = /^[^= ][^ ]* (\d{1,15}) /.exec(text.slice(1)) ?? []
  return bytes === undefined ? undefined : Number(bytes)
}

/** The stored size of a payload in UTF-8. */
export const payloadBytes = (text: string | null): number => text === null ? 0 : referencedBytes(text) ?? Buffer.byteLength(text)

/** The size of what a caller submits. */
export const inputBytes = ({ input, s3Config }: Pick<JobInput, "input" | "s3Config">): number =>
  payloadBytes(input) + payloadBytes(s3Config)

/** The size of a job's results. */
export const outcomeBytes = ({ error, lastError, output, progress }: JobOutcome): number =>
  payloadBytes(output) + payloadBytes(progress) + payloadBytes(error) + payloadBytes(lastError)

/** The first quota that does not admit a new job; undefined when all admit it. */
export const exceededQuota = (
  job: Pick<JobRecord, "input" | "s3Config">,
  quotas: Quotas,
  usageOf: (scope: QuotaScope) => QuotaUsage
): ExceededQuota | undefined => {
  const size = inputBytes(job)
  for (const scope of ["endpoint", "key"] as const) {
    const { storedBytes, waitingJobs } = quotas[scope]
    if (storedBytes === undefined && waitingJobs === undefined) continue
    const { bytes, waiting } = usageOf(scope)
    if (waitingJobs !== undefined && waiting >= waitingJobs) {
      return { scope, resource: "waitingJobs", limit: waitingJobs, used: waiting, size }
    }
    if (storedBytes !== undefined && bytes + size > storedBytes) {
      return { scope, resource: "storedBytes", limit: storedBytes, used: bytes, size }
    }
  }
  return undefined
}
