/**
 * A transport in memory. A test submits jobs and stop requests and reads the results. `failNext` makes the next calls of one kind fail.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { JobSource, JobSourceError, Refused, Unreachable } from "../transport/JobSource.ts"

/** The kinds of calls. */
export type CallKind = "take" | "done" | "chunk" | "progress" | "stops" | "schema" | "ping"

/** One call by the worker. */
export interface RecordedCall {
  readonly kind: CallKind
  /** The job's id; for a take, the requested number of jobs. */
  readonly about: string
  /** The body, parsed. */
  readonly body?: unknown
}

/** The platform's side of the transport. */
export class Memory extends Context.Service<Memory, {
  /** Makes a job available. */
  readonly submit: (job: ReceivedJob) => Effect.Effect<void>
  /** Requests that the worker stop a job. */
  readonly stop: (id: string) => Effect.Effect<void>
  /** Makes the next `times` calls of this kind fail, either with this status or with no response. */
  readonly failNext: (kind: CallKind, times: number, how: number | "unreachable") => Effect.Effect<void>
  /** Waits for the next accepted result, in order of arrival. */
  readonly nextDone: Effect.Effect<{ readonly id: string; readonly body: unknown }>
  /** Every call so far, including failed calls. */
  readonly calls: () => ReadonlyArray<RecordedCall>
}>()("@stint/worker/testing/JobSourceMemory") {}

const make = Effect.gen(function*() {
  const jobs = yield* Queue.unbounded<ReceivedJob>()
  const stops = yield* Queue.unbounded<string>()
  const results = yield* Queue.unbounded<{ readonly id: string; readonly body: unknown }>()
  const calls: Array<RecordedCall> = []
  const faults = new Map<CallKind, Array<number | "unreachable">>()

  const call = (kind: CallKind, about: string, body?: unknown) =>
    Effect.suspend(() => {
      calls.push(body === undefined ? { kind, about } : { kind, about, body })
      const fault = faults.get(kind)?.shift()
      if (fault === undefined) return Effect.void
      return Effect.fail(
        new JobSourceError({
          reason: fault === "unreachable"
            ? new Unreachable({ detail: "the platform does not answer (ECONNREFUSED)", timedOut: false })
            : new Refused({ status: fault, text: "a fault of the test" })
        })
      )
    })

  const parse = (text: string): unknown => JSON.parse(text)

  const source = JobSource.of({
    take: ({ count }) => Effect.andThen(call("take", String(count)), Queue.takeBetween(jobs, 1, count)),
    deliverResult: (job, body) =>
      Effect.andThen(call("done", job.id, parse(body)), Queue.offer(results, { id: job.id, body: parse(body) })).pipe(
        Effect.asVoid
      ),
    deliverChunk: (job, body) => call("chunk", job.id, parse(body)),
    progress: (job, output) => call("progress", job.id, output),
    stopRequests: Effect.andThen(call("stops", ""), Effect.map(Queue.take(stops), (id) => [id])),
    handlerSchema: (body) => call("schema", "", parse(body)),
    ping: (ping) => call("ping", ping.status ?? "", ping),
    streaming: true
  })
  const memory = Memory.of({
    submit: (job) => Effect.asVoid(Queue.offer(jobs, job)),
    stop: (id) => Effect.asVoid(Queue.offer(stops, id)),
    failNext: (kind, times, how) =>
      Effect.sync(() => {
        faults.set(kind, [...faults.get(kind) ?? [], ...Array.from({ length: times }, () => how)])
      }),
    nextDone: Queue.take(results),
    calls: () => calls
  })
  return Context.mergeAll(Context.make(JobSource, source), Context.make(Memory, memory))
})

/** The transport and its platform side. */
export const layer: Layer.Layer<JobSource | Memory> = Layer.effectContext(make)
