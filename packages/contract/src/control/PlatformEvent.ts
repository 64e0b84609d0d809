/**
 * A platform's events, as one stream: `GET /api/v1/events` (docs/operations/alerts.md#follow-what-happens).
 *
 * Events are never stored. The server keeps the newest ones in memory while there are readers, so that a reader whose connection was lost can
 * continue. A reader that is too slow or was disconnected for too long receives `missed` instead of the events that it missed.
 */
import * as Schema from "effect/Schema"
import { JobStatus } from "../jobs/Job.ts"
import { AlertKind } from "./Alert.ts"

/** Milliseconds since 1970. */
const at = Schema.Int

const job = { endpoint: Schema.String, job: Schema.String }
const worker = { endpoint: Schema.String, worker: Schema.String }
const release = { endpoint: Schema.String, release: Schema.Int }
const alert = {
  id: Schema.String,
  fingerprint: Schema.String,
  kind: AlertKind,
  /** Absent for an alert that concerns the whole platform. */
  endpoint: Schema.optionalKey(Schema.String),
  summary: Schema.String
}

const define = <Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.Literal(type), at, ...fields })

/** An event. `reason`: the first {@link MAX_REASON} characters. */
export const PlatformEvent = Schema.Union([
  define("job.submitted", job),
  /** Jobs of a batch, or jobs that a pipeline started. Their start events contain their ids. */
  define("jobs.submitted", { endpoint: Schema.String, count: Schema.Int }),
  define("job.started", { ...job, worker: Schema.String, attempt: Schema.Int }),
  /** The attempt failed, the worker was lost, or a caller retried an ended job. */
  define("job.requeued", { ...job, attempt: Schema.Int }),
  define("job.ended", { ...job, status: JobStatus }),
  define("worker.started", worker),
  define("worker.ready", worker),
  define("worker.failed", { ...worker, reason: Schema.String }),
  define("worker.ended", worker),
  define("endpoint.changed", { endpoint: Schema.String }),
  define("endpoint.removed", { endpoint: Schema.String }),
  /** `rollbackOf`: the earlier release whose settings and code this one has. */
  define("release.deployed", { ...release, by: Schema.String, rollbackOf: Schema.optionalKey(Schema.Int) }),
  define("release.active", release),
  define("release.promoted", release),
  define("release.failed", { ...release, reason: Schema.String }),
  define("build.queued", { endpoint: Schema.String, build: Schema.Int }),
  define("build.ended", {
    endpoint: Schema.String,
    build: Schema.Int,
    state: Schema.Literals(["succeeded", "failed", "cancelled"]),
    reason: Schema.optionalKey(Schema.String)
  }),
  define("webhook.delivered", { endpoint: Schema.String, delivery: Schema.String, host: Schema.String }),
  /** No attempts are left. */
  define("webhook.failed", { endpoint: Schema.String, delivery: Schema.String, host: Schema.String, reason: Schema.String }),
  define("alert.fired", alert),
  define("alert.resolved", alert),
  /** The number of requested events that the reader did not receive; null: unknown. */
  define("missed", { count: Schema.NullOr(Schema.Int) })
])
export type PlatformEvent = typeof PlatformEvent.Type

/** The maximum length of a reason. Characters. */
export const MAX_REASON = 500

/** An event as the server sends it. */
export const SentPlatformEvent = Schema.Struct({
  id: Schema.String,
  event: Schema.String,
  data: Schema.fromJsonString(PlatformEvent)
})
export type SentPlatformEvent = typeof SentPlatformEvent.Type
