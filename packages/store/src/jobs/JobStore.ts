/**
 * The job store: the contract between the queue and its database.
 *
 * A store persists the results of the state machine. Every change to a job goes through {@link transition} in one atomic step of the store.
 * `JobQueue` adds waiting and notification on top.
 *
 * A new backend implements this service and passes `jobStoreSuite` of `@stint/store-testing`.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ScheduleRecord } from "../control/ScheduleStore.ts"
import type { StoreError } from "../StoreError.ts"
import type { BulkRecord } from "./BulkStore.ts"
import type { KeyUsage } from "./ConcurrencyRule.ts"
import type { JobMachineEvent, Rejection } from "./JobMachine.ts"
import type { JobPage, JobQuery } from "./JobQuery.ts"
import type { JobHead, JobRecord, JobReport } from "./JobRecord.ts"
import type { ExceededQuota, Quotas } from "./Quota.ts"
import type { JobTexts } from "./TextIndex.ts"

/**
 * The failures that an acknowledged write survives. `D2`: a power loss. `D1`: a killed process. `none`: no failure; for tests and trials.
 */
export type Durability = "D2" | "D1" | "none"

/** The result of applying an event. */
export type ApplyResult =
  | {
    readonly _tag: "Changed"
    readonly before: JobHead
    readonly after: JobHead
    /** The number of held jobs with the same concurrency key that became ready. Absent: none. */
    readonly released?: number
    /** The changes to other jobs in the same transaction: to the run whose child ended, or to the children of an ended run. */
    readonly others?: ReadonlyArray<ApplyResult>
  }
  | { readonly _tag: "Removed"; readonly before: JobHead }
  | { readonly _tag: "Rejected"; readonly job: JobHead; readonly rejection: Rejection }
  | { readonly _tag: "Missing" }

/** Job counts of one endpoint, for the autoscaler. The cost must not grow with the number of ended jobs. */
export interface Depth {
  /** Ready for a worker. */
  readonly waiting: number
  /** Waiting jobs that were submitted with `lowPriority`. */
  readonly waitingLow: number
  /** IN_QUEUE, but not ready: before their start time, in a backoff, or held because of their concurrency key. */
  readonly delayed: number
  readonly running: number
  readonly completed: number
  /** FAILED and TIMED_OUT. */
  readonly failed: number
  /** Stored jobs that returned to the queue at least once. */
  readonly retried: number
  /** Jobs that are IN_QUEUE or IN_PROGRESS and must run on a worker of their own (`JobHead.isolated`). */
  readonly isolated: number
  /** The smallest `queuedAt` of waiting jobs without `lowPriority`; null when there are none. */
  readonly oldestQueuedAt: number | null
}

/** One read of a job's stream stops after this number of characters. A single chunk can be several megabytes long. */
export const MAX_READ_CHARACTERS = 4 * 1024 * 1024

/** The maximum number of jobs whose texts are read at once: at most some megabytes. */
export const TEXTS_LIMIT = 50

/** What a trace of the job needs in addition to its head. */
export type JobTraceContext = Pick<JobRecord, "traceparent" | "tracestate" | "error" | "lastError">

/** The result of draining a job's stream. */
export interface DrainResult {
  readonly job: JobReport
  readonly chunks: ReadonlyArray<JsonText>
  /** Undrained chunks remain. */
  readonly more: boolean
}

/** An idempotency key: one job per endpoint, owner and key, until the job is removed. */
export interface SubmissionKey {
  readonly key: string
  /**
   * The id of the access key that submits the job. The same idempotency key under another owner identifies another job, except that every owner finds
   * the job of `NO_OWNER` (Owner.ts).
   */
  readonly owner: string
  /** Hash of the request. A submission with the same key but a different fingerprint is rejected. */
  readonly fingerprint: string
  /** The change to the schedule that submits the job. It is stored in the same step as the job. Default: none. */
  readonly schedule?: ScheduleRecord | undefined
  /** The bulk operation after the step that submits the job. It is stored in the same step as the job. Default: none. */
  readonly bulk?: BulkRecord | undefined
}

/** The result of a submission. */
export type InsertResult =
  | { readonly _tag: "Inserted" }
  /** The key belongs to this job, which was submitted with the same request. Nothing was written. */
  | { readonly _tag: "Duplicate"; readonly job: JobRecord }
  /** The key belongs to a job that was submitted with a different request. */
  | { readonly _tag: "KeyConflict"; readonly id: JobId }
  /** The endpoint was deleted. */
  | { readonly _tag: "EndpointGone" }
  /** The schedule has been changed or removed since it was read. Nothing was written. Only for submissions by schedules. */
  | { readonly _tag: "ScheduleChanged" }
  /** The bulk operation has been changed since it was read. Nothing was written. Only for submissions by bulk operations. */
  | { readonly _tag: "BulkChanged" }
  /** A quota does not admit the job. Nothing was written. */
  | { readonly _tag: "QuotaExceeded"; readonly quota: ExceededQuota }

/** The result of a claim. */
export interface ClaimResult {
  readonly jobs: ReadonlyArray<JobRecord>
  /** Jobs that were found but not claimed: they had timed out, or their input is unavailable. More ready jobs may follow. */
  readonly expired: ReadonlyArray<ApplyResult>
  /**
   * The endpoint has isolated jobs ({@link Depth}), so the claim may have withheld jobs from this worker. Another claim may succeed when a
   * job of the endpoint ends.
   */
  readonly isolating: boolean
}

/** The maximum number of expired jobs that one claim times out. Bounds the duration of a claim. */
export const CLAIM_EXPIRED_LIMIT = 100

/** The position of a reader in a job's chunks. */
export interface ChunkCursor {
  readonly attempt: number
  /** Number of the last chunk read; 0 before the first chunk, which has the number 1. */
  readonly chunk: number
}

/** The result of reading a job's chunks without draining them. */
export interface PeekResult {
  readonly job: JobReport
  /** The chunks after the cursor. All chunks of the current attempt when the cursor is in another attempt. */
  readonly chunks: ReadonlyArray<JsonText>
  /** Number of the first chunk in `chunks`. */
  readonly from: number
  readonly more: boolean
}

/** The number of jobs ahead of a job. */
export interface Ahead {
  readonly jobs: number
  /** The limit was reached: more jobs are ahead. */
  readonly more: boolean
}

/**
 * Jobs by endpoint and id. For a job that belongs to another endpoint, the store returns `Missing` or undefined, as for a job that does not
 * exist. A store may therefore use a separate database for each endpoint.
 *
 * Order: "in order of submission" means the order in which one node received the submissions, within one id slot (`UuidV7`). Jobs that
 * different nodes receive at the same time, or jobs in different slots, may be claimed in either order.
 */
export class JobStore extends Context.Service<JobStore, {
  readonly durability: Durability

  /**
   * Stores a new job, held if its concurrency key has no free slot (ConcurrencyRule.ts). Returns when the job is durable ({@link Durability}). Ids are generated by the platform: an existing id is a defect.
   * When several submissions have the same `key` and owner, concurrently or not, the first one is stored and the others return that job. Removing the
   * job frees the key. `quotas` are checked in the same step; the existing job of a key is returned even if a quota is full. When a quota is new,
   * a store may count the existing jobs in steps, and check against its count so far. Default: no quotas.
   */
  readonly insert: (job: JobRecord, key?: SubmissionKey, quotas?: Quotas) => Effect.Effect<InsertResult, StoreError>

  /** Applies one event to one job. */
  readonly apply: (endpoint: EndpointId, id: JobId, event: JobMachineEvent) => Effect.Effect<ApplyResult, StoreError>

  /** Applies a `Chunk` event and stores the chunk's body. */
  readonly append: (
    endpoint: EndpointId,
    id: JobId,
    event: Extract<JobMachineEvent, { readonly _tag: "Chunk" }>,
    body: JsonText
  ) => Effect.Effect<ApplyResult, StoreError>

  /**
   * Claims up to `limit` ready jobs of an endpoint: highest priority first, then in order of submission. Two callers never get the same
   * job. Jobs of the same priority that have a concurrency key are claimed in the order in which they received their slots, after jobs without a key.
   * The event's `keyLimit` is the endpoint's current limit for keys. While the endpoint has isolated jobs, `claimable` decides which jobs the worker
   * may claim (ClaimRule.ts). Times out the expired jobs that it finds, at most {@link CLAIM_EXPIRED_LIMIT} of them.
   */
  readonly claim: (
    endpoint: EndpointId,
    limit: number,
    event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  ) => Effect.Effect<ClaimResult, StoreError>

  /**
   * Applies a `Tick` to up to `limit` due jobs, starting with the earliest due time. Logs an unreadable job once and postpones it by an
   * hour, so that it does not block the timers of other jobs. A node of a shared store applies those of its own writes, and may apply those of other
   * nodes up to a second late.
   */
  readonly tick: (
    event: Extract<JobMachineEvent, { readonly _tag: "Tick" }>,
    limit: number
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  /**
   * Applies an event to the IN_PROGRESS jobs of one worker. `timed`: to all IN_PROGRESS jobs except parked ones, and all jobs in a backoff,
   * in order of submission.
   */
  readonly applyRunning: (
    filter: { readonly endpoint: EndpointId; readonly worker: string } | "timed",
    event: JobMachineEvent
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  /** Applies an event to up to `limit` IN_QUEUE jobs of an endpoint, ready or delayed, in order of submission. */
  readonly applyWaiting: (
    endpoint: EndpointId,
    event: JobMachineEvent,
    limit: number
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  readonly get: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobReport | undefined, StoreError>

  /** The caller's span and the errors of a job, without its payloads. Undefined for an unknown job. */
  readonly traceOf: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobTraceContext | undefined, StoreError>

  /** The input of a job, as the caller sent it. Undefined for an unknown job. */
  readonly input: (endpoint: EndpointId, id: JobId) => Effect.Effect<JsonText | undefined, StoreError>

  /**
   * Returns up to `limit` undrained chunks, in order, and marks them as drained. Stops after the chunk that reaches {@link
   * MAX_READ_CHARACTERS}. Undefined for an unknown job.
   */
  readonly drain: (
    endpoint: EndpointId,
    id: JobId,
    limit: number
  ) => Effect.Effect<DrainResult | undefined, StoreError>

  /**
   * Returns up to `limit` chunks after a cursor, in order. Stops early, as `drain` does, but does not mark chunks as drained. Undefined for
   * an unknown job.
   */
  readonly peek: (
    endpoint: EndpointId,
    id: JobId,
    after: ChunkCursor,
    limit: number
  ) => Effect.Effect<PeekResult | undefined, StoreError>

  /** A page of the jobs of an endpoint, newest first. The cost must not grow with the number of other jobs. */
  readonly list: (endpoint: EndpointId, query: JobQuery) => Effect.Effect<JobPage, StoreError>

  /**
   * The texts of up to {@link TEXTS_LIMIT} jobs of an endpoint, by id. Unknown jobs are missing. Inputs and outputs are as they are in the database:
   * those in a payload store are references.
   */
  readonly texts: (endpoint: EndpointId, ids: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyMap<JobId, JobTexts>, StoreError>

  /** The number of ready jobs that would be claimed before this one, counted up to `limit`. Undefined when the job is not ready. */
  readonly ahead: (
    endpoint: EndpointId,
    id: JobId,
    limit: number
  ) => Effect.Effect<Ahead | undefined, StoreError>

  /**
   * The jobs with the concurrency key of a held job. `held` counts the held jobs that come before it, up to `limit`. Undefined when the job
   * is not held.
   */
  readonly keyUsage: (endpoint: EndpointId, id: JobId, limit: number) => Effect.Effect<KeyUsage | undefined, StoreError>

  /** Reads at the same time may share a statement, so a caller that needs several endpoints reads them concurrently. */
  readonly depth: (endpoint: EndpointId) => Effect.Effect<Depth, StoreError>
}>()("@stint/store/JobStore") {}
