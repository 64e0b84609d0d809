/**
 * What the comparison with other stacks asks of its load, and what it hears.
 */
import * as Schema from "effect/Schema"

/** So many connections, each with one request at a time, for so long. */
export const Load = Schema.Struct({
  host: Schema.String,
  path: Schema.String,
  connections: Schema.Int,
  millis: Schema.Finite
})
export type Load = typeof Load.Type

/** What came of it. Latencies in milliseconds. */
export const Measurement = Schema.Struct({
  requests: Schema.Int,
  /** How long it really took. */
  millis: Schema.Finite,
  p50: Schema.Finite,
  p99: Schema.Finite
})
export type Measurement = typeof Measurement.Type
