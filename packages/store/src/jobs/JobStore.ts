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
import type { StoreError } from "../StoreError.ts"
import type { JobMachineEvent, Rejection } from "./JobMachine.ts"
import type { JobPage, JobQuery } from "./JobQuery.ts"
import type { JobHead, JobRecord, JobReport } from "./JobRecord.ts"

/**
 * What survives what, once a write was acknowledged. `D2`: power loss. `D1`: the process being killed. `none`: nothing, for tests and
 * trials.
 */
export type Durability = "D2" | "D1" | "none"

/** What became of an event. */
export type ApplyResult =
  | { readonly _tag: "Changed"; readonly before: JobHead; readonly after: JobHead }
  | { readonly _tag: "Removed"; readonly before: JobHead }
  | { readonly _tag: "Rejected"; readonly job: JobHead; readonly rejection: Rejection }
  | { readonly _tag: "Missing" }

/** The jobs of one endpoint by state, and what the autoscaler needs. Must not cost more as the history grows. */
export interface Depth {
  /** Ready for a worker. */
  readonly waiting: number
  /** Of the waiting jobs, those submitted with `lowPriority`. */
  readonly waitingLow: number
  /** IN_QUEUE like the waiting ones, and for nobody until their backoff is over. */
  readonly delayed: number
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
export const MAX_READ_CHARACTERS = 4 * 1024 * 1024

/** What one reading of a job's stream takes. */
export interface DrainResult {
  readonly job: JobReport
  readonly chunks: ReadonlyArray<JsonText>
  /** More chunks are waiting than were taken. */
  readonly more: boolean
}

/** What a submission stands for: one job per key and endpoint, while the job is kept. */
export interface SubmissionKey {
  readonly key: string
  /** Tells requests apart: the same key with another one is refused. */
  readonly fingerprint: string
}

/** What became of a submission. */
export type InsertResult =
  | { readonly _tag: "Kept" }
  /** The key stands for this job, made from the same request. Nothing was written. */
  | { readonly _tag: "Known"; readonly job: JobRecord }
  /** The key stands for a job that was made from another request. */
  | { readonly _tag: "KeyTaken"; readonly id: JobId }
  /** The endpoint was deleted. */
  | { readonly _tag: "EndpointGone" }

/** What a claim found. */
export interface ClaimResult {
  readonly jobs: ReadonlyArray<JobRecord>
  /** Jobs that were found and not handed out: their time was over, or their input cannot be had. There may be others behind them. */
  readonly expired: ReadonlyArray<ApplyResult>
}

/** The most expired jobs that one claim takes out of the way: so much longer than others it may take. */
export const CLAIM_EXPIRED_LIMIT = 100

/** How far a reader has read in a job's chunks. */
export interface ChunkCursor {
  readonly attempt: number
  /** Number of the last chunk that was read; the first is 1. */
  readonly chunk: number
}

/** What one look at a job's chunks shows. */
export interface PeekResult {
  readonly job: JobReport
  /** The chunks of the job's attempt after the reader's place; all of them where that is in another attempt. */
  readonly chunks: ReadonlyArray<JsonText>
  /** Number of the first of them. */
  readonly from: number
  readonly more: boolean
}

/** How many jobs come before another. */
export interface Ahead {
  readonly jobs: number
  /** There are more than were counted. */
  readonly more: boolean
}

/**
 * Jobs by endpoint and id. A job of another endpoint does not exist for the caller: `Missing`, or undefined. So a store may keep each
 * endpoint in a database of its own.
 *
 * Order: "in order of submission" means in the order in which one node received the submissions, within one slot of ids (`UuidV7`). Jobs
 * that different nodes receive at the same time, or jobs of different slots, may be claimed in either order.
 */
export class JobStore extends Context.Service<JobStore, {
  readonly durability: Durability

  /**
   * Keeps a new job. Returns when it is as safe as {@link Durability} says. Ids are the platform's own and never used twice: an id that
   * is there already is a defect. Of submissions with one `key`, at once or one after the other, the first is kept and the others are
   * told of it; the key is free again when the job is removed.
   */
  readonly insert: (job: JobRecord, key?: SubmissionKey) => Effect.Effect<InsertResult, StoreError>

  /** Applies one event to one job. */
  readonly apply: (endpoint: EndpointId, id: JobId, event: JobMachineEvent) => Effect.Effect<ApplyResult, StoreError>

  /** Applies a `Chunk` event and keeps the chunk's body. */
  readonly append: (
    endpoint: EndpointId,
    id: JobId,
    event: Extract<JobMachineEvent, { readonly _tag: "Chunk" }>,
    body: JsonText
  ) => Effect.Effect<ApplyResult, StoreError>

  /**
   * Claims up to `limit` ready jobs of an endpoint, the highest priority first, among equals in order of submission. Two callers never get
   * the same job. Jobs whose time is over are timed out on the way, {@link CLAIM_EXPIRED_LIMIT} at most.
   */
  readonly claim: (
    endpoint: EndpointId,
    limit: number,
    event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  ) => Effect.Effect<ClaimResult, StoreError>

  /**
   * Applies a `Tick` to up to `limit` jobs that are due, those due longest first. Empty when nothing is. A job that cannot be read is
   * logged once and put aside for an hour, for it must not hold up the timers of the others.
   */
  readonly tick: (
    event: Extract<JobMachineEvent, { readonly _tag: "Tick" }>,
    limit: number
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  /** Applies an event to every job that is IN_PROGRESS, or to those of one worker. */
  readonly applyRunning: (
    filter: { readonly endpoint: EndpointId; readonly worker: string } | "all",
    event: JobMachineEvent
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  /** Applies an event to up to `limit` jobs of an endpoint that are IN_QUEUE, ready or not, in order of submission. */
  readonly applyWaiting: (
    endpoint: EndpointId,
    event: JobMachineEvent,
    limit: number
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  readonly get: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobReport | undefined, StoreError>

  /**
   * Takes up to `limit` chunks that nobody has taken, in order, and stops early with the chunk that makes it
   * {@link MAX_READ_CHARACTERS} or more. Undefined when there is no such job.
   */
  readonly drain: (
    endpoint: EndpointId,
    id: JobId,
    limit: number
  ) => Effect.Effect<DrainResult | undefined, StoreError>

  /**
   * Shows up to `limit` chunks after a place, in order, and stops early as `drain` does. Takes nothing from it. Undefined
   * when there is no such job.
   */
  readonly peek: (
    endpoint: EndpointId,
    id: JobId,
    after: ChunkCursor,
    limit: number
  ) => Effect.Effect<PeekResult | undefined, StoreError>

  /** The jobs of an endpoint that a query asks for, newest first. Must not cost more as other jobs grow in number. */
  readonly list: (endpoint: EndpointId, query: JobQuery) => Effect.Effect<JobPage, StoreError>

  /** How many ready jobs would be claimed before this one, counted up to `limit`. Undefined where the job is not ready. */
  readonly ahead: (
    endpoint: EndpointId,
    id: JobId,
    limit: number
  ) => Effect.Effect<Ahead | undefined, StoreError>

  readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, StoreError>
}>()("@stint/store/JobStore") {}
