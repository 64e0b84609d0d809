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
 *   id: 1.1.r.1                 lines are numbered within the job
 *   event: log
 *   data: {"number":1,"time":1790000000000,"level":"INFO","message":"...","attempt":1,"source":"log","workerId":"..."}
 *
 *   : alive                     a comment, while nothing else is said
 *
 *   id: 1.1.e1790000000000
 *   event: end                  the last one
 *   data: {"id":"...","status":"COMPLETED","output":...}
 * ```
 *
 * A reader that comes back is told every chunk and every log line after its place, none again, in order. Statuses are states: one that came and went while
 * nobody looked is left out, except that an attempt is always announced before its first chunk. Of progress only the latest value is told.
 * Who comes back after the end is answered 204, at which readers of this kind stop.
 *
 * Lines come on another way than chunks and results: out of the worker's pipes. A line stands where it arrived, behind the chunk that was the
 * latest then. The end waits for what the worker wrote before it, half a second at most; a line that comes later still is told to whoever
 * comes back.
 *
 * `?events=status,chunk` leaves the other kinds out. The end is told always.
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { Job } from "./Job.ts"
import { JobLogLine } from "./JobLogLine.ts"

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
  event("log", JobLogLine),
  /** The job has ended: the job object. */
  event("end", Job)
])
export type JobEvent = typeof JobEvent.Type

/** The kinds of events. */
export const JOB_EVENT_KINDS = ["status", "progress", "chunk", "log", "end"] as const

/** One of {@link JOB_EVENT_KINDS}. */
export const JobEventKind = Schema.Literals(JOB_EVENT_KINDS)
export type JobEventKind = typeof JobEventKind.Type

const isKind = Schema.is(JobEventKind)

const kindsIn = (text: string): ReadonlyArray<string> => text.split(",").map((kind) => kind.trim()).filter((kind) => kind !== "")

/** Kinds by commas. */
export const JobEventKinds = Schema.String.annotate({
  description: `The kinds of events to be told, by commas: ${JOB_EVENT_KINDS.join(", ")}. Default: all. The end is told always.`
}).check(
  Schema.makeFilter((text) => kindsIn(text).every(isKind) || `expected kinds of events by commas: ${JOB_EVENT_KINDS.join(", ")}`)
).pipe(
  Schema.decodeTo(Schema.Array(JobEventKind), {
    decode: SchemaGetter.transform((text) => kindsIn(text).filter(isKind)),
    encode: SchemaGetter.transform((kinds) => kinds.join(","))
  })
)

/** A comment line is sent when nothing else was for so long: proxies cut silent connections, most of them after 30 to 60 s. */
export const HEARTBEAT_MILLIS = 15_000

/** What readers are told to wait before they come back. */
export const RETRY_MILLIS = 1_000
