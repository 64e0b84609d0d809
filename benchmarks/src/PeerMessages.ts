/**
 * The messages between the comparison with other stacks and its load generator.
 */
import * as Schema from "effect/Schema"

/** A load: each connection has one request in flight, for `millis`. */
export const Load = Schema.Struct({
  host: Schema.String,
  path: Schema.String,
  connections: Schema.Int,
  millis: Schema.Finite
})
export type Load = typeof Load.Type

/** The result of a load. Latencies in milliseconds. */
export const Measurement = Schema.Struct({
  requests: Schema.Int,
  /** The measured duration. */
  millis: Schema.Finite,
  p50: Schema.Finite,
  p99: Schema.Finite
})
export type Measurement = typeof Measurement.Type
