/**
 * What nodes report to each other about their workers, for health, explanations and the console. Nothing else depends on it.
 */
import { EndpointId } from "@stint/contract/Ids"
import { ImagePullProgress } from "@stint/contract/ImagePull"
import type { Nodes } from "@stint/store/Nodes"
import * as Schema from "effect/Schema"

const WorkerState = Schema.Literals(["initializing", "idle", "running", "draining", "unhealthy", "throttled"])

/** A worker's state. `unhealthy`: it cannot work. `throttled`: it could not be started. Both have a reason. */
export type WorkerState = typeof WorkerState.Type

const Leaving = Schema.Literals(["drain", "stop"])

/** What an operator requested for a worker. `drain`: it takes no more jobs, and exits after its current ones. `stop`: it ends at once. */
export type Leaving = typeof Leaving.Type

const Time = Schema.NullOr(Schema.Number)

/** A setup in progress. */
const WorkerSetup = Schema.Struct({
  startedAt: Schema.Number,
  /** When it will exceed its limit. */
  limitAt: Schema.Number
})

/** A pull in progress. */
const WorkerPull = Schema.Struct({ image: Schema.String, progress: ImagePullProgress })

const WorkerStatus = Schema.Struct({
  id: Schema.String,
  endpoint: EndpointId,
  state: WorkerState,
  /** Ids of the jobs it runs. */
  jobs: Schema.Array(Schema.String),
  /** How many jobs it can run at once, as its takes say (`WorkerSlots.ts`). */
  slots: Schema.optionalKey(Schema.Number),
  /** Why the worker is unhealthy or throttled; null otherwise. */
  reason: Schema.NullOr(Schema.String),
  /** When the pool starts a replacement. Milliseconds since the epoch; null: unknown. */
  retryAt: Time,
  firstSeenAt: Schema.Number,
  lastSeenAt: Schema.Number,
  /** When the worker became idle; null while it has a job, and before its first call. */
  idleSince: Time,
  /** Whether a draining worker has announced its exit. False if it takes no more jobs for another reason and must be asked to exit. */
  exitAnnounced: Schema.Boolean,
  /** Present when an operator has drained or stopped it. */
  leaving: Schema.optionalKey(Leaving),
  /** Whether a pool of this node started it. Absent when none did. */
  pooled: Schema.optionalKey(Schema.Literal(true)),
  /** The number of results that it has delivered. */
  results: Schema.Number,
  /** Its last heartbeat. Absent before the first one. */
  heartbeatAt: Schema.optionalKey(Schema.Number),
  /** The job that it released last. */
  lastJob: Schema.optionalKey(Schema.String),
  /** The release that it runs, if it is known. */
  release: Schema.optionalKey(Schema.Number),
  /** The version of its SDK, as its heartbeats say. */
  version: Schema.optionalKey(Schema.String),
  /** How it collects jobs, if its handler runs several in one call. */
  batch: Schema.optionalKey(Schema.Struct({ max: Schema.Number, waitMs: Schema.Number })),
  /** The memory that it and its children occupy, if its pool can measure it. */
  memoryBytes: Schema.optionalKey(Schema.Number),
  /** Present while its pool pulls its image. */
  pull: Schema.optionalKey(WorkerPull),
  /** Present while the worker runs its setup. */
  setup: Schema.optionalKey(WorkerSetup)
})

/** A worker as the autoscaler and the console see it. Times are milliseconds since 1970. */
export type WorkerStatus = typeof WorkerStatus.Type

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(WorkerStatus)))

const TOPIC = "workers"

/** The maximum number of workers in a report. Every node reads the reports of all others each second. */
const MAX_REPORTED = 1_000

const memoryOf = ({ memoryBytes }: WorkerStatus) => memoryBytes === undefined ? undefined : { memoryBytes }

const batchOf = ({ batch }: WorkerStatus) => batch === undefined ? undefined : { batch }

/** The most that a node knows, because each one knows only the takes that it received. */
const slotsOf = (one: WorkerStatus, other: WorkerStatus) => {
  const slots = Math.max(one.slots ?? 0, other.slots ?? 0)
  return slots === 0 ? undefined : { slots }
}

/** Merges the reports into one status per worker. A worker that calls several nodes runs the jobs from all of them. */
export const merge = (all: ReadonlyArray<WorkerStatus>): ReadonlyArray<WorkerStatus> => {
  const merged = new Map<string, WorkerStatus>()
  for (const one of all) {
    const known = merged.get(one.id)
    if (known === undefined) {
      merged.set(one.id, one)
      continue
    }
    const latest = one.lastSeenAt > known.lastSeenAt ? one : known
    const jobs = [...new Set([...known.jobs, ...one.jobs])]
    merged.set(one.id, {
      ...latest,
      ...(known.pooled === true || one.pooled === true ? { pooled: true as const } : {}),
      // Only the node whose pool started it can measure it.
      ...(latest.memoryBytes === undefined ? memoryOf(known) ?? memoryOf(one) : {}),
      // A heartbeat reaches one node.
      ...(latest.batch === undefined ? batchOf(known) ?? batchOf(one) : {}),
      ...slotsOf(known, one),
      jobs,
      state: latest.state === "idle" && jobs.length > 0 ? "running" : latest.state,
      idleSince: jobs.length > 0 ? null : latest.idleSince,
      firstSeenAt: Math.min(known.firstSeenAt, one.firstSeenAt),
      results: known.results + one.results
    })
  }
  return [...merged.values()]
}

/** Reports the workers of this node, and returns an effect that reads those of the others. */
export const make = (
  nodes: Nodes["Service"],
  all: () => ReadonlyArray<WorkerStatus>
): (endpoint: EndpointId) => ReadonlyArray<WorkerStatus> => {
  nodes.setReport(TOPIC, () => JSON.stringify(all().slice(0, MAX_REPORTED)))
  let read: ReadonlyMap<string, string> | undefined
  let others: ReadonlyArray<WorkerStatus> = []
  return (endpoint) => {
    const reports = nodes.reports(TOPIC)
    if (reports !== read) {
      read = reports
      // Ignores the report of a newer version that this version cannot read.
      others = [...reports.values()].flatMap((text) => {
        const decoded = decode(text)
        return decoded._tag === "Some" ? decoded.value : []
      })
    }
    return others.filter((one) => one.endpoint === endpoint)
  }
}

/** What an operator requested of a worker at another node, unless the worker has announced its exit since. */
export const leavingOf = (reported: ReadonlyArray<WorkerStatus>, worker: string): Leaving | null =>
  reported.find(({ exitAnnounced, id, leaving }) => id === worker && leaving !== undefined && !exitAnnounced)?.leaving ?? null
