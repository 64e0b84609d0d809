/**
 * Batches on top of the queue: drafts, enqueueing, cancellation and counts.
 *
 * ```
 *   finalize --commit--> enqueue, ENQUEUE_LIMIT requests per commit --> jobs; workers and the autoscaler are woken
 *                          |
 *                          | the store fails, the process is killed, or a quota is full
 *                          v
 *                        BatchTimers continues with the remaining requests
 * ```
 *
 * A request becomes a job in the same way as with `/run`, but with two different defaults: {@link BATCH_PRIORITY}, so that a large batch
 * does not delay interactive jobs, and {@link BATCH_TTL}, because the last request of a batch may wait for a long time. Like all jobs, the
 * jobs of a batch cause workers to be started, unless the policy sets `lowPriority`. Otherwise a batch on an endpoint without workers would
 * never run.
 */
import { BatchId } from "@stint/contract/Batch"
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { MAX_JOB_MILLIS, type Policy } from "@stint/contract/Job"
import { type BatchRecord, created, type Rejection } from "@stint/store/BatchMachine"
import { type BatchRequest, BatchStore, type ChangeResult, type RequestPage } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobRecord, JobReport } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import { KeyStore } from "@stint/store/KeyStore"
import { NO_OWNER } from "@stint/store/Owner"
import type { StoreError } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { BudgetReached, EndpointGone } from "../jobs/JobErrors.ts"
import { JobQueue } from "../jobs/JobQueue.ts"
import { quotasOf, toJobRecord } from "../jobs/Submission.ts"
import { Budgets } from "../usage/Budgets.ts"
import {
  BatchMissing,
  BatchTooLarge,
  type ChangeError,
  QueueFull,
  RequestMissing,
  TooManyBatches,
  WrongStatus
} from "./BatchErrors.ts"

/** The default priority of a request. Jobs submitted with `/run` have priority 0 by default. */
export const BATCH_PRIORITY = -10

/** The default ttl of a request in milliseconds, counted from finalize: 7 days, the maximum for any job. */
export const BATCH_TTL = MAX_JOB_MILLIS

/**
 * The maximum number of requests that one commit enqueues. A higher limit gives slightly more throughput but delays other operations for
 * longer.
 */
const ENQUEUE_LIMIT = 200

/** The maximum number of waiting jobs that one commit cancels, for the same reason. */
const CANCEL_LIMIT = 200

/** The limits: requests per batch, batches of one owner that have not ended, and waiting jobs of the endpoint. */
export interface BatchLimits {
  readonly requests: number
  readonly open: number
  readonly queued: number
}

/** A batch to create. */
export interface Draft {
  readonly endpoint: Endpoint
  /** The id of the access key that creates the batch. Default: `NO_OWNER`, which makes the batch visible to every caller. */
  readonly owner?: string | undefined
  readonly name?: string | undefined
  readonly webhook?: string | undefined
  readonly policy?: Policy | undefined
  readonly requests: ReadonlyArray<BatchRequest>
}

/** The parameter `owner` of a method has the same meaning as in `BatchStore`. */
export class BatchQueue extends Context.Service<BatchQueue, {
  /** Stores a draft. Fails with `TooManyBatches`, `BatchTooLarge` and `EndpointGone`. */
  readonly create: (
    draft: Draft,
    limits: BatchLimits
  ) => Effect.Effect<BatchRecord, StoreError | EndpointGone | TooManyBatches | WrongStatus | BatchTooLarge>

  /**
   * Adds requests to a draft: either all of them or none. Fails with `WrongStatus` when the batch is not a draft, and with `BatchTooLarge`.
   */
  readonly add: (
    endpoint: EndpointId,
    id: string,
    requests: ReadonlyArray<BatchRequest>,
    limits: BatchLimits,
    owner?: string
  ) => Effect.Effect<BatchRecord, StoreError | ChangeError>

  /** Removes a request from a draft. */
  readonly drop: (
    endpoint: EndpointId,
    id: string,
    request: string,
    owner?: string
  ) => Effect.Effect<BatchRecord, StoreError | ChangeError | RequestMissing>

  readonly edit: (
    endpoint: EndpointId,
    id: string,
    changes: Partial<Pick<BatchRecord, "name" | "webhook">>,
    owner?: string
  ) => Effect.Effect<BatchRecord, StoreError | ChangeError>

  /**
   * Starts a batch. When this returns, all requests of the batch have become jobs, or as many as the quotas admit: `tick` enqueues the rest when the
   * quotas admit more. This operation continues if the caller disconnects, and a repeated call changes nothing. Fails with `WrongStatus`
   * when the batch was cancelled, with `QueueFull`, and with `BudgetReached`. A budget that is reached later does not stop the remaining requests.
   */
  readonly finalize: (
    endpoint: Endpoint,
    id: string,
    limits: BatchLimits,
    owner?: string
  ) => Effect.Effect<BatchRecord, StoreError | ChangeError | EndpointGone | QueueFull | BudgetReached>

  /** Cancels waiting jobs; running jobs may finish. When this returns, no further job of the batch starts. */
  readonly cancel: (endpoint: EndpointId, id: string, owner?: string) => Effect.Effect<BatchRecord, StoreError | BatchMissing>

  readonly get: (endpoint: EndpointId, id: string, owner?: string) => Effect.Effect<BatchRecord, StoreError | BatchMissing>

  /** The batches of an endpoint, newest first. */
  readonly list: (
    endpoint: EndpointId,
    offset: number,
    limit: number,
    owner?: string
  ) => Effect.Effect<ReadonlyArray<BatchRecord>, StoreError>

  readonly requests: (
    endpoint: EndpointId,
    id: string,
    offset: number,
    limit: number,
    owner?: string
  ) => Effect.Effect<RequestPage, StoreError | BatchMissing>

  /** The job of a request; undefined before the request is enqueued and after the job is removed. */
  readonly job: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobReport | undefined, StoreError>

  /** Continues interrupted batches and removes expired ones. Returns true when more work may be due. */
  readonly tick: Effect.Effect<boolean, StoreError>
}>()("@stint/queue/BatchQueue") {}

/** The job of a request: its options override the batch's policy, which overrides the endpoint's settings. */
const toJob =
  (endpoint: Endpoint, now: number) => (batch: BatchRecord, { id, input, options, s3Config }: BatchRequest): JobRecord => {
    const { policy, priority, startAfterMs, startAt, tags, traceparent, tracestate, webhook } = options
    return toJobRecord({
      endpoint,
      id,
      owner: batch.owner,
      batchId: batch.id,
      input,
      s3Config: s3Config ?? undefined,
      policy: { ttl: BATCH_TTL, ...batch.policy, ...policy },
      priority: priority ?? BATCH_PRIORITY,
      tags,
      startAt,
      startAfterMs,
      webhook,
      trace: traceparent === undefined ? undefined : { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
    }, now)
  }

const rejected = ({ id, status, total }: BatchRecord, rejection: Rejection): WrongStatus | BatchTooLarge =>
  rejection._tag === "TooLarge"
    ? new BatchTooLarge({ id, total, limit: rejection.limit })
    : new WrongStatus({ id, status, rejection: rejection._tag })

const changed = (id: string, change: ChangeResult): Effect.Effect<BatchRecord, ChangeError> => {
  switch (change._tag) {
    case "Changed":
      return Effect.succeed(change.batch)
    case "Rejected":
      return Effect.fail(rejected(change.batch, change.rejection))
    case "Missing":
      return Effect.fail(new BatchMissing({ id }))
  }
}

const make = Effect.gen(function*() {
  const store = yield* BatchStore
  const jobs = yield* JobStore
  const queue = yield* JobQueue
  const endpoints = yield* EndpointStore
  const budgets = yield* Budgets
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  // Without access keys, no key has a quota.
  const keys = Option.getOrUndefined(yield* Effect.serviceOption(KeyStore))

  /** Enqueues every request that is not a job yet, or as many as the quotas admit. */
  const enqueue = Effect.fnUntraced(function*({ id, owner }: BatchRecord, endpoint: Endpoint) {
    const key = keys === undefined ? undefined : yield* keys.get(owner)
    while (true) {
      const enqueued = yield* store.enqueue(
        endpoint.id,
        id,
        ENQUEUE_LIMIT,
        toJob(endpoint, now()),
        quotasOf(endpoint, key?.limits)
      )
      yield* queue.notifyEnqueued(endpoint.id, enqueued.jobs)
      if (!enqueued.more || enqueued.isHeld) return
      // Yields to the event loop, so that a large batch does not delay submissions and takes.
      yield* Effect.yieldNow
    }
  })

  /** Cancels jobs until no job of the batch is waiting. */
  const cancelWaiting = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, owner?: string) {
    while (true) {
      const { applied, batch, more } = yield* store.cancel(endpoint, id, now(), CANCEL_LIMIT, owner)
      yield* queue.notifyChanged(applied)
      if (!more) return batch
      yield* Effect.yieldNow
    }
  })

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, id: string, owner?: string) {
    return (yield* store.get(endpoint, id, owner)) ?? (yield* new BatchMissing({ id }))
  })

  return BatchQueue.of({
    create: Effect.fnUntraced(function*({ endpoint, name, owner, policy, requests, webhook }, limits) {
      const batch = created({
        id: BatchId.make(`batch_${uuidV7At(now())}`),
        endpoint: endpoint.id,
        owner: owner ?? NO_OWNER,
        name: name ?? null,
        webhook: webhook ?? null,
        policy: policy ?? null,
        createdAt: now(),
        retentionMs: endpoint.retentionMs
      })
      const made = yield* store.create(batch, requests, { maxOpen: limits.open, maxRequests: limits.requests })
      switch (made._tag) {
        case "Created":
          return made.batch
        case "Rejected":
          return yield* rejected(made.batch, made.rejection)
        case "TooMany":
          return yield* new TooManyBatches({ open: made.open, limit: limits.open })
        case "EndpointGone":
          return yield* new EndpointGone({ endpoint: endpoint.id })
      }
    }),
    add: (endpoint, id, requests, limits, owner) =>
      Effect.suspend(() => store.add(endpoint, id, requests, now(), limits.requests, owner)).pipe(
        Effect.flatMap((change) => changed(id, change))
      ),
    drop: Effect.fnUntraced(function*(endpoint, id, request, owner) {
      const change = yield* store.drop(endpoint, id, request, now(), owner)
      return change._tag === "Gone"
        ? yield* new RequestMissing({ id, request })
        : yield* changed(id, change)
    }),
    edit: (endpoint, id, changes, owner) =>
      Effect.suspend(() => store.edit(endpoint, id, changes, now(), owner)).pipe(Effect.flatMap((change) => changed(id, change))),
    finalize: Effect.fnUntraced(function*(endpoint, id, limits, owner) {
      const draft = yield* store.get(endpoint.id, id, owner)
      const budget = draft?.status === "DRAFT" ? budgets.reachedBy(endpoint.id, draft.owner) : undefined
      if (budget !== undefined) return yield* new BudgetReached(budget)
      const change = yield* store.finalize(endpoint.id, id, now(), limits.queued, owner)
      if (change._tag === "EndpointGone") return yield* new EndpointGone({ endpoint: endpoint.id })
      if (change._tag === "QueueFull") return yield* new QueueFull({ id, queued: change.queued, limit: limits.queued })
      const batch = yield* changed(id, change)
      yield* queue.notifyChanged([])
      yield* enqueue(batch, endpoint)
      return yield* get(endpoint.id, id)
    }, Effect.uninterruptible),
    cancel: Effect.fnUntraced(function*(endpoint, id, owner) {
      return (yield* cancelWaiting(endpoint, id, owner)) ?? (yield* new BatchMissing({ id }))
    }, Effect.uninterruptible),
    get,
    list: store.list,
    requests: Effect.fnUntraced(function*(endpoint, id, offset, limit, owner) {
      return (yield* store.requests(endpoint, id, offset, limit, owner)) ?? (yield* new BatchMissing({ id }))
    }),
    job: (endpoint, id) => jobs.get(endpoint, id),
    tick: Effect.gen(function*() {
      const { pending, more, cancelling } = yield* store.sweep(now(), CANCEL_LIMIT)
      for (const batch of pending) {
        const endpoint = yield* endpoints.get(batch.endpoint)
        if (endpoint !== undefined) yield* enqueue(batch, endpoint)
      }
      for (const { endpoint, id } of cancelling) yield* cancelWaiting(endpoint, id)
      return more
    }).pipe(Effect.uninterruptible)
  })
})

/** Batches, using the provided stores. */
export const layer: Layer.Layer<BatchQueue, never, BatchStore | JobStore | JobQueue | EndpointStore> = Layer.effect(
  BatchQueue,
  make
)
