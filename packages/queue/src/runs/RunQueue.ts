/**
 * The runs of pipelines on top of the queue: their journals, events and retries.
 *
 * ```
 *   journal   definitions, then all runs of a worker in one commit; children are jobs of the queue
 *     hold    a run that would park waits a moment for an entry first, because most of them arrive soon
 *   send      event --> run that waits, or mailbox
 * ```
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { type EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import { JobStore, type JobTraceContext } from "@stint/store/JobStore"
import type { RunEntry } from "@stint/store/RunMachine"
import {
  type JournalResult,
  type JournalWrite,
  type NewEntry,
  noEndpoint,
  type OpenPath,
  type RunEvent,
  type RunReport,
  RunStore
} from "@stint/store/RunStore"
import { CHILD_RETENTION_MILLIS, childId } from "@stint/store/RunTransactions"
import type { StoreError } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { monotonicMillis } from "../ClockWatch.ts"
import { notifyOnUncertainRun } from "../events/UncertainWrites.ts"
import { JobMissing, NotRetryable } from "../jobs/JobErrors.ts"
import { JobQueue } from "../jobs/JobQueue.ts"
import { toJobRecord } from "../jobs/Submission.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"

/** A child job that a worker asks for. */
export interface Spawn {
  readonly kind: "spawn"
  readonly path: string
  readonly endpoint: string
  readonly input: JsonText
  /** Default: the run's priority. At most the limit of the endpoint. */
  readonly priority?: number | undefined
  /** Default: the run's tags. */
  readonly tags?: ReadonlyArray<string> | undefined
  readonly executionTimeoutMs?: number | undefined
  readonly timeoutMs?: number | undefined
}

/** A record of a worker. Times are durations in milliseconds. */
export type RunRecordRequest =
  | Extract<NewEntry, { readonly kind: "step" | "failed" | "choice" | "undo" }>
  | Spawn
  | { readonly kind: "sleep"; readonly path: string; readonly ms: number }
  | { readonly kind: "sleep"; readonly path: string; readonly until: number }
  | {
    readonly kind: "wait"
    readonly path: string
    readonly name: string
    readonly key: string
    readonly timeoutMs?: number | undefined
  }

/** What a worker writes to one run. */
export interface RunRequest extends Omit<JournalWrite, "records" | "isHeld"> {
  readonly records: ReadonlyArray<RunRecordRequest>
}

/** The run's definition has no node with this name, or the job is not a run. `nodes`: the nodes that it has. */
export class NodeUnknown extends Schema.TaggedError<NodeUnknown>()("NodeUnknown", {
  id: Schema.String,
  node: Schema.String,
  nodes: Schema.Array(Schema.String)
}) {}

/** No run waits for the event, and the endpoint's limit of kept events is reached. Nothing was stored. */
export class TooManyEvents extends Schema.TaggedError<TooManyEvents>()("TooManyEvents", { endpoint: Schema.String }) {}

export class RunQueue extends Context.Service<RunQueue, {
  /** Stores the graphs of definitions. Runs that are held for one of them return to the queue. */
  readonly define: (
    endpoint: EndpointId,
    definitions: ReadonlyArray<{ readonly hash: string; readonly graph: JsonText }>
  ) => Effect.Effect<void, StoreError>

  /**
   * Writes what a worker recorded. Runs with `park` wait up to `waitMs` for an entry before they park. Returns as soon as one of them has an unseen
   * entry; the others are then still running.
   */
  readonly journal: (
    endpoint: EndpointId,
    worker: string,
    requests: ReadonlyArray<RunRequest>,
    waitMs: number
  ) => Effect.Effect<ReadonlyArray<JournalResult>, StoreError>

  readonly definition: (endpoint: EndpointId, hash: string) => Effect.Effect<JsonText | undefined, StoreError>

  /** The definitions of an endpoint, newest first, up to `limit`. */
  readonly definitions: RunStore["Service"]["definitions"]

  /** Up to `limit` runs of an endpoint that have not ended, ordered by id, after an id. */
  readonly openRuns: RunStore["Service"]["openRuns"]

  /** A run and its job. Fails with `JobMissing` when the endpoint has no such run. */
  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<RunReport, StoreError | JobMissing>

  /** Up to `limit` entries of a run with a higher number than `after`, in order. */
  readonly entries: (
    endpoint: EndpointId,
    id: JobId,
    after: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<RunEntry>, StoreError>

  /** What a run waits for. */
  readonly open: (endpoint: EndpointId, id: JobId, limit: number) => Effect.Effect<ReadonlyArray<OpenPath>, StoreError>

  /**
   * Delivers an event to the run that has waited for it longest, or keeps it until a run waits for it. Fails with `TooManyEvents`, and stores
   * nothing, when the endpoint's limit of kept events is reached.
   */
  readonly send: (
    endpoint: EndpointId,
    event: Omit<RunEvent, "expiresAt"> & { readonly ttlMs: number }
  ) => Effect.Effect<{ readonly run: JobId | null; readonly isDuplicate: boolean }, StoreError | TooManyEvents>

  /** Returns a FAILED or TIMED_OUT run to the queue, to run again from a node. */
  readonly retryFrom: (
    endpoint: EndpointId,
    id: string,
    node: string
  ) => Effect.Effect<JobHead, StoreError | JobMissing | NotRetryable | NodeUnknown>
}>()("@stint/queue/RunQueue") {}

const isJobId = Schema.is(JobId)

const make = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const jobs = yield* JobStore
  const queue = yield* JobQueue
  const store = notifyOnUncertainRun(yield* RunStore, queue.notifyUncertain)
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const elapsed = () => monotonicMillis(clock)

  /** What the caller of a run sent about its trace, which is also the trace of its children. Read only when the run starts some. */
  const traceOf = (endpoint: EndpointId, { records, run }: RunRequest): Effect.Effect<JobTraceContext | undefined, StoreError> =>
    records.some(({ kind }) => kind === "spawn") ? jobs.traceOf(endpoint, run) : Effect.succeed(undefined)

  /** The job of a spawn. It has the limits of its endpoint, belongs to the trace of its run, and is stored as long as its run. */
  const childOf = (
    endpoint: Endpoint,
    { executionTimeoutMs, input, priority, tags }: Spawn,
    trace: JobTraceContext | undefined,
    time: number
  ): JobRecord => ({
    ...toJobRecord({
      endpoint,
      id: childId(uuidV7At(time)),
      input,
      priority: priority === undefined ? undefined : Math.min(priority, endpoint.limits.priority),
      tags,
      policy: executionTimeoutMs === undefined ? undefined : { executionTimeout: executionTimeoutMs }
    }, time),
    traceparent: trace?.traceparent ?? null,
    tracestate: trace?.tracestate ?? null,
    retentionMs: CHILD_RETENTION_MILLIS
  })

  const prepared = Effect.fnUntraced(function*(
    record: RunRecordRequest,
    trace: JobTraceContext | undefined,
    time: number
  ): Effect.fn.Return<NewEntry, StoreError> {
    const { kind, path } = record
    switch (kind) {
      case "spawn": {
        const endpoint = yield* endpoints.get(record.endpoint)
        const until = record.timeoutMs === undefined ? null : time + record.timeoutMs
        if (endpoint === undefined) return { kind, path, child: noEndpoint(record.endpoint), until }
        const inherits = {
          maxPriority: record.priority === undefined ? endpoint.limits.priority : undefined,
          tags: record.tags === undefined
        }
        return { kind, path, child: childOf(endpoint, record, trace, time), inherits, until }
      }
      case "sleep":
        return { kind, path, until: "until" in record ? record.until : time + record.ms }
      case "wait": {
        const { key, name, timeoutMs } = record
        return { kind, path, name, key, until: timeoutMs === undefined ? null : time + timeoutMs }
      }
      default:
        return record
    }
  })

  /** Wakes everything in this process that a write concerns. */
  const announce = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, id: JobId, result: JournalResult) {
    yield* queue.notifyChanged(result.applied, worker)
    const spawned = result.spawned.map((child) => child.endpoint)
    for (const one of new Set(spawned)) {
      yield* queue.notifyEnqueued(one, spawned.filter((other) => other === one).length)
    }
    if (result.state === "lost" || result.state === "ended") yield* registry.released(endpoint, worker, id)
    if (result.state === "ended" && result.applied.length > 0) registry.delivered(endpoint, worker)
  })

  const write = Effect.fnUntraced(function*(endpoint: EndpointId, worker: string, writes: ReadonlyArray<JournalWrite>) {
    const results = yield* store.journal(endpoint, worker, writes, now())
    for (const [at, result] of results.entries()) {
      const id = writes[at]?.run
      if (id !== undefined) yield* announce(endpoint, worker, id, result)
    }
    return results
  })

  const journal = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    worker: string,
    requests: ReadonlyArray<RunRequest>,
    waitMs: number
  ) {
    yield* registry.touch(endpoint, worker)
    const until = elapsed() + waitMs
    const time = now()
    let writes: ReadonlyArray<JournalWrite> = yield* Effect.forEach(
      requests,
      (request) =>
        Effect.flatMap(traceOf(endpoint, request), (trace) =>
          Effect.map(
            Effect.forEach(request.records, (record) => prepared(record, trace, time)),
            (records) => ({ ...request, records, isHeld: waitMs > 0 })
          ))
    )
    const results = new Map<JobId, JournalResult>()
    while (true) {
      // Registers the waiter before the write, so that no entry in between is missed.
      const tickets = yield* Effect.forEach(
        writes.filter(({ isHeld, park }) => isHeld && park !== undefined),
        ({ run }) => queue.watch(run)
      )
      const cancelAll = Effect.forEach(tickets, ({ cancel }) => cancel, { discard: true })
      for (const [at, result] of (yield* write(endpoint, worker, writes).pipe(Effect.onError(() => cancelAll))).entries()) {
        const id = writes[at]?.run
        if (id === undefined) continue
        const earlier = results.get(id)?.entries ?? []
        const numbers = new Set(result.entries.map(({ n }) => n))
        results.set(id, { ...result, entries: [...earlier.filter(({ n }) => !numbers.has(n)), ...result.entries] })
      }
      const idle = writes.filter(({ isHeld, park, run }) => isHeld && park !== undefined && results.get(run)?.state === "idle")
      const left = until - elapsed()
      if (idle.length === 0 || idle.length < tickets.length || queue.isClosing()) {
        yield* cancelAll
        return requests.map(({ run }) => results.get(run)).filter((one) => one !== undefined)
      }
      const next = Math.min(...idle.map(({ run }) => results.get(run)?.nextTimer ?? Infinity))
      const millis = Math.max(0, Math.min(left, next - now()))
      yield* Effect.interruptible(
        Effect.raceAll(tickets.map((ticket) => ticket.wait(millis)))
      ).pipe(Effect.ensuring(cancelAll))
      const isHeld = until - elapsed() > 0
      writes = idle.map(({ attempt, park, run }) => ({ run, attempt, records: [], park, isHeld }))
    }
    // Only the wait is interruptible, so that waiters are always notified of a write.
  }, Effect.uninterruptible)

  return RunQueue.of({
    define: (endpoint, definitions) =>
      Effect.forEach(
        definitions,
        ({ graph, hash }) =>
          Effect.flatMap(store.define(endpoint, hash, graph, now()), (applied) => queue.notifyChanged(applied)),
        { discard: true }
      ),
    journal,
    definition: store.definition,
    definitions: store.definitions,
    openRuns: store.openRuns,
    get: Effect.fnUntraced(function*(endpoint, id) {
      const found = isJobId(id) ? yield* store.get(endpoint, id) : undefined
      return found ?? (yield* new JobMissing({ id }))
    }),
    entries: store.entries,
    open: store.open,
    send: Effect.fnUntraced(function*(endpoint, { ttlMs, ...event }) {
      const time = now()
      const { applied, isDuplicate, isFull, run } = yield* store.send(endpoint, { ...event, expiresAt: time + ttlMs }, time)
      if (isFull) return yield* new TooManyEvents({ endpoint })
      yield* queue.notifyChanged(applied)
      return { run, isDuplicate }
    }, Effect.uninterruptible),
    retryFrom: Effect.fnUntraced(function*(endpoint, id, node) {
      const applied = isJobId(id) ? yield* store.retry(endpoint, id, node, now()) : { _tag: "Missing" as const }
      if (applied._tag === "UnknownNode") return yield* new NodeUnknown({ id, node, nodes: applied.nodes })
      yield* queue.notifyChanged([applied])
      if (applied._tag === "Changed") return applied.after
      if (applied._tag === "Rejected" && applied.rejection._tag === "NotRetryable") {
        return yield* new NotRetryable({ id, status: applied.job.status })
      }
      return yield* new JobMissing({ id })
    }, Effect.uninterruptible)
  })
})

/** The runs of pipelines, using the provided stores and queue. */
export const layer: Layer.Layer<RunQueue, never, RunStore | EndpointStore | JobStore | JobQueue | WorkerRegistry> = Layer.effect(
  RunQueue,
  make
)
