/**
 * The rules of a pipeline's run: pure functions about its journal. A run is a job whose worker records what each node did.
 *
 * ```
 *                 Claim                        Park, when no news arrived after `seen`
 *   [ waiting ] ---------> [ running ] ------------------------------------------> [ parked ]
 *        ^                   |      ^ records: the first one of a path wins             |
 *        |                   v      |                                                   |
 *        |                 [ entries ] <--- end of a child, event, timer, cancel -------+
 *        |                                                                              |
 *        +---------------------- Wake, in the same transaction as the entry ------------+
 * ```
 *
 * Invariants, checked by the model of the conformance suite:
 *
 * - An entry is never changed. At most one entry settles a path, and the first one wins.
 * - Every open path of a parked run is settled later by a child, an event or a timer. The run wakes when enough of them are settled.
 * - A run never parks while there are entries that its worker has not seen.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JobStatus } from "@stint/contract/Job"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import { nodeOf } from "@stint/contract/NodeAddress"
import type { EntryKind, RunPhase } from "@stint/contract/RunJournal"

/** How urgently an entry wakes its run. 0: written by the worker itself, 1: counts towards `wakeAfter`, 2: wakes at once. */
export type News = 0 | 1 | 2

/** A stored entry of a run's journal. */
export interface RunEntry {
  readonly path: string
  readonly kind: EntryKind
  /** Counts the entries of the run from 1. */
  readonly n: number
  readonly at: number
  readonly body: JsonText | null
  /** How long the recorded attempt ran, in milliseconds; null: unknown, or the entry records no attempt. */
  readonly ms: number | null
  /** The input of the recorded step, as its worker sent it; null: it is the output of other nodes, or an earlier entry has it. */
  readonly input: JsonText | null
  /** The latest time at which the platform settles the path; null: only when its child ends or its event arrives. */
  readonly until: number | null
  /** Whether the platform still has to settle the path. */
  readonly isOpen: boolean
  readonly news: News
}

/** The record of a run, stored with its job. */
export interface RunRecord {
  readonly run: JobId
  readonly endpoint: EndpointId
  /** The hash of the definition that the run follows. */
  readonly definition: string
  readonly phase: RunPhase
  /** Whether the run has compensations that a cancel must run. */
  readonly undo: boolean
  /** The number of the last entry. */
  readonly last: number
  /** The number of settled paths that the parked run still waits for. */
  readonly wanted: number
  /** Why the run waits for a worker with another definition; null: it does not. */
  readonly held: string | null
}

/** The path of the entry that records that a caller cancelled the run. No node can have this path. */
export const CANCEL_PATH = "~cancel"

/** A new run. */
export const begun = (run: Pick<RunRecord, "run" | "endpoint" | "definition" | "undo">): RunRecord => ({
  ...run,
  phase: "doing",
  last: 0,
  wanted: 1,
  held: null
})

const OPENING: ReadonlyArray<EntryKind> = ["spawn", "sleep", "wait"]

/**
 * The earlier entries of a path that take precedence over a new one: those of these kinds and, with `settles`, the one that settled the path. A path
 * is opened once and settled once.
 */
export const winningKinds = (kind: EntryKind): { readonly kinds: ReadonlyArray<EntryKind>; readonly settles: boolean } =>
  OPENING.includes(kind)
    ? { kinds: [kind, ...OPENING.filter((other) => other !== kind)], settles: true }
    : { kinds: [kind], settles: kind !== "choice" && kind !== "undo" }

/** Numbers a new entry. */
export const appended = (
  run: RunRecord,
  entry: Pick<RunEntry, "path" | "kind" | "body"> & Partial<Pick<RunEntry, "ms" | "input" | "until" | "isOpen" | "news">>,
  at: number
): { readonly run: RunRecord; readonly entry: RunEntry } => {
  const n = run.last + 1
  return {
    run: { ...run, last: n },
    entry: {
      path: entry.path,
      kind: entry.kind,
      n,
      at,
      body: entry.body,
      ms: entry.ms ?? null,
      input: entry.input ?? null,
      until: entry.until ?? null,
      isOpen: entry.isOpen ?? false,
      news: entry.news ?? 0
    }
  }
}

/** Counts an entry that the platform wrote. `wakes`: a parked run must wake. */
export const arrived = (run: RunRecord, news: News): { readonly run: RunRecord; readonly wakes: boolean } => {
  const wanted = news === 2 ? 0 : Math.max(0, run.wanted - 1)
  return { run: { ...run, wanted }, wakes: wanted === 0 && run.held === null }
}

/** The entries that a run's worker has not seen. */
export interface Unseen {
  readonly count: number
  readonly urgent: boolean
}

/** Decides whether a run parks. Undefined: it does not, because the worker must handle the unseen entries first. */
export const parked = (run: RunRecord, wakeAfter: number, unseen: Unseen): RunRecord | undefined =>
  unseen.urgent || unseen.count >= wakeAfter ? undefined : { ...run, wanted: wakeAfter - unseen.count }

/** The body and the urgency of the entry with which a child's end settles its path. */
export const childEnd = (
  child: { readonly id: JobId; readonly endpoint: EndpointId; readonly status: JobStatus },
  error: string | null
): { readonly body: JsonText; readonly news: News } => ({
  body: toJsonText({ status: child.status, job: child.id, endpoint: child.endpoint, ...(error === null ? {} : { error }) }),
  news: child.status === "COMPLETED" ? 1 : 2
})

/** The body of the entry with which a timer settles the path of an entry. */
export const timerEnd = (kind: EntryKind): JsonText => toJsonText(kind === "sleep" ? {} : { status: "TIMED_OUT" })

const parse = (text: string): unknown => JSON.parse(text)

/** An entry in the form that `DefinitionFit` reads. Only choices have bodies in it. */
export const comparable = ({ body, kind, path }: Pick<RunEntry, "path" | "kind" | "body">) => ({
  path,
  kind,
  ...(kind === "choice" && body !== null ? { body: parse(body) } : {})
})

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

/** A string member of an entry's body. */
export const memberOf = (entry: Pick<RunEntry, "body">, name: string): string | undefined => {
  const body: unknown = entry.body === null ? null : JSON.parse(entry.body)
  const value = isObject(body) ? body[name] : undefined
  return typeof value === "string" ? value : undefined
}

/** Whether a path ended without success, so that a retry of the run repeats it. */
const isFailure = (entry: RunEntry): boolean => {
  if (entry.kind === "failed") return true
  if (entry.kind !== "end") return false
  const status = memberOf(entry, "status")
  return status !== undefined && status !== "COMPLETED"
}

/** The path of the entry that records why the run failed at a node, when no other entry records it. */
const RUN_FAILURE = /^([^~]*)~0$/

/**
 * The paths whose event the pipeline could not read: the run failed there, although the path is settled by an event. The run waits again, because the
 * same event would fail it again.
 */
const unreadEvents = (entries: ReadonlyArray<RunEntry>): ReadonlyArray<string> => {
  const failures = entries.flatMap(({ kind, path }) => (kind === "failed" ? RUN_FAILURE.exec(path)?.[1] : undefined) ?? [])
  return failures.length === 0
    ? []
    : entries.filter(({ kind, path }) => kind === "event" && failures.includes(path)).map(({ path }) => path)
}

/**
 * Whether a node runs again when the node `from` does: it is that node, a node within it, or a later node of a sequence around it. The names in an
 * address are alternately those of nodes and of parts: `extras.cover.draw`.
 */
const isFrom = (places: ReadonlyMap<string, number>, from: string): (path: string) => boolean => {
  const start = from.split(".")
  const placeOf = (names: ReadonlyArray<string>): number => places.get(names.join(".")) ?? -1
  return (path) => {
    const names = nodeOf(path).split(".")
    const same = start.findIndex((name, at) => names[at] !== name)
    if (same === -1) return true
    // Another part runs at the same time, or was not chosen.
    return same % 2 === 0 && placeOf(names.slice(0, same + 1)) > placeOf(start.slice(0, same + 1))
  }
}

/**
 * The entries that a retry removes: those of failed and unsettled paths and of events that the pipeline could not read and, with `from`, all entries
 * of that node and of the nodes after it. `onlyFrom`: only the latter, because the run has not ended. Undefined: the graph has no such node.
 */
export const forgotten = (
  entries: ReadonlyArray<RunEntry>,
  graph: { readonly nodes: ReadonlyArray<{ readonly address: string }> } | undefined,
  from: string | undefined,
  onlyFrom = false
): ReadonlyArray<RunEntry> | undefined => {
  const places = new Map((graph?.nodes ?? []).map(({ address }, place) => [address, place]))
  if (from !== undefined && !places.has(from)) return undefined
  const isAgain = from === undefined ? () => false : isFrom(places, from)
  const paths = new Set(
    onlyFrom
      ? []
      : [...entries.filter((entry) => entry.isOpen || isFailure(entry)).map(({ path }) => path), ...unreadEvents(entries)]
  )
  return entries.filter(({ kind, path }) =>
    (paths.has(path) && kind !== "choice" && kind !== "undo") || (!path.startsWith("~") && isAgain(path))
  )
}
