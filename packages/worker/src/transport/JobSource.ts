/**
 * The transport of a worker: takes jobs and delivers results. Each call is one attempt; its callers retry.
 *
 * `JobSourceHttp` implements docs/spec/worker-protocol.md, `LocalTest` reads one job from a file, and `testing/JobSourceMemory` is in memory.
 */
import type { Ping } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type { ProgressAddress, ProgressThread } from "./ProgressThread.ts"

/** The platform did not respond: the connection was refused, reset or timed out, or the host is unknown. The platform may be restarting. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  detail: Schema.String,
  /** True when the connection was open but received nothing for the duration of the call's timeout. */
  timedOut: Schema.Boolean
}) {}

/** A response with an error status. `text` is the platform's message, truncated. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", {
  status: Schema.Int,
  text: Schema.String
}) {}

/** A call to the platform failed. */
export class JobSourceError extends Schema.TaggedError<JobSourceError>()("JobSourceError", {
  reason: Schema.Union([Unreachable, Refused])
}) {
  override get message(): string {
    return this.reason._tag === "Unreachable"
      ? this.reason.detail
      : `the platform answered ${this.reason.status}${this.reason.text === "" ? "" : `: ${this.reason.text}`}`
  }
}

export class JobSource extends Context.Service<JobSource, {
  /**
   * Takes up to `count` jobs. Waits for the first job for as long as the platform holds the request. Returns an empty list when there is no
   * job.
   *
   * When `hasJobs` is false, this worker holds no jobs, and the platform may requeue any job that it had assigned to the worker.
   */
  readonly take: (options: {
    readonly count: number
    readonly hasJobs: boolean
  }) => Effect.Effect<ReadonlyArray<ReceivedJob>, JobSourceError>
  /** Delivers the result. `stream` is true when chunks were delivered before it. */
  readonly deliverResult: (job: ReceivedJob, body: string, stream: boolean) => Effect.Effect<void, JobSourceError>
  /** Delivers chunk `number` of this attempt, from 1. A platform that supports numbers stores a repeated chunk once. */
  readonly deliverChunk: (job: ReceivedJob, body: string, number: number) => Effect.Effect<void, JobSourceError>
  /** Reports progress, which callers see in the status of the running job (docs/spec/worker-protocol.md#delivering-progress). */
  readonly progress: (job: ReceivedJob, output: unknown) => Effect.Effect<void, JobSourceError>
  /**
   * Sends progress from the heartbeat thread, which a handler cannot block. Absent: `progress` is used. `addressOf` returns where a job's
   * progress is sent.
   */
  readonly progressThread?: ProgressThread & { readonly addressOf: (job: ReceivedJob) => ProgressAddress }
  /**
   * Returns the ids of jobs to stop. Waits for the first id for as long as the platform holds the request. Returns an empty list when there
   * is none.
   */
  readonly stopRequests: Effect.Effect<ReadonlyArray<string>, JobSourceError>
  /**
   * Writes to the journal of pipeline runs and returns the response (docs/spec/pipelines.md#run-journal). Absent: there is no platform, or it
   * has no journal.
   */
  readonly runJournal?: (body: string) => Effect.Effect<string, JobSourceError>
  /** Reports the JSON text of a handler's schema (docs/spec/jobs-api.md#the-schema-of-a-handler). Absent: the platform does not know schemas. */
  readonly handlerSchema?: (body: string) => Effect.Effect<void, JobSourceError>
  /** Sends a ping about the worker itself, such as its exit. Not used for the regular heartbeats. */
  readonly ping: (ping: Ping) => Effect.Effect<void, JobSourceError>
  /** False: the worker does not consume generators (local test mode without a flag). */
  readonly streaming: boolean
  /** False: a result with `refresh_worker` does not end this worker, because no new worker would be started. Default: true. */
  readonly recycles?: boolean
}>()("@stint/worker/JobSource") {}
