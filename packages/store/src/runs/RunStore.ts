/**
 * The store of pipeline runs and their journals, in the same database as their jobs.
 *
 * ```
 *   journal      records of a worker --same commit--> entries, child jobs, lease; park or end of the run
 *   a child ends, an event arrives, a run is cancelled --same commit--> entry of the run, wake
 * ```
 *
 * A run is a job that has a record here. Other jobs have no extra cost, because a store knows which endpoints have runs.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import type { EntryKind, RunPhase, RunState } from "@stint/contract/RunJournal"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JobHead, JobRecord } from "../jobs/JobRecord.ts"
import type { ApplyResult } from "../jobs/JobStore.ts"
import type { StoreError } from "../StoreError.ts"
import type { RunEntry, RunRecord } from "./RunMachine.ts"

/** An entry that a worker records. */
export type NewEntry =
  | {
    readonly kind: "step" | "failed" | "choice" | "undo"
    readonly path: string
    readonly body: JsonText | null
    /** How long the recorded attempt ran, in milliseconds. Default: unknown. */
    readonly ms?: number | undefined
    /** The input of the step. Default: none. */
    readonly input?: JsonText | undefined
  }
  /** `child`: the job that starts, or why there is none. */
  | {
    readonly kind: "spawn"
    readonly path: string
    readonly child: JobRecord | { readonly refused: string }
    /** What the child takes from its run instead of its own record. Default: nothing. */
    readonly inherits?: Inherited | undefined
    readonly until: number | null
  }
  | { readonly kind: "sleep"; readonly path: string; readonly until: number }
  | { readonly kind: "wait"; readonly path: string; readonly name: string; readonly key: string; readonly until: number | null }

/** What a child job takes from its run. */
export interface Inherited {
  /** The run's priority, up to this maximum of the child's endpoint. Undefined: the child has its own. */
  readonly maxPriority?: number | undefined
  readonly tags: boolean
}

/** Why a child job does not start when its endpoint does not exist. */
export const noEndpoint = (id: string): { readonly refused: string } => ({ refused: `There is no endpoint "${id}".` })

/** What a worker writes to one run, in one commit. */
export interface JournalWrite {
  readonly run: JobId
  readonly attempt: number
  readonly start?: { readonly definition: string; readonly ttlMs: number; readonly undo: boolean } | undefined
  /** Return the entries with a higher number. Default: only the entries that the write affects. */
  readonly after?: number | undefined
  readonly records: ReadonlyArray<NewEntry>
  readonly park?: { readonly seen: number; readonly wakeAfter: number; readonly until: number | null } | undefined
  /** Check for unseen entries, but do not park: the result is `idle` when there are none. */
  readonly isHeld: boolean
  readonly finish?:
    | { readonly output: JsonText | null; readonly error: string | null; readonly cancelled: boolean }
    | undefined
}

/** A child job that a write started. */
export type StartedChild = Pick<JobRecord, "id" | "endpoint" | "createdAt" | "traceparent" | "tracestate">

/** The result of a write. */
export interface JournalResult {
  /** `unknown`: the definition is not stored, and nothing was done. `idle`: the run is running, has no unseen entries and would park. */
  readonly state: RunState | "idle" | "unknown"
  readonly last: number
  readonly phase: RunPhase
  readonly chunks: number
  readonly entries: ReadonlyArray<RunEntry>
  /** Set when the page was full: `entries` contains the requested entries up to this number. Null: all of them. */
  readonly upTo: number | null
  readonly cause: string | null
  /** When the next timer of the run settles a path; null: never. */
  readonly nextTimer: number | null
  /** The changes to jobs, for their waiters. */
  readonly applied: ReadonlyArray<ApplyResult>
  /** The jobs that this write started. A repeated write starts none, because the path already has its child. */
  readonly spawned: ReadonlyArray<StartedChild>
}

/** An event for the runs of a pipeline. */
export interface RunEvent {
  readonly name: string
  readonly key: string
  readonly body: JsonText
  /** The sender's id: an event with the id of an earlier one is not delivered again. */
  readonly id: string | null
  readonly expiresAt: number
}

/**
 * The maximum number of events that an endpoint keeps for later waits. Without a limit, a sender of events that no run waits for, for example with a
 * wrong name, would fill the disk. A burst of events that arrive before their runs wait is far smaller.
 */
export const MAX_KEPT_EVENTS = 10_000

/** The maximum total size of the data of kept events, in bytes. */
export const MAX_KEPT_EVENT_BYTES = 64 * 1024 * 1024

/** What became of an event. `run`: the run that received it; null: it is kept for a later wait. */
export interface EventResult {
  readonly run: JobId | null
  readonly isDuplicate: boolean
  /** No run waits for the event, and the endpoint's limit of kept events is reached. Nothing was stored. */
  readonly isFull: boolean
  readonly applied: ReadonlyArray<ApplyResult>
}

/** A stored definition. `at`: when a worker first sent it. */
export interface StoredDefinition {
  readonly hash: string
  readonly at: number
}

/** A run and its job. */
export interface RunReport {
  readonly run: RunRecord
  readonly job: JobHead
}

/** The result of a retry. */
export type RetryResult =
  | ApplyResult
  /** The run's definition has no such node, or the job is not a run. */
  | { readonly _tag: "UnknownNode"; readonly nodes: ReadonlyArray<string> }

/** An unsettled path: what a run waits for. */
export type OpenPath = Pick<RunEntry, "path" | "kind" | "body" | "until" | "at"> & { readonly kind: EntryKind }

/** The maximum total size of the bodies in one page of entries, in characters. */
export const MAX_PAGE_CHARACTERS = 8 * 1024 * 1024

export class RunStore extends Context.Service<RunStore, {
  /** Writes what one worker recorded, all runs in one commit. Each run succeeds or fails on its own. */
  readonly journal: (
    endpoint: EndpointId,
    worker: string,
    writes: ReadonlyArray<JournalWrite>,
    now: number
  ) => Effect.Effect<ReadonlyArray<JournalResult>, StoreError>

  /** Stores a graph under its hash. Wakes the runs that are held for this definition. */
  readonly define: (
    endpoint: EndpointId,
    hash: string,
    graph: JsonText,
    now: number
  ) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>

  /** The graph of a definition. */
  readonly definition: (endpoint: EndpointId, hash: string) => Effect.Effect<JsonText | undefined, StoreError>

  /** The definitions of an endpoint, newest first, up to `limit`. */
  readonly definitions: (endpoint: EndpointId, limit: number) => Effect.Effect<ReadonlyArray<StoredDefinition>, StoreError>

  /** Up to `limit` runs of an endpoint that have not ended, ordered by id, after an id. */
  readonly openRuns: (
    endpoint: EndpointId,
    after: JobId | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RunRecord>, StoreError>

  /** A run of an endpoint; undefined when the endpoint has no such job, or the job is not a run. */
  readonly get: (endpoint: EndpointId, id: JobId) => Effect.Effect<RunReport | undefined, StoreError>

  /** Up to `limit` entries with a higher number than `after`, in order. */
  readonly entries: (
    endpoint: EndpointId,
    id: JobId,
    after: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RunEntry>, StoreError>

  /** The paths that the platform has to settle, in the order in which they were opened, up to `limit`. */
  readonly open: (endpoint: EndpointId, id: JobId, limit: number) => Effect.Effect<ReadonlyArray<OpenPath>, StoreError>

  /** Delivers an event to the run that has waited for it longest, or keeps it, within `MAX_KEPT_EVENTS` and `MAX_KEPT_EVENT_BYTES`. */
  readonly send: (endpoint: EndpointId, event: RunEvent, now: number) => Effect.Effect<EventResult, StoreError>

  /**
   * Returns a FAILED, TIMED_OUT or held run to the queue, and removes the entries from a node on (`RunMachine.forgotten`). For a held run, also
   * cancels the open children among them.
   */
  readonly retry: (endpoint: EndpointId, id: JobId, from: string, now: number) => Effect.Effect<RetryResult, StoreError>
}>()("@stint/store/RunStore") {}
