/**
 * The simplest correct job store: an array of jobs that every operation scans. Model tests compare every store with this model, including
 * the memory store.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { busyWorkers, claimable } from "@stint/store/ClaimRule"
import { makeLimits } from "@stint/store/ConcurrencyRule"
import { identify } from "@stint/store/ErrorFingerprint"
import { dueAt, isParked, isReady, type JobMachineEvent, transition } from "@stint/store/JobMachine"
import { ERROR_PREVIEW_LENGTH } from "@stint/store/JobQuery"
import type { JobHead, JobInput, JobOutcome } from "@stint/store/JobRecord"
import {
  type ApplyResult,
  CLAIM_EXPIRED_LIMIT,
  type JobStore,
  MAX_READ_CHARACTERS,
  type SubmissionKey
} from "@stint/store/JobStore"
import { NO_OWNER } from "@stint/store/Owner"
import { exceededQuota, inputBytes, outcomeBytes, payloadBytes, type QuotaScope } from "@stint/store/Quota"
import { complete } from "@stint/store/TextIndex"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"

interface Entry {
  head: JobHead
  outcome: JobOutcome
  readonly input: JobInput
  chunks: ReadonlyArray<JsonText>
  readonly key: SubmissionKey | undefined
  /** Position in the order of submission. */
  readonly seq: number
  /** Position among the jobs that received the slot of a concurrency key; 0 without a key. */
  turn: number
}

/** An empty model. `heads` returns all jobs in order of submission. */
export const make = (): JobStore["Service"] & { readonly heads: () => ReadonlyArray<JobHead> } => {
  let entries: ReadonlyArray<Entry> = []
  let seq = 0
  let turns = 0
  const keyLimits = makeLimits()

  /** The other jobs with a job's concurrency key. */
  const sameKey = ({ head }: Entry) =>
    entries.filter((other) =>
      head.concurrency !== null && other.head.endpoint === head.endpoint &&
      other.head.concurrency?.key === head.concurrency.key &&
      other.head.id !== head.id
    )

  const isActive = ({ notBefore, status }: JobHead) => notBefore === null && (status === "IN_PROGRESS" || status === "IN_QUEUE")

  const isHeld = ({ concurrency }: JobHead) => concurrency?.held === true

  const setHeld = (entry: Entry, held: boolean) => {
    if (entry.head.concurrency !== null) entry.head = { ...entry.head, concurrency: { ...entry.head.concurrency, held } }
    if (!held) entry.turn = ++turns
  }

  /** Holds a job that has just become active, unless its key has a free slot. */
  const admit = (entry: Entry) => {
    const others = sameKey(entry)
    const active = others.filter(({ head }) => isActive(head) && !isHeld(head))
    setHeld(entry, others.some(({ head }) => isHeld(head)) || active.length >= keyLimits.of(entry.head.endpoint))
  }

  /** Gives the free slots of a job's key to held jobs with that key. Returns their number. */
  const release = (entry: Entry, now: number): number => {
    const others = sameKey(entry)
    const free = keyLimits.of(entry.head.endpoint) - others.filter(({ head }) => isActive(head) && !isHeld(head)).length
    const next = others.filter(({ head }) => isHeld(head))
      .sort((a, b) => b.head.priority - a.head.priority || a.seq - b.seq)
      .slice(0, Math.max(0, free))
    for (const other of next) {
      setHeld(other, false)
      other.head = { ...other.head, queuedAt: now }
    }
    return next.length
  }

  const find = (endpoint: EndpointId, id: JobId) =>
    entries.find((entry) => entry.head.id === id && entry.head.endpoint === endpoint)

  const apply = (entry: Entry, event: JobMachineEvent): ApplyResult => {
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
    let released = 0
    if (entry.head.concurrency !== null) {
      const hadSlot = isActive(before) && !isHeld(before)
      if (isActive(entry.head) && !hadSlot) admit(entry)
      if (!isActive(entry.head) && isHeld(before)) {
        entry.head = { ...entry.head, concurrency: { ...entry.head.concurrency, held: false } }
      }
      if (!isActive(entry.head) && hadSlot) released = release(entry, event.now)
    }
    return { _tag: "Changed", before, after: entry.head, ...(released === 0 ? {} : { released }) }
  }

  const matching = (matches: (head: JobHead) => boolean) => entries.filter((entry) => matches(entry.head))

  const queued = (endpoint: EndpointId) => matching((head) => head.status === "IN_QUEUE" && head.endpoint === endpoint)

  /** Ready jobs in the order in which they are claimed. */
  const waiting = (endpoint: EndpointId) =>
    matching((head) => isReady(head) && head.endpoint === endpoint).sort((a, b) =>
      b.head.priority - a.head.priority || a.turn - b.turn || a.seq - b.seq
    )

  /** What the jobs of a job's endpoint or owner use. */
  const usageOf = (scope: QuotaScope, { endpoint, owner }: JobHead) => {
    const used = matching((head) => scope === "endpoint" ? head.endpoint === endpoint : head.owner === owner)
    const bytes = ({ chunks, input, outcome }: Entry) =>
      inputBytes(input) + outcomeBytes(outcome) + chunks.reduce((sum, chunk) => sum + payloadBytes(chunk), 0)
    return {
      waiting: used.filter(({ head }) => head.status === "IN_QUEUE").length,
      bytes: used.reduce((sum, entry) => sum + bytes(entry), 0)
    }
  }

  const record = ({ head, input, outcome }: Entry) => ({ ...head, ...outcome, ...input })

  const read = (entry: Entry, start: number, limit: number): ReadonlyArray<JsonText> => {
    const unread = entry.chunks.slice(start)
    const enough = unread.findIndex((_, index) => unread.slice(0, index + 1).join("").length >= MAX_READ_CHARACTERS)
    return unread.slice(0, Math.min(limit, enough === -1 ? Infinity : enough + 1))
  }

  return {
    heads: () => entries.map((entry) => entry.head),
    durability: "none",
    insert: (job, key, quotas) =>
      Effect.sync(() => {
        const withKey = (owner: string) =>
          entries.find((entry) =>
            key !== undefined && entry.head.endpoint === job.endpoint && entry.key?.key === key.key && entry.key.owner === owner
          )
        const known = key === undefined ? undefined : withKey(key.owner) ?? withKey(NO_OWNER)
        if (known !== undefined) {
          return known.key?.fingerprint === key?.fingerprint
            ? { _tag: "Duplicate", job: record(known) }
            : { _tag: "KeyConflict", id: known.head.id }
        }
        const quota = quotas === undefined ? undefined : exceededQuota(job, quotas, (scope) => usageOf(scope, job))
        if (quota !== undefined) return { _tag: "QuotaExceeded", quota }
        const { error, input, lastError, output, progress, s3Config, traceparent, tracestate, ...head } = job
        const outcome = { progress, output, error, lastError }
        const entry: Entry = {
          head,
          outcome,
          input: { input, s3Config, traceparent, tracestate },
          chunks: [],
          key,
          seq: ++seq,
          turn: 0
        }
        entries = [...entries, entry]
        if (job.concurrency !== null) keyLimits.set(job.endpoint, job.concurrency.limit)
        if (job.concurrency !== null && isActive(head)) admit(entry)
        return { _tag: "Inserted" }
      }),
    apply: (endpoint, id, event) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
      }),
    append: (endpoint, id, event, body) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return { _tag: "Missing" }
        const applied = apply(entry, event)
        if (applied._tag === "Changed") entry.chunks = [...entry.chunks, body]
        return applied
      }),
    claim: (endpoint, limit, event) =>
      Effect.sync(() => {
        keyLimits.set(endpoint, event.keyLimit)
        const jobs: Array<ReturnType<typeof record>> = []
        const expired: Array<ApplyResult> = []
        const isolated = () => matching((head) => head.endpoint === endpoint && head.isolated && head.finishedAt === null).length
        while (jobs.length < limit && expired.length < CLAIM_EXPIRED_LIMIT) {
          const ready = waiting(endpoint)
          const running = matching((head) => head.endpoint === endpoint && head.status === "IN_PROGRESS").map(({ head }) => head)
          const may = isolated() === 0
            ? "next"
            : claimable(event.worker, busyWorkers(running), (first) => ready.slice(0, first).map(({ head }) => head))
          const entry = may === "none" ? undefined : ready.find(({ head }) => may === "next" || !head.isolated)
          if (entry === undefined) break
          const applied = apply(entry, event)
          if (entry.head.status === "IN_PROGRESS") jobs.push(record(entry))
          else expired.push(applied)
        }
        return { jobs, expired, isolating: isolated() > 0 }
      }),
    tick: (event, limit) =>
      Effect.sync(() =>
        matching((head) => dueAt(head) <= event.now)
          .sort((a, b) => dueAt(a.head) - dueAt(b.head))
          .slice(0, limit)
          .map((entry) => apply(entry, event))
      ),
    applyRunning: (filter, event) =>
      Effect.sync(() =>
        matching((head) =>
          filter === "timed"
            ? !isParked(head) && (head.status === "IN_PROGRESS" || head.notBefore !== null)
            : head.status === "IN_PROGRESS" && head.endpoint === filter.endpoint && head.worker === filter.worker
        ).map((entry) => apply(entry, event))
      ),
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
        const { input: { traceparent, tracestate }, outcome: { error, lastError } } = entry
        return { traceparent, tracestate, error, lastError }
      }),
    input: (endpoint, id) => Effect.sync(() => find(endpoint, id)?.input.input),
    drain: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return undefined
        const chunks = read(entry, entry.head.drained, limit)
        entry.head = { ...entry.head, drained: entry.head.drained + chunks.length }
        return { job: { ...entry.head, ...entry.outcome }, chunks, more: entry.head.drained < entry.chunks.length }
      }),
    peek: (endpoint, id, after, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined) return undefined
        const start = after.attempt === entry.head.attempt ? after.chunk : 0
        const chunks = read(entry, start, limit)
        const job = { ...entry.head, ...entry.outcome }
        return { job, chunks, from: start + 1, more: start + chunks.length < entry.chunks.length }
      }),
    list: (endpoint, { after, createdAfter, createdBefore, limit, status, tag }) =>
      Effect.sync(() => {
        const found = entries
          .filter(({ head }) => head.endpoint === endpoint && (status === undefined || head.status === status))
          .filter(({ head }) => tag === undefined || head.tags.includes(tag))
          .filter(({ head }) => createdAfter === undefined || head.createdAt >= createdAfter)
          .filter(({ head }) => createdBefore === undefined || head.createdAt < createdBefore)
          .sort((a, b) => b.head.createdAt - a.head.createdAt || (a.head.id < b.head.id ? 1 : -1))
        const place = found.findIndex((entry) => entry.head.id === after?.id)
        const page = found.slice(place + 1).slice(0, limit)
        const last = page.at(-1)
        return {
          jobs: page.map(({ head, outcome }) => ({
            ...head,
            error: outcome.error?.slice(0, ERROR_PREVIEW_LENGTH) ?? null,
            errorGroup: head.status === "FAILED" || head.status === "TIMED_OUT"
              ? identify(outcome.error ?? "", { job: head.id, worker: head.worker }).fingerprint
              : null
          })),
          next: last === undefined || last === found.at(-1) ? null : { createdAt: last.head.createdAt, id: last.head.id }
        }
      }),
    texts: (endpoint, ids) =>
      Effect.sync(() =>
        new Map(ids.flatMap((id) => {
          const entry = find(endpoint, id)
          if (entry === undefined) return []
          const { head: { tags }, input: { input }, outcome: { error, output } } = entry
          return [[id, { input: complete(input), output: complete(output), error: complete(error), tags }] as const]
        }))
      ),
    ahead: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined || !isReady(entry.head)) return undefined
        const jobs = waiting(entry.head.endpoint).indexOf(entry)
        return { jobs: Math.min(jobs, limit), more: jobs > limit }
      }),
    keyUsage: (endpoint, id, limit) =>
      Effect.sync(() => {
        const entry = find(endpoint, id)
        if (entry === undefined || !isHeld(entry.head)) return undefined
        const others = sameKey(entry)
        const active = others.filter(({ head }) => isActive(head) && !isHeld(head))
        const before = others.filter(({ head, seq }) =>
          isHeld(head) && (head.priority > entry.head.priority || (head.priority === entry.head.priority && seq < entry.seq))
        )
        const running = active.filter(({ head }) => head.status === "IN_PROGRESS").length
        return { running, ready: active.length - running, held: Math.min(limit, before.length) }
      }),
    depth: (endpoint) =>
      Effect.sync(() => {
        const count = (matches: (head: JobHead) => boolean) =>
          matching((head) => head.endpoint === endpoint && matches(head)).length
        const eager = waiting(endpoint).filter((entry) => !entry.head.lowPriority).map((entry) => entry.head.queuedAt)
        return {
          waiting: count(isReady),
          waitingLow: count((head) => isReady(head) && head.lowPriority),
          delayed: count((head) => head.status === "IN_QUEUE" && !isReady(head)),
          running: count((head) => head.status === "IN_PROGRESS" && !isParked(head)),
          completed: count((head) => head.status === "COMPLETED"),
          failed: count((head) => head.status === "FAILED" || head.status === "TIMED_OUT"),
          retried: count((head) => head.retries > 0),
          isolated: count((head) => head.isolated && head.finishedAt === null),
          oldestQueuedAt: eager.length === 0 ? null : Math.min(...eager)
        }
      })
  }
}
