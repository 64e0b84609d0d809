/**
 * Jobs, batches, runs and schedules in SQLite.
 *
 * ```
 *   write   find the row -> transition (the state machine) -> save, count     in the next group commit
 *   read    at once, of committed data
 * ```
 *
 * Hot path: an operation that finds no work (no job to claim, no due timer, a worker without jobs, no new chunk) only reads, so idle
 * workers and timers cause no transactions. A transaction takes 0.06 ms and its sync 0.1 to 0.2 ms; a read takes a few microseconds
 * (docs/decisions/0003-sqlite-without-sqlclient.md).
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as BatchMachine from "@stint/store/BatchMachine"
import { BatchStore } from "@stint/store/BatchStore"
import { BulkStore } from "@stint/store/BulkStore"
import { claimable } from "@stint/store/ClaimRule"
import { freesSlot } from "@stint/store/ConcurrencyRule"
import { failureOf } from "@stint/store/ErrorGroupMachine"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { webhookJson } from "@stint/store/JobJson"
import { bulkOf, isParked, isReady, type JobMachineEvent, transition } from "@stint/store/JobMachine"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import {
  type ApplyResult,
  CLAIM_EXPIRED_LIMIT,
  type ClaimResult,
  type DrainResult,
  type InsertResult,
  JobStore,
  MAX_READ_CHARACTERS,
  type SubmissionKey
} from "@stint/store/JobStore"
import { webhookEventOf } from "@stint/store/JobWebhookEvents"
import * as PendingClaims from "@stint/store/PendingClaims"
import { type ExceededQuota, exceededQuota, payloadBytes, type Quotas } from "@stint/store/Quota"
import { RunStore } from "@stint/store/RunStore"
import * as RunTransactions from "@stint/store/RunTransactions"
import { isChild } from "@stint/store/RunTransactions"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import type { StoreError } from "@stint/store/StoreError"
import { TextIndex, TextIndexSize } from "@stint/store/TextIndex"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as BatchRows from "./BatchRows.ts"
import * as ConcurrencySlots from "./ConcurrencySlots.ts"
import * as DeliveryRows from "./DeliveryRows.ts"
import type { Row } from "./JobColumns.ts"
import * as JobLists from "./JobLists.ts"
import * as JobRows from "./JobRows.ts"
import * as RunRows from "./RunRows.ts"
import * as SqliteBatches from "./SqliteBatches.ts"
import * as SqliteBulk from "./SqliteBulk.ts"
import { SqliteDatabase } from "./SqliteDatabase.ts"
import * as SqliteErrorGroups from "./SqliteErrorGroups.ts"
import * as SqliteRuns from "./SqliteRuns.ts"
import * as SqliteSchedules from "./SqliteSchedules.ts"
import * as SqliteTextIndex from "./SqliteTextIndex.ts"
import * as Tallies from "./Tallies.ts"
import * as TextIndexRows from "./TextIndexRows.ts"
import * as UsageCounters from "./UsageCounters.ts"

const NO_OTHERS: ReadonlyArray<ApplyResult> = []

/** The attempt under which a chunk is stored. The attempts of a run continue each other, so all its chunks have the attempt 0. */
const chunkAttempt = ({ attempt }: JobHead, isRun: boolean): number => isRun ? 0 : attempt

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const pending = PendingClaims.make()
  const index = SqliteTextIndex.make(db, yield* TextIndexSize)
  const { batches, bulk, deliveries, errors, lastSeq, rows, runRows, schedules, slots, tallies, usage } = yield* db.read(
    "open",
    () => {
      const rows = JobRows.make(db)
      const deliveries = DeliveryRows.make(db)
      const tallies = Tallies.make(db)
      return {
        rows,
        tallies,
        slots: ConcurrencySlots.make(db, rows, tallies),
        runRows: RunRows.make(db),
        schedules: SqliteSchedules.make(db),
        bulk: SqliteBulk.make(db),
        errors: SqliteErrorGroups.make(db),
        deliveries,
        batches: BatchRows.make(db, deliveries),
        lastSeq: rows.lastSeq(),
        usage: UsageCounters.make(db)
      }
    }
  )
  for (const { counted, id, scope, stored } of usage.takeCorrections()) {
    yield* Effect.logWarning(
      `The counts for the quota of the ${scope} "${id}" did not match its stored jobs and were corrected: ${stored.waiting} waiting jobs and ` +
        `${stored.bytes} bytes were recorded, ${counted.waiting} and ${counted.bytes} are stored. The file was probably changed by another program.`
    )
  }
  // Incremented with each attempt to insert. After a rolled-back insert, the row number stays unused.
  let seq = lastSeq

  /** Endpoints with an insert in the current group of commands. A claim in the same group must not skip its transaction. */
  const arriving = new Set<EndpointId>()
  const clear = () => arriving.clear()
  db.join({ beforeCommit: () => {}, committed: clear, rolledBack: clear })

  /** Within a transaction: writes the webhook delivery of a change. */
  const enqueueWebhook = (seq: number, event: JobMachineEvent, before: JobHead, after: JobHead, chunk: JsonText | undefined) => {
    const { endpoint, id: job, webhook } = after
    const webhookEvent = webhookEventOf(event, before, after)
    if (webhook === null || webhookEvent === undefined) return
    const payload = rows.payload(seq)
    const body = webhookJson({ ...after, ...payload }, payload, webhook, webhookEvent, chunk)
    const { traceparent, tracestate } = payload
    deliveries.add({ job, endpoint, event: webhookEvent, url: webhook.url, body, traceparent, tracestate, createdAt: event.now })
  }

  /** Within a transaction. */
  const isBatchExpired = ({ batchId }: JobHead, now: number): boolean => {
    const batch = batchId === null ? undefined : batches.current(batchId)
    return batch !== undefined && BatchMachine.isExpired(batch, now)
  }

  /**
   * Whether an earlier change in this transaction may have changed the job after its row was read: it may have released a held job, woken a run whose
   * child has ended, or cancelled a child whose run has ended.
   */
  const mayBeStale = (head: JobHead): boolean => head.concurrency?.held === true || isChild(head.id) || isRunOf(head)

  /** Within a transaction. */
  const apply = (found: Row, event: JobMachineEvent, chunk?: JsonText): ApplyResult => {
    const row = mayBeStale(found.head) ? rows.find(found.head.endpoint, found.head.id) ?? found : found
    const before = row.head
    const isRun = isRunOf(before)
    const undoing = isRun && event._tag === "Cancel" ? runs.cancelling(before, event.now) : undefined
    if (undoing !== undefined) return undoing
    if (event._tag === "Retry" && isBatchExpired(before, event.now)) {
      return { _tag: "Rejected", job: before, rejection: { _tag: "Expired" } }
    }
    const decided = transition(before, event, isRun)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    if (decided.success._tag === "Remove") {
      usage.removing(row)
      rows.remove(row)
      index.record(row.seq, before.createdAt)
      tallies.count(before, undefined)
      if (isRun) runs.removed(before, event.now)
      return { _tag: "Removed", before }
    }
    const { discardChunks, job, outcome } = decided.success
    const after = job.concurrency === null ? job : slots.place(row, job, event.now)
    const bytesBefore = event._tag !== "Heartbeat" && usage.covers(row) ? usage.sizeOf(row.seq, discardChunks) : undefined
    rows.save(row, after, outcome, discardChunks)
    // The output and the error of a job change when it ends, and when it is retried.
    if (before.finishedAt !== after.finishedAt) index.record(row.seq, after.createdAt)
    const failure = failureOf(before, after, outcome.error)
    if (failure !== undefined) rows.setErrorGroup(row.seq, errors.rows.record(failure))
    if (chunk !== undefined) rows.addChunk(row.seq, chunkAttempt(after, isRun), after.chunks, chunk)
    if (bytesBefore !== undefined) {
      const added = chunk === undefined ? 0 : payloadBytes(chunk)
      usage.changed(row, after, usage.sizeOf(row.seq, discardChunks) - bytesBefore + (discardChunks ? 0 : added))
    }
    if (
      before.status !== after.status || isReady(before) !== isReady(after) ||
      isParked(before) !== isParked(after) || before.retries !== after.retries || before.isolated !== after.isolated
    ) tallies.count(before, after)
    if (after.webhook !== null && !(isRun && event._tag === "Claim")) enqueueWebhook(row.seq, event, before, after, chunk)
    const released = freesSlot(before, after) ? slots.release(after, event.now) : 0
    const others = isRun || isChild(before.id) ? runs.changed(event, before, after, outcome.error) : NO_OTHERS
    const changed: ApplyResult = after.batchId !== null && before.status !== after.status
      ? updateBatch({ seq: row.seq, head: after }, before, event.now)
      : { _tag: "Changed", before, after }
    if (changed._tag !== "Changed" || (released === 0 && others.length === 0)) return changed
    return {
      ...changed,
      ...(released === 0 ? {} : { released: released + (changed.released ?? 0) }),
      ...(others.length === 0 ? {} : { others })
    }
  }

  /**
   * Within a transaction: updates the batch of a job whose status has changed. Returns the net change to the job, which includes a cancel
   * by the batch.
   */
  const updateBatch = (row: Row, before: JobHead, now: number): ApplyResult => {
    const { batchId, endpoint, status } = row.head
    const batch = batchId === null ? undefined : batches.current(batchId)
    if (batch !== undefined) {
      const changed = BatchMachine.jobChanged(batch, before.status, status, now)
      batches.put(batch, changed, now)
      if (BatchMachine.mustCancel(changed, status)) {
        const cancelled = apply(row, { _tag: "Cancel", now, endpoint })
        if (cancelled._tag === "Changed") return { ...cancelled, before }
      }
    }
    return { _tag: "Changed", before, after: row.head }
  }

  /** Within a transaction. Returns false and writes nothing when the id already exists. */
  const insert = (job: JobRecord, key?: SubmissionKey): boolean => {
    seq += 1
    if (!rows.insert(seq, job, key)) return false
    index.record(seq, job.createdAt)
    tallies.count(undefined, job.concurrency === null ? job : slots.insert(seq, job))
    usage.inserted(seq, job)
    return true
  }

  const runs = RunTransactions.make(runRows, {
    find: (endpoint, id) => rows.find(endpoint, id)?.head,
    apply: (endpoint, id, event) => {
      const row = rows.find(endpoint, id)
      return row === undefined ? { _tag: "Missing" } : apply(row, event)
    },
    insert: (job) => insert(job),
    release: (children) => {
      for (const { id } of children) rows.release(id)
    }
  })

  /** Whether a job is the run of a pipeline. Reads a row only for jobs of endpoints that have a pipeline's definition. */
  const isRunOf = ({ endpoint, id }: JobHead): boolean => runRows.isPipeline(endpoint) && runs.isRun(id)

  /** Up to `limit` chunks from a number. Stops at {@link MAX_READ_CHARACTERS}. */
  const limitChunks = (row: Row, from: number, limit: number): ReadonlyArray<JsonText> => {
    const some: Array<JsonText> = []
    let characters = 0
    for (const body of rows.chunks(row.seq, chunkAttempt(row.head, isRunOf(row.head)), from)) {
      some.push(body)
      characters += body.length
      if (some.length >= limit || characters >= MAX_READ_CHARACTERS) break
    }
    return some
  }

  /** Within a transaction: drains chunks of a job. */
  const takeChunks = (row: Row, limit: number): ReadonlyArray<JsonText> => {
    const taken = limitChunks(row, row.head.drained + 1, limit)
    if (taken.length > 0) rows.setDrained(row, row.head.drained + taken.length)
    return taken
  }

  /** Within a transaction, while the endpoint has isolated jobs. */
  const mayClaim = (endpoint: EndpointId, { now, worker }: Extract<JobMachineEvent, { readonly _tag: "Claim" }>) =>
    claimable(worker, rows.busyWorkers(endpoint), (limit) => rows.ready(endpoint, limit, now).rows.map(({ head }) => head))

  /** Within a transaction. The loop ends because each row that is found stops being ready. */
  const claim = (
    endpoint: EndpointId,
    limit: number,
    event: Extract<JobMachineEvent, { readonly _tag: "Claim" }>
  ): ClaimResult => {
    const jobs: Array<JobRecord> = []
    const expired: Array<ApplyResult> = []
    while (jobs.length < limit && expired.length < CLAIM_EXPIRED_LIMIT) {
      const may = tallies.current(endpoint).isolated === 0 ? undefined : mayClaim(endpoint, event)
      if (may === "none") break
      // The claimed job counts for the next decision.
      const wanted = may === undefined ? limit - jobs.length : 1
      const found = may === "others" ? rows.readyShared(endpoint, wanted, event.now) : rows.ready(endpoint, wanted, event.now)
      let isOrderChanged = false
      for (const row of found.rows) {
        const applied = apply(row, event)
        if (applied._tag !== "Changed") continue
        if (applied.after.status === "IN_PROGRESS") {
          jobs.push({ ...applied.after, ...rows.payload(row.seq) })
          continue
        }
        expired.push(applied)
        isOrderChanged = applied.released !== undefined
        if (isOrderChanged) break
      }
      if (!isOrderChanged && found.rows.length + found.unreadable < wanted) break
    }
    return { jobs, expired, isolating: tallies.current(endpoint).isolated > 0 }
  }

  const list = JobLists.make(rows, index)

  /** Logs the errors of unreadable rows. */
  const reportRowErrors = Effect.suspend(() =>
    Effect.forEach(rows.takeRowErrors(), (problem) =>
      Effect.logError(
        `The job store skips a row that it cannot read: ${problem} The job stays as it is until the row is repaired or deleted.`
      ), { discard: true })
  )

  /** Reads first, and starts a transaction only when there is work. */
  const writeUnlessIdle = <A>(
    operation: string,
    isIdle: () => boolean,
    none: () => A,
    write: () => A
  ): Effect.Effect<A, StoreError> =>
    Effect.flatMap(db.read(operation, isIdle), (idle) => idle ? Effect.succeed(none()) : db.write(operation, write))

  /** The number of IN_QUEUE jobs of an endpoint, within a transaction. */
  const queued = (endpoint: EndpointId): number => {
    const { delayed, waiting } = tallies.current(endpoint)
    return waiting + delayed
  }

  /** The quota that does not admit a new job, within a transaction. Stops counting for quotas that no longer exist. */
  const exceeded = (job: JobRecord, quotas: Quotas | undefined): ExceededQuota | undefined => {
    const { endpoint, owner } = job
    if (usage.isActive()) {
      if (quotas?.endpoint.storedBytes === undefined) usage.stop("endpoint", endpoint)
      if (quotas?.key.storedBytes === undefined && quotas?.key.waitingJobs === undefined) usage.stop("key", owner)
    }
    return quotas === undefined ? undefined : exceededQuota(job, quotas, (scope) =>
      scope === "key" ? usage.of("key", owner) : {
        waiting: queued(endpoint),
        bytes: quotas.endpoint.storedBytes === undefined ? 0 : usage.of("endpoint", endpoint).bytes
      })
  }

  const jobs = JobStore.of({
    durability: db.durability,
    insert: (job, key, quotas) => {
      const write = db.writeNew("insert", (): InsertResult | undefined => {
        const known = key === undefined ? undefined : rows.ofKey(job.endpoint, key)
        if (known !== undefined) {
          const { fingerprint, row: { head, seq } } = known
          return fingerprint === key?.fingerprint
            ? { _tag: "Duplicate", job: { ...head, ...rows.payload(seq) } }
            : { _tag: "KeyConflict", id: head.id }
        }
        if (rows.isEndpointRemoved(job.endpoint)) return { _tag: "EndpointGone" }
        const firing = key?.schedule
        if (firing !== undefined && !schedules.rows.isNext(firing)) return { _tag: "ScheduleChanged" }
        if (key?.bulk !== undefined && !bulk.rows.isNext(key.bulk)) return { _tag: "BulkChanged" }
        const quota = exceeded(job, quotas)
        if (quota !== undefined) return { _tag: "QuotaExceeded", quota }
        if (!insert(job, key)) return undefined
        if (firing !== undefined) schedules.rows.put(firing)
        if (key?.bulk !== undefined) bulk.rows.put(key.bulk)
        return { _tag: "Inserted" }
      })
      return Effect.flatMap(
        Effect.suspend(() => {
          if (!db.isLow()) arriving.add(job.endpoint)
          return write
        }),
        (inserted) => inserted === undefined ? Effect.die(new Error(`job ${job.id} already exists`)) : Effect.succeed(inserted)
      )
    },
    apply: (endpoint, id, event) =>
      db.write(event._tag, (): ApplyResult => {
        const row = rows.find(endpoint, id)
        if (row === undefined) return { _tag: "Missing" }
        const step = bulkOf(event)
        if (step === undefined) return apply(row, event)
        if (!bulk.rows.isNext(step)) return { _tag: "Rejected", job: row.head, rejection: { _tag: "Superseded" } }
        const applied = apply(row, event)
        if (applied._tag === "Changed") bulk.rows.put(step)
        return applied
      }),
    append: (endpoint, id, event, body) =>
      db.write("append", (): ApplyResult => {
        const row = rows.find(endpoint, id)
        return row === undefined ? { _tag: "Missing" } : apply(row, event, body)
      }),
    claim: (endpoint, limit, event) =>
      pending.during(
        endpoint,
        event.worker,
        writeUnlessIdle<ClaimResult>(
          "claim",
          () => tallies.of(endpoint).waiting === 0 && !arriving.has(endpoint) && slots.isLimit(endpoint, event.keyLimit),
          () => ({ jobs: [], expired: [], isolating: tallies.of(endpoint).isolated > 0 }),
          () => {
            slots.setLimit(endpoint, event.keyLimit)
            return claim(endpoint, limit, event)
          }
        )
      ).pipe(Effect.tap(() => reportRowErrors)),
    tick: (event, limit) =>
      writeUnlessIdle<ReadonlyArray<ApplyResult>>(
        "tick",
        () => !rows.isDue(event.now),
        () => [],
        () => rows.due(event.now, limit).rows.map((row) => apply(row, event))
      ).pipe(Effect.tap(() => reportRowErrors)),
    applyRunning: (filter, event) =>
      writeUnlessIdle<ReadonlyArray<ApplyResult>>(
        "applyRunning",
        () =>
          filter !== "timed" && !pending.has(filter.endpoint, filter.worker) && !rows.isHolding(filter.endpoint, filter.worker),
        () => [],
        () => rows.running(filter).map((row) => apply(row, event))
      ).pipe(Effect.tap(() => reportRowErrors)),
    applyWaiting: (endpoint, event, limit) =>
      writeUnlessIdle<ReadonlyArray<ApplyResult>>(
        "applyWaiting",
        () => tallies.of(endpoint).waiting + tallies.of(endpoint).delayed === 0,
        () => [],
        () => rows.queued(endpoint, limit).map((row) => apply(row, event))
      ),
    get: (endpoint, id) => db.read("get", () => rows.report(endpoint, id)),
    traceOf: (endpoint, id) => db.read("traceOf", () => rows.traceOf(endpoint, id)),
    input: (endpoint, id) =>
      db.read("input", () => {
        const row = rows.find(endpoint, id)
        return row === undefined ? undefined : rows.payload(row.seq).input
      }),
    texts: (endpoint, ids) => db.read("texts", () => TextIndexRows.texts(db, endpoint, ids)),
    drain: (endpoint, id, limit) =>
      Effect.flatMap(
        db.read("drain", () => rows.report(endpoint, id)),
        (seen): Effect.Effect<DrainResult | undefined, StoreError> => {
          if (seen === undefined) return Effect.succeed(undefined)
          if (seen.chunks === seen.drained) return Effect.succeed({ job: seen, chunks: [], more: false })
          return db.write("drain", () => {
            const row = rows.find(endpoint, id)
            if (row === undefined) return undefined
            const chunks = takeChunks(row, limit)
            const job = rows.report(endpoint, id)
            return job === undefined ? undefined : { job, chunks, more: job.drained < job.chunks }
          })
        }
      ),
    peek: (endpoint, id, after, limit) =>
      db.read("peek", () => {
        const job = rows.report(endpoint, id)
        if (job === undefined) return undefined
        const start = after.attempt === job.attempt || isRunOf(job) ? after.chunk : 0
        const row = job.chunks > start ? rows.find(endpoint, id) : undefined
        const chunks = row === undefined ? [] : limitChunks(row, start + 1, limit)
        return { job, chunks, from: start + 1, more: start + chunks.length < job.chunks }
      }),
    list: (endpoint, query) => db.read("list", () => list(endpoint, query)),
    ahead: (endpoint, id, limit) =>
      db.read("ahead", () => {
        const row = rows.find(endpoint, id)
        if (row === undefined || !isReady(row.head)) return undefined
        const jobs = rows.ahead(row, limit + 1)
        return { jobs: Math.min(jobs, limit), more: jobs > limit }
      }),
    keyUsage: (endpoint, id, limit) =>
      db.read("keyUsage", () => {
        const row = rows.find(endpoint, id)
        return row?.head.concurrency?.held === true ? slots.usage(row, limit) : undefined
      }),
    depth: (endpoint) =>
      db.readUsable("depth", () => {
        const tally = tallies.of(endpoint)
        const anyOld = tally.waiting > tally.waitingLow
        return { ...tally, oldestQueuedAt: anyOld ? rows.oldestQueuedAt(endpoint) : null }
      })
  })

  return Context.make(JobStore, jobs).pipe(
    Context.add(RunStore, SqliteRuns.make(db, runRows, runs, rows)),
    Context.add(ScheduleStore, schedules.service),
    Context.add(BulkStore, bulk.service),
    Context.add(TextIndex, TextIndex.of(index.service)),
    Context.add(ErrorGroupStore, errors.service),
    Context.add(
      BatchStore,
      SqliteBatches.make(db, batches, {
        rows,
        insert,
        apply,
        queued,
        admits: (job, quotas) => exceeded(job, quotas) === undefined
      })
    )
  )
})

/** The stores of jobs and of the data that changes with them. */
type Stores = JobStore | BatchStore | BulkStore | ErrorGroupStore | RunStore | ScheduleStore | TextIndex

/** The stores of jobs, batches, bulk operations, error groups, runs and schedules of a database file, and the index of words. */
export const layer: Layer.Layer<Stores, StoreError, SqliteDatabase> = Layer.effectContext(make)
