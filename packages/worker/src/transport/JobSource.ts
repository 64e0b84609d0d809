/**
 * Where jobs come from and results go: the transport of a worker, one attempt a call.
 *
 * The service knows how to say a thing; when to say it again is for the duties above it. `JobSourceHttp` speaks docs/spec/worker-protocol.md to a
 * platform, `LocalTest` reads one job from a file, and `testing/JobSourceMemory` is a pair of queues.
 */
import type { Ping } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"

/** No answer: connection refused, reset, timed out, name not found. The platform may be restarting. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  detail: Schema.String,
  /** The connection stood, and nothing came over it for as long as this kind of call may take. */
  timedOut: Schema.Boolean
}) {}

/** An answer that is no success. `text` is what the platform said, shortened. */
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
   * Up to `count` jobs; waits for the first as long as the platform holds the request. Empty: none this time.
   *
   * `holding` false says that this worker holds no job at all; a platform may then give away what it thinks the worker holds.
   */
  readonly take: (options: {
    readonly count: number
    readonly hasJobs: boolean
  }) => Effect.Effect<ReadonlyArray<ReceivedJob>, JobSourceError>
  /** Delivers the result. `stream` says that chunks went before it. */
  readonly deliverResult: (job: ReceivedJob, body: string, stream: boolean) => Effect.Effect<void, JobSourceError>
  /** Delivers one chunk, the `number`th of this attempt, from 1: a platform that counts keeps it once, however often it comes. */
  readonly deliverChunk: (job: ReceivedJob, body: string, number: number) => Effect.Effect<void, JobSourceError>
  /** Shows a value to those who ask for the job's status while it runs (docs/spec/worker-protocol.md#delivering-progress). */
  readonly progress: (job: ReceivedJob, output: unknown) => Effect.Effect<void, JobSourceError>
  /** Ids of jobs to stop; waits for the first as long as the platform holds the request. Empty: none this time. */
  readonly stopRequests: Effect.Effect<ReadonlyArray<string>, JobSourceError>
  /** Says something about the worker itself: that it lives, that it leaves. The regular beat is not sent from here. */
  readonly ping: (ping: Ping) => Effect.Effect<void, JobSourceError>
  /** False: generators are not to be consumed (local test mode without a flag). */
  readonly streaming: boolean
  /** False: a result that asks for a fresh worker does not end this one, because nobody would start another. Default: true. */
  readonly recycles?: boolean
}>()("@stint/worker/JobSource") {}
