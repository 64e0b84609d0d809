/**
 * What a store with synchronous transactions provides for runs: access to its tables and its jobs. `RunTransactions` does the rest.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import type { EntryKind } from "@stint/contract/RunJournal"
import type { JobMachineEvent } from "../jobs/JobMachine.ts"
import type { JobHead, JobRecord } from "../jobs/JobRecord.ts"
import type { ApplyResult } from "../jobs/JobStore.ts"
import type { RunEntry, RunRecord, Unseen } from "./RunMachine.ts"
import type { RunEvent } from "./RunStore.ts"

/** A path of a run. */
export interface RunPlace {
  readonly run: JobId
  readonly endpoint: EndpointId
  readonly path: string
}

/** The rows of runs. All methods run within a transaction. */
export interface RunTables {
  readonly find: (run: JobId) => RunRecord | undefined
  readonly put: (run: RunRecord) => void
  /** Removes a run with its entries, its waits and the links to its children. The jobs of the children stay. */
  readonly remove: (run: JobId) => void
  /** Runs of an endpoint that wait for a worker with another definition. */
  readonly held: (endpoint: EndpointId) => ReadonlyArray<RunRecord>

  readonly entry: (run: JobId, path: string, kind: EntryKind) => RunEntry | undefined
  /** The entry that settled a path. */
  readonly settledBy: (run: JobId, path: string) => RunEntry | undefined
  readonly add: (run: JobId, entry: RunEntry) => void
  /** Marks the open entry of a path as settled, and removes its wait. Returns whether there was one. */
  readonly close: (run: JobId, path: string) => boolean
  readonly forget: (run: JobId, entries: ReadonlyArray<RunEntry>) => void
  /** Entries with a higher number, in order. */
  readonly after: (run: JobId, n: number, limit: number) => Iterable<RunEntry>
  readonly open: (run: JobId, limit: number) => ReadonlyArray<RunEntry>
  /** Open entries whose time has come. */
  readonly due: (run: JobId, now: number) => ReadonlyArray<RunEntry>
  /** The earliest time of an open entry. */
  readonly nextTimer: (run: JobId) => number | null
  /** The unseen entries after an entry. */
  readonly unseen: (run: JobId, seen: number) => Unseen

  readonly addChild: (child: Pick<JobHead, "id" | "endpoint">, place: RunPlace) => void
  readonly placeOf: (child: JobId) => RunPlace | undefined
  readonly children: (run: JobId) => ReadonlyArray<Pick<JobHead, "id" | "endpoint">>

  readonly addWait: (place: RunPlace, name: string, key: string, at: number) => void
  /** The wait that began first. */
  readonly firstWait: (endpoint: EndpointId, name: string, key: string) => RunPlace | undefined
  readonly removeWaits: (run: JobId) => void
  /** Stores an event: kept for a wait, or only its id. */
  readonly addEvent: (endpoint: EndpointId, event: RunEvent, isDelivered: boolean) => void
  /** Removes and returns the first event that is kept for a wait. An event with an id stays known. */
  readonly takeEvent: (endpoint: EndpointId, name: string, key: string, now: number) => JsonText | undefined
  /** The number of events that are kept for a wait, and the bytes of their data. */
  readonly keptEvents: (endpoint: EndpointId) => { readonly count: number; readonly bytes: number }
  readonly hasEvent: (endpoint: EndpointId, id: string) => boolean
  readonly dropExpired: (now: number) => void

  readonly graph: (endpoint: EndpointId, hash: string) => JsonText | undefined
  readonly define: (endpoint: EndpointId, hash: string, graph: JsonText, now: number) => void
}

/** The jobs of the store. All methods run within a transaction. */
export interface RunJobs {
  readonly find: (endpoint: EndpointId, id: JobId) => JobHead | undefined
  readonly apply: (endpoint: EndpointId, id: JobId, event: JobMachineEvent) => ApplyResult
  /** Returns false and writes nothing when the id already exists. */
  readonly insert: (job: JobRecord) => boolean
  /** Whether the store cancels the child in a later transaction, because this one has enough to do. */
  readonly postponesCancel?: (endpoint: EndpointId, child: JobId) => boolean
  /** The children of a removed run are removed by the next timers. */
  readonly release: (children: ReadonlyArray<Pick<JobHead, "id" | "endpoint">>, now: number) => void
}
