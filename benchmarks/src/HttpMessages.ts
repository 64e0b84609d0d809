/**
 * The messages between the processes of the HTTP route benchmark.
 */
import * as Schema from "effect/Schema"

/** The measured operation. The echo server supports only `run`. The platform has one endpoint per operation, with the same name. */
export const Operation = Schema.Literals(["run", "runsync", "ping"])
export type Operation = typeof Operation.Type

/** A server's address and the worker keys of its endpoints. */
export const Listening = Schema.Struct({ baseUrl: Schema.String, workerKeys: Schema.Record(Operation, Schema.String) })
export type Listening = typeof Listening.Type

/** CPU time of a process in user and kernel mode, in microseconds. */
export const CpuTime = Schema.Struct({ user: Schema.Finite, system: Schema.Finite })

/** A load: each connection has one request in flight. Ends after `millis` or after `most` responses. */
export const Load = Schema.Struct({
  ...Listening.fields,
  operation: Operation,
  connections: Schema.Int,
  millis: Schema.Int,
  most: Schema.Int
})
export type Load = typeof Load.Type

/** The result of a load. */
export const Measurement = Schema.Struct({
  requests: Schema.Int,
  /** The measured duration. */
  millis: Schema.Finite,
  /** Latencies in milliseconds. */
  p50: Schema.Finite,
  p99: Schema.Finite,
  /** CPU time of the load generator, in microseconds. */
  micros: Schema.Finite
})
export type Measurement = typeof Measurement.Type
