/**
 * How often a key may call an endpoint. Set on the endpoint, for each key; on a key, for it alone; where both are set, both
 * hold.
 */
import * as Schema from "effect/Schema"

const DAY_MILLIS = 86_400_000

/**
 * A rate. Each key has one on each endpoint for each kind of operation (run, status, cancel, ...): calls of one kind never use up those
 * of another. None is set by default.
 */
export const RateLimit = Schema.Struct({
  /** Calls in `perMs`. All of them may come at once; after that one more is free every `perMs / limit` milliseconds. 1 to 1,000,000. */
  limit: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  /**
   * The window in milliseconds: whole seconds, because the headers that tell clients about it know nothing finer. 1 s to 1 day. Longer
   * with the same `limit / perMs` allows larger bursts.
   */
  perMs: Schema.Int.check(Schema.isBetween({ minimum: 1_000, maximum: DAY_MILLIS }), Schema.isMultipleOf(1_000)),
  /** The most calls of one kind that may be open at once, those that wait for a result included. Default: any number. */
  concurrent: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })))
})
export type RateLimit = typeof RateLimit.Type
