/**
 * The rows of batches and their requests: statements and decoders.
 *
 * A transaction changes batches in memory and writes each changed batch once, before the commit. When a group commit contains several
 * results of one batch (up to 256), the batch's row is therefore written once instead of once per result.
 */
import type { BatchId } from "@stint/contract/Batch"
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { Policy } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import { BatchRecord, dueAt } from "@stint/store/BatchMachine"
import { type BatchRequest, RequestOptions } from "@stint/store/BatchStore"
import { batchWebhook } from "@stint/store/BatchWebhook"
import { NO_OWNER } from "@stint/store/Owner"
import * as Schema from "effect/Schema"
import type { DeliveryRows } from "./DeliveryRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** A request that is not a job yet, and its row number. */
export interface PendingRequestRow {
  readonly seq: number
  readonly request: BatchRequest
}

/** The rows of all batches. All methods throw when the database fails. */
export interface BatchRows {
  /** The committed batch. */
  readonly find: (id: string) => BatchRecord | undefined
  /** The committed batches that are visible to an owner, newest first. */
  readonly list: (endpoint: EndpointId, offset: number, limit: number, owner: string | undefined) => ReadonlyArray<BatchRecord>
  /** The committed batches that have requests to enqueue or jobs to cancel. */
  readonly unfinished: () => ReadonlyArray<BatchRecord>
  /** The committed batches that are due, and drafts of removed endpoints. */
  readonly due: (now: number, limit: number) => ReadonlyArray<BatchRecord>
  /** Within a transaction: the batch, including changes made by earlier commands. */
  readonly current: (id: string) => BatchRecord | undefined
  /** Within a transaction: open batches of an endpoint, including changes made by earlier commands. */
  readonly currentOpen: (endpoint: EndpointId) => ReadonlyArray<BatchRecord>
  /** Within a transaction: writes a new batch. */
  readonly insert: (batch: BatchRecord) => void
  /** Within a transaction: writes a changed batch, and its webhook delivery when it ended. */
  readonly put: (before: BatchRecord, after: BatchRecord, now: number) => void
  /** Within a transaction: removes a batch and its requests. */
  readonly remove: (id: BatchId) => void
  readonly addRequest: (batch: BatchId, request: BatchRequest) => void
  readonly hasRequest: (batch: BatchId, id: string) => boolean
  readonly dropRequest: (batch: BatchId, id: string) => void
  /** Requests that are not jobs yet, in order. */
  readonly pendingRequests: (batch: BatchId, limit: number) => ReadonlyArray<PendingRequestRow>
  /** Deletes the payloads of a request after they were copied to its job. */
  readonly markEnqueued: (seq: number) => void
  /** The ids of a batch's requests, in order. */
  readonly requests: (batch: BatchId, offset: number, limit: number) => ReadonlyArray<JobId>
}

/** The columns of {@link decodeBatch}. */
export const BATCH = `id, endpoint, owner, status, name, webhook, policy, created_at AS createdAt, touched_at AS touchedAt,
  finalized_at AS finalizedAt, ended_at AS endedAt, retention_ms AS retentionMs, total, unfed AS notEnqueued, running, completed, failed, cancelled`

const PolicyText = Schema.NullOr(Schema.fromJsonString(Policy))
const OptionsText = Schema.fromJsonString(RequestOptions)

/** Decodes a row of {@link BATCH}, with names. */
export const decodeBatch = Schema.decodeUnknownSync(Schema.Struct({ ...BatchRecord.fields, policy: PolicyText }))
const encodePolicy = Schema.encodeSync(PolicyText)
const encodeOptions = Schema.encodeSync(OptionsText)
const decodePendingRequest = Schema.decodeUnknownSync(Schema.Struct({
  seq: Schema.Int,
  id: JobId,
  input: JsonText,
  s3Config: Schema.NullOr(JsonText),
  options: OptionsText
}))
const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: JobId }))

/** Prepares all statements. */
export const make = (db: SqliteDatabase["Service"], deliveries: DeliveryRows): BatchRows => {
  const find = db.statement(`SELECT ${BATCH} FROM batches WHERE id = ?`)
  const list = db.statement(
    `SELECT ${BATCH} FROM batches INDEXED BY batches_listed WHERE endpoint = ? ORDER BY created_at DESC, seq DESC LIMIT ? + 0 OFFSET ?`
  )
  const listOfOwner = db.statement(
    `SELECT ${BATCH} FROM batches INDEXED BY batches_listed WHERE endpoint = ? AND owner IN (?, '${NO_OWNER}')
     ORDER BY created_at DESC, seq DESC LIMIT ? + 0 OFFSET ?`
  )
  const open = db.statement(`SELECT ${BATCH} FROM batches INDEXED BY batches_open WHERE endpoint = ? AND ended_at IS NULL`)
  const unfinished = db.statement(
    `SELECT ${BATCH} FROM batches INDEXED BY batches_open
     WHERE ended_at IS NULL AND ((status = 'FINALIZED' AND unfed > 0) OR status = 'CANCELLED')`
  )
  const due = db.statement(`SELECT ${BATCH} FROM batches INDEXED BY batches_due WHERE due_at <= ? ORDER BY due_at LIMIT ? + 0`)
  const orphaned = db.statement(
    `SELECT ${BATCH} FROM batches INDEXED BY batches_open
     WHERE ended_at IS NULL AND status = 'DRAFT' AND EXISTS (SELECT 1 FROM removed_endpoints WHERE removed_endpoints.id = endpoint) LIMIT ? + 0`
  )
  const insert = db.statement(
    `INSERT INTO batches (id, endpoint, status, name, webhook, policy, created_at, touched_at, finalized_at, ended_at, retention_ms, total,
       unfed, running, completed, failed, cancelled, due_at, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )
  const save = db.statement(
    `UPDATE batches SET status = ?, name = ?, webhook = ?, touched_at = ?, finalized_at = ?, ended_at = ?, total = ?, unfed = ?,
       running = ?, completed = ?, failed = ?, cancelled = ?, due_at = ? WHERE id = ?`
  )
  const remove = db.statement(`DELETE FROM batches WHERE id = ?`)
  const removeRequests = db.statement(`DELETE FROM batch_requests WHERE batch = ?`)
  const addRequest = db.statement(`INSERT INTO batch_requests (batch, id, input, s3_config, options) VALUES (?, ?, ?, ?, ?)`)
  const hasRequest = db.statement(`SELECT 1 FROM batch_requests WHERE batch = ? AND id = ?`)
  const dropRequest = db.statement(`DELETE FROM batch_requests WHERE batch = ? AND id = ?`)
  const pendingRequests = db.statement(
    `SELECT seq, id, input, s3_config AS s3Config, options FROM batch_requests INDEXED BY batch_requests_aside
     WHERE batch = ? AND input IS NOT NULL ORDER BY seq LIMIT ? + 0`
  )
  const markEnqueued = db.statement(`UPDATE batch_requests SET input = NULL, s3_config = NULL, options = NULL WHERE seq = ?`)
  const requests = db.statement(
    `SELECT id FROM batch_requests INDEXED BY batch_requests_of WHERE batch = ? ORDER BY seq LIMIT ? + 0 OFFSET ?`
  )

  const toBatch = (row: unknown): BatchRecord => decodeBatch(row)

  /** The changed batches of the current transaction. */
  const changed = new Map<string, BatchRecord>()

  db.join({
    beforeCommit: () => {
      for (const batch of changed.values()) {
        const {
          cancelled,
          completed,
          endedAt,
          failed,
          finalizedAt,
          id,
          name,
          running,
          status,
          total,
          touchedAt,
          notEnqueued,
          webhook
        } = batch
        save.run(
          status,
          name,
          webhook,
          touchedAt,
          finalizedAt,
          endedAt,
          total,
          notEnqueued,
          running,
          completed,
          failed,
          cancelled,
          dueAt(batch),
          id
        )
      }
    },
    committed: () => changed.clear(),
    rolledBack: () => changed.clear()
  })

  const committed = (id: string): BatchRecord | undefined => {
    const row = find.get(id)
    return row === undefined ? undefined : toBatch(row)
  }

  return {
    find: committed,
    list: (endpoint, offset, limit, owner) =>
      (owner === undefined ? list.all(endpoint, limit, offset) : listOfOwner.all(endpoint, owner, limit, offset)).map(toBatch),
    unfinished: () => unfinished.all().map(toBatch),
    due: (now, limit) => [...due.all(now, limit), ...orphaned.all(limit)].slice(0, limit).map(toBatch),
    current: (id) => changed.get(id) ?? committed(id),
    currentOpen: (endpoint) =>
      open.all(endpoint).map(toBatch).map((batch) => changed.get(batch.id) ?? batch).filter(({ endedAt }) => endedAt === null),
    insert: (batch) => {
      insert.run(
        batch.id,
        batch.endpoint,
        batch.status,
        batch.name,
        batch.webhook,
        encodePolicy(batch.policy),
        batch.createdAt,
        batch.touchedAt,
        batch.finalizedAt,
        batch.endedAt,
        batch.retentionMs,
        batch.total,
        batch.notEnqueued,
        batch.running,
        batch.completed,
        batch.failed,
        batch.cancelled,
        dueAt(batch),
        batch.owner
      )
    },
    put: (before, after, now) => {
      if (before === after) return
      changed.set(after.id, after)
      const delivery = batchWebhook(before, after, now)
      if (delivery !== undefined) deliveries.add(delivery)
    },
    remove: (id) => {
      changed.delete(id)
      removeRequests.run(id)
      remove.run(id)
    },
    addRequest: (batch, { id, input, options, s3Config }) => {
      addRequest.run(batch, id, input, s3Config, encodeOptions(options))
    },
    hasRequest: (batch, id) => hasRequest.get(batch, id) !== undefined,
    dropRequest: (batch, id) => {
      dropRequest.run(batch, id)
    },
    pendingRequests: (batch, limit) =>
      pendingRequests.all(batch, limit).map((row) => {
        const { seq, ...request } = decodePendingRequest(row)
        return { seq, request }
      }),
    markEnqueued: (seq) => {
      markEnqueued.run(seq)
    },
    requests: (batch, offset, limit) => requests.all(batch, limit, offset).map((row) => decodeId(row).id)
  }
}
