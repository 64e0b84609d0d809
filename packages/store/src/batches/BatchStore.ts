/**
 * The seam where batches are kept, by the store that keeps their jobs.
 *
 * ```
 *   create, add --> requests, kept aside --feed--> jobs: one commit moves a request into the queue, under its own id
 *   a job of a batch changes ----same commit----> the batch's counts, its end, its webhook (BatchMachine)
 * ```
 *
 * A crash at any moment leaves a request either aside or in the queue, never in both and never in neither.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { Policy, Priority, Tags, Webhook } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { JobRecord } from "../jobs/JobRecord.ts"
import type { ApplyResult } from "../jobs/JobStore.ts"
import type { StoreError } from "../StoreError.ts"
import type { BatchRecord, Rejection } from "./BatchMachine.ts"

/** What a request says besides its payloads. */
export const RequestOptions = Schema.Struct({
  policy: Schema.optionalKey(Policy),
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  webhook: Schema.optionalKey(Webhook),
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String)
})
export type RequestOptions = typeof RequestOptions.Type

/** A request that is no job yet. */
export interface BatchRequest {
  /** The id that its job will have. */
  readonly id: JobId
  readonly input: JsonText
  readonly s3Config: JsonText | null
  readonly options: RequestOptions
}

/** What became of a change. */
export type ChangeResult =
  | { readonly _tag: "Changed"; readonly batch: BatchRecord }
  | { readonly _tag: "Rejected"; readonly batch: BatchRecord; readonly rejection: Rejection }
  /** No such batch on this endpoint. */
  | { readonly _tag: "Missing" }

/** What became of a new batch. */
export type CreateResult =
  | { readonly _tag: "Kept"; readonly batch: BatchRecord }
  | { readonly _tag: "Rejected"; readonly batch: BatchRecord; readonly rejection: Rejection }
  /** The endpoint has so many batches that have not ended. */
  | { readonly _tag: "TooMany"; readonly open: number }
  | { readonly _tag: "EndpointGone" }

/** What became of a wish to start. */
export type FinalizeResult =
  | ChangeResult
  /** So many jobs and requests wait on the endpoint already. */
  | { readonly _tag: "QueueFull"; readonly queued: number }
  | { readonly _tag: "EndpointGone" }

/** What became of requests that were fed. */
export interface EnqueueResult {
  /** How many jobs there are now that were none before. */
  readonly jobs: number
  /** There may be more to feed. */
  readonly more: boolean
}

/** What became of a wish to end it. */
export interface CancelResult {
  /** Undefined: no such batch on this endpoint. */
  readonly batch: BatchRecord | undefined
  /** What became of its waiting jobs. */
  readonly applied: ReadonlyArray<ApplyResult>
  /** There may be more waiting jobs. */
  readonly more: boolean
}

/** One page of a batch's requests. */
export interface RequestPage {
  readonly batch: BatchRecord
  readonly ids: ReadonlyArray<JobId>
}

/** What a sweep found to do. */
export interface SweepResult {
  /** Finalized, and with requests that are no jobs yet. */
  readonly pending: ReadonlyArray<BatchRecord>
  /** Cancelled, and with jobs that may wait. */
  readonly cancelling: ReadonlyArray<BatchRecord>
  /** There may be more that is due. */
  readonly more: boolean
}

export class BatchStore extends Context.Service<BatchStore, {
  /** Keeps a draft with its first requests, unless the endpoint has `maxOpen` batches that have not ended. */
  readonly create: (
    batch: BatchRecord,
    requests: ReadonlyArray<BatchRequest>,
    limits: { readonly maxOpen: number; readonly maxRequests: number }
  ) => Effect.Effect<CreateResult, StoreError>

  /** Adds requests to a draft: all or, where it is rejected, none. */
  readonly add: (
    endpoint: EndpointId,
    id: string,
    requests: ReadonlyArray<BatchRequest>,
    now: number,
    maxRequests: number
  ) => Effect.Effect<ChangeResult, StoreError>

  /** Takes a request out of a draft. `Gone`: there is none of that id in it. */
  readonly drop: (
    endpoint: EndpointId,
    id: string,
    request: string,
    now: number
  ) => Effect.Effect<ChangeResult | { readonly _tag: "Gone" }, StoreError>

  readonly edit: (
    endpoint: EndpointId,
    id: string,
    changes: Partial<Pick<BatchRecord, "name" | "webhook">>,
    now: number
  ) => Effect.Effect<ChangeResult, StoreError>

  /** Starts it, unless more than `maxQueued` jobs and requests would wait on the endpoint. */
  readonly finalize: (
    endpoint: EndpointId,
    id: string,
    now: number,
    maxQueued: number
  ) => Effect.Effect<FinalizeResult, StoreError>

  /**
   * Makes jobs of up to `limit` requests of a finalized batch, in order. A request whose job is there already, from a step of which
   * nobody was told, is done with.
   */
  readonly enqueue: (
    endpoint: EndpointId,
    id: BatchId,
    limit: number,
    toJob: (batch: BatchRecord, request: BatchRequest) => JobRecord
  ) => Effect.Effect<EnqueueResult, StoreError>

  /** Cancels a batch, and up to `limit` of its waiting jobs. To be repeated while there are more. One that has ended stays as it is. */
  readonly cancel: (
    endpoint: EndpointId,
    id: string,
    now: number,
    limit: number
  ) => Effect.Effect<CancelResult, StoreError>

  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<BatchRecord | undefined, StoreError>

  /** The batches of an endpoint, newest first. */
  readonly list: (endpoint: EndpointId, offset: number, limit: number) => Effect.Effect<ReadonlyArray<BatchRecord>, StoreError>

  /** The ids of a batch's requests, in order. */
  readonly requests: (
    endpoint: EndpointId,
    id: string,
    offset: number,
    limit: number
  ) => Effect.Effect<RequestPage | undefined, StoreError>

  /**
   * Cancels drafts that nobody touched for too long or whose endpoint is gone, removes what is past its retention (a batch's jobs are let
   * go first, up to `limit` at a time, and go as all jobs do), and says what else is to be done. Costs one look where nothing is.
   */
  readonly sweep: (now: number, limit: number) => Effect.Effect<SweepResult, StoreError>
}>()("@stint/store/BatchStore") {}
