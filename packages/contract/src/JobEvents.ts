/**
 * The events of a job: `GET /v2/{endpoint}/events/{id}`, as Server-Sent Events.
 *
 * ```
 *   retry: 1000                 a reader that was cut off comes back after a second
 *
 *   id: 1.0.r                   every event has one: what a reader that comes back says in `Last-Event-ID`
 *   event: status
 *   data: {"id":"...","status":"IN_PROGRESS","attempt":1,"workerId":"..."}
 *
 *   id: 1.1.r
 *   event: chunk
 *   data: {"attempt":1,"number":1,"output":...}
 *
 *   : alive                     a comment, while nothing else is said
 *
 *   id: 1.1.e1790000000000
 *   event: end                  the last one
 *   data: {"id":"...","status":"COMPLETED","output":...}
 * ```
 *
 * A reader that comes back is told every chunk after its place, none again, in order. Statuses are states: one that came and went while
 * nobody looked is left out, except that an attempt is always announced before its first chunk. Of progress only the latest value is told.
 * Who comes back after the end is answered 204, at which readers of this kind stop.
 */
import * as Schema from "effect/Schema"
import { Job } from "./Job.ts"

/** The job waits, or an attempt of it runs. */
export const JobStatusEvent = Schema.Struct({
  id: Schema.String,
  status: Schema.Literals(["IN_QUEUE", "IN_PROGRESS"]),
  /** How often it was handed to a worker so far. */
  attempt: Schema.Int,
  /** Who runs it. */
  workerId: Schema.optionalKey(Schema.String)
})
export type JobStatusEvent = typeof JobStatusEvent.Type

/** The latest progress of an attempt. */
export const JobProgressEvent = Schema.Struct({ attempt: Schema.Int, output: Schema.Json })
export type JobProgressEvent = typeof JobProgressEvent.Type

/** A chunk of an attempt's stream. `number` counts from 1 in each attempt. */
export const JobChunkEvent = Schema.Struct({ attempt: Schema.Int, number: Schema.Int, output: Schema.Json })
export type JobChunkEvent = typeof JobChunkEvent.Type

const event = <Name extends string, Data extends Schema.Constraint>(name: Name, data: Data) =>
  Schema.Struct({ id: Schema.String, event: Schema.tag(name), data: Schema.fromJsonString(data) })

/** One event of a job. */
export const JobEvent = Schema.Union([
  event("status", JobStatusEvent),
  event("progress", JobProgressEvent),
  event("chunk", JobChunkEvent),
  /** The job has ended: the job object. */
  event("end", Job)
])
export type JobEvent = typeof JobEvent.Type

/** A comment line is sent when nothing else was for so long: proxies cut silent connections, most of them after 30 to 60 s. */
export const HEARTBEAT_MILLIS = 15_000

/** What readers are told to wait before they come back. */
export const RETRY_MILLIS = 1_000
