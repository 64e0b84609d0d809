/**
 * One endpoint of a server under test, with the operations of its jobs API.
 */
import { WorkerEnv } from "@stint/contract/ControlApi"
import { Endpoint, type EndpointSpec } from "@stint/contract/Endpoint"
import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, Purged, type RunRequest, StreamPage } from "@stint/contract/Job"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { expectJson, UnexpectedAnswer, type WireClient } from "./WireClient.ts"
import * as WireWorker from "./WireWorker.ts"

type WireFault = WireWorker.WireFault

/** An endpoint with its jobs API. Every call must succeed and return exactly the contract's shape. */
export interface TestEndpoint {
  readonly id: string
  readonly endpoint: Endpoint
  /** `/v2/{id}/...` */
  readonly path: (rest: string) => string
  readonly call: WireClient
  readonly run: (input: Schema.Json, rest?: Omit<RunRequest, "input">) => Effect.Effect<JobReceipt, WireFault>
  /** `wait` is in milliseconds. */
  readonly runsync: (input: Schema.Json, wait?: number) => Effect.Effect<Job, WireFault>
  readonly status: (job: string) => Effect.Effect<Job, WireFault>
  readonly statusSync: (job: string, wait?: number) => Effect.Effect<Job, WireFault>
  /** Polls until the job is in the wanted state; fails after ten seconds. */
  readonly until: (job: string, wanted: (job: Job) => boolean) => Effect.Effect<Job, WireFault>
  readonly stream: (job: string, wait?: number) => Effect.Effect<StreamPage, WireFault>
  /** Reads a stream as clients do, until a page has a terminal status. Returns all pages in order. */
  readonly streamToEnd: (job: string) => Effect.Effect<ReadonlyArray<StreamPage>, WireFault>
  readonly cancel: (job: string) => Effect.Effect<JobReceipt, WireFault>
  readonly retry: (job: string) => Effect.Effect<JobReceipt, WireFault>
  readonly purge: Effect.Effect<Purged, WireFault>
  readonly health: Effect.Effect<Health, WireFault>
  readonly env: Effect.Effect<Readonly<Record<string, string>>, WireFault>
  /** Connects a worker. Default: a worker with a unique id. */
  readonly worker: (id?: string) => Effect.Effect<WireWorker.WireWorker, WireFault>
}

const answers = {
  endpoint: expectJson(201, Endpoint),
  env: expectJson(200, WorkerEnv),
  receipt: expectJson(200, JobReceipt),
  job: expectJson(200, Job),
  page: expectJson(200, StreamPage),
  purged: expectJson(200, Purged),
  health: expectJson(200, Health)
}

const isOver = ({ status }: { readonly status: Job["status"] }) => status !== "IN_QUEUE" && status !== "IN_PROGRESS"

/** Polls with short pauses until a condition is true. Fails after ten seconds with the last value. */
export const until = <A, E, R>(
  check: Effect.Effect<A, E, R>,
  wanted: (seen: A) => boolean
): Effect.Effect<A, E | UnexpectedAnswer, R> =>
  Effect.gen(function*() {
    const deadline = performance.now() + 10_000
    while (true) {
      const seen = yield* check
      if (wanted(seen)) return seen
      if (performance.now() > deadline) {
        return yield* new UnexpectedAnswer({ message: `still not as wanted after 10 s: ${JSON.stringify(seen)?.slice(0, 2000)}` })
      }
      yield* Effect.sleep(5)
    }
  })

/** Endpoint settings in wire format that a test may override. */
export type Settings = Partial<(typeof EndpointSpec)["Encoded"]>

/** Creates an endpoint for external workers with a unique id. */
export const make = Effect.fnUntraced(function*(call: WireClient, settings: Settings = {}) {
  const id = settings.id ?? `e-${randomUUID()}`
  const endpoint = yield* Effect.flatMap(
    call("/api/v1/endpoints", { json: { source: { type: "external" }, ...settings, id } }),
    answers.endpoint
  )
  const path = (rest: string) => `/v2/${id}/${rest}`
  const waiting = (wait: number | undefined) => wait === undefined ? "" : `?wait=${wait}`

  const status = (job: string) => Effect.flatMap(call(path(`status/${job}`)), answers.job)
  const stream = (job: string, wait?: number) => Effect.flatMap(call(path(`stream/${job}${waiting(wait)}`)), answers.page)
  const env = Effect.flatMap(call(`/api/v1/endpoints/${id}/worker-env`), answers.env).pipe(Effect.map((body) => body.variables))

  const test: TestEndpoint = {
    id,
    endpoint,
    path,
    call,
    run: (input, rest) => Effect.flatMap(call(path("run"), { json: { input, ...rest } }), answers.receipt),
    runsync: (input, wait) => Effect.flatMap(call(path(`runsync${waiting(wait)}`), { json: { input } }), answers.job),
    status,
    statusSync: (job, wait) => Effect.flatMap(call(path(`status-sync/${job}${waiting(wait)}`)), answers.job),
    until: (job, wanted) => until(status(job), wanted),
    stream,
    streamToEnd: Effect.fnUntraced(function*(job: string) {
      const pages: Array<StreamPage> = []
      while (true) {
        const page = yield* stream(job)
        pages.push(page)
        if (isOver(page)) return pages
      }
    }),
    cancel: (job) => Effect.flatMap(call(path(`cancel/${job}`), { method: "POST" }), answers.receipt),
    retry: (job) => Effect.flatMap(call(path(`retry/${job}`), { method: "POST" }), answers.receipt),
    purge: Effect.flatMap(call(path("purge-queue"), { method: "POST" }), answers.purged),
    health: Effect.flatMap(call(path("health")), answers.health),
    env,
    worker: (worker = `w-${randomUUID()}`) => Effect.map(env, (variables) => WireWorker.make(variables, worker))
  }
  return test
})
