/**
 * Batches in SQLite: part of `SqliteJobStore`, because jobs and their batch change in one transaction.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId } from "@stint/contract/Ids"
import * as BatchMachine from "@stint/store/BatchMachine"
import type { BatchRecord } from "@stint/store/BatchMachine"
import {
  BatchStore,
  type CancelResult,
  type ChangeResult,
  type CreateResult,
  type EnqueueResult,
  type FinalizeResult,
  type SweepResult
} from "@stint/store/BatchStore"
import type { JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import type { ApplyResult } from "@stint/store/JobStore"
import { isVisibleTo } from "@stint/store/Owner"
import type { Quotas } from "@stint/store/Quota"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BatchRows } from "./BatchRows.ts"
import type { Row } from "./JobColumns.ts"
import type { JobRows } from "./JobRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The operations on the jobs of the database. All methods run within a transaction. */
export interface Jobs {
  readonly rows: JobRows
  /** Returns false and writes nothing when the id already exists. */
  readonly insert: (job: JobRecord) => boolean
  readonly apply: (row: Row, event: JobMachineEvent) => ApplyResult
  /** Number of IN_QUEUE jobs of an endpoint, including changes made by earlier commands in the transaction. */
  readonly queued: (endpoint: EndpointId) => number
  /** Whether the quotas admit a new job. */
  readonly admits: (job: JobRecord, quotas: Quotas | undefined) => boolean
}

/** Maximum number of batches per sweep. */
const SWEEP_LIMIT = 20

const NOTHING_ENQUEUED: EnqueueResult = { jobs: 0, more: false, isHeld: false }

/** Creates the batch store from the rows of a database file. */
export const make = (db: SqliteDatabase["Service"], batches: BatchRows, jobs: Jobs): BatchStore["Service"] => {
  const { rows } = jobs

  const visible = (batch: BatchRecord | undefined, endpoint: EndpointId, owner: string | undefined): BatchRecord | undefined =>
    batch?.endpoint === endpoint && isVisibleTo(owner, batch.owner) ? batch : undefined

  const find = (endpoint: EndpointId, id: string, owner: string | undefined): BatchRecord | undefined =>
    visible(batches.current(id), endpoint, owner)

  const change = (
    endpoint: EndpointId,
    id: string,
    owner: string | undefined,
    now: number,
    decide: (batch: BatchRecord) => Result.Result<BatchRecord, BatchMachine.Rejection>
  ): ChangeResult => {
    const batch = find(endpoint, id, owner)
    if (batch === undefined) return { _tag: "Missing" }
    const decided = decide(batch)
    if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
    batches.put(batch, decided.success, now)
    return { _tag: "Changed", batch: decided.success }
  }

  const cancel = (batch: BatchRecord, now: number, limit: number): CancelResult => {
    const after = BatchMachine.cancelled(batch, now)
    batches.put(batch, after, now)
    const found = BatchMachine.isCancelling(after) ? rows.waitingOf(batch.id, limit) : []
    const applied = found.map((row) => jobs.apply(row, { _tag: "Cancel", now, endpoint: batch.endpoint }))
    return { batch: batches.current(batch.id), applied, more: found.length === limit }
  }

  /** Detaches up to `limit` jobs, then removes the batch. Returns whether jobs remain. */
  const remove = (id: BatchId, now: number, limit: number): boolean => {
    const attached = rows.ofBatch(id, limit)
    for (const row of attached) jobs.apply(row, { _tag: "LeaveBatch", now })
    if (attached.length === limit) return true
    batches.remove(id)
    return false
  }

  /** Within a transaction. Returns whether due batches remain. */
  const sweep = (now: number, limit: number): boolean => {
    const due = batches.due(now, SWEEP_LIMIT)
    let more = due.length === SWEEP_LIMIT
    for (const { id } of due) {
      const batch = batches.current(id)
      if (batch === undefined) continue
      if (batch.status === "DRAFT") {
        cancel(batch, now, limit)
      } else if (BatchMachine.isExpired(batch, now)) {
        more = remove(id, now, limit) || more
      }
    }
    return more
  }

  return BatchStore.of({
    create: (batch, requests, { maxOpen, maxRequests }) =>
      db.writeNew("create batch", (): CreateResult => {
        if (rows.isEndpointRemoved(batch.endpoint)) return { _tag: "EndpointGone" }
        const open = batches.currentOpen(batch.endpoint).filter(({ owner }) => owner === batch.owner).length
        if (open >= maxOpen) return { _tag: "TooMany", open }
        const decided = BatchMachine.added(batch, requests.length, batch.createdAt, maxRequests)
        if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
        batches.insert(decided.success)
        for (const request of requests) batches.addRequest(batch.id, request)
        return { _tag: "Created", batch: decided.success }
      }),
    add: (endpoint, id, requests, now, maxRequests, owner) =>
      db.writeNew("add to batch", () => {
        const changed = change(endpoint, id, owner, now, (batch) => BatchMachine.added(batch, requests.length, now, maxRequests))
        if (changed._tag === "Changed") { for (const request of requests) batches.addRequest(changed.batch.id, request) }
        return changed
      }),
    drop: (endpoint, id, request, now, owner) =>
      db.write("drop from batch", (): ChangeResult | { readonly _tag: "Gone" } => {
        const batch = find(endpoint, id, owner)
        if (batch !== undefined && !batches.hasRequest(batch.id, request)) return { _tag: "Gone" }
        const changed = change(endpoint, id, owner, now, (batch) => BatchMachine.dropped(batch, now))
        if (changed._tag === "Changed") batches.dropRequest(changed.batch.id, request)
        return changed
      }),
    edit: (endpoint, id, changes, now, owner) =>
      db.write("edit batch", () => change(endpoint, id, owner, now, (batch) => BatchMachine.edited(batch, changes, now))),
    finalize: (endpoint, id, now, maxQueued, owner) =>
      db.write("finalize batch", (): FinalizeResult => {
        if (rows.isEndpointRemoved(endpoint)) return { _tag: "EndpointGone" }
        const batch = find(endpoint, id, owner)
        if (batch?.status === "DRAFT") {
          const notEnqueued = batches.currentOpen(endpoint).reduce((sum, { notEnqueued }) => sum + notEnqueued, 0)
          const queued = jobs.queued(endpoint) + notEnqueued
          if (queued + batch.total > maxQueued) return { _tag: "QueueFull", queued }
        }
        return change(endpoint, id, owner, now, (batch) => BatchMachine.finalized(batch, now))
      }),
    enqueue: (endpoint, id, limit, toJob, quotas) =>
      db.writeNew("enqueue batch", (): EnqueueResult => {
        const batch = find(endpoint, id, undefined)
        if (batch === undefined || !BatchMachine.hasPending(batch)) return NOTHING_ENQUEUED
        const next = batches.pendingRequests(id, limit)
        let inserted = 0
        let enqueued = 0
        let isHeld = false
        for (const { request, seq } of next) {
          const job = toJob(batch, request)
          isHeld = !jobs.admits(job, quotas) && rows.find(job.endpoint, job.id) === undefined
          if (isHeld) break
          if (jobs.insert(job)) inserted += 1
          batches.markEnqueued(seq)
          enqueued += 1
        }
        const after = BatchMachine.enqueued(batch, enqueued)
        batches.put(batch, after, batch.touchedAt)
        return { jobs: inserted, more: BatchMachine.hasPending(after), isHeld }
      }),
    cancel: (endpoint, id, now, limit, owner) =>
      db.write("cancel batch", (): CancelResult => {
        const batch = find(endpoint, id, owner)
        return batch === undefined ? { batch: undefined, applied: [], more: false } : cancel(batch, now, limit)
      }),
    get: (endpoint, id, owner) => db.read("get batch", () => visible(batches.find(id), endpoint, owner)),
    list: (endpoint, offset, limit, owner) => db.read("list batches", () => batches.list(endpoint, offset, limit, owner)),
    requests: (endpoint, id, offset, limit, owner) =>
      db.read("requests of batch", () => {
        const batch = visible(batches.find(id), endpoint, owner)
        return batch === undefined ? undefined : { batch, ids: batches.requests(batch.id, offset, limit) }
      }),
    sweep: Effect.fnUntraced(function*(now, limit) {
      const idle = yield* db.read("sweep batches", () => batches.due(now, 1).length === 0)
      const more = idle ? false : yield* db.write("sweep batches", () => sweep(now, limit))
      const work = yield* db.read("sweep batches", batches.unfinished)
      return {
        pending: work.filter(BatchMachine.hasPending),
        cancelling: work.filter(BatchMachine.isCancelling),
        more
      } satisfies SweepResult
    })
  })
}
