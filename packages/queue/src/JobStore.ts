/**
 * The seam under the queue: where jobs are kept.
 *
 * A store persists what the state machine decides. It never makes up a state of its own: every change of a job goes through
 * {@link transition}, inside one atomic step of the store. `JobQueue` builds waiting and waking on top of it.
 *
 * A new backend implements this service and passes `suite` of `@stint/queue/testing`.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JobEvent, Rejection } from "./JobMachine.ts"
import type { JobHead, JobRecord, JobReport } from "./JobRecord.ts"
import type { QueueError } from "./QueueError.ts"

/**
 * What survives what, once a write was acknowledged. `D2`: power loss. `D1`: the process being killed. `none`: nothing, for tests and
 * trials.
 */
export type Durability = "D2" | "D1" | "none"

/** What became of an event. */
export type Applied =
  | { readonly _tag: "Changed"; readonly before: JobHead; readonly after: JobHead }
  | { readonly _tag: "Removed"; readonly before: JobHead }
  | { readonly _tag: "Rejected"; readonly job: JobHead; readonly rejection: Rejection }
  | { readonly _tag: "Missing" }

/** The jobs of one endpoint by state, and what the autoscaler needs. Must not cost more as the history grows. */
export interface Depth {
  readonly waiting: number
  /** Of the waiting jobs, those submitted with `lowPriority`. */
  readonly waitingLow: number
  readonly running: number
  readonly completed: number
  /** FAILED and TIMED_OUT. */
  readonly failed: number
  /** Jobs still kept that went back to the queue at least once. */
  readonly retried: number
  /** `queuedAt` of the waiting job that has waited longest, `lowPriority` jobs left out; null when there is none. */
  readonly oldestQueuedAt: number | null
}

/** After so many characters one reading of a job's stream takes no more chunks: chunks are up to megabytes each. */
export const DRAIN_CHARACTERS = 4 * 1024 * 1024

/** What one reading of a job's stream takes. */
export interface Drained {
  readonly job: JobReport
  readonly chunks: ReadonlyArray<JsonText>
  /** More chunks are waiting than were taken. */
  readonly more: boolean
}

export class JobStore extends Context.Service<JobStore, {
  readonly durability: Durability

  /**
   * Keeps a new job. Returns when it is as safe as {@link Durability} says. Ids are the platform's own and never used twice: an id that
   * is there already is a defect.
   */
  readonly insert: (job: JobRecord) => Effect.Effect<void, QueueError>

  /** Applies one event to one job. */
  readonly apply: (id: JobId, event: JobEvent) => Effect.Effect<Applied, QueueError>

  /** Applies a `Chunk` event and keeps the chunk's body. */
  readonly append: (
    id: JobId,
    event: Extract<JobEvent, { readonly _tag: "Chunk" }>,
    body: JsonText
  ) => Effect.Effect<Applied, QueueError>

  /** Claims up to `limit` waiting jobs of an endpoint, in order of submission. Two callers never get the same job. */
  readonly claim: (
    endpoint: EndpointId,
    limit: number,
    event: Extract<JobEvent, { readonly _tag: "Claim" }>
  ) => Effect.Effect<ReadonlyArray<JobRecord>, QueueError>

  /** Applies `Tick` to up to `limit` jobs that are due, those due longest first. Empty when nothing is. */
  readonly tick: (now: number, limit: number) => Effect.Effect<ReadonlyArray<Applied>, QueueError>

  /** Applies an event to every job that is IN_PROGRESS, or to those of one worker. */
  readonly applyRunning: (
    filter: { readonly endpoint: EndpointId; readonly worker: string } | "all",
    event: JobEvent
  ) => Effect.Effect<ReadonlyArray<Applied>, QueueError>

  /** Applies an event to up to `limit` waiting jobs of an endpoint, in order of submission. */
  readonly applyWaiting: (
    endpoint: EndpointId,
    event: JobEvent,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Applied>, QueueError>

  readonly get: (id: JobId) => Effect.Effect<JobReport | undefined, QueueError>

  /**
   * Takes up to `limit` chunks that nobody has taken, in order, and stops early with the chunk that makes it
   * {@link DRAIN_CHARACTERS} or more. Undefined when there is no such job.
   */
  readonly drain: (id: JobId, limit: number) => Effect.Effect<Drained | undefined, QueueError>

  readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, QueueError>
}>()("@stint/queue/JobStore") {}
