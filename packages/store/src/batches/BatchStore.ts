/**
 * The store of batches, in the same database as their jobs.
 *
 * ```
 *   create, add --> pending requests --enqueue--> jobs: one commit moves a request into the queue, under its own id
 *   a job of a batch changes ----same commit----> counts, end and webhook of the batch (BatchMachine)
 * ```
 *
 * After a crash, each request is either pending or a job, never both.
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
import type { Quotas } from "../jobs/Quota.ts"
import type { StoreError } from "../StoreError.ts"
import type { BatchRecord, Rejection } from "./BatchMachine.ts"

/** The options of a request. */
export const RequestOptions = Schema.Struct({
  policy: Schema.optionalKey(Policy),
  priority: Schema.optionalKey(Priority),
  tags: Schema.optionalKey(Tags),
  webhook: Schema.optionalKey(Webhook),
  startAt: Schema.optionalKey(Schema.Int),
  startAfterMs: Schema.optionalKey(Schema.Int),
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String)
})
export type RequestOptions = typeof RequestOptions.Type

/** A request that is not a job yet. */
export interface BatchRequest {
  /** The id of its later job. */
  readonly id: JobId
  readonly input: JsonText
  readonly s3Config: JsonText | null
  readonly options: RequestOptions
}

/** The result of a change. */
export type ChangeResult =
  | { readonly _tag: "Changed"; readonly batch: BatchRecord }
  | { readonly _tag: "Rejected"; readonly batch: BatchRecord; readonly rejection: Rejection }
  /** The endpoint has no such batch. */
  | { readonly _tag: "Missing" }

/** The result of creating a batch. */
export type CreateResult =
  | { readonly _tag: "Created"; readonly batch: BatchRecord }
  | { readonly _tag: "Rejected"; readonly batch: BatchRecord; readonly rejection: Rejection }
  /** The owner has too many open batches on the endpoint. `open`: their number. */
  | { readonly _tag: "TooMany"; readonly open: number }
  | { readonly _tag: "EndpointGone" }

/** The result of starting a batch. */
export type FinalizeResult =
  | ChangeResult
  /** The endpoint's queue is full. `queued`: waiting jobs and requests. */
  | { readonly _tag: "QueueFull"; readonly queued: number }
  | { readonly _tag: "EndpointGone" }

/** The result of enqueueing requests. */
export interface EnqueueResult {
  /** Number of new jobs. */
  readonly jobs: number
  /** Requests may remain. */
  readonly more: boolean
  /** A quota does not admit the next request, so the rest must be enqueued later. */
  readonly isHeld: boolean
}

/** The result of cancelling a batch. */
export interface CancelResult {
  /** Undefined: the endpoint has no such batch. */
  readonly batch: BatchRecord | undefined
  /** The results for its waiting jobs. */
  readonly applied: ReadonlyArray<ApplyResult>
  /** Waiting jobs may remain. */
  readonly more: boolean
}

/** A page of a batch's requests. */
export interface RequestPage {
  readonly batch: BatchRecord
  readonly ids: ReadonlyArray<JobId>
}

/** The work that a sweep found. */
export interface SweepResult {
  /** Finalized batches with requests to enqueue. */
  readonly pending: ReadonlyArray<BatchRecord>
  /** Cancelled batches that may have waiting jobs. */
  readonly cancelling: ReadonlyArray<BatchRecord>
  /** Due batches may remain. */
  readonly more: boolean
}

/**
 * A parameter `owner` restricts a method to the batches that are visible to that owner (Owner.ts): a batch of another owner is missing.
 * Without it, a method finds all batches of the endpoint.
 */
export class BatchStore extends Context.Service<BatchStore, {
  /** Stores a draft with its first requests, unless its owner has `maxOpen` open batches on the endpoint. */
  readonly create: (
    batch: BatchRecord,
    requests: ReadonlyArray<BatchRequest>,
    limits: { readonly maxOpen: number; readonly maxRequests: number }
  ) => Effect.Effect<CreateResult, StoreError>

  /** Adds requests to a draft: all of them, or none when rejected. */
  readonly add: (
    endpoint: EndpointId,
    id: string,
    requests: ReadonlyArray<BatchRequest>,
    now: number,
    maxRequests: number,
    owner?: string
  ) => Effect.Effect<ChangeResult, StoreError>

  /** Removes a request from a draft. `Gone`: the draft does not contain the request. */
  readonly drop: (
    endpoint: EndpointId,
    id: string,
    request: string,
    now: number,
    owner?: string
  ) => Effect.Effect<ChangeResult | { readonly _tag: "Gone" }, StoreError>

  readonly edit: (
    endpoint: EndpointId,
    id: string,
    changes: Partial<Pick<BatchRecord, "name" | "webhook">>,
    now: number,
    owner?: string
  ) => Effect.Effect<ChangeResult, StoreError>

  /** Starts the batch, unless more than `maxQueued` jobs and requests would wait on the endpoint. */
  readonly finalize: (
    endpoint: EndpointId,
    id: string,
    now: number,
    maxQueued: number,
    owner?: string
  ) => Effect.Effect<FinalizeResult, StoreError>

  /**
   * Turns up to `limit` requests of a finalized batch into jobs, in order. A request whose job already exists, because the response to an
   * earlier call was lost, counts as enqueued. Stops at the first request that `quotas` do not admit.
   */
  readonly enqueue: (
    endpoint: EndpointId,
    id: BatchId,
    limit: number,
    toJob: (batch: BatchRecord, request: BatchRequest) => JobRecord,
    quotas?: Quotas
  ) => Effect.Effect<EnqueueResult, StoreError>

  /** Cancels a batch and up to `limit` of its waiting jobs. Repeat while `more`. Does not change a batch that has ended. */
  readonly cancel: (
    endpoint: EndpointId,
    id: string,
    now: number,
    limit: number,
    owner?: string
  ) => Effect.Effect<CancelResult, StoreError>

  readonly get: (endpoint: EndpointId, id: string, owner?: string) => Effect.Effect<BatchRecord | undefined, StoreError>

  /** The batches of an endpoint, newest first. */
  readonly list: (
    endpoint: EndpointId,
    offset: number,
    limit: number,
    owner?: string
  ) => Effect.Effect<ReadonlyArray<BatchRecord>, StoreError>

  /** The ids of a batch's requests, in order. */
  readonly requests: (
    endpoint: EndpointId,
    id: string,
    offset: number,
    limit: number,
    owner?: string
  ) => Effect.Effect<RequestPage | undefined, StoreError>

  /**
   * Cancels drafts that are too old or whose endpoint is removed, and removes batches after their retention. Before it removes a batch, it detaches
   * the jobs, up to `limit` at a time; their own retention then removes them. Returns the remaining work. Costs one query when there is nothing to
   * do.
   */
  readonly sweep: (now: number, limit: number) => Effect.Effect<SweepResult, StoreError>
}>()("@stint/store/BatchStore") {}
