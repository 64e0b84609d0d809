/**
 * A worker that uses the wire protocol as existing SDKs do: it knows only its environment variables, fills in their placeholders and
 * appends `&key=value` (docs/spec/worker-protocol.md#appended-queries).
 */
import { ENV_PREFIXES, type EnvPrefix, type JobDone, JobsToStop, TakenJob, WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type Answer, expectJson, make as makeClient, type NoAnswer, UnexpectedAnswer, type WireClient } from "./WireClient.ts"

/** The errors of a call that must succeed. */
export type WireFault = NoAnswer | UnexpectedAnswer

/** The URLs that a worker calls. */
export interface WorkerAddresses {
  readonly take: string
  readonly takeBatch: string
  readonly stop: string
  readonly ping: string
  readonly done: (job: string) => string
  readonly doneBatch: string
  readonly stream: (job: string) => string
}

/** A worker that calls the server. */
export interface WireWorker {
  readonly id: string
  readonly key: string
  readonly addresses: WorkerAddresses
  /** An HTTP client that sends the worker's raw key. */
  readonly call: WireClient
  /** Takes once: returns a job, or undefined after the server's wait. `holding` is the value of `job_in_progress`. */
  readonly take: (holding?: boolean) => Effect.Effect<TakenJob | undefined, WireFault>
  /** Repeats takes until it gets a job. */
  readonly next: Effect.Effect<TakenJob, WireFault>
  readonly takeBatch: (size: number) => Effect.Effect<ReadonlyArray<TakenJob>, WireFault>
  /** Sends a body to job-done with the content type that existing SDKs send (docs/spec/worker-protocol.md#headers). `query` is appended. */
  readonly deliver: (job: string, body: JobDone, query?: string) => Effect.Effect<Answer, NoAnswer>
  /** Delivers an output. The server must accept it. */
  readonly finish: (job: string, output: Schema.Json) => Effect.Effect<void, WireFault>
  /** Delivers progress. The server must accept it. */
  readonly progress: (job: string, output: Schema.Json) => Effect.Effect<void, WireFault>
  /** Streams chunks, one call each. The server must accept all of them. */
  readonly stream: (job: string, chunks: Iterable<Schema.Json>) => Effect.Effect<void, WireFault>
  /** Sends a heartbeat in the query form. */
  readonly ping: (jobs: ReadonlyArray<string>) => Effect.Effect<void, WireFault>
  /** Polls job-stop once: returns the ids to stop; empty after the server's wait. */
  readonly stops: Effect.Effect<ReadonlyArray<string>, WireFault>
  /** Takes jobs and delivers the handler's results until the scope closes. */
  readonly serve: (handler: (job: TakenJob) => Effect.Effect<JobDone, WireFault>) => Effect.Effect<void, never, Scope.Scope>
}

/** The headers that existing SDKs send with raw JSON (docs/spec/worker-protocol.md#headers). */
export const SDK_LABELS = { "content-type": "application/x-www-form-urlencoded", charset: "utf-8" } as const

const accepted = (answer: Answer): Effect.Effect<void, UnexpectedAnswer> =>
  answer.status === 200 && answer.text === ""
    ? Effect.void
    : Effect.fail(new UnexpectedAnswer({ message: `expected an empty 200, got ${answer.status}: ${answer.text}` }))

const decodeJob = expectJson(200, TakenJob)
const decodeJobs = expectJson(200, Schema.Array(TakenJob))
const decodeStops = expectJson(200, JobsToStop)

/** Creates a worker from the variables that `worker-env` returns. `id` is its worker id. */
export const make = (
  variables: Readonly<Record<string, string>>,
  id: string,
  prefix: EnvPrefix = ENV_PREFIXES[0]
): WireWorker => {
  const variable = (name: string): string => {
    const value = variables[prefix + name]
    if (value === undefined) throw new Error(`worker-env gives no ${prefix}${name}`)
    return value
  }
  const key = variable(WorkerVariable.apiKey)
  const call = makeClient("", key)
  const worker = encodeURIComponent(id)
  const take = variable(WorkerVariable.getJob).replace("$ID", worker)
  const ofJob = (template: string) => (job: string) =>
    template.replace("$RUNPOD_POD_ID", worker).replace("$ID", encodeURIComponent(job))
  const addresses: WorkerAddresses = {
    take,
    takeBatch: take.replace("/job-take/", "/job-take-batch/"),
    stop: take.replace("/job-take/", "/job-stop/"),
    ping: variable(WorkerVariable.ping).replace("$RUNPOD_POD_ID", worker),
    doneBatch: take.replace("/job-take/", "/job-done-batch/"),
    done: ofJob(variable(WorkerVariable.postOutput)),
    stream: ofJob(variable(WorkerVariable.postStream))
  }

  const takeOnce = Effect.fnUntraced(function*(holding: boolean) {
    const answer = yield* call(`${addresses.take}&job_in_progress=${holding ? 1 : 0}`)
    return answer.status === 204 ? undefined : yield* decodeJob(answer)
  })

  const next = Effect.gen(function*() {
    while (true) {
      const job = yield* takeOnce(true)
      if (job !== undefined) return job
    }
  })

  const deliver: WireWorker["deliver"] = (job, body, query = "&isStream=false") =>
    call(addresses.done(job) + query, { body: JSON.stringify(body), headers: { ...SDK_LABELS, "x-request-id": job } })

  return {
    id,
    key,
    addresses,
    call,
    take: (holding = true) => takeOnce(holding),
    next,
    takeBatch: Effect.fnUntraced(function*(size: number) {
      const answer = yield* call(`${addresses.takeBatch}&batch_size=${size}&job_in_progress=1`)
      return answer.status === 204 ? [] : yield* decodeJobs(answer)
    }),
    deliver,
    finish: (job, output) => Effect.flatMap(deliver(job, { output }), accepted),
    progress: (job, output) => Effect.flatMap(deliver(job, { status: "IN_PROGRESS", output }), accepted),
    stream: (job, chunks) =>
      Effect.forEach(
        chunks,
        (output) =>
          Effect.flatMap(
            call(`${addresses.stream(job)}&isStream=false`, { body: JSON.stringify({ output }), headers: SDK_LABELS }),
            accepted
          ),
        { discard: true }
      ),
    ping: (jobs) =>
      Effect.flatMap(
        call(`${addresses.ping}&runpod_version=1.12.0${jobs.length === 0 ? "" : `&job_id=${jobs.join(",")}`}`),
        accepted
      ),
    stops: Effect.gen(function*() {
      const answer = yield* call(addresses.stop)
      return answer.status === 204 ? [] : (yield* decodeStops(answer)).jobsToStop
    }),
    serve: (handler) =>
      next.pipe(
        Effect.flatMap((job) => Effect.flatMap(handler(job), (body) => deliver(job.id, body))),
        Effect.forever,
        Effect.orDie,
        Effect.forkScoped,
        Effect.asVoid
      )
  }
}
