/**
 * The tables of pipeline runs in memory: part of the memory store, which changes a run in the same step as its jobs.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import { type EntryKind, SETTLING_KINDS } from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import type { JobHead } from "../jobs/JobRecord.ts"
import type { RunEntry, RunRecord } from "../runs/RunMachine.ts"
import { type RunEvent, RunStore, type StoredDefinition } from "../runs/RunStore.ts"
import type { RunJobs, RunPlace, RunTables } from "../runs/RunTables.ts"
import * as RunTransactions from "../runs/RunTransactions.ts"

interface Run {
  record: RunRecord
  /** By path and kind, in the order of their numbers. */
  readonly entries: Map<string, RunEntry>
  readonly children: Array<Pick<JobHead, "id" | "endpoint">>
}

interface Wait extends RunPlace {
  readonly name: string
  readonly key: string
  readonly at: number
}

interface KeptEvent extends RunEvent {
  readonly bytes: number
  readonly endpoint: EndpointId
  isDelivered: boolean
}

const keyOf = (path: string, kind: EntryKind): string => `${kind} ${path}`

const definitionKey = (endpoint: EndpointId, hash: string): string => `${endpoint} ${hash}`

/** The tables, and what callers read of them. */
interface MemoryTables extends RunTables {
  readonly isPipeline: (endpoint: EndpointId) => boolean
  readonly definitions: (endpoint: EndpointId) => ReadonlyArray<StoredDefinition>
  readonly ofEndpoint: (endpoint: EndpointId) => ReadonlyArray<RunRecord>
}

const makeTables = (): MemoryTables => {
  const runs = new Map<JobId, Run>()
  const places = new Map<JobId, RunPlace>()
  const definitions = new Map<string, StoredDefinition & { readonly endpoint: EndpointId; readonly graph: JsonText }>()
  const pipelines = new Set<EndpointId>()
  let waits: ReadonlyArray<Wait> = []
  let events: Array<KeptEvent> = []

  const entriesOf = (run: JobId): ReadonlyArray<RunEntry> => [...runs.get(run)?.entries.values() ?? []]

  const removeWait = (run: JobId, path: string) => {
    waits = waits.filter((wait) => wait.run !== run || wait.path !== path)
  }

  const open = (run: JobId): ReadonlyArray<RunEntry> => entriesOf(run).filter(({ isOpen }) => isOpen)

  return {
    isPipeline: (endpoint) => pipelines.has(endpoint),
    find: (run) => runs.get(run)?.record,
    put: (record) => {
      const run = runs.get(record.run)
      if (run === undefined) runs.set(record.run, { record, entries: new Map(), children: [] })
      else run.record = record
    },
    remove: (run) => {
      for (const child of runs.get(run)?.children ?? []) places.delete(child.id)
      runs.delete(run)
      waits = waits.filter((wait) => wait.run !== run)
    },
    held: (endpoint) =>
      [...runs.values()].map(({ record }) => record).filter((run) => run.endpoint === endpoint && run.held !== null),
    entry: (run, path, kind) => runs.get(run)?.entries.get(keyOf(path, kind)),
    settledBy: (run, path) => {
      for (const kind of SETTLING_KINDS) {
        const entry = runs.get(run)?.entries.get(keyOf(path, kind))
        if (entry !== undefined) return entry
      }
      return undefined
    },
    add: (run, entry) => {
      runs.get(run)?.entries.set(keyOf(entry.path, entry.kind), entry)
    },
    close: (run, path) => {
      const closed = open(run).filter((entry) => entry.path === path)
      for (const entry of closed) runs.get(run)?.entries.set(keyOf(path, entry.kind), { ...entry, isOpen: false })
      removeWait(run, path)
      return closed.length > 0
    },
    forget: (run, entries) => {
      for (const { kind, path } of entries) {
        runs.get(run)?.entries.delete(keyOf(path, kind))
        removeWait(run, path)
      }
    },
    after: (run, n, limit) => entriesOf(run).filter((entry) => entry.n > n).slice(0, limit),
    open: (run, limit) => open(run).slice(0, limit),
    due: (run, now) => open(run).filter(({ until }) => until !== null && until <= now),
    nextTimer: (run) => {
      const times = open(run).flatMap(({ until }) => until === null ? [] : [until])
      return times.length === 0 ? null : Math.min(...times)
    },
    unseen: (run, seen) => {
      const news = entriesOf(run).filter((entry) => entry.n > seen && entry.news > 0)
      return { count: news.length, urgent: news.some((entry) => entry.news === 2) }
    },
    addChild: ({ endpoint, id }, place) => {
      places.set(id, place)
      runs.get(place.run)?.children.push({ id, endpoint })
    },
    placeOf: (child) => places.get(child),
    children: (run) => runs.get(run)?.children ?? [],
    addWait: (place, name, key, at) => {
      waits = [...waits, { ...place, name, key, at }]
    },
    firstWait: (endpoint, name, key) =>
      waits
        .filter((wait) => wait.endpoint === endpoint && wait.name === name && wait.key === key)
        .toSorted((a, b) => a.at - b.at || (a.run < b.run ? -1 : a.run > b.run ? 1 : a.path < b.path ? -1 : 1))[0],
    removeWaits: (run) => {
      waits = waits.filter((wait) => wait.run !== run)
    },
    addEvent: (endpoint, event, isDelivered) => {
      events.push({ ...event, endpoint, isDelivered, bytes: Buffer.byteLength(event.body) })
    },
    takeEvent: (endpoint, name, key, now) => {
      const event = events.find((one) =>
        one.endpoint === endpoint && one.name === name && one.key === key && !one.isDelivered && one.expiresAt > now
      )
      if (event === undefined) return undefined
      if (event.id === null) events = events.filter((one) => one !== event)
      else event.isDelivered = true
      return event.body
    },
    keptEvents: (endpoint) => {
      const kept = events.filter((event) => event.endpoint === endpoint && !event.isDelivered)
      return { count: kept.length, bytes: kept.reduce((sum, { bytes }) => sum + bytes, 0) }
    },
    hasEvent: (endpoint, id) => events.some((event) => event.endpoint === endpoint && event.id === id),
    dropExpired: (now) => {
      events = events.filter(({ expiresAt }) => expiresAt > now)
    },
    graph: (endpoint, hash) => definitions.get(definitionKey(endpoint, hash))?.graph,
    define: (endpoint, hash, graph, at) => {
      definitions.set(definitionKey(endpoint, hash), { endpoint, hash, graph, at })
      pipelines.add(endpoint)
    },
    definitions: (endpoint) =>
      [...definitions.values()].filter((one) => one.endpoint === endpoint).map(({ at, hash }) => ({ hash, at }))
        .toSorted((a, b) => b.at - a.at || (a.hash < b.hash ? -1 : 1)),
    ofEndpoint: (endpoint) =>
      [...runs.values()].map(({ record }) => record).filter((run) => run.endpoint === endpoint)
        .toSorted((a, b) => a.run < b.run ? -1 : 1)
  }
}

/** The runs of a store. */
export interface MemoryRuns extends RunTransactions.RunTransactions {
  readonly isPipeline: (endpoint: EndpointId) => boolean
  readonly service: RunStore["Service"]
}

/** An empty store. */
export const make = (jobs: RunJobs): MemoryRuns => {
  const tables = makeTables()
  const runs = RunTransactions.make(tables, jobs)

  const find = (endpoint: EndpointId, id: JobId) => {
    const run = tables.find(id)
    return run?.endpoint === endpoint ? run : undefined
  }

  return {
    ...runs,
    isPipeline: tables.isPipeline,
    service: RunStore.of({
      journal: (endpoint, worker, writes, now) =>
        Effect.sync(() => writes.map((write) => runs.journal(endpoint, worker, write, now))),
      define: (endpoint, hash, graph, now) => Effect.sync(() => runs.define(endpoint, hash, graph, now)),
      definition: (endpoint, hash) => Effect.sync(() => tables.graph(endpoint, hash)),
      definitions: (endpoint, limit) => Effect.sync(() => tables.definitions(endpoint).slice(0, limit)),
      openRuns: (endpoint, after, limit) =>
        Effect.sync(() =>
          tables.ofEndpoint(endpoint).filter(({ run }) => {
            const job = jobs.find(endpoint, run)
            return job !== undefined && !isTerminal(job.status) && (after === undefined || run > after)
          }).slice(0, limit)
        ),
      get: (endpoint, id) =>
        Effect.sync(() => {
          const run = find(endpoint, id)
          const job = jobs.find(endpoint, id)
          return run === undefined || job === undefined ? undefined : { run, job }
        }),
      entries: (endpoint, id, after, limit) =>
        Effect.sync(() => find(endpoint, id) === undefined ? [] : [...tables.after(id, after, limit)]),
      open: (endpoint, id, limit) => Effect.sync(() => find(endpoint, id) === undefined ? [] : tables.open(id, limit)),
      send: (endpoint, event, now) => Effect.sync(() => runs.send(endpoint, event, now)),
      retry: (endpoint, id, from, now) => Effect.sync(() => runs.retry(endpoint, id, from, now))
    })
  }
}
