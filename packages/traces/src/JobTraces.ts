/**
 * Creates the platform's spans for jobs. Wraps the stores of jobs, batches and runs, because every change to a job goes through one of them.
 *
 * ```
 *   JobQueue, BatchQueue, RunQueue --> JobTraces --> JobStore, BatchStore, RunStore
 *        insert, enqueue, journal        send; the attempt of a run becomes the caller of the children that it starts
 *        claim                           wait, cold start; the job's traceparent becomes the attempt's
 *        apply, tick, journal, ...       attempt, or the wait of a job that ends in the queue     read by a fiber, outside of the change
 * ```
 *
 * A run has an attempt for each time that a worker held it: from the take until the run parks, ends, or loses its worker.
 *
 * A span is created when it ends, from the times in the job's record, so nothing is held in memory for a waiting or running job. The end of
 * an attempt needs the trace context from the store, and waits for it in a queue of at most {@link MAX_ENDS} ends.
 */
import type { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { FinishedSpan, SpanExport } from "@stint/otel/SpanExport"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { BatchStore } from "@stint/store/BatchStore"
import { isParked, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import { type ApplyResult, JobStore, type JobTraceContext } from "@stint/store/JobStore"
import { type JournalWrite, type NewEntry, type RetryResult, RunStore } from "@stint/store/RunStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import { FirstTakes, startParts } from "./ColdStarts.ts"
import { genAiAttributes } from "./GenAi.ts"
import { jobError, OTHER, type SpanError } from "./JobError.ts"
import * as TraceIds from "./TraceIds.ts"

/** The maximum number of ended attempts and waits that wait for their trace context. */
const MAX_ENDS = 8_192

/** The outcome of an attempt that did not end its job. */
const RETURNS: { readonly [tag in JobMachineEvent["_tag"]]?: string } = {
  Finish: "retried",
  LoseLease: "worker_lost",
  Tick: "lease_expired",
  Return: "returned",
  Park: "parked"
}

const NO_OTHERS: ReadonlyArray<ApplyResult> = []

/** The end of an attempt, or the end of a wait for a job that got no further attempt. */
interface End {
  readonly before: JobHead
  readonly status: JobHead["status"]
  readonly event: JobMachineEvent["_tag"]
  /** The error that the event contains. The store may have removed it by the time the span is created. */
  readonly error: SpanError | undefined
  readonly at: number
}

const attributesOf = ({ endpoint, id }: { readonly endpoint: string; readonly id: string }) => ({
  "messaging.system": "stint",
  "messaging.destination.name": endpoint,
  "messaging.message.id": id,
  "stint.endpoint": endpoint,
  "stint.job.id": id
})

/** The error of an ended attempt or wait; undefined when it did not fail. A cancelled job did not fail. */
const errorOf = ({ error, event, status }: End, stored: Pick<JobTraceContext, "error" | "lastError">): SpanError | undefined => {
  if (status === "COMPLETED" || status === "CANCELLED" || event === "Return" || event === "Park") return undefined
  const message = stored.error ?? stored.lastError ?? "no reason is stored"
  if (status === "TIMED_OUT") return { type: "timeout", message }
  return error ?? { type: RETURNS[event] ?? OTHER, message }
}

const make = Effect.fnUntraced(function*(spans: SpanExport, sampler: TraceIds.Sampler) {
  const jobs = yield* JobStore
  const batches = yield* BatchStore
  const runs = yield* RunStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const firstTakes = new FirstTakes()
  const ends = yield* Queue.dropping<End>(MAX_ENDS)

  const spanOf = (
    trace: TraceIds.JobTrace,
    span: Pick<FinishedSpan, "name" | "spanId" | "start" | "end" | "attributes"> & Partial<FinishedSpan>
  ): FinishedSpan => ({
    kind: "internal",
    traceId: trace.traceId,
    traceState: trace.traceState,
    parentSpanId: undefined,
    links: [],
    error: undefined,
    ...span
  })

  const addSend = (
    job: Pick<JobRecord, "id" | "endpoint" | "createdAt" | "traceparent" | "tracestate">,
    input: string | undefined
  ) => {
    const trace = TraceIds.traceOf(job.id, job, sampler)
    if (!trace.sampled) return
    spans.add(spanOf(trace, {
      name: `send ${job.endpoint}`,
      kind: "producer",
      spanId: TraceIds.sendSpan(job.id),
      parentSpanId: trace.caller,
      start: job.createdAt,
      end: clock.currentTimeMillisUnsafe(),
      attributes: {
        ...attributesOf(job),
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        ...(input === undefined ? {} : genAiAttributes(input))
      }
    }))
  }

  /** The wait ends where the attempt begins. */
  const addWait = (trace: TraceIds.JobTrace, job: JobHead, attempt: number, end: number, rest: Partial<FinishedSpan> = {}) => {
    spans.add(spanOf(trace, {
      name: `wait ${job.endpoint}`,
      spanId: TraceIds.waitSpan(job.id, attempt),
      parentSpanId: TraceIds.sendSpan(job.id),
      start: job.queuedAt,
      end,
      ...rest,
      attributes: { ...attributesOf(job), "stint.job.attempt": attempt, ...rest.attributes }
    }))
  }

  /** The part of a wait in which the job's worker started, and its sub-parts. */
  const addColdStart = (trace: TraceIds.JobTrace, job: JobRecord, worker: string, startedAt: number) => {
    const start = registry.startOf(job.endpoint, worker)
    const parts = start === undefined ? [] : startParts(start, { start: job.queuedAt, end: startedAt })
    const [first, last] = [parts[0], parts.at(-1)]
    if (first === undefined || last === undefined) return
    const attributes = { ...attributesOf(job), "stint.worker.id": worker }
    const coldStart = TraceIds.coldStartSpan(job.id, job.attempt, "")
    spans.add(spanOf(trace, {
      name: `cold start ${job.endpoint}`,
      spanId: coldStart,
      parentSpanId: TraceIds.waitSpan(job.id, job.attempt),
      start: first.start,
      end: last.end,
      attributes
    }))
    for (const { end, name, start } of parts) {
      spans.add(spanOf(trace, {
        name: name === "pull" ? "pull image" : `${name} worker`,
        spanId: TraceIds.coldStartSpan(job.id, job.attempt, name),
        parentSpanId: coldStart,
        start,
        end,
        attributes
      }))
    }
  }

  const claimed = (job: JobRecord): JobRecord => {
    const trace = TraceIds.traceOf(job.id, job, sampler)
    const isFirst = firstTakes.isFirst(job.endpoint, job.worker ?? "")
    if (trace.sampled && job.startedAt !== null) {
      addWait(trace, job, job.attempt, job.startedAt)
      if (isFirst && job.worker !== null) addColdStart(trace, job, job.worker, job.startedAt)
    }
    // A worker follows the platform's decision, even if no caller decided.
    return trace.sampled || trace.caller === undefined
      ? { ...job, traceparent: TraceIds.traceparentOf(trace, TraceIds.attemptSpan(job.id, job.attempt)) }
      : job
  }

  const addEnd = Effect.fnUntraced(function*(end: End) {
    const { at, before, event, status } = end
    const { attempt, chunks, endpoint, id, release, startedAt, worker } = before
    const stored = yield* jobs.traceOf(endpoint, id)
    // The job has already been removed.
    if (stored === undefined) return spans.lose(1)
    const trace = TraceIds.traceOf(id, stored, sampler)
    if (!trace.sampled) return
    const error = errorOf(end, stored)
    if (before.status === "IN_QUEUE" || isParked(before)) {
      return addWait(trace, before, attempt + 1, at, {
        spanId: TraceIds.lastWaitSpan(id, at),
        // A parked job does not say when it parked, so the span only marks the end.
        start: isParked(before) ? at : before.queuedAt,
        attributes: { "stint.job.status": status },
        error
      })
    }
    spans.add(spanOf(trace, {
      name: `attempt ${endpoint}`,
      kind: "client",
      spanId: TraceIds.attemptSpan(id, attempt),
      parentSpanId: TraceIds.sendSpan(id),
      start: startedAt ?? at,
      end: at,
      links: attempt > 1 ? [TraceIds.attemptSpan(id, attempt - 1)] : [],
      error,
      attributes: {
        ...attributesOf(before),
        "messaging.operation.name": "take",
        "messaging.operation.type": "receive",
        "faas.invoked_name": endpoint,
        "stint.job.attempt": attempt,
        "stint.job.status": status,
        "stint.attempt.outcome": isTerminal(status) ? status.toLowerCase() : RETURNS[event] ?? "returned",
        "stint.worker.id": worker ?? undefined,
        "stint.release": release ?? undefined,
        "stint.job.chunks": chunks === 0 ? undefined : chunks
      }
    }))
  })

  const ended = (end: End) => {
    if (!Queue.offerUnsafe(ends, end)) spans.lose(1)
  }

  const changed = (
    { after, before }: Extract<ApplyResult, { readonly _tag: "Changed" }>,
    event: JobMachineEvent["_tag"],
    error?: SpanError
  ) => {
    if (before.status === after.status || isTerminal(before.status) || after.status === "IN_PROGRESS") return
    // The attempt of a run that wakes ended when the run parked.
    if (isParked(before) && !isTerminal(after.status)) return
    ended({ before, status: after.status, event, error, at: after.finishedAt ?? after.queuedAt })
  }

  const applied = (result: RetryResult, event: JobMachineEvent["_tag"], error?: SpanError) => {
    if (result._tag !== "Changed") return
    changed(result, event, error)
    // A child that ends wakes its run, and a run that ends cancels its children.
    for (const other of result.others ?? NO_OTHERS) applied(other, "Cancel")
  }

  /** The submission of a child is below the attempt that asks for it, in the trace of its run. `child` has the trace context of the run. */
  const inTraceOf = (run: JobId, attempt: number, record: NewEntry): NewEntry => {
    if (record.kind !== "spawn" || "refused" in record.child) return record
    const trace = TraceIds.traceOf(run, record.child, sampler)
    // The run has no span, so its caller's is also the parent of its children.
    if (!trace.sampled && trace.caller !== undefined) return record
    const traceparent = TraceIds.traceparentOf(trace, TraceIds.attemptSpan(run, attempt))
    return { ...record, child: { ...record.child, traceparent, tracestate: trace.traceState ?? null } }
  }

  /** The changes of a write to a run: to the run itself, and to its children. */
  const journalled = ({ finish, run }: JournalWrite, results: ReadonlyArray<ApplyResult>, now: number) => {
    for (const result of results) {
      if (result._tag !== "Changed" || result.after.id !== run) applied(result, "Cancel")
      else if (isParked(result.after) && !isParked(result.before)) {
        ended({ before: result.before, status: result.after.status, event: "Park", error: undefined, at: now })
      } else {
        const error = finish?.error ?? null
        applied(result, "Finish", error === null ? undefined : jobError(error))
      }
    }
  }

  const addEnds = (some: ReadonlyArray<End>) =>
    Effect.forEach(some, (end) => Effect.catch(addEnd(end), () => Effect.sync(() => spans.lose(1))), { discard: true })

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(Queue.takeAll(ends), addEnds)))
  yield* Effect.addFinalizer(() => Effect.flatMap(Queue.clear(ends), addEnds))

  const tracedJobs = JobStore.of({
    ...jobs,
    insert: (job, key, maxWaiting) =>
      Effect.map(jobs.insert(job, key, maxWaiting), (result) => {
        if (result._tag === "Inserted") addSend(job, job.input)
        return result
      }),
    apply: (endpoint, id, event) =>
      Effect.map(jobs.apply(endpoint, id, event), (result) => {
        applied(result, event._tag, event._tag === "Finish" && event.error !== null ? jobError(event.error) : undefined)
        return result
      }),
    claim: (endpoint, limit, event) =>
      Effect.map(jobs.claim(endpoint, limit, event), (result) => {
        for (const one of result.expired) applied(one, event._tag)
        return result.jobs.length === 0 ? result : { ...result, jobs: result.jobs.map(claimed) }
      }),
    tick: (event, limit) =>
      Effect.map(jobs.tick(event, limit), (results) => {
        for (const result of results) applied(result, event._tag)
        return results
      }),
    applyRunning: (filter, event) =>
      Effect.map(jobs.applyRunning(filter, event), (results) => {
        for (const result of results) applied(result, event._tag)
        return results
      }),
    applyWaiting: (endpoint, event, limit) =>
      Effect.map(jobs.applyWaiting(endpoint, event, limit), (results) => {
        for (const result of results) applied(result, event._tag)
        return results
      })
  })

  const tracedBatches = BatchStore.of({
    ...batches,
    enqueue: (endpoint, id, limit, toJob) =>
      Effect.suspend(() => {
        const made: Array<Pick<JobRecord, "id" | "endpoint" | "createdAt" | "traceparent" | "tracestate">> = []
        return Effect.map(
          batches.enqueue(endpoint, id, limit, (batch, request) => {
            const job = toJob(batch, request)
            const { createdAt, endpoint, id, traceparent, tracestate } = job
            made.push({ id, endpoint, createdAt, traceparent, tracestate })
            return job
          }),
          (result) => {
            for (const job of made) addSend(job, undefined)
            return result
          }
        )
      }),
    cancel: (endpoint, id, now, limit, owner) =>
      Effect.map(batches.cancel(endpoint, id, now, limit, owner), (result) => {
        for (const one of result.applied) applied(one, "Cancel")
        return result
      })
  })

  const tracedRuns = RunStore.of({
    ...runs,
    journal: (endpoint, worker, writes, now) =>
      Effect.suspend(() => {
        const traced = writes.map((write) => ({
          ...write,
          records: write.records.map((record) => inTraceOf(write.run, write.attempt, record))
        }))
        return Effect.map(runs.journal(endpoint, worker, traced, now), (results) => {
          for (const [index, write] of writes.entries()) {
            for (const child of results[index]?.spawned ?? []) addSend(child, undefined)
            journalled(write, results[index]?.applied ?? NO_OTHERS, now)
          }
          return results
        })
      }),
    // A definition or an event only wakes runs, which is no span.
    retry: (endpoint, id, from, now) =>
      Effect.map(runs.retry(endpoint, id, from, now), (result) => {
        applied(result, "Retry")
        return result
      })
  })
  return { batches: tracedBatches, jobs: tracedJobs, runs: tracedRuns }
})

/** The stores of jobs, batches and runs, traced. */
export const layer = (
  spans: SpanExport,
  sampler: TraceIds.Sampler
): Layer.Layer<JobStore | BatchStore | RunStore, never, JobStore | BatchStore | RunStore | WorkerRegistry> =>
  Layer.effectContext(
    Effect.map(
      make(spans, sampler),
      ({ batches, jobs, runs }) =>
        Context.make(JobStore, jobs).pipe(Context.add(BatchStore, batches), Context.add(RunStore, runs))
    )
  )
