/**
 * What the processes of the HTTP benchmark say to each other.
 */
import * as Schema from "effect/Schema"

/** What is asked of a server. An echo gets only `run`. The platform has an endpoint of the same name for each. */
export const Operation = Schema.Literals(["run", "runsync", "ping"])
export type Operation = typeof Operation.Type

/** Where a server listens, and the keys of its endpoints' workers. */
export const Listening = Schema.Struct({ baseUrl: Schema.String, workerKeys: Schema.Record(Operation, Schema.String) })
export type Listening = typeof Listening.Type

/** The processor time that a process has used, in microseconds: its own, and that of the system for it. */
export const CpuTime = Schema.Struct({ user: Schema.Finite, system: Schema.Finite })

/** A load: so many connections, each with one request at a time, for so long or until so many were answered. */
export const Load = Schema.Struct({
  ...Listening.fields,
  operation: Operation,
  connections: Schema.Int,
  millis: Schema.Int,
  most: Schema.Int
})
export type Load = typeof Load.Type

/** What came of it. */
export const Measurement = Schema.Struct({
  requests: Schema.Int,
  /** How long it really took. */
  millis: Schema.Finite,
  /** Latencies in milliseconds. */
  p50: Schema.Finite,
  p99: Schema.Finite,
  /** Processor time of the process that made the load. */
  micros: Schema.Finite
})
export type Measurement = typeof Measurement.Type
