/**
 * Jobs in memory: the model that every other store is compared with, and a store for tests and trials. Nothing survives the process.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { dueAt, type JobEvent, transition } from "./JobMachine.ts"
import type { JobRecord } from "./JobRecord.ts"
import { type Applied, type Depth, JobStore } from "./JobStore.ts"

interface Entry {
  job: JobRecord
  /** Order of submission. */
  readonly order: number
  chunks: Array<JsonText>
}

const make = (): JobStore["Service"] => {
  const entries = new Map<JobId, Entry>()
  let order = 0

  const applyTo = (entry: Entry, event: JobEvent): Applied => {
    const before = entry.job
    const decided = transition(before, event)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    if (decided.success._tag === "Remove") {
      entries.delete(before.id)
      return { _tag: "Removed", before }
    }
    entry.job = decided.success.job
    if (decided.success.discardChunks) entry.chunks = []
    return { _tag: "Changed", before, after: entry.job }
  }

  const applyAll = (matches: (job: JobRecord) => boolean, limit: number, event: JobEvent): ReadonlyArray<Applied> => {
    const applied: Array<Applied> = []
    for (const entry of entries.values()) {
      if (applied.length === limit) break
      if (matches(entry.job)) applied.push(applyTo(entry, event))
    }
    return applied
  }

  const waitingOf = (endpoint: EndpointId): ReadonlyArray<Entry> =>
    [...entries.values()]
      .filter((entry) => entry.job.status === "IN_QUEUE" && entry.job.endpoint === endpoint)
      .sort((a, b) => a.order - b.order)

  const depth = (endpoint: EndpointId): Depth => {
    const jobs = [...entries.values()].map((entry) => entry.job).filter((job) => job.endpoint === endpoint)
    const count = (matches: (job: JobRecord) => boolean) => jobs.filter(matches).length
    const queued = jobs.filter((job) => job.status === "IN_QUEUE" && !job.lowPriority).map((job) => job.queuedAt)
    return {
      waiting: count((job) => job.status === "IN_QUEUE"),
      waitingLow: count((job) => job.status === "IN_QUEUE" && job.lowPriority),
      running: count((job) => job.status === "IN_PROGRESS"),
      completed: count((job) => job.status === "COMPLETED"),
      failed: count((job) => job.status === "FAILED" || job.status === "TIMED_OUT"),
      retried: count((job) => job.retries > 0),
      oldestQueuedAt: queued.length === 0 ? null : Math.min(...queued)
    }
  }

  return JobStore.of({
    durability: "none",
    insert: (job) =>
      Effect.sync(() => {
        entries.set(job.id, { job, order: order++, chunks: [] })
      }),
    apply: (id, event) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        return entry === undefined ? { _tag: "Missing" } : applyTo(entry, event)
      }),
    append: (id, event, body) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry === undefined) return { _tag: "Missing" }
        const applied = applyTo(entry, event)
        if (applied._tag === "Changed") entry.chunks.push(body)
        return applied
      }),
    claim: (endpoint, limit, event) =>
      Effect.sync(() =>
        waitingOf(endpoint).slice(0, limit).flatMap((entry) => {
          const applied = applyTo(entry, event)
          return applied._tag === "Changed" ? [applied.after] : []
        })
      ),
    tick: (now, limit) => Effect.sync(() => applyAll((job) => dueAt(job) <= now, limit, { _tag: "Tick", now })),
    applyRunning: (filter, event) =>
      Effect.sync(() =>
        applyAll(
          (job) =>
            job.status === "IN_PROGRESS" &&
            (filter === "all" || (job.endpoint === filter.endpoint && job.worker === filter.worker)),
          Infinity,
          event
        )
      ),
    applyWaiting: (endpoint, event) =>
      Effect.sync(() => applyAll((job) => job.status === "IN_QUEUE" && job.endpoint === endpoint, Infinity, event)),
    get: (id) => Effect.sync(() => entries.get(id)?.job),
    drain: (id, limit) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry === undefined) return undefined
        const from = entry.job.drained
        const chunks = entry.chunks.slice(from, from + limit)
        entry.job = { ...entry.job, drained: from + chunks.length }
        return { job: entry.job, chunks, more: entry.job.drained < entry.chunks.length }
      }),
    depth: (endpoint) => Effect.sync(() => depth(endpoint))
  })
}

/** A store of its own for each build of the layer. */
export const layer: Layer.Layer<JobStore> = Layer.sync(JobStore, make)
