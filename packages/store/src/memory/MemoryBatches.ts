/**
 * Batches in memory: part of the memory store, which changes a batch in the same step as its jobs.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as BatchMachine from "../batches/BatchMachine.ts"
import type { BatchRecord } from "../batches/BatchMachine.ts"
import type { BatchRequest, BatchStore, ChangeResult } from "../batches/BatchStore.ts"
import { batchWebhook } from "../batches/BatchWebhook.ts"
import type { JobMachineEvent } from "../jobs/JobMachine.ts"
import type { JobHead, JobRecord } from "../jobs/JobRecord.ts"
import type { ApplyResult } from "../jobs/JobStore.ts"
import type { Quotas } from "../jobs/Quota.ts"
import { isVisibleTo } from "../Owner.ts"
import type { NewDelivery } from "../webhooks/WebhookStore.ts"

/** The jobs of the memory store. */
export interface Jobs {
  readonly insert: (job: JobRecord) => void
  readonly get: (id: JobId) => JobHead | undefined
  readonly apply: (id: JobId, event: JobMachineEvent) => ApplyResult
  /** Number of IN_QUEUE jobs of an endpoint. */
  readonly queued: (endpoint: EndpointId) => number
  readonly wasRemoved: (endpoint: EndpointId) => boolean
  /** Whether the quotas admit a new job. */
  readonly admits: (job: JobRecord, quotas: Quotas | undefined) => boolean
}

interface Entry {
  record: BatchRecord
  /** In insertion order. */
  readonly requests: Map<JobId, BatchRequest>
  /** Requests that are not jobs yet. */
  readonly pending: Set<JobId>
  readonly seq: number
}

/** The batches of a store. */
export interface MemoryBatches {
  readonly service: BatchStore["Service"]
  /** Updates the batch of a changed job. Returns whether the job must be cancelled in the same step. */
  readonly jobChanged: (before: JobHead, after: JobHead, now: number) => boolean
  /** Whether the retention of a job's batch has ended. */
  readonly isExpired: (job: JobHead, now: number) => boolean
  /** Whether an endpoint has running batches. */
  readonly isBusy: (endpoint: EndpointId) => boolean
}

/** An empty store. */
export const make = (jobs: Jobs, outbox: { readonly add: (delivery: NewDelivery) => void }): MemoryBatches => {
  const entries = new Map<BatchId, Entry>()
  let seq = 0

  const ofEndpoint = (endpoint: EndpointId) => [...entries.values()].filter(({ record }) => record.endpoint === endpoint)

  const find = (endpoint: EndpointId, id: string, owner?: string): Entry | undefined =>
    ofEndpoint(endpoint).find(({ record }) => record.id === id && isVisibleTo(owner, record.owner))

  const put = (entry: Entry, after: BatchRecord, now: number) => {
    const before = entry.record
    entry.record = after
    const delivery = batchWebhook(before, after, now)
    if (delivery !== undefined) outbox.add(delivery)
  }

  const change = (
    entry: Entry | undefined,
    decide: (batch: BatchRecord) => Result.Result<BatchRecord, BatchMachine.Rejection>,
    now: number,
    onChanged: (entry: Entry) => void = () => {}
  ): ChangeResult => {
    if (entry === undefined) return { _tag: "Missing" }
    const decided = decide(entry.record)
    if (Result.isFailure(decided)) return { _tag: "Rejected", batch: entry.record, rejection: decided.failure }
    put(entry, decided.success, now)
    onChanged(entry)
    return { _tag: "Changed", batch: entry.record }
  }

  const addRequests = (requests: ReadonlyArray<BatchRequest>) => (entry: Entry) => {
    for (const request of requests) {
      entry.requests.set(request.id, request)
      entry.pending.add(request.id)
    }
  }

  const waiting = (entry: Entry): ReadonlyArray<JobId> =>
    [...entry.requests.keys()].filter((id) => {
      const job = jobs.get(id)
      return job?.batchId === entry.record.id && job.status === "IN_QUEUE"
    })

  const cancel = (entry: Entry, now: number, limit: number) => {
    put(entry, BatchMachine.cancelled(entry.record, now), now)
    entry.pending.clear()
    const found = BatchMachine.isCancelling(entry.record) ? waiting(entry).slice(0, limit) : []
    const { endpoint } = entry.record
    const applied = found.map((id) => jobs.apply(id, { _tag: "Cancel", now, endpoint }))
    return { batch: entry.record, applied, more: found.length === limit }
  }

  /** Detaches up to `limit` jobs, then removes the batch. Returns whether jobs remain. */
  const remove = (entry: Entry, now: number, limit: number): boolean => {
    const attached = [...entry.requests.keys()].filter((id) => jobs.get(id)?.batchId === entry.record.id)
    for (const id of attached.slice(0, limit)) jobs.apply(id, { _tag: "LeaveBatch", now })
    if (attached.length > limit) return true
    entries.delete(entry.record.id)
    return false
  }

  return {
    jobChanged: (before, after, now) => {
      const entry = after.batchId === null ? undefined : entries.get(after.batchId)
      if (entry === undefined) return false
      put(entry, BatchMachine.jobChanged(entry.record, before.status, after.status, now), now)
      return BatchMachine.mustCancel(entry.record, after.status)
    },
    isExpired: ({ batchId }, now) => {
      const entry = batchId === null ? undefined : entries.get(batchId)
      return entry !== undefined && BatchMachine.isExpired(entry.record, now)
    },
    isBusy: (endpoint) => ofEndpoint(endpoint).some(({ record }) => record.status !== "DRAFT" && record.endedAt === null),
    service: {
      create: (batch, requests, { maxOpen, maxRequests }) =>
        Effect.sync(() => {
          if (jobs.wasRemoved(batch.endpoint)) return { _tag: "EndpointGone" }
          const open = ofEndpoint(batch.endpoint).filter(({ record }) =>
            record.owner === batch.owner && record.endedAt === null
          ).length
          if (open >= maxOpen) return { _tag: "TooMany", open }
          const decided = BatchMachine.added(batch, requests.length, batch.createdAt, maxRequests)
          if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
          const entry: Entry = { record: decided.success, requests: new Map(), pending: new Set(), seq: ++seq }
          entries.set(batch.id, entry)
          addRequests(requests)(entry)
          return { _tag: "Created", batch: entry.record }
        }),
      add: (endpoint, id, requests, now, maxRequests, owner) =>
        Effect.sync(() =>
          change(
            find(endpoint, id, owner),
            (batch) => BatchMachine.added(batch, requests.length, now, maxRequests),
            now,
            addRequests(requests)
          )
        ),
      drop: (endpoint, id, request, now, owner) =>
        Effect.sync(() => {
          const entry = find(endpoint, id, owner)
          const known = [...entry?.requests.keys() ?? []].find((one) => one === request)
          if (entry !== undefined && known === undefined) return { _tag: "Gone" }
          return change(entry, (batch) => BatchMachine.dropped(batch, now), now, (entry) => {
            if (known === undefined) return
            entry.requests.delete(known)
            entry.pending.delete(known)
          })
        }),
      edit: (endpoint, id, changes, now, owner) =>
        Effect.sync(() => change(find(endpoint, id, owner), (batch) => BatchMachine.edited(batch, changes, now), now)),
      finalize: (endpoint, id, now, maxQueued, owner) =>
        Effect.sync(() => {
          const entry = find(endpoint, id, owner)
          if (jobs.wasRemoved(endpoint)) return { _tag: "EndpointGone" }
          if (entry?.record.status === "DRAFT") {
            const notEnqueued = ofEndpoint(endpoint).reduce((sum, { record }) => sum + record.notEnqueued, 0)
            const queued = jobs.queued(endpoint) + notEnqueued
            if (queued + entry.record.total > maxQueued) return { _tag: "QueueFull", queued }
          }
          return change(entry, (batch) => BatchMachine.finalized(batch, now), now)
        }),
      enqueue: (endpoint, id, limit, toJob, quotas) =>
        Effect.sync(() => {
          const entry = find(endpoint, id)
          if (entry === undefined || !BatchMachine.hasPending(entry.record)) return { jobs: 0, more: false, isHeld: false }
          let enqueued = 0
          let isHeld = false
          for (const one of [...entry.pending].slice(0, limit)) {
            const request = entry.requests.get(one)
            const job = request === undefined ? undefined : toJob(entry.record, request)
            isHeld = job !== undefined && jobs.get(job.id) === undefined && !jobs.admits(job, quotas)
            if (isHeld) break
            if (job !== undefined) jobs.insert(job)
            entry.pending.delete(one)
            enqueued += 1
          }
          entry.record = BatchMachine.enqueued(entry.record, enqueued)
          return { jobs: enqueued, more: BatchMachine.hasPending(entry.record), isHeld }
        }),
      cancel: (endpoint, id, now, limit, owner) =>
        Effect.sync(() => {
          const entry = find(endpoint, id, owner)
          return entry === undefined ? { batch: undefined, applied: [], more: false } : cancel(entry, now, limit)
        }),
      get: (endpoint, id, owner) => Effect.sync(() => find(endpoint, id, owner)?.record),
      list: (endpoint, offset, limit, owner) =>
        Effect.sync(() =>
          ofEndpoint(endpoint)
            .filter(({ record }) => isVisibleTo(owner, record.owner))
            .sort((a, b) => b.record.createdAt - a.record.createdAt || b.seq - a.seq)
            .slice(offset, offset + limit)
            .map(({ record }) => record)
        ),
      requests: (endpoint, id, offset, limit, owner) =>
        Effect.sync(() => {
          const entry = find(endpoint, id, owner)
          return entry === undefined
            ? undefined
            : { batch: entry.record, ids: [...entry.requests.keys()].slice(offset, offset + limit) }
        }),
      sweep: (now, limit) =>
        Effect.sync(() => {
          let more = false
          for (const entry of [...entries.values()]) {
            const { record } = entry
            const isDue = (BatchMachine.dueAt(record) ?? Infinity) <= now
            if (BatchMachine.isExpired(record, now)) more = remove(entry, now, limit) || more
            else if (record.status === "DRAFT" && (isDue || jobs.wasRemoved(record.endpoint))) cancel(entry, now, limit)
          }
          const all = [...entries.values()].map(({ record }) => record)
          return { pending: all.filter(BatchMachine.hasPending), cancelling: all.filter(BatchMachine.isCancelling), more }
        })
    }
  }
}
