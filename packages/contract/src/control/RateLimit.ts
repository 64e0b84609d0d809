/**
 * Limits how often a key may call an endpoint (docs/spec/jobs-api.md#rate-limits). An endpoint's limit applies to each key, a key's limit to
 * that key. If both are set, both apply.
 */
import * as Schema from "effect/Schema"

const DAY_MILLIS = 86_400_000

/**
 * A rate limit. Each key has a separate quota for each endpoint and kind of operation (run, status, cancel, ...). Default: no limit.
 */
export const RateLimit = Schema.Struct({
  /** Calls per `perMs`. All may come at once; the quota refills by one call every `perMs / limit` milliseconds. 1 to 1,000,000. */
  limit: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  /**
   * The window in milliseconds. Whole seconds, which is the resolution of the rate limit headers. 1 s to 1 day. At the same `limit / perMs`,
   * a longer window permits larger bursts.
   */
  perMs: Schema.Int.check(Schema.isBetween({ minimum: 1_000, maximum: DAY_MILLIS }), Schema.isMultipleOf(1_000)),
  /** The maximum number of open calls of one kind, including calls that wait for a result. Default: no limit. */
  concurrent: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })))
})
export type RateLimit = typeof RateLimit.Type
