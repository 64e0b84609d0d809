/**
 * Limits how often a key may call an endpoint (docs/spec/jobs-api.md#rate-limits). An endpoint's limit applies separately to each key; a
 * key's limit applies only to that key. If both are set, both apply.
 */
import * as Schema from "effect/Schema"

const DAY_MILLIS = 86_400_000

/**
 * A rate limit. Each key has a separate quota for each endpoint and kind of operation (run, status, cancel, ...). Default: no limit.
 */
export const RateLimit = Schema.Struct({
  /**
   * Calls per `perMs`, which may all be made at once. The quota is refilled by one call every `perMs / limit` milliseconds. 1 to 1,000,000.
   */
  limit: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  /**
   * The window in milliseconds, from 1 s to 1 day. Must be a whole number of seconds, which is the resolution of the rate limit headers.
   * For the same ratio `limit / perMs`, a longer window permits larger bursts.
   */
  perMs: Schema.Int.check(Schema.isBetween({ minimum: 1_000, maximum: DAY_MILLIS }), Schema.isMultipleOf(1_000)),
  /** The maximum number of open calls of one kind, including calls that wait for a result. Default: no limit. */
  concurrent: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })))
})
export type RateLimit = typeof RateLimit.Type
