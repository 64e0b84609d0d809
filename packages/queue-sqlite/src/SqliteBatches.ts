/**
 * Batches in SQLite: part of `SqliteJobStore`, because a job and its batch change in one transaction.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId } from "@stint/contract/Ids"
import * as BatchMachine from "@stint/queue/BatchMachine"
import type { BatchRecord } from "@stint/queue/BatchMachine"
import {
  BatchStore,
  type Changed,
  type Created,
  type Fed,
  type Finalized,
  type Swept,
  type Withdrawn
} from "@stint/queue/BatchStore"
import type { JobEvent } from "@stint/queue/JobMachine"
import type { JobRecord } from "@stint/queue/JobRecord"
import type { Applied } from "@stint/queue/JobStore"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BatchRows } from "./BatchRows.ts"
import type { JobRows, Row } from "./JobRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The jobs beside the batches. All of it within a transaction. */
export interface Jobs {
  readonly rows: JobRows
  /** False, and nothing is written, when there is a job of that id. */
  readonly insert: (job: JobRecord) => boolean
  readonly apply: (row: Row, event: JobEvent) => Applied
  /** How many jobs of an endpoint wait, ready or not, by what the commands before have left. */
  readonly queued: (endpoint: EndpointId) => number
}

/** Sweeps take so many batches at a time. */
const SWEEP_LIMIT = 20

const NOTHING_FED: Fed = { jobs: 0, more: false }

/** The batch store over a file's rows. */
export const make = (db: SqliteDatabase["Service"], batches: BatchRows, jobs: Jobs): BatchStore["Service"] => {
  const { rows } = jobs

  const find = (endpoint: EndpointId, id: string): BatchRecord | undefined => {
    const batch = batches.current(id)
    return batch?.endpoint === endpoint ? batch : undefined
  }

  const change = (
    endpoint: EndpointId,
    id: string,
    now: number,
    decide: (batch: BatchRecord) => Result.Result<BatchRecord, BatchMachine.Rejection>
  ): Changed => {
    const batch = find(endpoint, id)
    if (batch === undefined) return { _tag: "Missing" }
    const decided = decide(batch)
    if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
    batches.put(batch, decided.success, now)
    return { _tag: "Changed", batch: decided.success }
  }

  const cancel = (batch: BatchRecord, now: number, limit: number): Withdrawn => {
    const after = BatchMachine.cancelled(batch, now)
    batches.put(batch, after, now)
    const found = BatchMachine.isWindingUp(after) ? rows.waitingOf(batch.id, limit) : []
    const applied = found.map((row) => jobs.apply(row, { _tag: "Cancel", now, endpoint: batch.endpoint }))
    return { batch: batches.current(batch.id), applied, more: found.length === limit }
  }

  /** Lets jobs go, and then the batch. True when there is more of it. */
  const remove = (id: BatchId, now: number, limit: number): boolean => {
    const held = rows.ofBatch(id, limit)
    for (const row of held) jobs.apply(row, { _tag: "Leave", now })
    if (held.length === limit) return true
    batches.remove(id)
    return false
  }

  /** Within a transaction. True when there is more that is due. */
  const sweep = (now: number, limit: number): boolean => {
    const due = batches.due(now, SWEEP_LIMIT)
    let more = due.length === SWEEP_LIMIT
    for (const { id } of due) {
      const batch = batches.current(id)
      if (batch === undefined) continue
      if (batch.status === "DRAFT") {
        cancel(batch, now, limit)
      } else if (batch.endedAt !== null && batch.endedAt + batch.retentionMs <= now) {
        more = remove(id, now, limit) || more
      }
    }
    return more
  }

  return BatchStore.of({
    create: (batch, requests, { mostOpen, mostRequests }) =>
      db.write("create batch", (): Created => {
        if (rows.isRefused(batch.endpoint)) return { _tag: "EndpointGone" }
        const open = batches.currentOpen(batch.endpoint).length
        if (open >= mostOpen) return { _tag: "TooMany", open }
        const decided = BatchMachine.added(batch, requests.length, batch.createdAt, mostRequests)
        if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
        batches.insert(decided.success)
        for (const request of requests) batches.addRequest(batch.id, request)
        return { _tag: "Kept", batch: decided.success }
      }),
    add: (endpoint, id, requests, now, mostRequests) =>
      db.write("add to batch", () => {
        const changed = change(endpoint, id, now, (batch) => BatchMachine.added(batch, requests.length, now, mostRequests))
        if (changed._tag === "Changed") { for (const request of requests) batches.addRequest(changed.batch.id, request) }
        return changed
      }),
    drop: (endpoint, id, request, now) =>
      db.write("drop from batch", (): Changed | { readonly _tag: "Gone" } => {
        const batch = find(endpoint, id)
        if (batch !== undefined && !batches.hasRequest(batch.id, request)) return { _tag: "Gone" }
        const changed = change(endpoint, id, now, (batch) => BatchMachine.dropped(batch, now))
        if (changed._tag === "Changed") batches.dropRequest(changed.batch.id, request)
        return changed
      }),
    edit: (endpoint, id, changes, now) =>
      db.write("edit batch", () => change(endpoint, id, now, (batch) => BatchMachine.edited(batch, changes, now))),
    finalize: (endpoint, id, now, mostQueued) =>
      db.write("finalize batch", (): Finalized => {
        if (rows.isRefused(endpoint)) return { _tag: "EndpointGone" }
        const batch = find(endpoint, id)
        if (batch?.status === "DRAFT") {
          const unfed = batches.currentOpen(endpoint).reduce((sum, { unfed }) => sum + unfed, 0)
          const queued = jobs.queued(endpoint) + unfed
          if (queued + batch.total > mostQueued) return { _tag: "QueueFull", queued }
        }
        return change(endpoint, id, now, (batch) => BatchMachine.finalized(batch, now))
      }),
    feed: (id, limit, toJob) =>
      db.write("feed batch", (): Fed => {
        const batch = batches.current(id)
        if (batch === undefined || !BatchMachine.isHungry(batch)) return NOTHING_FED
        const next = batches.aside(id, limit)
        let made = 0
        for (const { request, seq } of next) {
          if (jobs.insert(toJob(batch, request))) made += 1
          batches.isFed(seq)
        }
        const after = BatchMachine.fed(batch, next.length)
        batches.put(batch, after, batch.touchedAt)
        return { jobs: made, more: BatchMachine.isHungry(after) }
      }),
    cancel: (endpoint, id, now, limit) =>
      db.write("cancel batch", (): Withdrawn => {
        const batch = find(endpoint, id)
        return batch === undefined ? { batch: undefined, applied: [], more: false } : cancel(batch, now, limit)
      }),
    get: (endpoint, id) =>
      db.read("get batch", () => {
        const batch = batches.find(id)
        return batch?.endpoint === endpoint ? batch : undefined
      }),
    list: (endpoint, offset, limit) => db.read("list batches", () => batches.list(endpoint, offset, limit)),
    requests: (endpoint, id, offset, limit) =>
      db.read("requests of batch", () => {
        const batch = batches.find(id)
        return batch?.endpoint === endpoint ? { batch, ids: batches.requests(batch.id, offset, limit) } : undefined
      }),
    sweep: Effect.fnUntraced(function*(now, limit) {
      const idle = yield* db.read("sweep batches", () => batches.due(now, 1).length === 0)
      const more = idle ? false : yield* db.write("sweep batches", () => sweep(now, limit))
      const work = yield* db.read("sweep batches", batches.atWork)
      return {
        hungry: work.filter(BatchMachine.isHungry),
        windingUp: work.filter(BatchMachine.isWindingUp),
        more
      } satisfies Swept
    })
  })
}
