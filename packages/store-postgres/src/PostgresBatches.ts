/**
 * Batches in PostgreSQL: part of `PostgresJobStore`, because jobs and their batch change in one transaction.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId as toJobId } from "@stint/contract/Ids"
import type { BatchRecord } from "@stint/store/BatchMachine"
import * as BatchMachine from "@stint/store/BatchMachine"
import {
  BatchStore,
  type CancelResult,
  type ChangeResult,
  type CreateResult,
  type EnqueueResult,
  type FinalizeResult,
  type SweepResult
} from "@stint/store/BatchStore"
import type { ApplyResult } from "@stint/store/JobStore"
import { isVisibleTo, NO_OWNER } from "@stint/store/Owner"
import { exceededQuota } from "@stint/store/Quota"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { REQUEST, requestValues, toBatch, toPending } from "./BatchRows.ts"
import type { Query } from "./Connection.ts"
import { insertAll, transpose, WITH_WEBHOOK_PAYLOADS } from "./JobColumns.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"
import * as TallyRows from "./TallyRows.ts"
import { endpointLock, type Transaction } from "./Transaction.ts"

/** Maximum number of batches per sweep. */
const SWEEP_LIMIT = 20

/** One transaction turns requests with about this number of bytes into jobs. */
const MAX_ENQUEUED_BYTES = 64 * 1_048_576

const NOTHING_ENQUEUED: EnqueueResult = { jobs: 0, more: false, isHeld: false }

const visible = (batch: BatchRecord | undefined, endpoint: EndpointId, owner: string | undefined): BatchRecord | undefined =>
  batch?.endpoint === endpoint && isVisibleTo(owner, batch.owner) ? batch : undefined

/** The name of the lock under which the open batches of an endpoint are counted. */
const openLock = (endpoint: string): string => `batches\n${endpoint}`

const readBatch = async (query: Query, id: string): Promise<BatchRecord | undefined> => {
  const [row] = await query(`SELECT body FROM stint.batches WHERE id = $1`, [id])
  return row === undefined ? undefined : toBatch(row)
}

const readOpen = async (query: Query, endpoint: EndpointId): Promise<ReadonlyArray<BatchRecord>> =>
  (await query(`SELECT body FROM stint.batches WHERE endpoint = $1 AND NOT ended`, [endpoint])).map(toBatch)

const isRemoved = async (query: Query, endpoint: EndpointId): Promise<boolean> =>
  (await query(`SELECT 1 FROM stint.removed_endpoints WHERE id = $1`, [endpoint])).length > 0

const addRequests = async (query: Query, batch: BatchRecord, requests: Parameters<BatchStore["Service"]["create"]>[1]) => {
  if (requests.length === 0) return
  await query(insertAll("batch_requests", REQUEST), transpose(requests.map((request) => requestValues(batch.id, request))))
}

/** The batch of an endpoint, locked. */
const find = async (
  { lockBatches, work }: Transaction,
  endpoint: EndpointId,
  id: string,
  owner: string | undefined
): Promise<BatchRecord | undefined> => {
  await lockBatches([id])
  return visible(work.batch(id), endpoint, owner)
}

const change = async (
  transaction: Transaction,
  [endpoint, id, owner]: readonly [EndpointId, string, string | undefined],
  now: number,
  decide: (batch: BatchRecord) => Result.Result<BatchRecord, BatchMachine.Rejection>
): Promise<ChangeResult> => {
  const batch = await find(transaction, endpoint, id, owner)
  if (batch === undefined) return { _tag: "Missing" }
  const decided = decide(batch)
  if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
  transaction.work.putBatch(decided.success, now)
  return { _tag: "Changed", batch: decided.success }
}

const WAITING_OF = `SELECT id FROM (
    SELECT id, seq FROM stint.ready WHERE batch = $1 UNION ALL SELECT id, seq FROM stint.delayed WHERE batch = $1
  ) s ORDER BY seq LIMIT $2`

/** Cancels a batch. Locks its waiting jobs before the batch, as every transaction does. */
const cancel = async (
  transaction: Transaction,
  [endpoint, id, owner]: readonly [EndpointId, string, string | undefined],
  now: number,
  limit: number
): Promise<CancelResult> => {
  const { lockRuns, work } = transaction
  const found = (await work.query(WAITING_OF, [id, limit])).map(([job]) => toJobId.make(String(job)))
  await lockRuns({ ends: found })
  const batch = await find(transaction, endpoint, id, owner)
  if (batch === undefined) return { batch: undefined, applied: [], more: false }
  const after = BatchMachine.cancelled(batch, now)
  work.putBatch(after, now)
  const applied: Array<ApplyResult> = []
  if (BatchMachine.isCancelling(after)) {
    for (const job of found) {
      const entry = work.find(endpoint, job)
      // Another node has claimed it since.
      if (entry?.head.status === "IN_QUEUE") applied.push(work.apply(entry, { _tag: "Cancel", now, endpoint }))
    }
  }
  return { batch: work.batch(id), applied, more: BatchMachine.isCancelling(after) && found.length === limit }
}

/** Detaches up to `limit` jobs, then removes the batch. Returns whether jobs remain. */
const remove = async ({ load, work }: Transaction, { id }: BatchRecord, now: number, limit: number): Promise<boolean> => {
  const attached = await load(
    work.query(
      `SELECT ${WITH_WEBHOOK_PAYLOADS} FROM stint.ended s JOIN stint.jobs j ON j.id = s.id
       WHERE s.id IN (SELECT id FROM stint.ended WHERE batch = $1 LIMIT $2) ORDER BY s.id FOR UPDATE OF s`,
      [id, limit]
    )
  )
  for (const entry of attached) work.apply(entry, { _tag: "LeaveBatch", now })
  if (attached.length === limit) return true
  work.removeBatch(id)
  return false
}

/**
 * Finalized batches that have not ended. Of the batches that have not ended, only drafts have a due time (`dueAt`). The status in the body cannot
 * be compared: PostgreSQL fails to read a member of a JSON text in which another member has a NUL character or half of a surrogate pair.
 */
export const IS_OPEN = "NOT ended AND due_at IS NULL"

const DUE = `(SELECT id FROM stint.batches WHERE due_at <= $1 ORDER BY due_at LIMIT $2)
  UNION ALL
  (SELECT b.id FROM stint.batches b JOIN stint.removed_endpoints r ON r.id = b.endpoint
   WHERE NOT b.ended AND b.due_at IS NOT NULL LIMIT $2) LIMIT $2`

const OPEN = `SELECT body FROM stint.batches WHERE ${IS_OPEN}`

/** The ids of due batches, and the bodies of open ones. */
const DUE_OR_OPEN = `(SELECT id, NULL AS body FROM (${DUE}) due) UNION ALL (SELECT NULL, body FROM (${OPEN}) open)`

/** Creates the batch store of a database. */
export const make = (db: PostgresDatabase["Service"]): BatchStore["Service"] => {
  /** One transaction for each due batch. */
  const sweepOne = (id: string, now: number, limit: number) =>
    db.alone("sweep batches", async (transaction) => {
      const { lockBatches, work } = transaction
      const known = await readBatch(work.query, id)
      if (known === undefined) return false
      if (known.status === "DRAFT") {
        await cancel(transaction, [known.endpoint, id, undefined], now, limit)
        return false
      }
      await lockBatches([id])
      const batch = work.batch(id)
      return batch !== undefined && BatchMachine.isExpired(batch, now) && (await remove(transaction, batch, now, limit))
    })

  return BatchStore.of({
    create: (batch, requests, { maxOpen, maxRequests }) =>
      db.alone("create batch", async ({ lockNames, work }): Promise<CreateResult> => {
        await lockNames([openLock(batch.endpoint)])
        await lockNames([endpointLock(batch.endpoint)], "shared")
        if (await isRemoved(work.query, batch.endpoint)) return { _tag: "EndpointGone" }
        const open = (await readOpen(work.query, batch.endpoint)).filter(({ owner }) => owner === batch.owner).length
        if (open >= maxOpen) return { _tag: "TooMany", open }
        const decided = BatchMachine.added(batch, requests.length, batch.createdAt, maxRequests)
        if (Result.isFailure(decided)) return { _tag: "Rejected", batch, rejection: decided.failure }
        work.insertBatch(decided.success)
        await addRequests(work.query, decided.success, requests)
        return { _tag: "Created", batch: decided.success }
      }),
    add: (endpoint, id, requests, now, maxRequests, owner) =>
      db.alone("add to batch", async (transaction) => {
        const changed = await change(
          transaction,
          [endpoint, id, owner],
          now,
          (batch) => BatchMachine.added(batch, requests.length, now, maxRequests)
        )
        if (changed._tag === "Changed") await addRequests(transaction.work.query, changed.batch, requests)
        return changed
      }),
    drop: (endpoint, id, request, now, owner) =>
      db.alone("drop from batch", async (transaction): Promise<ChangeResult | { readonly _tag: "Gone" }> => {
        const { work } = transaction
        const batch = await find(transaction, endpoint, id, owner)
        const values = [id, request]
        if (
          batch !== undefined &&
          (await work.query(`SELECT 1 FROM stint.batch_requests WHERE batch = $1 AND id = $2`, values)).length === 0
        ) {
          return { _tag: "Gone" }
        }
        const changed = await change(transaction, [endpoint, id, owner], now, (one) => BatchMachine.dropped(one, now))
        if (changed._tag === "Changed") await work.query(`DELETE FROM stint.batch_requests WHERE batch = $1 AND id = $2`, values)
        return changed
      }),
    edit: (endpoint, id, changes, now, owner) =>
      db.alone(
        "edit batch",
        (transaction) => change(transaction, [endpoint, id, owner], now, (batch) => BatchMachine.edited(batch, changes, now))
      ),
    finalize: (endpoint, id, now, maxQueued, owner) =>
      db.alone("finalize batch", async (transaction): Promise<FinalizeResult> => {
        const { lockNames, work } = transaction
        await lockNames([openLock(endpoint)])
        await lockNames([endpointLock(endpoint)], "shared")
        if (await isRemoved(work.query, endpoint)) return { _tag: "EndpointGone" }
        const batch = await find(transaction, endpoint, id, owner)
        if (batch?.status === "DRAFT") {
          const notEnqueued = (await readOpen(work.query, endpoint)).reduce((sum, one) => sum + one.notEnqueued, 0)
          const queued = TallyRows.usageOf(await TallyRows.read(work.query, "endpoint", endpoint)).waiting + notEnqueued
          if (queued + batch.total > maxQueued) return { _tag: "QueueFull", queued }
        }
        return change(transaction, [endpoint, id, owner], now, (one) => BatchMachine.finalized(one, now))
      }),
    enqueue: (endpoint, id, limit, toJob, quotas) =>
      db.alone("enqueue batch", async (transaction): Promise<EnqueueResult> => {
        const { admit, lockSlots, usageOf, work } = transaction
        const known = await readBatch(work.query, id)
        if (known === undefined) return NOTHING_ENQUEUED
        await admit(endpoint, known.owner, quotas, limit)
        const batch = await find(transaction, endpoint, id, undefined)
        if (batch === undefined || !BatchMachine.hasPending(batch)) return NOTHING_ENQUEUED
        const rows = await work.query(
          // At least one request, and no more after this number of bytes.
          `SELECT r.seq, r.id, r.input, r.s3_config, r.options FROM stint.batch_requests r JOIN (
             SELECT seq, sum(octet_length(input)) OVER (ORDER BY seq) - octet_length(input) AS before
             FROM (SELECT seq, input FROM stint.batch_requests WHERE batch = $1 AND input IS NOT NULL ORDER BY seq LIMIT $2) pending
           ) sized ON sized.seq = r.seq WHERE sized.before < $3 ORDER BY r.seq`,
          [id, limit, MAX_ENQUEUED_BYTES]
        )
        const pending = rows.map(toPending).map(({ request, seq }) => ({ seq, job: toJob(batch, request) }))
        await lockSlots(pending.map(({ job }) => job))
        const existing = new Set(
          (await work.query(`SELECT id FROM stint.jobs WHERE id = ANY($1::text[])`, [pending.map(({ job }) => job.id)]))
            .map(([job]) => job)
        )
        const enqueued: Array<number> = []
        let inserted = 0
        let isHeld = false
        for (const { job, seq } of pending) {
          if (!existing.has(job.id)) {
            isHeld = quotas !== undefined &&
              exceededQuota(job, quotas, (scope) => usageOf(scope, scope === "endpoint" ? job.endpoint : job.owner)) !== undefined
            if (isHeld) break
            work.insert(job)
            inserted += 1
          }
          enqueued.push(seq)
        }
        if (enqueued.length > 0) {
          await work.query(
            `UPDATE stint.batch_requests SET input = NULL, s3_config = NULL, options = NULL WHERE seq = ANY($1::bigint[])`,
            [enqueued]
          )
        }
        const after = BatchMachine.enqueued(batch, enqueued.length)
        work.putBatch(after, batch.touchedAt)
        return { jobs: inserted, more: BatchMachine.hasPending(after), isHeld }
      }),
    cancel: (endpoint, id, now, limit, owner) =>
      db.alone("cancel batch", (transaction) => cancel(transaction, [endpoint, id, owner], now, limit)),
    get: (endpoint, id, owner) => db.read("get batch", async (query) => visible(await readBatch(query, id), endpoint, owner)),
    list: (endpoint, offset, limit, owner) =>
      db.read("list batches", async (query) =>
        (await query(
          `SELECT body FROM stint.batches WHERE endpoint = $1 AND ($4::text IS NULL OR owner = ANY(ARRAY[$4::text, '${NO_OWNER}']))
           ORDER BY created_at DESC, seq DESC LIMIT $2 OFFSET $3`,
          [endpoint, limit, offset, owner ?? null]
        )).map(toBatch)),
    requests: (endpoint, id, offset, limit, owner) =>
      db.read("requests of batch", async (query) => {
        const batch = visible(await readBatch(query, id), endpoint, owner)
        if (batch === undefined) return undefined
        const rows = await query(
          `SELECT id FROM stint.batch_requests WHERE batch = $1 ORDER BY seq LIMIT $2 OFFSET $3`,
          [batch.id, limit, offset]
        )
        return { batch, ids: rows.map(([job]) => toJobId.make(String(job))) }
      }),
    sweep: Effect.fnUntraced(function*(now, limit) {
      const rows = yield* db.read("sweep batches", (query) => query(DUE_OR_OPEN, [now, SWEEP_LIMIT]))
      const due = rows.filter(([id]) => id !== null)
      let more = due.length === SWEEP_LIMIT
      for (const [id] of due) more = (yield* sweepOne(String(id), now, limit)) || more
      // The sweep of a batch may have changed others.
      const open = due.length === 0 ? rows.map(([, body]) => [body]) : yield* db.read("sweep batches", (query) => query(OPEN))
      const work = open.map(toBatch)
      return {
        pending: work.filter(BatchMachine.hasPending),
        cancelling: work.filter(BatchMachine.isCancelling),
        more
      } satisfies SweepResult
    })
  })
}
