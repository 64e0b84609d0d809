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

/** The platform did not answer: connection refused, reset or timed out, or unknown host. It may be restarting. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  detail: Schema.String,
  /** True when the connection was open but silent for the timeout of the call. */
  timedOut: Schema.Boolean
}) {}

/** An answer with an error status. `text` is the platform's message, shortened. */
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
   * Takes up to `count` jobs; waits for the first for as long as the platform holds the request. Empty when there is none.
   *
   * `hasJobs` false means that this worker holds no job at all; the platform may then requeue the jobs that it had assigned to the worker.
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
  /** Ids of jobs to stop; waits for the first for as long as the platform holds the request. Empty when there is none. */
  readonly stopRequests: Effect.Effect<ReadonlyArray<string>, JobSourceError>
  /** Sends a ping about the worker itself, such as its exit. Does not send the regular heartbeats. */
  readonly ping: (ping: Ping) => Effect.Effect<void, JobSourceError>
  /** False: the worker does not consume generators (local test mode without a flag). */
  readonly streaming: boolean
  /** False: a result with `refresh_worker` does not end this worker, because nothing would start another. Default: true. */
  readonly recycles?: boolean
}>()("@stint/worker/JobSource") {}
