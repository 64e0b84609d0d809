/**
 * Jobs in memory: the readable twin of the durable stores, and a store for tests and trials. Nothing survives the process.
 *
 * No operation looks through all jobs. What is ready, what is due and who has waited longest are heaps, and their nodes are hints:
 *
 * ```
 *   change of a job --push--> heap        a node is never searched for or removed when its job moves on
 *                              |
 *   claim, tick, depth <--pop--+          a node that its job has outlived is dropped when it comes up
 * ```
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { dueAt, type JobEvent, transition } from "./JobMachine.ts"
import type { JobHead, JobInput, JobOutcome } from "./JobRecord.ts"
import { type Applied, DRAIN_CHARACTERS, JobStore } from "./JobStore.ts"
import * as MinHeap from "./MinHeap.ts"
import * as Tally from "./Tally.ts"

interface Entry {
  head: JobHead
  readonly input: JobInput
  outcome: JobOutcome
  chunks: Array<JsonText>
  /** Order of submission: the job's place in line, whenever it comes back to it. */
  readonly order: number
  /** The time of its valid node in `due`; undefined when it has none. */
  wakeAt: number | undefined
}

/** A node that says of an entry what was true at some time. */
interface Note {
  readonly entry: Entry
  readonly at: number
}

/** The jobs of one endpoint. */
interface Line {
  /** Waiting jobs, in order of submission. */
  readonly ready: MinHeap.MinHeap<Entry>
  /** Waiting jobs that make the autoscaler start workers, by the time that they came into the queue. */
  readonly oldest: MinHeap.MinHeap<Note>
  readonly running: Set<Entry>
  readonly tally: Tally.Tally
}

const bySubmission = (a: Entry, b: Entry): boolean => a.order < b.order

const byTime = (a: Note, b: Note): boolean => a.at < b.at || (a.at === b.at && a.entry.order < b.entry.order)

const isWaiting = (entry: Entry): boolean => entry.head.status === "IN_QUEUE"

const make = (): JobStore["Service"] => {
  const entries = new Map<JobId, Entry>()
  const lines = new Map<EndpointId, Line>()
  const due = MinHeap.make(byTime)
  let order = 0

  const lineOf = (endpoint: EndpointId): Line => {
    let line = lines.get(endpoint)
    if (line === undefined) {
      line = { ready: MinHeap.make(bySubmission), oldest: MinHeap.make(byTime), running: new Set(), tally: Tally.make() }
      lines.set(endpoint, line)
    }
    return line
  }

  /** The first waiting job of a line. Drops the nodes of jobs that moved on. */
  const firstReady = (line: Line): Entry | undefined => {
    while (true) {
      const entry = line.ready.peek()
      if (entry === undefined || isWaiting(entry)) return entry
      line.ready.pop()
    }
  }

  const oldestQueuedAt = (line: Line): number | null => {
    while (true) {
      const note = line.oldest.peek()
      if (note === undefined) return null
      if (isWaiting(note.entry) && note.entry.head.queuedAt === note.at) return note.at
      line.oldest.pop()
    }
  }

  /** Makes sure that the entry comes up in `due` in time. Too early is good enough: `takeDue` looks again. */
  const schedule = (entry: Entry) => {
    const at = dueAt(entry.head)
    if (entry.wakeAt !== undefined && entry.wakeAt <= at) return
    entry.wakeAt = at
    due.push({ entry, at })
  }

  const takeDue = (now: number): Entry | undefined => {
    while (true) {
      const note = due.peek()
      if (note === undefined || note.at > now) return undefined
      due.pop()
      if (note.entry.wakeAt !== note.at) continue
      note.entry.wakeAt = undefined
      if (dueAt(note.entry.head) === note.at) return note.entry
      schedule(note.entry)
    }
  }

  /** Puts the entry where its head says that it belongs. */
  const file = (entry: Entry) => {
    const line = lineOf(entry.head.endpoint)
    Tally.add(line.tally, entry.head, 1)
    if (isWaiting(entry)) {
      line.ready.push(entry)
      if (!entry.head.lowPriority) line.oldest.push({ entry, at: entry.head.queuedAt })
    } else {
      // It may just have left the queue: its nodes go now, so that they do not pile up where nobody asks for the depth.
      firstReady(line)
      oldestQueuedAt(line)
    }
    if (entry.head.status === "IN_PROGRESS") line.running.add(entry)
    schedule(entry)
  }

  const unfile = (entry: Entry) => {
    const line = lineOf(entry.head.endpoint)
    Tally.add(line.tally, entry.head, -1)
    line.running.delete(entry)
  }

  const apply = (entry: Entry, event: JobEvent): Applied => {
    const before = entry.head
    const decided = transition(before, event)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    unfile(entry)
    if (decided.success._tag === "Remove") {
      entries.delete(before.id)
      entry.wakeAt = undefined
      return { _tag: "Removed", before }
    }
    entry.head = decided.success.job
    entry.outcome = { ...entry.outcome, ...decided.success.outcome }
    if (decided.success.discardChunks) entry.chunks = []
    file(entry)
    return { _tag: "Changed", before, after: entry.head }
  }

  /** The next jobs in line, each with what an event does to it. */
  const applyReady = (endpoint: EndpointId, limit: number, event: JobEvent): ReadonlyArray<readonly [Entry, Applied]> => {
    const line = lineOf(endpoint)
    const applied: Array<readonly [Entry, Applied]> = []
    const taken: Array<Entry> = []
    while (taken.length < limit) {
      const entry = firstReady(line)
      if (entry === undefined) break
      line.ready.pop()
      taken.push(entry)
      applied.push([entry, apply(entry, event)])
    }
    // Not before the loop is over, so that no job comes up twice.
    for (const entry of taken) {
      if (isWaiting(entry)) line.ready.push(entry)
    }
    return applied
  }

  const runningOf = (filter: { readonly endpoint: EndpointId; readonly worker: string } | "all"): ReadonlyArray<Entry> => {
    const all = filter === "all"
      ? [...lines.values()].flatMap((line) => [...line.running])
      : [...lineOf(filter.endpoint).running].filter((entry) => entry.head.worker === filter.worker)
    return all.sort((a, b) => a.order - b.order)
  }

  return JobStore.of({
    durability: "none",
    insert: (job) =>
      Effect.suspend(() => {
        if (entries.has(job.id)) return Effect.die(new Error(`job ${job.id} is already kept`))
        const { error, input, output, progress, s3Config, traceparent, tracestate, ...head } = job
        const entry: Entry = {
          head,
          input: { input, s3Config, traceparent, tracestate },
          outcome: { progress, output, error },
          chunks: [],
          order: order++,
          wakeAt: undefined
        }
        entries.set(job.id, entry)
        file(entry)
        return Effect.void
      }),
    apply: (id, event) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        return entry === undefined ? { _tag: "Missing" } : apply(entry, event)
      }),
    append: (id, event, body) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry === undefined) return { _tag: "Missing" }
        const applied = apply(entry, event)
        if (applied._tag === "Changed") entry.chunks.push(body)
        return applied
      }),
    claim: (endpoint, limit, event) =>
      Effect.sync(() =>
        applyReady(endpoint, limit, event).flatMap(([entry, applied]) =>
          applied._tag === "Changed" ? [{ ...applied.after, ...entry.outcome, ...entry.input }] : []
        )
      ),
    tick: (now, limit) =>
      Effect.sync(() => {
        const applied: Array<Applied> = []
        while (applied.length < limit) {
          const entry = takeDue(now)
          if (entry === undefined) break
          applied.push(apply(entry, { _tag: "Tick", now }))
        }
        return applied
      }),
    applyRunning: (filter, event) => Effect.sync(() => runningOf(filter).map((entry) => apply(entry, event))),
    applyWaiting: (endpoint, event, limit) => Effect.sync(() => applyReady(endpoint, limit, event).map(([, applied]) => applied)),
    get: (id) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        return entry === undefined ? undefined : { ...entry.head, ...entry.outcome }
      }),
    drain: (id, limit) =>
      Effect.sync(() => {
        const entry = entries.get(id)
        if (entry === undefined) return undefined
        const chunks: Array<JsonText> = []
        let characters = 0
        for (const body of entry.chunks.slice(entry.head.drained, entry.head.drained + limit)) {
          chunks.push(body)
          characters += body.length
          if (characters >= DRAIN_CHARACTERS) break
        }
        entry.head = { ...entry.head, drained: entry.head.drained + chunks.length }
        const job = { ...entry.head, ...entry.outcome }
        return { job, chunks, more: entry.head.drained < entry.chunks.length }
      }),
    depth: (endpoint) =>
      Effect.sync(() => {
        const line = lines.get(endpoint)
        return line === undefined
          ? { ...Tally.make(), oldestQueuedAt: null }
          : { ...line.tally, oldestQueuedAt: oldestQueuedAt(line) }
      })
  })
}

/** A store of its own for each build of the layer. */
export const layer: Layer.Layer<JobStore> = Layer.sync(JobStore, make)
