/**
 * Batches over the queue: drafts, their way into it, and what has become of them.
 *
 * ```
 *   finalize --commit--> feed, FEED_LIMIT requests a commit --> jobs; workers and the autoscaler are woken
 *                          |
 *                          | the caller hangs up, the store fails, the process is killed
 *                          v
 *                        BatchTimers goes on where it stopped
 * ```
 *
 * A request becomes a job as it would by `/run`, with two defaults of its own: {@link BATCH_PRIORITY}, so that thousands of them stand
 * behind the next interactive job, and {@link BATCH_TTL}, because the last of them may wait for long. It makes the autoscaler start
 * workers as every job does, unless its policy says `lowPriority`: a batch on an endpoint without workers would otherwise wait for ever.
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
import { EndpointGone, QueueError } from "@stint/store/QueueError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { JobQueue } from "../jobs/JobQueue.ts"
import { toJobRecord } from "../jobs/Submission.ts"
import { BatchError, BatchMissing, BatchTooLarge, QueueFull, RequestMissing, TooManyBatches, WrongStatus } from "./BatchError.ts"

/** The priority of requests that do not say one. Jobs of `/run` have 0. */
export const BATCH_PRIORITY = -10

/** How long a request may live that does not say it, from finalize on: as long as a job may at all, 7 days. */
export const BATCH_TTL = MAX_JOB_MILLIS

/** How many requests one commit makes jobs of. More is a little faster in all and holds up everybody else for longer. */
const ENQUEUE_LIMIT = 200

/** How many waiting jobs one commit cancels, or lets go, for the same reason. */
const CANCEL_LIMIT = 200

/** How many of what there may be, by whoever offers it to callers. */
export interface BatchLimits {
  readonly requests: number
  readonly open: number
  readonly queued: number
}

/** What a batch is made from. */
export interface Draft {
  readonly endpoint: Endpoint
  readonly name?: string | undefined
  readonly webhook?: string | undefined
  readonly policy?: Policy | undefined
  readonly requests: ReadonlyArray<BatchRequest>
}

export class BatchQueue extends Context.Service<BatchQueue, {
  /** Keeps a draft. Fails with `TooManyBatches`, `BatchTooLarge`, and `EndpointGone`. */
  readonly create: (draft: Draft, limits: BatchLimits) => Effect.Effect<BatchRecord, QueueError | BatchError>

  /** Adds requests to a draft, all or none. Fails with `WrongStatus` where it is none, and with `BatchTooLarge`. */
  readonly add: (
    endpoint: EndpointId,
    id: string,
    requests: ReadonlyArray<BatchRequest>,
    limits: BatchLimits
  ) => Effect.Effect<BatchRecord, QueueError | BatchError>

  /** Takes a request out of a draft. */
  readonly drop: (endpoint: EndpointId, id: string, request: string) => Effect.Effect<BatchRecord, QueueError | BatchError>

  readonly edit: (
    endpoint: EndpointId,
    id: string,
    changes: Partial<Pick<BatchRecord, "name" | "webhook">>
  ) => Effect.Effect<BatchRecord, QueueError | BatchError>

  /**
   * Starts a batch. When this returns, all its requests are jobs; a caller that hangs up meanwhile stops nothing. Doing it again changes
   * nothing. Fails with `WrongStatus` where it was cancelled, and with `QueueFull`.
   */
  readonly finalize: (endpoint: Endpoint, id: string, limits: BatchLimits) => Effect.Effect<BatchRecord, QueueError | BatchError>

  /** Cancels what waits; what runs may finish. When this returns, nothing of the batch is started any more. */
  readonly cancel: (endpoint: EndpointId, id: string) => Effect.Effect<BatchRecord, QueueError | BatchError>

  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<BatchRecord, QueueError | BatchError>

  /** The batches of an endpoint, newest first. */
  readonly list: (endpoint: EndpointId, offset: number, limit: number) => Effect.Effect<ReadonlyArray<BatchRecord>, QueueError>

  readonly requests: (
    endpoint: EndpointId,
    id: string,
    offset: number,
    limit: number
  ) => Effect.Effect<RequestPage, QueueError | BatchError>

  /** The job of a request; undefined where it is none yet, or no more. */
  readonly job: (endpoint: EndpointId, id: JobId) => Effect.Effect<JobReport | undefined, QueueError>

  /** Does what is to be done without anybody asking. True when there may be more. */
  readonly tick: Effect.Effect<boolean, QueueError>
}>()("@stint/queue/BatchQueue") {}

/** The job of a request: its wishes over the batch's over the endpoint's settings. */
const toJob =
  (endpoint: Endpoint, now: number) => (batch: BatchRecord, { id, input, options, s3Config }: BatchRequest): JobRecord => {
    const { policy, priority, tags, traceparent, tracestate, webhook } = options
    return toJobRecord({
      endpoint,
      id,
      batchId: batch.id,
      input,
      s3Config: s3Config ?? undefined,
      policy: { ttl: BATCH_TTL, ...batch.policy, ...policy },
      priority: priority ?? BATCH_PRIORITY,
      tags,
      webhook,
      trace: traceparent === undefined ? undefined : { traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
    }, now)
  }

const missing = (id: string) => new BatchError({ reason: new BatchMissing({ id }) })

const endpointGone = (endpoint: EndpointId) => new QueueError({ reason: new EndpointGone({ endpoint }) })

const rejected = ({ id, status, total }: BatchRecord, rejection: Rejection) =>
  new BatchError({
    reason: rejection._tag === "TooLarge"
      ? new BatchTooLarge({ id, total, limit: rejection.limit })
      : new WrongStatus({ id, status, rejection: rejection._tag })
  })

const changed = (id: string, change: ChangeResult): Effect.Effect<BatchRecord, BatchError> => {
  switch (change._tag) {
    case "Changed":
      return Effect.succeed(change.batch)
    case "Rejected":
      return Effect.fail(rejected(change.batch, change.rejection))
    case "Missing":
      return Effect.fail(missing(id))
  }
}

const make = Effect.gen(function*() {
  const store = yield* BatchStore
  const jobs = yield* JobStore
  const queue = yield* JobQueue
  const endpoints = yield* EndpointStore
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  /** Makes jobs of all requests that are none yet. */
  const enqueue = Effect.fnUntraced(function*(id: BatchId, endpoint: Endpoint) {
    while (true) {
      const enqueued = yield* store.enqueue(endpoint.id, id, ENQUEUE_LIMIT, toJob(endpoint, now()))
      yield* queue.notifyEnqueued(endpoint.id, enqueued.jobs)
      if (!enqueued.more) return
      // The event loop gets its turn: those who submit and take meanwhile are not held up for the whole of a large batch.
      yield* Effect.yieldNow
    }
  })

  /** Cancels until nothing of it waits any more. */
  const cancelWaiting = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    while (true) {
      const { applied, batch, more } = yield* store.cancel(endpoint, id, now(), CANCEL_LIMIT)
      yield* queue.changed(applied)
      if (!more) return batch
      yield* Effect.yieldNow
    }
  })

  const get = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    return (yield* store.get(endpoint, id)) ?? (yield* missing(id))
  })

  return BatchQueue.of({
    create: Effect.fnUntraced(function*({ endpoint, name, policy, requests, webhook }, limits) {
      const batch = created({
        id: BatchId.make(`batch_${uuidV7At(now())}`),
        endpoint: endpoint.id,
        name: name ?? null,
        webhook: webhook ?? null,
        policy: policy ?? null,
        createdAt: now(),
        retentionMs: endpoint.retentionMs
      })
      const made = yield* store.create(batch, requests, { maxOpen: limits.open, maxRequests: limits.requests })
      switch (made._tag) {
        case "Kept":
          return made.batch
        case "Rejected":
          return yield* rejected(made.batch, made.rejection)
        case "TooMany":
          return yield* new BatchError({ reason: new TooManyBatches({ open: made.open, limit: limits.open }) })
        case "EndpointGone":
          return yield* endpointGone(endpoint.id)
      }
    }),
    add: (endpoint, id, requests, limits) =>
      Effect.suspend(() => store.add(endpoint, id, requests, now(), limits.requests)).pipe(
        Effect.flatMap((change) => changed(id, change))
      ),
    drop: Effect.fnUntraced(function*(endpoint, id, request) {
      const change = yield* store.drop(endpoint, id, request, now())
      return change._tag === "Gone"
        ? yield* new BatchError({ reason: new RequestMissing({ id, request }) })
        : yield* changed(id, change)
    }),
    edit: (endpoint, id, changes) =>
      Effect.suspend(() => store.edit(endpoint, id, changes, now())).pipe(Effect.flatMap((change) => changed(id, change))),
    finalize: Effect.fnUntraced(function*(endpoint, id, limits) {
      const change = yield* store.finalize(endpoint.id, id, now(), limits.queued)
      if (change._tag === "EndpointGone") return yield* endpointGone(endpoint.id)
      if (change._tag === "QueueFull") {
        return yield* new BatchError({ reason: new QueueFull({ id, queued: change.queued, limit: limits.queued }) })
      }
      const batch = yield* changed(id, change)
      yield* queue.changed([])
      yield* enqueue(batch.id, endpoint)
      return yield* get(endpoint.id, id)
    }, Effect.uninterruptible),
    cancel: Effect.fnUntraced(function*(endpoint, id) {
      return (yield* cancelWaiting(endpoint, id)) ?? (yield* missing(id))
    }, Effect.uninterruptible),
    get,
    list: (endpoint, offset, limit) => store.list(endpoint, offset, limit),
    requests: Effect.fnUntraced(function*(endpoint, id, offset, limit) {
      return (yield* store.requests(endpoint, id, offset, limit)) ?? (yield* missing(id))
    }),
    job: (endpoint, id) => jobs.get(endpoint, id),
    tick: Effect.gen(function*() {
      const { pending, more, cancelling } = yield* store.sweep(now(), CANCEL_LIMIT)
      for (const batch of pending) {
        const endpoint = yield* endpoints.get(batch.endpoint)
        if (endpoint !== undefined) yield* enqueue(batch.id, endpoint)
      }
      for (const { endpoint, id } of cancelling) yield* cancelWaiting(endpoint, id)
      return more
    }).pipe(Effect.uninterruptible)
  })
})

/** Batches over whatever stores are given. */
export const layer: Layer.Layer<BatchQueue, never, BatchStore | JobStore | JobQueue | EndpointStore> = Layer.effect(
  BatchQueue,
  make
)
