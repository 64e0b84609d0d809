/**
 * The simplest job store that can be right: a list of jobs, looked through from start to end for every question. Model tests hold the
 * real stores against it, the memory store included.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { dueAt, type JobEvent, transition } from "../JobMachine.ts"
import type { JobHead, JobInput, JobOutcome } from "../JobRecord.ts"
import { type Applied, DRAIN_CHARACTERS, type JobStore } from "../JobStore.ts"

interface Entry {
  head: JobHead
  outcome: JobOutcome
  readonly input: JobInput
  chunks: ReadonlyArray<JsonText>
}

/** An empty model. `heads` are all jobs, in order of submission. */
export const make = (): JobStore["Service"] & { readonly heads: () => ReadonlyArray<JobHead> } => {
  let entries: ReadonlyArray<Entry> = []

  const find = (id: JobId) => entries.find((entry) => entry.head.id === id)

  const apply = (entry: Entry, event: JobEvent): Applied => {
    const before = entry.head
    const decided = transition(before, event)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    if (decided.success._tag === "Remove") {
      entries = entries.filter((one) => one !== entry)
      return { _tag: "Removed", before }
    }
    entry.head = decided.success.job
    entry.outcome = { ...entry.outcome, ...decided.success.outcome }
    if (decided.success.discardChunks) entry.chunks = []
    return { _tag: "Changed", before, after: entry.head }
  }

  const matching = (matches: (head: JobHead) => boolean) => entries.filter((entry) => matches(entry.head))

  const waiting = (endpoint: EndpointId) => matching((head) => head.status === "IN_QUEUE" && head.endpoint === endpoint)

  const read = (entry: Entry, limit: number): ReadonlyArray<JsonText> => {
    const unread = entry.chunks.slice(entry.head.drained)
    const enough = unread.findIndex((_, index) => unread.slice(0, index + 1).join("").length >= DRAIN_CHARACTERS)
    return unread.slice(0, Math.min(limit, enough === -1 ? Infinity : enough + 1))
  }

  return {
    heads: () => entries.map((entry) => entry.head),
    durability: "none",
    insert: ({ error, input, output, progress, s3Config, traceparent, tracestate, ...head }) =>
      Effect.sync(() => {
        entries = [...entries, {
          head,
          outcome: { progress, output, error },
          input: { input, s3Config, traceparent, tracestate },
          chunks: []
        }]
      }),
    apply: (id, event) =>
      Effect.sync(() => {
        const entry = find(id)
        return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
      }),
    append: (id, event, body) =>
      Effect.sync(() => {
        const entry = find(id)
        if (entry === undefined) return { _tag: "Missing" }
        const applied = apply(entry, event)
        if (applied._tag === "Changed") entry.chunks = [...entry.chunks, body]
        return applied
      }),
    claim: (endpoint, limit, event) =>
      Effect.sync(() =>
        waiting(endpoint).slice(0, limit).map((entry) => {
          apply(entry, event)
          return { ...entry.head, ...entry.outcome, ...entry.input }
        })
      ),
    tick: (now, limit) =>
      Effect.sync(() =>
        matching((head) => dueAt(head) <= now)
          .sort((a, b) => dueAt(a.head) - dueAt(b.head))
          .slice(0, limit)
          .map((entry) => apply(entry, { _tag: "Tick", now }))
      ),
    applyRunning: (filter, event) =>
      Effect.sync(() =>
        matching((head) =>
          head.status === "IN_PROGRESS" &&
          (filter === "all" || (head.endpoint === filter.endpoint && head.worker === filter.worker))
        ).map((entry) => apply(entry, event))
      ),
    applyWaiting: (endpoint, event, limit) =>
      Effect.sync(() => waiting(endpoint).slice(0, limit).map((entry) => apply(entry, event))),
    get: (id) =>
      Effect.sync(() => {
        const entry = find(id)
        return entry === undefined ? undefined : { ...entry.head, ...entry.outcome }
      }),
    drain: (id, limit) =>
      Effect.sync(() => {
        const entry = find(id)
        if (entry === undefined) return undefined
        const chunks = read(entry, limit)
        entry.head = { ...entry.head, drained: entry.head.drained + chunks.length }
        return { job: { ...entry.head, ...entry.outcome }, chunks, more: entry.head.drained < entry.chunks.length }
      }),
    depth: (endpoint) =>
      Effect.sync(() => {
        const count = (matches: (head: JobHead) => boolean) =>
          matching((head) => head.endpoint === endpoint && matches(head)).length
        const eager = waiting(endpoint).filter((entry) => !entry.head.lowPriority).map((entry) => entry.head.queuedAt)
        return {
          waiting: count((head) => head.status === "IN_QUEUE"),
          waitingLow: count((head) => head.status === "IN_QUEUE" && head.lowPriority),
          running: count((head) => head.status === "IN_PROGRESS"),
          completed: count((head) => head.status === "COMPLETED"),
          failed: count((head) => head.status === "FAILED" || head.status === "TIMED_OUT"),
          retried: count((head) => head.retries > 0),
          oldestQueuedAt: eager.length === 0 ? null : Math.min(...eager)
        }
      })
  }
}
