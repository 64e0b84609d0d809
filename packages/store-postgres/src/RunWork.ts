/**
 * The runs that one transaction reads and changes: `RunTables` over rows that were loaded before (RunLoads.ts). The changes are written with the
 * commit (RunWrites.ts).
 *
 * Only the rows that the commands of a transaction need are loaded, because a run may have thousands of entries. A read of a row that was not loaded
 * throws. The group commit then runs each command alone, and loads everything that it needs.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { SETTLING_KINDS } from "@stint/contract/RunJournal"
import type { RunEntry, RunRecord, Unseen } from "@stint/store/RunMachine"
import type { RunEvent } from "@stint/store/RunStore"
import type { RunPlace, RunTables } from "@stint/store/RunTables"
import type { KeptEvent, RootedPlace, Wait } from "./RunRows.ts"

/** A loaded or new entry. */
interface EntryState {
  entry: RunEntry
  /** As it is stored; undefined for a new entry. */
  readonly stored: RunEntry | undefined
}

/** A run of the transaction. */
export interface RunState {
  readonly root: JobId
  /** As it is stored; undefined: the job is not a run, or not yet. */
  readonly stored: RunRecord | undefined
  record: RunRecord | undefined
  isRemoved: boolean
  /** By number. */
  readonly entries: Map<number, EntryState>
  readonly numbersOf: Map<string, Set<number>>
  /** The numbers of stored entries that are removed. */
  readonly forgotten: Set<number>
  /** The paths whose entries are loaded. */
  readonly paths: Set<string>
  isOpenLoaded: boolean
  /** The open entries whose time is not later than this are loaded. */
  dueUntil: number
  /** All entries, with the bodies of ends only. */
  whole: ReadonlyArray<RunEntry> | undefined
  /** Loaded entries, by the number after which they begin. */
  readonly pages: Map<number, ReadonlyArray<RunEntry>>
  readonly unseen: Map<number, Unseen>
  /** The earliest time of the open entries that are not loaded; undefined: unknown. */
  otherTimer: number | null | undefined
}

/** A new event. `isDelivered`: only its id is stored. */
export interface NewEvent {
  readonly endpoint: EndpointId
  readonly event: RunEvent
  isDelivered: boolean
}

/** An event that is kept for a wait: a stored or a new one. */
interface WaitingEvent extends Pick<KeptEvent, "expiresAt" | "body"> {
  readonly origin: KeptEvent | NewEvent
}

/** A new wait. */
export interface NewWait extends Wait {
  readonly name: string
  readonly key: string
}

/** The runs of one transaction. */
export interface RunWork {
  readonly tables: RunTables
  readonly runs: Map<JobId, RunState>
  /** Adds a run as it is stored, unless it was already added. */
  readonly addRun: (run: JobId, root: JobId, stored: RunRecord | undefined) => RunState
  /** Adds a stored entry, unless it was already added. */
  readonly addEntry: (run: JobId, entry: RunEntry) => void
  /** The parents of child jobs; undefined: the job has none. */
  readonly places: Map<JobId, RootedPlace | undefined>
  /** By {@link definitionKey}. */
  readonly graphs: Map<string, JsonText | undefined>
  /** The first waits for a name and key, by {@link eventKey}. */
  readonly waits: Map<string, Array<Wait>>
  /** By {@link eventKey}: the last loaded wait, if more may be stored after it. */
  readonly lastWaits: Map<string, Wait>
  /** The first events that are kept, by {@link eventKey}. */
  readonly events: Map<string, Array<WaitingEvent>>
  /** The number and size of an endpoint's kept events. */
  readonly kept: Map<EndpointId, { readonly count: number; readonly bytes: number }>
  /** Whether an event is known, by {@link definitionKey} of its endpoint and id. */
  readonly eventIds: Map<string, boolean>
  /** The held runs of an endpoint. */
  readonly held: Map<EndpointId, ReadonlyArray<JobId>>
  /** Children that may have to be cancelled, but were not loaded because there are too many. */
  readonly postponed: Set<JobId>
  readonly changes: {
    readonly children: Array<readonly [job: JobId, endpoint: EndpointId, place: RootedPlace]>
    readonly waits: Array<NewWait>
    readonly closedWaits: Array<readonly [run: JobId, path: string]>
    readonly events: Array<NewEvent>
    readonly takenEvents: Array<KeptEvent>
    readonly definitions: Array<readonly [endpoint: EndpointId, hash: string, graph: JsonText, at: number]>
    /** Children to be cancelled by the timers. */
    readonly cancels: Array<readonly [job: JobId, endpoint: EndpointId]>
    /** Remove events that have expired at this time; null: none. */
    expiredAt: number | null
  }
}

/** The key of a definition, or of an event by its id. */
export const definitionKey = (endpoint: EndpointId, hash: string): string => `${endpoint}\n${hash}`

/** The key of events and waits. */
export const eventKey = (endpoint: EndpointId, name: string, key: string): string => JSON.stringify([endpoint, name, key])

const missing = (what: string): never => {
  throw new Error(`${what} was not loaded`)
}

const byNumber = (a: RunEntry, b: RunEntry): number => a.n - b.n

const byAge = (a: Wait, b: Wait): number => a.at - b.at || (a.run < b.run ? -1 : a.run > b.run ? 1 : a.path < b.path ? -1 : 1)

/** A transaction without runs. `jobs`: its jobs, which say whether they are runs. */
export const make = (jobs: ReadonlyMap<JobId, { isRun: boolean }>): RunWork => {
  const runs: RunWork["runs"] = new Map()
  const places: RunWork["places"] = new Map()
  const graphs: RunWork["graphs"] = new Map()
  const waits: RunWork["waits"] = new Map()
  const lastWaits: RunWork["lastWaits"] = new Map()
  const events: RunWork["events"] = new Map()
  const kept: RunWork["kept"] = new Map()
  const eventIds: RunWork["eventIds"] = new Map()
  const held: RunWork["held"] = new Map()
  const postponed: RunWork["postponed"] = new Set()
  const changes: RunWork["changes"] = {
    children: [],
    waits: [],
    closedWaits: [],
    events: [],
    takenEvents: [],
    definitions: [],
    cancels: [],
    expiredAt: null
  }

  const stateOf = (run: JobId): RunState => runs.get(run) ?? missing(`the run ${run}`)

  const loaded = (run: JobId): ReadonlyArray<RunEntry> => [...stateOf(run).entries.values()].map(({ entry }) => entry)

  const added = (run: JobId): ReadonlyArray<RunEntry> =>
    [...stateOf(run).entries.values()].flatMap(({ entry, stored }) => stored === undefined ? [entry] : [])

  /** The entries of a path. If the opening entry of a path is loaded, the path is known: it was open, so no stored entry has settled it. */
  const at = (run: JobId, path: string): ReadonlyArray<RunEntry> => {
    const { entries, numbersOf, paths, stored } = stateOf(run)
    const found = [...numbersOf.get(path) ?? []].flatMap((n) => entries.get(n)?.entry ?? [])
    return stored === undefined || paths.has(path) || found.length > 0 ? found : missing(`the path ${path} of the run ${run}`)
  }

  const set = (run: JobId, state: EntryState) => {
    const { entries, numbersOf } = stateOf(run)
    const { n, path } = state.entry
    entries.set(n, state)
    numbersOf.set(path, (numbersOf.get(path) ?? new Set()).add(n))
  }

  const openOf = (run: JobId): ReadonlyArray<RunEntry> => loaded(run).filter(({ isOpen }) => isOpen).sort(byNumber)

  const closeWait = (run: JobId, path: string) => {
    const isSame = (wait: Wait) => wait.run === run && wait.path === path
    for (const some of waits.values()) {
      const place = some.findIndex(isSame)
      if (place !== -1) some.splice(place, 1)
    }
    const place = changes.waits.findIndex(isSame)
    if (place === -1) changes.closedWaits.push([run, path])
    else changes.waits.splice(place, 1)
  }

  /** Counts an event that is kept, or that is no longer kept. */
  const count = (endpoint: EndpointId, body: JsonText, by: 1 | -1) => {
    const known = kept.get(endpoint)
    if (known === undefined) return
    kept.set(endpoint, { count: known.count + by, bytes: known.bytes + by * Buffer.byteLength(body) })
  }

  const tables: RunTables = {
    find: (run) => {
      const state = runs.get(run)
      if (state !== undefined) return state.isRemoved ? undefined : state.record
      return jobs.get(run)?.isRun === false ? undefined : missing(`the run ${run}`)
    },
    put: (record) => {
      stateOf(record.run).record = record
      const job = jobs.get(record.run)
      if (job !== undefined) job.isRun = true
    },
    remove: (run) => {
      stateOf(run).isRemoved = true
    },
    held: (endpoint) =>
      (held.get(endpoint) ?? missing(`the held runs of ${endpoint}`)).flatMap((id) => {
        const record = tables.find(id)
        return record === undefined || record.held === null ? [] : [record]
      }),
    entry: (run, path, kind) => at(run, path).find((entry) => entry.kind === kind),
    settledBy: (run, path) => at(run, path).find(({ kind }) => SETTLING_KINDS.has(kind)),
    add: (run, entry) => {
      set(run, { entry, stored: undefined })
    },
    close: (run, path) => {
      const open = at(run, path).filter(({ isOpen }) => isOpen)
      for (const { n } of open) {
        const state = stateOf(run).entries.get(n)
        if (state !== undefined) state.entry = { ...state.entry, isOpen: false }
      }
      if (open.some(({ kind }) => kind === "wait")) closeWait(run, path)
      return open.length > 0
    },
    forget: (run, entries) => {
      const state = stateOf(run)
      for (const { kind, n, path } of entries) {
        if (state.entries.get(n)?.stored !== undefined || !state.entries.has(n)) state.forgotten.add(n)
        state.entries.delete(n)
        state.numbersOf.get(path)?.delete(n)
        if (kind === "wait") closeWait(run, path)
      }
    },
    after: (run, n, limit) => {
      const state = stateOf(run)
      const stored = state.stored === undefined
        ? []
        : limit === Infinity
        ? (state.whole ?? missing(`all entries of the run ${run}`))
        : (state.pages.get(n) ?? missing(`the entries of the run ${run} after ${n}`))
      return [...stored.filter((entry) => entry.n > n && !state.forgotten.has(entry.n)), ...added(run).filter((one) => one.n > n)]
        .map((entry) => state.entries.get(entry.n)?.entry ?? entry)
        .slice(0, limit)
    },
    open: (run, limit) => {
      const { isOpenLoaded, stored } = stateOf(run)
      if (!isOpenLoaded && stored !== undefined) missing(`the open paths of the run ${run}`)
      return openOf(run).slice(0, limit)
    },
    due: (run, now) => {
      const { dueUntil, isOpenLoaded, stored } = stateOf(run)
      if (!isOpenLoaded && stored !== undefined && dueUntil < now) missing(`the timers of the run ${run}`)
      return openOf(run).filter(({ until }) => until !== null && until <= now)
    },
    nextTimer: (run) => {
      const { otherTimer, stored } = stateOf(run)
      const other = stored === undefined
        ? null
        : otherTimer === undefined
        ? missing(`the next timer of the run ${run}`)
        : otherTimer
      const times = [...openOf(run).map(({ until }) => until), other].filter((time) => time !== null)
      return times.length === 0 ? null : Math.min(...times)
    },
    unseen: (run, seen) => {
      const state = stateOf(run)
      const { count, urgent } = state.stored === undefined
        ? { count: 0, urgent: false }
        : state.unseen.get(seen) ?? missing(`the news of the run ${run} after ${seen}`)
      const news = added(run).filter((entry) => entry.n > seen && entry.news > 0)
      return { count: count + news.length, urgent: urgent || news.some((entry) => entry.news === 2) }
    },
    addChild: ({ endpoint, id }, place) => {
      const rooted = { ...place, root: stateOf(place.run).root }
      places.set(id, rooted)
      changes.children.push([id, endpoint, rooted])
    },
    placeOf: (child) => places.has(child) ? places.get(child) : missing(`the place of the job ${child}`),
    // Their removal is one statement of the commit (RunWrites.ts), because a run may have thousands.
    children: () => [],
    addWait: (place: RunPlace, name, key, from) => {
      const wait = { ...place, at: from }
      changes.waits.push({ ...wait, name, key })
      waits.get(eventKey(place.endpoint, name, key))?.push(wait)
    },
    firstWait: (endpoint, name, key) => {
      const id = eventKey(endpoint, name, key)
      const [first] = (waits.get(id) ?? missing(`the waits for ${name}`)).toSorted(byAge)
      const last = lastWaits.get(id)
      // Other commands of the transaction have closed all loaded waits.
      if (last !== undefined && (first === undefined || byAge(first, last) > 0)) missing(`further waits for ${name}`)
      return first
    },
    removeWaits: (run) => {
      for (const some of waits.values()) some.splice(0, some.length, ...some.filter((wait) => wait.run !== run))
      changes.waits.splice(0, changes.waits.length, ...changes.waits.filter((wait) => wait.run !== run))
      for (const { kind, path } of openOf(run)) if (kind === "wait") changes.closedWaits.push([run, path])
    },
    addEvent: (endpoint, event, isDelivered) => {
      const origin = { endpoint, event, isDelivered }
      changes.events.push(origin)
      if (event.id !== null) eventIds.set(definitionKey(endpoint, event.id), true)
      if (isDelivered) return
      const { body, expiresAt, key, name } = event
      events.get(eventKey(endpoint, name, key))?.push({ body, expiresAt, origin })
      count(endpoint, body, 1)
    },
    takeEvent: (endpoint, name, key, now) => {
      const known = events.get(eventKey(endpoint, name, key)) ?? missing(`the events ${name}`)
      const place = known.findIndex(({ expiresAt }) => expiresAt > now)
      const [event] = place === -1 ? [] : known.splice(place, 1)
      if (event === undefined) return undefined
      count(endpoint, event.body, -1)
      const { origin } = event
      if ("seq" in origin) changes.takenEvents.push(origin)
      else if (origin.event.id !== null) origin.isDelivered = true
      else changes.events.splice(changes.events.indexOf(origin), 1)
      return event.body
    },
    keptEvents: (endpoint) => kept.get(endpoint) ?? missing(`the kept events of ${endpoint}`),
    hasEvent: (endpoint, id) => eventIds.get(definitionKey(endpoint, id)) ?? missing(`the event ${id}`),
    dropExpired: (now) => {
      changes.expiredAt = Math.max(now, changes.expiredAt ?? now)
    },
    graph: (endpoint, hash) => {
      const key = definitionKey(endpoint, hash)
      return graphs.has(key) ? graphs.get(key) : missing(`the definition ${hash}`)
    },
    define: (endpoint, hash, graph, now) => {
      graphs.set(definitionKey(endpoint, hash), graph)
      changes.definitions.push([endpoint, hash, graph, now])
    }
  }

  return {
    tables,
    runs,
    addRun: (run, root, stored) => {
      const known = runs.get(run)
      if (known !== undefined) return known
      const state: RunState = {
        root,
        stored,
        record: stored,
        isRemoved: false,
        entries: new Map(),
        numbersOf: new Map(),
        forgotten: new Set(),
        paths: new Set(),
        isOpenLoaded: false,
        dueUntil: -Infinity,
        whole: undefined,
        pages: new Map(),
        unseen: new Map(),
        otherTimer: undefined
      }
      runs.set(run, state)
      return state
    },
    addEntry: (run, entry) => {
      if (!stateOf(run).entries.has(entry.n)) set(run, { entry, stored: entry })
    },
    places,
    graphs,
    waits,
    lastWaits,
    events,
    kept,
    eventIds,
    held,
    postponed,
    changes
  }
}
