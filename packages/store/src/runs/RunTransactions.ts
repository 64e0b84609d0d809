/**
 * The operations on runs for stores with synchronous transactions: memory, SQLite, and PostgreSQL, which loads the rows first. Every method runs in
 * a transaction of the store.
 */
import { incompatibility } from "@stint/contract/DefinitionFit"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { jsonNull, type JsonText, toJsonText } from "@stint/contract/Json"
import { isCompensation, PipelineGraph } from "@stint/contract/RunJournal"
import * as Schema from "effect/Schema"
import { isParked, type JobMachineEvent } from "../jobs/JobMachine.ts"
import type { JobHead, JobRecord } from "../jobs/JobRecord.ts"
import type { ApplyResult } from "../jobs/JobStore.ts"
import * as RunMachine from "./RunMachine.ts"
import type { RunEntry, RunRecord } from "./RunMachine.ts"
import {
  type EventResult,
  type Inherited,
  type JournalResult,
  type JournalWrite,
  MAX_KEPT_EVENT_BYTES,
  MAX_KEPT_EVENTS,
  MAX_PAGE_CHARACTERS,
  type NewEntry,
  type RetryResult,
  type RunEvent,
  type StartedChild
} from "./RunStore.ts"
import type { RunJobs, RunTables } from "./RunTables.ts"

const CHILD = "step-"

/** The id of a child job. The prefix shows that the job has a parent, so that other jobs are never looked up. */
export const childId = (uuid: string): JobId => JobId.make(`${CHILD}${uuid}`)

/** Whether a job is the child of a run. */
export const isChild = (id: JobId): boolean => id.startsWith(CHILD)

/** A child's retention, in milliseconds: it ends with its run. */
export const CHILD_RETENTION_MILLIS = 1_000 * 365 * 24 * 60 * 60 * 1000

/**
 * How long a run is held after a worker with another definition has taken it. A worker with a matching definition may already be running, for example
 * during a canary, and does not announce its definition again. So the run returns to the queue until that worker takes it. Each attempt costs one
 * request.
 */
const HELD_RETRY_MILLIS = 60_000

/** The maximum number of entries in one page. */
export const MAX_PAGE_ENTRIES = 10_000

const decodeGraph = Schema.decodeUnknownSync(Schema.fromJsonString(PipelineGraph))

/** The minimum time that a run lives after the end of a recorded sleep or timeout. */
const LIFE_AFTER_TIMER_MILLIS = 24 * 60 * 60 * 1000

/** The earliest time at which the run's time to live may end. */
const lifeOf = ({ createdAt }: JobHead, ttlMs: number, records: ReadonlyArray<NewEntry>): number => {
  let end = createdAt + ttlMs
  for (const record of records) {
    const until = "until" in record ? record.until : null
    if (until !== null) end = Math.min(Number.MAX_SAFE_INTEGER, Math.max(end, until + LIFE_AFTER_TIMER_MILLIS))
  }
  return end
}

/** A child job with what it takes from its run. */
const inheriting = (child: JobRecord, { maxPriority, tags }: Inherited, run: JobHead): JobRecord => ({
  ...child,
  ...(maxPriority === undefined ? {} : { priority: Math.min(run.priority, maxPriority) }),
  ...(tags ? { tags: run.tags } : {})
})

/** The operations on runs, and the hooks that the store calls when a job changes. */
export interface RunTransactions {
  readonly journal: (endpoint: EndpointId, worker: string, write: JournalWrite, now: number) => JournalResult
  readonly define: (endpoint: EndpointId, hash: string, graph: JsonText, now: number) => ReadonlyArray<ApplyResult>
  readonly send: (endpoint: EndpointId, event: RunEvent, now: number) => EventResult
  readonly retry: (endpoint: EndpointId, id: JobId, from: string, now: number) => RetryResult

  /** Whether the job has a record here. */
  readonly isRun: (id: JobId) => boolean
  /** Called before a run is cancelled. Lets it run its compensations. Returns undefined if the run ends at once. A second cancel changes nothing. */
  readonly cancelling: (job: JobHead, now: number) => ApplyResult | undefined
  /** Called after a child or a run has changed. Returns the changes to other jobs. */
  readonly changed: (
    event: JobMachineEvent,
    before: JobHead,
    after: JobHead,
    error: string | null | undefined
  ) => ReadonlyArray<ApplyResult>
  /** Called after a job is removed. */
  readonly removed: (job: JobHead, now: number) => void
}

/** Creates the operations from the tables of a store. */
export const make = (tables: RunTables, jobs: RunJobs): RunTransactions => {
  /** The change to the run's job: it wakes, or its waiters are only notified that the journal has changed. */
  const changeOf = ({ endpoint, run }: RunRecord, wakes: boolean, now: number): ReadonlyArray<ApplyResult> => {
    const job = jobs.find(endpoint, run)
    if (job === undefined) return []
    return wakes && isParked(job)
      ? [jobs.apply(endpoint, run, { _tag: "Wake", now })]
      : [{ _tag: "Changed", before: job, after: job }]
  }

  /** Stores an entry from the platform, and wakes the run if the entry requires it. */
  const arrive = (
    run: RunRecord,
    entry: Parameters<typeof RunMachine.appended>[1] & { readonly news: RunMachine.News },
    now: number
  ): ReadonlyArray<ApplyResult> => {
    const stored = RunMachine.appended(run, entry, now)
    tables.add(run.run, stored.entry)
    const { run: after, wakes } = RunMachine.arrived(stored.run, entry.news)
    tables.put(after)
    return changeOf(after, wakes, now)
  }

  /** Settles a path of a run, unless it is already settled. */
  const settle = (
    id: JobId,
    entry: { readonly path: string; readonly kind: "end" | "event"; readonly body: JsonText; readonly news: RunMachine.News },
    now: number
  ): ReadonlyArray<ApplyResult> => {
    const run = tables.find(id)
    if (run === undefined || tables.settledBy(id, entry.path) !== undefined) return []
    tables.close(id, entry.path)
    return arrive(run, entry, now)
  }

  /** Cancels the child of a `spawn` entry. Its end settles the path. */
  const cancelChild = (entry: RunEntry, now: number): ReadonlyArray<ApplyResult> => {
    const [job, id] = [RunMachine.memberOf(entry, "job"), RunMachine.memberOf(entry, "endpoint")]
    if (job === undefined || id === undefined) return []
    const [endpoint, child] = [EndpointId.make(id), JobId.make(job)]
    return jobs.postponesCancel?.(endpoint, child) === true
      ? []
      : [jobs.apply(endpoint, child, { _tag: "Cancel", now, endpoint })]
  }

  /** Settles the open paths whose time has come. */
  const endTimers = (id: JobId, now: number): ReadonlyArray<ApplyResult> =>
    tables.due(id, now).flatMap((entry) => [
      ...settle(id, { path: entry.path, kind: "end", body: RunMachine.timerEnd(entry.kind), news: 2 }, now),
      ...(entry.kind === "spawn" ? cancelChild(entry, now) : [])
    ])

  const childEnded = (child: JobHead, error: string | null, now: number): ReadonlyArray<ApplyResult> => {
    const place = tables.placeOf(child.id)
    const spawn = place === undefined ? undefined : tables.entry(place.run, place.path, "spawn")
    // After a retry of the run, the path may belong to a later child.
    if (place === undefined || spawn === undefined || RunMachine.memberOf(spawn, "job") !== child.id) return []
    return settle(place.run, { path: place.path, kind: "end", ...RunMachine.childEnd(child, error) }, now)
  }

  /** Stores a record from a worker. Returns the entries that the worker must know: its own if it opens a path, or the earlier one that won. */
  const record = (
    run: RunRecord,
    job: JobHead,
    entry: NewEntry,
    now: number,
    { applied, spawned }: { readonly applied: Array<ApplyResult>; readonly spawned: Array<StartedChild> }
  ): ReadonlyArray<RunEntry> => {
    const { path } = entry
    const { kinds, settles } = RunMachine.winningKinds(entry.kind)
    const same = kinds.map((kind) => tables.entry(run.run, path, kind)).find((one) => one !== undefined)
    const won = same ?? (settles ? tables.settledBy(run.run, path) : undefined)
    if (won !== undefined) return [won]
    const place = { run: run.run, endpoint: run.endpoint, path }
    const add = (added: Parameters<typeof RunMachine.appended>[1]): RunEntry => {
      const stored = RunMachine.appended(tables.find(run.run) ?? run, added, now)
      tables.add(run.run, stored.entry)
      tables.put(stored.run)
      return stored.entry
    }
    switch (entry.kind) {
      case "step":
      case "failed": {
        const spawn = tables.close(run.run, path) ? tables.entry(run.run, path, "spawn") : undefined
        add({ path, kind: entry.kind, body: entry.body, ms: entry.ms ?? null, input: entry.input ?? null })
        // The result of the child is no longer needed.
        if (spawn !== undefined) applied.push(...cancelChild(spawn, now))
        return []
      }
      case "choice":
      case "undo":
        add({ path, kind: entry.kind, body: entry.body, ms: entry.ms ?? null, input: entry.input ?? null })
        return []
      case "sleep":
        return [add({ path, kind: "sleep", body: toJsonText({ until: entry.until }), until: entry.until, isOpen: true })]
      case "spawn": {
        const { inherits, until } = entry
        if ("refused" in entry.child) {
          return [add({ path, kind: "end", body: toJsonText({ status: "FAILED", error: entry.child.refused }), news: 2 })]
        }
        const child = inherits === undefined ? entry.child : inheriting(entry.child, inherits, job)
        if (jobs.insert(child)) spawned.push(child)
        tables.addChild(child, place)
        const body = toJsonText({ endpoint: child.endpoint, job: child.id, ...(until === null ? {} : { until }) })
        return [add({ path, kind: "spawn", body, until, isOpen: true })]
      }
      case "wait": {
        const { key, name, until } = entry
        const event = tables.takeEvent(run.endpoint, name, key, now)
        const body = toJsonText({ name, key, ...(until === null ? {} : { until }) })
        const isOpen = event === undefined
        const wait = add({ path, kind: "wait", body, until: isOpen ? until : null, isOpen })
        if (event !== undefined) return [wait, add({ path, kind: "event", body: event, news: 1 })]
        tables.addWait(place, name, key, now)
        return [wait]
      }
    }
  }

  const page = (id: JobId, after: number): Pick<JournalResult, "entries" | "upTo"> => {
    const entries: Array<RunEntry> = []
    let characters = 0
    for (const entry of tables.after(id, after, MAX_PAGE_ENTRIES)) {
      if (characters >= MAX_PAGE_CHARACTERS) return { entries, upTo: entries.at(-1)?.n ?? after }
      characters += entry.body?.length ?? 0
      entries.push(entry)
    }
    return { entries, upTo: entries.length === MAX_PAGE_ENTRIES ? entries.at(-1)?.n ?? after : null }
  }

  /** The run at the start of an activation, or why it does not fit the worker's definition. */
  const started = (
    known: RunRecord | undefined,
    endpoint: EndpointId,
    id: JobId,
    { definition, undo }: { readonly definition: string; readonly undo: boolean }
  ): RunRecord => {
    if (known === undefined) return RunMachine.begun({ run: id, endpoint, definition, undo })
    if (known.definition === definition) return { ...known, undo, held: null }
    const [own, other] = [tables.graph(endpoint, known.definition), tables.graph(endpoint, definition)]
    const entries = [...tables.after(id, 0, Infinity)].map(RunMachine.comparable)
    const held = other === undefined
      ? null
      : incompatibility(entries, own === undefined ? undefined : decodeGraph(own), decodeGraph(other)) ?? null
    return held === null ? { ...known, definition, undo, held } : { ...known, held }
  }

  const journal: RunTransactions["journal"] = (endpoint, worker, write, now) => {
    const { attempt, finish, park, records, run: id, start } = write
    const refused = (state: JournalResult["state"], cause: string | null = null): JournalResult => {
      const run = tables.find(id)
      const { last, phase } = run ?? { last: 0, phase: "doing" as const }
      return {
        state,
        last,
        phase,
        chunks: 0,
        entries: [],
        upTo: null,
        cause,
        nextTimer: null,
        applied: [],
        spawned: []
      }
    }
    const job = jobs.find(endpoint, id)
    if (job === undefined) return refused("lost", `The endpoint has no job "${id}".`)
    if (start !== undefined && tables.graph(endpoint, start.definition) === undefined) return refused("unknown")
    const known = tables.find(id)
    if (known === undefined && start === undefined) return refused("lost", "The first write to a run must contain \"start\".")
    const identity = { endpoint, worker, attempt, now }
    const expiresAt = lifeOf(job, start?.ttlMs ?? 0, records)
    const fenced = jobs.apply(endpoint, id, { _tag: "Journal", progress: records.length > 0, ...identity, expiresAt })
    if (fenced._tag !== "Changed") {
      return isTerminal(job.status)
        ? refused("ended", `The job has ended: ${job.status}.`)
        : refused("lost", `Worker "${worker}" does not hold attempt ${attempt} of the job. Nothing was stored.`)
    }
    const begun = start === undefined ? known : started(known, endpoint, id, start)
    if (begun === undefined) return refused("lost")
    if (start !== undefined) tables.put(begun)

    const applied: Array<ApplyResult> = []
    const spawned: Array<StartedChild> = []
    const own: Array<RunEntry> = []
    let state: JournalResult["state"] = "running"
    let from = write.after
    if (begun.held !== null) {
      applied.push(jobs.apply(endpoint, id, { _tag: "Park", ...identity, until: now + HELD_RETRY_MILLIS }))
      state = "held"
    } else {
      for (const entry of records) own.push(...record(begun, job, entry, now, { applied, spawned }))
      applied.push(...endTimers(id, now))
      const run = tables.find(id) ?? begun
      if (finish !== undefined) {
        applied.push(jobs.apply(endpoint, id, { _tag: "Finish", ...identity, ...finish, isFinal: true }))
        state = "ended"
      } else if (park !== undefined) {
        const after = RunMachine.parked(run, park.wakeAfter, tables.unseen(id, park.seen))
        if (after === undefined) {
          from = Math.min(from ?? Infinity, park.seen)
        } else if (write.isHeld) {
          state = "idle"
        } else {
          tables.put(after)
          const until = Math.min(park.until ?? Infinity, tables.nextTimer(id) ?? Infinity)
          applied.push(jobs.apply(endpoint, id, { _tag: "Park", ...identity, until: until === Infinity ? null : until }))
          state = "parked"
        }
      }
    }
    const { entries, upTo } = from === undefined ? { entries: [], upTo: null } : page(id, from)
    const numbers = new Set(entries.map(({ n }) => n))
    const run = tables.find(id) ?? begun
    return {
      state,
      last: run.last,
      phase: run.phase,
      chunks: jobs.find(endpoint, id)?.chunks ?? job.chunks,
      entries: [...own.filter(({ n }) => !numbers.has(n)), ...entries].sort((a, b) => a.n - b.n),
      upTo,
      cause: run.held,
      nextTimer: tables.nextTimer(id),
      applied,
      spawned
    }
  }

  const define: RunTransactions["define"] = (endpoint, hash, graph, now) => {
    const isNew = tables.graph(endpoint, hash) === undefined
    if (isNew) tables.define(endpoint, hash, graph, now)
    return tables.held(endpoint).filter(({ definition }) => isNew || definition === hash).flatMap((run) => {
      tables.put({ ...run, held: null })
      return changeOf(run, true, now)
    })
  }

  /** Whether the endpoint may keep another event. */
  const hasRoom = (endpoint: EndpointId, { body }: RunEvent): boolean => {
    const { bytes, count } = tables.keptEvents(endpoint)
    return count < MAX_KEPT_EVENTS && bytes + Buffer.byteLength(body) <= MAX_KEPT_EVENT_BYTES
  }

  const send: RunTransactions["send"] = (endpoint, event, now) => {
    tables.dropExpired(now)
    const kept: EventResult = { run: null, isDuplicate: false, isFull: false, applied: [] }
    if (event.id !== null && tables.hasEvent(endpoint, event.id)) return { ...kept, isDuplicate: true }
    const place = tables.firstWait(endpoint, event.name, event.key)
    if (place === undefined && !hasRoom(endpoint, event)) return { ...kept, isFull: true }
    if (place === undefined || event.id !== null) tables.addEvent(endpoint, event, place !== undefined)
    if (place === undefined) return kept
    const applied = settle(place.run, { path: place.path, kind: "event", body: event.body, news: 1 }, now)
    return { ...kept, run: place.run, applied }
  }

  const retry: RunTransactions["retry"] = (endpoint, id, from, now) => {
    const job = jobs.find(endpoint, id)
    if (job === undefined) return { _tag: "Missing" }
    const run = tables.find(id)
    const text = run === undefined ? undefined : tables.graph(endpoint, run.definition)
    const graph = text === undefined ? { nodes: [] } : decodeGraph(text)
    const isHeld = run !== undefined && run.held !== null && run.phase === "doing" && !isTerminal(job.status)
    const forgotten = RunMachine.forgotten([...tables.after(id, 0, Infinity)], graph, from, isHeld)
    if (run === undefined || forgotten === undefined) {
      return { _tag: "UnknownNode", nodes: graph.nodes.map(({ address }) => address) }
    }
    if (isHeld) {
      const others = forgotten.flatMap((entry) => entry.kind === "spawn" && entry.isOpen ? cancelChild(entry, now) : [])
      // The ends of these children are entries, too.
      tables.forget(id, RunMachine.forgotten([...tables.after(id, 0, Infinity)], graph, from, isHeld) ?? [])
      tables.put({ ...tables.find(id) ?? run, held: null })
      const [woken] = changeOf(run, true, now)
      return woken?._tag === "Changed" ? { ...woken, others: [...woken.others ?? [], ...others] } : { _tag: "Missing" }
    }
    const applied = jobs.apply(endpoint, id, { _tag: "Retry", now, endpoint })
    if (applied._tag === "Changed") tables.forget(id, forgotten)
    return applied
  }

  const cancelling: RunTransactions["cancelling"] = (job, now) => {
    const run = tables.find(job.id)
    if (run === undefined || !run.undo || run.last === 0) return undefined
    // A repeated cancel, such as that of a client that missed the response, must not end the run before its compensations have run.
    if (run.phase === "undoing") return { _tag: "Changed", before: job, after: job }
    tables.put({ ...run, phase: "undoing", held: null })
    // A failed run may be running its compensations. They continue.
    const open = tables.open(job.id, Infinity).filter(({ path }) => !isCompensation(path))
    const others = open.flatMap((entry) => [
      ...(entry.kind === "spawn" ? cancelChild(entry, now) : []),
      ...settle(job.id, { path: entry.path, kind: "end", body: toJsonText({ status: "CANCELLED" }), news: 2 }, now)
    ])
    others.push(...settle(job.id, { path: RunMachine.CANCEL_PATH, kind: "event", body: jsonNull, news: 2 }, now))
    return { _tag: "Changed", before: job, after: jobs.find(job.endpoint, job.id) ?? job, others }
  }

  const changed: RunTransactions["changed"] = (event, before, after, error) => {
    const run = tables.find(after.id)
    if (run !== undefined && event._tag === "Retry") {
      tables.forget(run.run, RunMachine.forgotten([...tables.after(run.run, 0, Infinity)], undefined, undefined) ?? [])
      return []
    }
    if (!isTerminal(after.status) || isTerminal(before.status)) return []
    const others = isChild(after.id) ? childEnded(after, error ?? null, event.now) : []
    if (run === undefined) return others
    tables.removeWaits(run.run)
    const open = tables.open(run.run, Infinity).filter(({ kind }) => kind === "spawn")
    return [...others, ...open.flatMap((entry) => cancelChild(entry, event.now))]
  }

  const removed: RunTransactions["removed"] = (job, now) => {
    if (tables.find(job.id) === undefined) return
    jobs.release(tables.children(job.id), now)
    tables.remove(job.id)
  }

  return {
    journal,
    define,
    send,
    retry,
    isRun: (id) => tables.find(id) !== undefined,
    cancelling,
    changed,
    removed
  }
}
