/**
 * A job's events: `GET /v2/{endpoint}/events/{id}`, as Server-Sent Events (docs/spec/streaming.md#job-events).
 *
 * ```
 *   retry: 1000                 a disconnected reader reconnects after one second
 *
 *   id: 1.0.r                   the position to resume from, for `Last-Event-ID`
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
 *   : alive                     a heartbeat comment while there are no events
 *
 *   id: 1.1.e1790000000000
 *   event: end                  the last event
 *   data: {"id":"...","status":"COMPLETED","output":...}
 * ```
 *
 * A reader that resumes receives every chunk and log line after its position exactly once and in order. Status and progress events report
 * the current state: a reader may miss intermediate statuses, but always receives the status of an attempt before the attempt's first
 * chunk, and receives only the latest progress. A reader that resumes after the end receives 204, which makes browsers stop reconnecting.
 *
 * Log lines arrive through the worker's pipes, separately from its chunks and results. A line follows the chunk that was the latest when the line
 * arrived. The end event is delayed by up to half a second to wait for lines that the worker wrote before the end. Lines that arrive even later are
 * sent only to readers that resume.
 *
 * `?events=status,chunk` selects the kinds of events. The end is always sent.
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { Job } from "./Job.ts"
import { JobLogLine } from "./JobLogLine.ts"

/** The job waits or runs. */
export const JobStatusEvent = Schema.Struct({
  id: Schema.String,
  status: Schema.Literals(["IN_QUEUE", "IN_PROGRESS"]),
  /** The number of times a worker has received the job. */
  attempt: Schema.Int,
  /** The worker of this attempt. */
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

/** A job event. */
export const JobEvent = Schema.Union([
  event("status", JobStatusEvent),
  event("progress", JobProgressEvent),
  event("chunk", JobChunkEvent),
  event("log", JobLogLine),
  /** The job has ended. Contains the job object. */
  event("end", Job)
])
export type JobEvent = typeof JobEvent.Type

/** The kinds of events. */
const JOB_EVENT_KINDS = ["status", "progress", "chunk", "log", "end"] as const

/** One of {@link JOB_EVENT_KINDS}. */
export const JobEventKind = Schema.Literals(JOB_EVENT_KINDS)
export type JobEventKind = typeof JobEventKind.Type

const isKind = Schema.is(JobEventKind)

const splitKinds = (text: string): ReadonlyArray<string> =>
  text.split(",").map((kind) => kind.trim()).filter((kind) => kind !== "")

/** Comma-separated kinds of events. */
export const JobEventKinds = Schema.String.annotate({
  description: `The kinds of events to send, separated by commas: ${
    JOB_EVENT_KINDS.join(", ")
  }. Default: all. The end is always sent.`
}).check(
  Schema.makeFilter((text) =>
    splitKinds(text).every(isKind) || `expected a comma-separated list of ${JOB_EVENT_KINDS.join(", ")}`
  )
).pipe(
  Schema.decodeTo(Schema.Array(JobEventKind), {
    decode: SchemaGetter.transform((text) => splitKinds(text).filter(isKind)),
    encode: SchemaGetter.transform((kinds) => kinds.join(","))
  })
)

/** The interval between heartbeat comments. Most proxies close idle connections after 30 to 60 s. */
export const HEARTBEAT_MILLIS = 15_000

/** The reconnection delay that the server sends to readers. */
export const RETRY_MILLIS = 1_000
