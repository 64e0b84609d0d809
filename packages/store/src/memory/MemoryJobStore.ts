/**
 * The job store in memory: a readable reference implementation, for tests and trials. Nothing survives the process.
 *
 * Listing jobs and computing queue positions scan all jobs of one endpoint, and a submission with quotas scans all jobs. All other operations use heaps of ready jobs, due jobs and
 * queue times. Heap nodes are hints and may be outdated:
 *
 * ```
 *   change of a job --push--> heap        nodes of earlier states stay in the heap
 *                              |
 *   claim, tick, depth <--pop--+          outdated nodes are dropped when they are popped
 * ```
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { BatchStore } from "../batches/BatchStore.ts"
import { type Endpoints, EndpointStore, makeMemory } from "../control/EndpointStore.ts"
import { ReleaseStore } from "../control/ReleaseStore.ts"
import { ScheduleStore } from "../control/ScheduleStore.ts"
import { failureOf } from "../errors/ErrorGroupMachine.ts"
import { ErrorGroupStore } from "../errors/ErrorGroupStore.ts"
import { BulkStore } from "../jobs/BulkStore.ts"
import { busyWorkers, claimable } from "../jobs/ClaimRule.ts"
import { freesSlot } from "../jobs/ConcurrencyRule.ts"
import { webhookJson } from "../jobs/JobJson.ts"
import { JobLogStore, LogLimits, type LogQuotas } from "../jobs/JobLogStore.ts"
import { bulkOf, dueAt, isParked, type JobMachineEvent, transition } from "../jobs/JobMachine.ts"
import type { JobHead, JobRecord } from "../jobs/JobRecord.ts"
import { type ApplyResult, CLAIM_EXPIRED_LIMIT, type InsertResult, JobStore, type SubmissionKey } from "../jobs/JobStore.ts"
import { exceededQuota, type Quotas } from "../jobs/Quota.ts"
import * as Tally from "../jobs/Tally.ts"
import * as TextIndex from "../jobs/TextIndex.ts"
import { NO_OWNER } from "../Owner.ts"
import { RunStore } from "../runs/RunStore.ts"
import { isChild } from "../runs/RunTransactions.ts"
import { webhookEventOf } from "../webhooks/JobWebhookEvents.ts"
import { WebhookStore } from "../webhooks/WebhookStore.ts"
import * as MemoryBatches from "./MemoryBatches.ts"
import * as MemoryBulk from "./MemoryBulk.ts"
import * as MemoryErrorGroups from "./MemoryErrorGroups.ts"
import * as MemoryJobLogs from "./MemoryJobLogs.ts"
import {
  byTime,
  comesBefore,
  type EndpointJobs,
  type Entry,
  entryOf,
  isWaiting,
  keyOf,
  limitChunks,
  nodeComesBefore,
  pageOf,
  recordOf,
  textsOf,
  usageOf
} from "./MemoryJobs.ts"
import * as MemoryRuns from "./MemoryRuns.ts"
import * as MemorySchedules from "./MemorySchedules.ts"
import * as MemorySlots from "./MemorySlots.ts"
import * as MemoryWebhooks from "./MemoryWebhooks.ts"
import * as MinHeap from "./MinHeap.ts"

const make = (
  endpoints: Pick<Endpoints, "wasRemoved">,
  outbox: Pick<ReturnType<typeof MemoryWebhooks.make>, "add">,
  quotas: LogQuotas
) => {
  const entries = new Map<JobId, Entry>()

  const find = (endpoint: EndpointId, id: JobId): Entry | undefined => {
    const entry = entries.get(id)
    return entry?.head.endpoint === endpoint ? entry : undefined
  }

  const logs = MemoryJobLogs.make((endpoint, id) => find(endpoint, id)?.head, quotas)
  /** Jobs by endpoint, owner and idempotency key. */
  const keys = new Map<string, Entry>()
  const byEndpoint = new Map<EndpointId, EndpointJobs>()
  const due = MinHeap.make(byTime)
  const schedules = MemorySchedules.make()
  const bulk = MemoryBulk.make()
  const errors = MemoryErrorGroups.make()
  const slots = MemorySlots.make<Entry>()
  let order = 0

  const jobsOf = (endpoint: EndpointId): EndpointJobs => {
    let group = byEndpoint.get(endpoint)
    if (group === undefined) {
      group = {
        all: new Set(),
        ready: MinHeap.make(nodeComesBefore),
        oldest: MinHeap.make(byTime),
        running: new Set(),
        tally: Tally.make()
      }
      byEndpoint.set(endpoint, group)
    }
    return group
  }

  /** The first ready job. Drops outdated nodes. */
  const firstReady = (group: EndpointJobs): Entry | undefined => {
    while (true) {
      const node = group.ready.peek()
      if (node === undefined) return undefined
      if (isWaiting(node.entry) && node.entry.turn === node.at) return node.entry
      group.ready.pop()
    }
  }

  /** The next job that a worker may claim while the endpoint has isolated jobs. Sorts all ready jobs, because this is rare. */
  const nextFor = (worker: string, group: EndpointJobs): Entry | undefined => {
    const waiting = [...group.all].filter(isWaiting).sort((a, b) => comesBefore(a, b) ? -1 : 1)
    const running = [...group.running].map(({ head }) => head)
    const may = claimable(worker, busyWorkers(running), (limit) => waiting.slice(0, limit).map(({ head }) => head))
    return may === "none" ? undefined : waiting.find(({ head }) => may === "next" || !head.isolated)
  }

  const oldestQueuedAt = (group: EndpointJobs): number | null => {
    while (true) {
      const node = group.oldest.peek()
      if (node === undefined) return null
      if (isWaiting(node.entry) && node.entry.head.queuedAt === node.at) return node.at
      group.oldest.pop()
    }
  }

  /** Ensures that `due` has a node at or before the due time. `takeDue` reschedules entries that come up too early. */
  const schedule = (entry: Entry) => {
    const at = dueAt(entry.head)
    if (entry.dueNodeAt !== undefined && entry.dueNodeAt <= at) return
    entry.dueNodeAt = at
    due.push({ entry, at })
  }

  const takeDue = (now: number): Entry | undefined => {
    while (true) {
      const node = due.peek()
      if (node === undefined || node.at > now) return undefined
      due.pop()
      if (node.entry.dueNodeAt !== node.at) continue
      node.entry.dueNodeAt = undefined
      if (dueAt(node.entry.head) === node.at) return node.entry
      schedule(node.entry)
    }
  }

  /** Adds the entry to the counts and heaps of its state. */
  const index = (entry: Entry) => {
    const group = jobsOf(entry.head.endpoint)
    Tally.add(group.tally, entry.head, 1)
    if (isWaiting(entry)) {
      group.ready.push({ entry, at: entry.turn })
      if (!entry.head.lowPriority) group.oldest.push({ entry, at: entry.head.queuedAt })
    } else {
      // The job may just have left the queue. Dropping outdated nodes here bounds the heaps when `depth` is never called.
      firstReady(group)
      oldestQueuedAt(group)
    }
    if (entry.head.status === "IN_PROGRESS" && !isParked(entry.head)) group.running.add(entry)
    if (entry.head.concurrency !== null) slots.index(entry)
    schedule(entry)
  }

  const unindex = (entry: Entry) => {
    const group = jobsOf(entry.head.endpoint)
    Tally.add(group.tally, entry.head, -1)
    group.running.delete(entry)
  }

  const remove = (entry: Entry) => {
    const { endpoint, id } = entry.head
    entries.delete(id)
    logs.remove(id)
    jobsOf(endpoint).all.delete(entry)
    if (entry.key !== undefined) keys.delete(keyOf(endpoint, entry.key))
    entry.dueNodeAt = undefined
  }

  /** Releases held jobs with the key of a job that has freed its slot. Returns their number. */
  const release = (job: JobHead, now: number): number =>
    slots.release(job, now, (entry, update) => {
      unindex(entry)
      update()
      index(entry)
    })

  /** Adds the webhook delivery of a change. */
  const enqueueWebhook = (
    { head, input, outcome }: Entry,
    event: JobMachineEvent,
    before: JobHead,
    chunk: JsonText | undefined
  ) => {
    const { endpoint, id: job, webhook } = head
    const webhookEvent = webhookEventOf(event, before, head)
    if (webhook === null || webhookEvent === undefined) return
    const body = webhookJson({ ...head, ...outcome }, input, webhook, webhookEvent, chunk)
    const { traceparent, tracestate } = input
    outbox.add({ job, endpoint, event: webhookEvent, url: webhook.url, body, traceparent, tracestate, createdAt: event.now })
  }

  const apply = (entry: Entry, event: JobMachineEvent, chunk?: JsonText): ApplyResult => {
    const before = entry.head
    const isRun = runs.isPipeline(before.endpoint) && runs.isRun(before.id)
    const undoing = isRun && event._tag === "Cancel" ? runs.cancelling(before, event.now) : undefined
    if (undoing !== undefined) return undoing
    if (event._tag === "Retry" && batches.isExpired(before, event.now)) {
      return { _tag: "Rejected", job: before, rejection: { _tag: "Expired" } }
    }
    const decided = transition(before, event, isRun)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    unindex(entry)
    if (decided.success._tag === "Remove") {
      remove(entry)
      if (isRun) runs.removed(before, event.now)
      return { _tag: "Removed", before }
    }
    entry.head = decided.success.job
    slots.place(entry, before)
    entry.outcome = { ...entry.outcome, ...decided.success.outcome }
    const failure = failureOf(before, entry.head, entry.outcome.error)
    if (failure !== undefined) entry.errorGroup = errors.record(failure)
    else if (entry.head.finishedAt === null) entry.errorGroup = null
    if (decided.success.discardChunks) entry.chunks = []
    if (chunk !== undefined) entry.chunks.push(chunk)
    index(entry)
    if (!isRun || event._tag !== "Claim") enqueueWebhook(entry, event, before, chunk)
    let released = freesSlot(before, entry.head) ? release(entry.head, event.now) : 0
    if (entry.head.batchId !== null && before.status !== entry.head.status) released += updateBatch(entry, before, event.now)
    const others = isRun || isChild(before.id) ? runs.changed(event, before, entry.head, entry.outcome.error) : []
    return {
      _tag: "Changed",
      before,
      after: entry.head,
      ...(released === 0 ? {} : { released }),
      ...(others.length === 0 ? {} : { others })
    }
  }

  /** Returns the number of held jobs that became ready. */
  const updateBatch = (entry: Entry, before: JobHead, now: number): number => {
    if (!batches.jobChanged(before, entry.head, now)) return 0
    const cancelled = apply(entry, { _tag: "Cancel", now, endpoint: entry.head.endpoint })
    return cancelled._tag === "Changed" ? cancelled.released ?? 0 : 0
  }

  const insert = (job: JobRecord, key?: SubmissionKey) => {
    const entry = entryOf(job, key, ++order)
    slots.place(entry, undefined)
    entries.set(job.id, entry)
    jobsOf(job.endpoint).all.add(entry)
    if (key !== undefined) keys.set(keyOf(job.endpoint, key), entry)
    index(entry)
  }

  const runs = MemoryRuns.make({
    find: (endpoint, id) => find(endpoint, id)?.head,
    apply: (endpoint, id, event) => {
      const entry = find(endpoint, id)
      return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
    },
    insert: (job) => {
      if (entries.has(job.id)) return false
      insert(job)
      return true
    },
    release: (children) => {
      for (const { endpoint, id } of children) {
        const entry = find(endpoint, id)
        if (entry === undefined) continue
        entry.head = { ...entry.head, retentionMs: 0 }
        schedule(entry)
      }
    }
  })

  /** The number of IN_QUEUE jobs of an endpoint. */
  const waitingIn = (endpoint: EndpointId): number => {
    const tally = byEndpoint.get(endpoint)?.tally
    return tally === undefined ? 0 : tally.waiting + tally.delayed
  }

  /** The quota that does not admit a new job. */
  const exceeded = (job: JobRecord, quotas: Quotas | undefined) =>
    quotas === undefined ? undefined : exceededQuota(job, quotas, (scope) =>
      usageOf(
        scope === "endpoint" ? jobsOf(job.endpoint).all : [...entries.values()].filter(({ head }) => head.owner === job.owner),
        logs.bytesOf
      ))

  const batches = MemoryBatches.make({
    admits: (job, quotas) => exceeded(job, quotas) === undefined,
    insert: (job) => {
      if (!entries.has(job.id)) insert(job)
    },
    get: (id) => entries.get(id)?.head,
    apply: (id, event) => {
      const entry = entries.get(id)
      return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
    },
    queued: (endpoint) => waitingIn(endpoint),
    wasRemoved: endpoints.wasRemoved
  }, outbox)

  /** IN_QUEUE jobs of an endpoint, in order of submission. */
  const queued = (endpoint: EndpointId): ReadonlyArray<Entry> =>
    [...jobsOf(endpoint).all].filter(({ head }) => head.status === "IN_QUEUE")

  const runningOf = (filter: { readonly endpoint: EndpointId; readonly worker: string } | "timed"): ReadonlyArray<Entry> => {
    const all = filter === "timed"
      ? [...entries.values()].filter(({ head }) => !isParked(head) && (head.status === "IN_PROGRESS" || head.notBefore !== null))
      : [...jobsOf(filter.endpoint).running].filter((entry) => entry.head.worker === filter.worker)
    return all.sort((a, b) => a.order - b.order)
  }

  /** Whether an endpoint has jobs or running batches that have not ended. */
  const isBusy = (endpoint: EndpointId): boolean =>
    batches.isBusy(endpoint) || [...jobsOf(endpoint).all].some(({ head }) => head.finishedAt === null)

  const service = JobStore.of({
    durability: "none",
    insert: (job, key, quotas) =>
      Effect.suspend((): Effect.Effect<InsertResult> => {
        const known = key === undefined
          ? undefined
          : keys.get(keyOf(job.endpoint, key)) ?? keys.get(keyOf(job.endpoint, { key: key.key, owner: NO_OWNER }))
        if (known !== undefined) {
          return Effect.succeed(
            known.key?.fingerprint === key?.fingerprint
              ? { _tag: "Duplicate", job: recordOf(known) }
              : { _tag: "KeyConflict", id: known.head.id }
          )
        }
        if (endpoints.wasRemoved(job.endpoint)) return Effect.succeed({ _tag: "EndpointGone" })
        const firing = key?.schedule
        if (firing !== undefined && !schedules.isNext(firing)) return Effect.succeed({ _tag: "ScheduleChanged" })
        if (key?.bulk !== undefined && !bulk.isNext(key.bulk)) return Effect.succeed({ _tag: "BulkChanged" })
        const quota = exceeded(job, quotas)
        if (quota !== undefined) return Effect.succeed({ _tag: "QuotaExceeded", quota })
        if (entries.has(job.id)) return Effect.die(new Error(`job ${job.id} already exists`))
        insert(job, key)
        if (firing !== undefined) schedules.put(firing)
        if (key?.bulk !== undefined) bulk.put(key.bulk)
        return Effect.succeed({ _tag: "Inserted" })
      }),
    apply: (endpoint, id, event) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return { _tag: "Missing" }
        const step = bulkOf(event)
        if (step !== undefined && !bulk.isNext(step)) {
          return { _tag: "Rejected", job: entry.head, rejection: { _tag: "Superseded" } }
        }
        const applied = apply(entry, event)
        if (step !== undefined && applied._tag === "Changed") bulk.put(step)
        return applied
      }),
    append: (endpoint, id, event, body) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        return entry === undefined ? { _tag: "Missing" } : apply(entry, event, body)
      }),
    claim: (endpoint, limit, event) =>
      Effect.sync(() => {
        slots.setLimit(endpoint, event.keyLimit)
        const group = jobsOf(endpoint)
        const jobs: Array<JobRecord> = []
        const expired: Array<ApplyResult> = []
        while (jobs.length < limit && expired.length < CLAIM_EXPIRED_LIMIT) {
          const entry = group.tally.isolated === 0 ? firstReady(group) : nextFor(event.worker, group)
          if (entry === undefined) break
          if (entry === firstReady(group)) group.ready.pop()
          const applied = apply(entry, event)
          if (entry.head.status === "IN_PROGRESS") jobs.push(recordOf(entry))
          else expired.push(applied)
        }
        return { jobs, expired, isolating: group.tally.isolated > 0 }
      }),
    tick: (event, limit) =>
      Effect.sync(() => {
        const applied: Array<ApplyResult> = []
        while (applied.length < limit) {
          const entry = takeDue(event.now)
          if (entry === undefined) break
          applied.push(apply(entry, event))
        }
        return applied
      }),
    applyRunning: (filter, event) => Effect.sync(() => runningOf(filter).map((entry) => apply(entry, event))),
    applyWaiting: (endpoint, event, limit) =>
      Effect.sync(() => queued(endpoint).slice(0, limit).map((entry) => apply(entry, event))),
    get: (endpoint, id) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        return entry === undefined ? undefined : { ...entry.head, ...entry.outcome }
      }),
    traceOf: (endpoint, id) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return undefined
        const { error, lastError } = entry.outcome
        const { traceparent, tracestate } = entry.input
        return { traceparent, tracestate, error, lastError }
      }),
    input: (endpoint, id) => Effect.sync(() => find(endpoint, id)?.input.input),
    drain: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return undefined
        const chunks = limitChunks(entry.chunks, entry.head.drained, limit)
        entry.head = { ...entry.head, drained: entry.head.drained + chunks.length }
        const job = { ...entry.head, ...entry.outcome }
        return { job, chunks, more: entry.head.drained < entry.chunks.length }
      }),
    peek: (endpoint, id, after, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return undefined
        const start = after.attempt === entry.head.attempt || runs.isRun(id) ? after.chunk : 0
        const chunks = limitChunks(entry.chunks, start, limit)
        const job = { ...entry.head, ...entry.outcome }
        return { job, chunks, from: start + 1, more: start + chunks.length < entry.chunks.length }
      }),
    list: (endpoint, query) => Effect.sync(() => pageOf(jobsOf(endpoint).all, query)),
    texts: (endpoint, ids) => Effect.sync(() => textsOf(ids.flatMap((id) => find(endpoint, id) ?? []))),
    ahead: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined || !isWaiting(entry)) return undefined
        let jobs = 0
        for (const other of jobsOf(entry.head.endpoint).all) {
          if (!isWaiting(other) || !comesBefore(other, entry)) continue
          if (jobs === limit) return { jobs, more: true }
          jobs += 1
        }
        return { jobs, more: false }
      }),
    keyUsage: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        return entry?.head.concurrency?.held === true ? slots.usage(entry, limit) : undefined
      }),
    depth: (endpoint) =>
      Effect.sync(() => {
        const group = byEndpoint.get(endpoint)
        return group === undefined
          ? { ...Tally.make(), oldestQueuedAt: null }
          : { ...group.tally, oldestQueuedAt: oldestQueuedAt(group) }
      })
  })

  return {
    service,
    batches: batches.service,
    bulk: bulk.service,
    errors,
    isBusy,
    logs: logs.service,
    runs: runs.service,
    schedules: schedules.service
  }
}

/** The stores that one `make` creates. */
const contextOf = (jobs: ReturnType<typeof make>, outbox: ReturnType<typeof MemoryWebhooks.make>) =>
  Context.make(JobStore, jobs.service).pipe(
    Context.add(BatchStore, BatchStore.of(jobs.batches)),
    Context.add(RunStore, jobs.runs),
    Context.add(ScheduleStore, jobs.schedules),
    Context.add(BulkStore, jobs.bulk),
    Context.add(TextIndex.TextIndex, TextIndex.none),
    Context.add(ErrorGroupStore, jobs.errors.service),
    Context.add(WebhookStore, WebhookStore.of(outbox.service)),
    Context.add(JobLogStore, JobLogStore.of(jobs.logs))
  )

/** The stores of jobs and what changes with them. */
type Stores = JobStore | RecordStores | TextIndex.TextIndex | WebhookStore | JobLogStore
type RecordStores = BatchStore | BulkStore | ErrorGroupStore | RunStore | ScheduleStore

/** A job store with batches, outbox and logs. Accepts jobs for any endpoint. Each build of the layer starts empty. */
export const layer: Layer.Layer<Stores> = Layer.effectContext(
  Effect.gen(function*() {
    const outbox = MemoryWebhooks.make()
    return contextOf(make({ wasRemoved: () => false }, outbox, yield* LogLimits), outbox)
  })
)

/**
 * All stores of a platform in memory: jobs, batches, outbox, logs and endpoints. An endpoint with unfinished jobs cannot be removed, and a
 * removed endpoint rejects jobs.
 */
export const layerWithEndpoints: Layer.Layer<Stores | EndpointStore | ReleaseStore> = Layer.effectContext(
  Effect.gen(function*() {
    const outbox = MemoryWebhooks.make()
    const jobs = make({ wasRemoved: (id) => endpoints.wasRemoved(id) }, outbox, yield* LogLimits)
    const endpoints = makeMemory(jobs.isBusy, jobs.errors.removeAll)
    return contextOf(jobs, outbox).pipe(
      Context.add(EndpointStore, endpoints.service),
      Context.add(ReleaseStore, endpoints.releases)
    )
  })
)
