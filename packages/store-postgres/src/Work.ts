/**
 * The jobs and batches that one transaction reads and changes.
 *
 * ```
 *   lock and load rows  -->  transition (the state machine), in memory  -->  write each changed row once, commit
 *   one round trip           no round trip                                   one round trip
 * ```
 *
 * Many commands share one transaction, so their rows are loaded together and written together.
 */
import type { BatchId } from "@stint/contract/Batch"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import * as BatchMachine from "@stint/store/BatchMachine"
import { batchWebhook } from "@stint/store/BatchWebhook"
import { failureOf, type JobFailure } from "@stint/store/ErrorGroupMachine"
import { webhookJson } from "@stint/store/JobJson"
import { isParked, isReady, type JobMachineEvent, transition } from "@stint/store/JobMachine"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import type { ApplyResult, SubmissionKey } from "@stint/store/JobStore"
import { webhookEventOf } from "@stint/store/JobWebhookEvents"
import { inputBytes, outcomeBytes, payloadBytes } from "@stint/store/Quota"
import * as RunTransactions from "@stint/store/RunTransactions"
import { type NewDelivery, newDelivery, type WebhookDelivery } from "@stint/store/WebhookStore"
import * as Result from "effect/Result"
import * as ConcurrencySlots from "./ConcurrencySlots.ts"
import type { Query } from "./Connection.ts"
import type { StateRow } from "./JobColumns.ts"
import { chunkAttempt, type Entry, recordOf } from "./JobEntry.ts"
import * as RunWork from "./RunWork.ts"
import * as ScheduleWork from "./ScheduleWork.ts"
import type { TallyChanges } from "./TallyRows.ts"

/** A batch of the transaction. */
export interface BatchEntry {
  readonly stored: BatchMachine.BatchRecord | undefined
  batch: BatchMachine.BatchRecord
  removed: boolean
}

/** The rows of one transaction. */
export interface Work {
  readonly query: Query
  readonly tallies: TallyChanges
  readonly entries: Map<JobId, Entry>
  readonly batches: Map<string, BatchEntry>
  /** The ids of batches that were searched for and do not exist. */
  readonly absentBatches: Set<string>
  readonly deliveries: Array<WebhookDelivery>
  /** The jobs that have failed. */
  readonly failures: Array<JobFailure>
  /** The jobs that were searched for. If such a job is not in {@link entries}, it does not exist. */
  readonly sought: Set<JobId>
  readonly runWork: RunWork.RunWork
  readonly runs: RunTransactions.RunTransactions
  readonly schedules: ScheduleWork.ScheduleWork
  readonly slots: ConcurrencySlots.ConcurrencySlots
  /** The next position in the order of submission. */
  readonly nextSeq: () => number
  /** The loaded job of an endpoint. */
  readonly find: (endpoint: EndpointId, id: JobId) => Entry | undefined
  /** Adds a loaded row, unless it was already added. */
  readonly add: (row: StateRow) => Entry
  readonly addBatch: (batch: BatchMachine.BatchRecord) => void
  readonly batch: (id: BatchId | string | null) => BatchMachine.BatchRecord | undefined
  readonly insertBatch: (batch: BatchMachine.BatchRecord) => void
  /** Changes a batch, and writes its webhook delivery when it ended. */
  readonly putBatch: (after: BatchMachine.BatchRecord, now: number) => void
  readonly removeBatch: (id: BatchId) => void
  readonly insert: (job: JobRecord, key?: SubmissionKey) => Entry
  readonly apply: (entry: Entry, event: JobMachineEvent, chunk?: JsonText) => ApplyResult
}

/** Starts a transaction without rows. `seqs`: positions in the order of submission, one for each job that may be inserted. */
export const make = (query: Query, tallies: TallyChanges, seqs: Iterator<number>): Work => {
  const entries = new Map<JobId, Entry>()
  const batches = new Map<string, BatchEntry>()
  const absentBatches = new Set<string>()
  const deliveries: Array<WebhookDelivery> = []
  const failures: Array<JobFailure> = []
  const sought = new Set<JobId>()
  const runWork = RunWork.make(entries)
  const slots = ConcurrencySlots.make(tallies)

  const nextSeq = (): number => {
    const next = seqs.next()
    if (next.done === true) throw new Error("no position in the order of submission was reserved for the job")
    return next.value
  }

  const deliver = (delivery: NewDelivery) => {
    if (delivery.event === "progress") {
      const unsent = deliveries.findIndex(({ event, job }) => event === "progress" && job === delivery.job)
      if (unsent !== -1) deliveries.splice(unsent, 1)
    }
    deliveries.push(newDelivery(delivery))
  }

  const batch: Work["batch"] = (id) => {
    const found = id === null ? undefined : batches.get(id)
    return found?.removed === false ? found.batch : undefined
  }

  const putBatch: Work["putBatch"] = (after, now) => {
    const entry = batches.get(after.id)
    if (entry === undefined || entry.batch === after) return
    const delivery = batchWebhook(entry.batch, after, now)
    entry.batch = after
    if (delivery !== undefined) deliver(delivery)
  }

  const enqueueWebhook = (entry: Entry, event: JobMachineEvent, before: JobHead, chunk: JsonText | undefined) => {
    const { endpoint, id: job, webhook } = entry.head
    const webhookEvent = webhookEventOf(event, before, entry.head)
    if (webhook === null || webhookEvent === undefined) return
    const record = recordOf(entry)
    const { traceparent, tracestate } = record
    const body = webhookJson(record, record, webhook, webhookEvent, chunk)
    deliver({ job, endpoint, event: webhookEvent, url: webhook.url, body, traceparent, tracestate, createdAt: event.now })
  }

  const isBatchExpired = ({ batchId }: JobHead, now: number): boolean => {
    const found = batch(batchId)
    return found !== undefined && BatchMachine.isExpired(found, now)
  }

  /** Updates the batch of a job whose status has changed. Returns the net change to the job, which includes a cancel by the batch. */
  const updateBatch = (entry: Entry, before: JobHead, now: number): ApplyResult => {
    const { batchId, endpoint, status } = entry.head
    const found = batch(batchId)
    if (batchId !== null && !batches.has(batchId) && !absentBatches.has(batchId)) {
      throw new Error(`the batch of job ${entry.head.id} was not loaded`)
    }
    if (found !== undefined) {
      const changed = BatchMachine.jobChanged(found, before.status, status, now)
      putBatch(changed, now)
      if (BatchMachine.mustCancel(changed, status)) {
        const cancelled = apply(entry, { _tag: "Cancel", now, endpoint })
        if (cancelled._tag === "Changed") return { ...cancelled, before }
      }
    }
    return { _tag: "Changed", before, after: entry.head }
  }

  const apply: Work["apply"] = (entry, event, chunk) => {
    const before = entry.head
    const { isRun } = entry
    const undoing = isRun && event._tag === "Cancel" ? runs.cancelling(before, event.now) : undefined
    if (undoing !== undefined) return undoing
    if (event._tag === "Retry" && isBatchExpired(before, event.now)) {
      return { _tag: "Rejected", job: before, rejection: { _tag: "Expired" } }
    }
    const decided = transition(before, event, isRun)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    const bytesBefore = entry.outcomeBytes + entry.chunkBytes
    if (decided.success._tag === "Remove") {
      entry.removed = true
      tallies.count(before, undefined, -bytesBefore - entry.inputBytes)
      if (isRun) runs.removed(before, event.now)
      return { _tag: "Removed", before }
    }
    const { discardChunks, job, outcome } = decided.success
    const after = slots.place(entry, before, job)
    entry.head = after
    const failure = failureOf(before, after, outcome.error)
    if (failure !== undefined) failures.push(failure)
    if (Object.keys(outcome).length > 0) {
      entry.outcome = { ...entry.outcome, ...outcome }
      // After a change of the outcome, payloads that were not loaded are null, because the machine replaces or removes them.
      entry.outcomeBytes = outcomeBytes({ progress: null, output: null, error: null, lastError: null, ...entry.outcome })
      if (event._tag === "Progress") entry.progressed = true
    }
    if (discardChunks) {
      entry.discard = true
      entry.chunks = []
      entry.chunkBytes = 0
    }
    if (chunk !== undefined) {
      entry.chunks.push({ attempt: chunkAttempt(after, isRun), number: after.chunks, body: chunk })
      entry.chunkBytes += payloadBytes(chunk)
    }
    const bytes = entry.outcomeBytes + entry.chunkBytes - bytesBefore
    if (
      bytes !== 0 || before.status !== after.status || isReady(before) !== isReady(after) ||
      isParked(before) !== isParked(after) || before.retries !== after.retries || before.isolated !== after.isolated
    ) tallies.count(before, after, bytes)
    if (after.webhook !== null && !(isRun && event._tag === "Claim")) enqueueWebhook(entry, event, before, chunk)
    const released = slots.release(before, after, event.now)
    const others = (isRun || RunTransactions.isChild(before.id)) && isTerminal(before.status) !== isTerminal(after.status)
      ? runs.changed(event, before, after, outcome.error)
      : []
    const changed: ApplyResult = after.batchId !== null && before.status !== after.status
      ? updateBatch(entry, before, event.now)
      : { _tag: "Changed", before, after: entry.head }
    if (changed._tag !== "Changed" || (released === 0 && others.length === 0)) return changed
    return {
      ...changed,
      ...(released === 0 ? {} : { released: released + (changed.released ?? 0) }),
      ...(others.length === 0 ? {} : { others: [...others, ...changed.others ?? []] })
    }
  }

  const find: Work["find"] = (endpoint, id) => {
    const entry = entries.get(id)
    return entry?.removed === false && entry.head.endpoint === endpoint ? entry : undefined
  }

  const insert: Work["insert"] = (job, key) => {
    const { error, input, lastError, output, progress, s3Config, traceparent, tracestate, ...head } = job
    const outcome = { progress, output, error, lastError }
    const entry: Entry = {
      seq: nextSeq(),
      turn: 0,
      stored: undefined,
      head: { ...head, owner: key?.owner ?? head.owner },
      isRun: false,
      removed: false,
      outcome,
      progressed: false,
      input: { input, s3Config, traceparent, tracestate },
      inputBytes: inputBytes(job),
      outcomeBytes: outcomeBytes(outcome),
      chunkBytes: 0,
      discard: false,
      chunks: [],
      key
    }
    entries.set(job.id, entry)
    entry.head = slots.place(entry, undefined, entry.head)
    tallies.count(undefined, entry.head, entry.inputBytes + entry.outcomeBytes)
    return entry
  }

  /** A job that a command on a run needs. */
  const related = (endpoint: EndpointId, id: JobId): Entry | undefined => {
    if (!entries.has(id) && !sought.has(id)) throw new Error(`the job ${id} was not loaded`)
    return find(endpoint, id)
  }

  const runs = RunTransactions.make(runWork.tables, {
    find: (endpoint, id) => related(endpoint, id)?.head,
    apply: (endpoint, id, event) => {
      const entry = related(endpoint, id)
      return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
    },
    insert: (job) => {
      related(job.endpoint, job.id)
      if (entries.has(job.id)) return false
      insert(job)
      return true
    },
    postponesCancel: (endpoint, child) => {
      if (entries.has(child) || !runWork.postponed.has(child)) return false
      runWork.changes.cancels.push([child, endpoint])
      return true
    },
    // The commit does this (RunWrites.ts).
    release: () => {}
  })

  return {
    query,
    tallies,
    entries,
    batches,
    absentBatches,
    deliveries,
    failures,
    sought,
    runWork,
    runs,
    schedules: ScheduleWork.make(),
    slots,
    nextSeq,
    find,
    add: ({ chunkBytes, head, input, inputBytes, isRun, outcome, outcomeBytes, seq, turn }) => {
      const known = entries.get(head.id)
      if (known !== undefined) {
        // The row was previously loaded without its input.
        if (known.input.input === null) known.input = input
        return known
      }
      const entry: Entry = {
        seq,
        turn,
        stored: head,
        head,
        isRun,
        removed: false,
        outcome,
        progressed: false,
        input,
        inputBytes,
        outcomeBytes,
        chunkBytes,
        discard: false,
        chunks: [],
        key: undefined
      }
      entries.set(head.id, entry)
      return entry
    },
    addBatch: (batch) => {
      if (!batches.has(batch.id)) batches.set(batch.id, { stored: batch, batch, removed: false })
    },
    batch,
    insertBatch: (batch) => {
      batches.set(batch.id, { stored: undefined, batch, removed: false })
    },
    putBatch,
    removeBatch: (id) => {
      const entry = batches.get(id)
      if (entry !== undefined) entry.removed = true
    },
    insert,
    apply
  }
}
