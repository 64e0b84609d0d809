/**
 * Quotas of an endpoint and of an access key (docs/spec/endpoints.md#quotas).
 */
import * as Schema from "effect/Schema"

/** The maximum number of IN_QUEUE jobs, including those in a backoff or with a later start time. */
export const WaitingJobs = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 }))

/** The maximum size of stored jobs in bytes: from 1 kB to 1 PB. */
export const StoredBytes = Schema.Int.check(Schema.isBetween({ minimum: 1_000, maximum: 1_000_000_000_000_000 }))

/** The quotas of an access key, for its jobs on all endpoints together. A submission beyond a quota is rejected with 429 or 507. */
export const KeyLimits = Schema.Struct({
  /** Default: no limit. */
  waitingJobs: Schema.optionalKey(WaitingJobs),
  /** Default: no limit. */
  storedBytes: Schema.optionalKey(StoredBytes)
})
export type KeyLimits = typeof KeyLimits.Type
