/**
 * A scenario for one test: an endpoint, its callers and its workers, which use the queue under test.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId, JobId } from "@stint/contract/Ids"
import type { Policy, Webhook } from "@stint/contract/Job"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import type { TraceContext } from "@stint/contract/TraceContext"
import type {
  BudgetReached,
  EndpointGone,
  IdempotencyConflict,
  JobMissing,
  LeaseLost,
  QuotaExceeded
} from "@stint/queue/JobErrors"
import {
  decodeEventCursor,
  encodeEventCursor,
  type JobEvent,
  type JobEventCursor,
  START_CURSOR
} from "@stint/queue/JobEventCursor"
import { type Delivery, JobQueue, type LeaseHolder } from "@stint/queue/JobQueue"
import { submitted } from "@stint/store/JobMachine"
import type { JobHead, JobRecord } from "@stint/store/JobRecord"
import type { Quota } from "@stint/store/Quota"
import { StoreError } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { operationsInFlight } from "./StoreActivity.ts"

/** An endpoint with short times: lease 10 s, execution timeout 60 s, ttl 300 s, retention 600 s, two attempts. */
export const endpoint = (settings: Partial<typeof Endpoint.Encoded> = {}): Endpoint =>
  Schema.decodeUnknownSync(Endpoint)({
    id: "letters",
    source: { type: "external" },
    createdAt: 0,
    leaseMs: 10_000,
    executionTimeoutMs: 60_000,
    ttlMs: 300_000,
    retentionMs: 600_000,
    maxAttempts: 2,
    ...settings
  })

/** A payload. */
export const text = toJsonText

/** A new job id. All of these ids have the time 0 and the same slot, so they sort in the order in which they were created. */
export const jobId = (): JobId => JobId.make(uuidV7At(0, 0))

/** A job record as it is after submission at time 0, for tests of a store without a queue. */
export const record = (changes: Partial<JobRecord> = {}): JobRecord => ({
  ...submitted({
    id: jobId(),
    endpoint: endpoint().id,
    input: toJsonText({ text: "hello" }),
    s3Config: null,
    traceparent: null,
    tracestate: null,
    lowPriority: false,
    createdAt: 0,
    ttlMs: 300_000,
    executionTimeoutMs: 60_000,
    leaseMs: 10_000,
    maxAttempts: 2,
    retentionMs: 600_000
  }),
  ...changes
})

/** The lease holder of a job that a worker took. */
export const holderOf = ({ attempt, endpoint, id, worker }: JobHead): LeaseHolder => ({
  endpoint,
  worker: worker ?? "",
  job: id,
  attempt
})

/** The tag of an effect's error, or for a `StoreError` the tag of its reason; undefined when the effect succeeds. */
export const reasonOf = <A, E extends { readonly _tag: string }, R>(
  effect: Effect.Effect<A, E | StoreError, R>
): Effect.Effect<string | undefined, never, R> =>
  Effect.match(effect, {
    onFailure: (error) => error instanceof StoreError ? error.reason._tag : error._tag,
    onSuccess: () => undefined
  })

/** The cursor with which a reader resumes after its last event, encoded and decoded as over HTTP. */
export const resumeAfter = (event: JobEvent | undefined): JobEventCursor =>
  (event === undefined ? undefined : decodeEventCursor(encodeEventCursor(event.cursor))) ?? START_CURSOR

/** {@link settle} ends after this many consecutive idle turns of the event loop, or waits for the store. */
const IDLE_TURNS = 20
const STORE_WAITS = 40

/**
 * Runs every fiber that can run without time passing, including those that wait for the store. Fibers that read the store continuously do not keep it
 * from ending.
 */
export const settle: Effect.Effect<void> = Effect.promise(async () => {
  for (let idle = 0, waits = 0; idle < IDLE_TURNS && waits < STORE_WAITS;) {
    const operations = operationsInFlight()
    if (operations.length === 0) idle += 1
    else {
      idle = 0
      waits += 1
      await Promise.all(operations)
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
})

/** The maximum duration and the maximum number of steps in {@link pass}. */
const STEP_MILLIS = 500
const MAX_STEPS = 200

/**
 * Runs the fibers that wait for the store, advances the test clock, then runs the fibers that it woke. The clock advances in steps: a timer that
 * waits for the store between two sleeps would otherwise fire only once.
 */
export const pass = (millis: number): Effect.Effect<void> =>
  Effect.gen(function*() {
    yield* settle
    const step = Math.max(STEP_MILLIS, Math.ceil(millis / MAX_STEPS))
    for (let left = millis; left > 0; left -= step) {
      yield* TestClock.adjust(Math.min(step, left))
      if (operationsInFlight().length > 0) yield* settle
    }
    yield* settle
  })

/** Whether a fiber has ended. */
export const isDone = <A, E>(fiber: Fiber.Fiber<A, E>): boolean => fiber.pollUnsafe() !== undefined

/** Whether a fiber was interrupted; undefined while it runs. */
export const wasInterrupted = <A, E>(fiber: Fiber.Fiber<A, E>): boolean | undefined => {
  const exit = fiber.pollUnsafe()
  return exit === undefined ? undefined : Exit.hasInterrupts(exit)
}

/** The errors of a submission. */
type SubmitError = StoreError | IdempotencyConflict | EndpointGone | QuotaExceeded | BudgetReached

/** The actions of a test. */
export interface Scenario {
  readonly endpoint: Endpoint
  readonly queue: JobQueue["Service"]
  readonly submit: (options?: {
    readonly input?: JsonText
    readonly s3Config?: JsonText
    readonly trace?: TraceContext
    readonly policy?: Policy
    readonly priority?: number
    readonly tags?: ReadonlyArray<string>
    readonly startAt?: number
    readonly startAfterMs?: number
    readonly webhook?: Webhook
    readonly idempotencyKey?: string
    readonly owner?: string
    readonly keyQuota?: Quota
    readonly id?: JobId
  }) => Effect.Effect<JobRecord, SubmitError>
  /** Takes jobs. By default, takes at most one job, without waiting, for a worker that runs other jobs. */
  readonly take: (worker: string, options?: {
    readonly limit?: number
    readonly waitMs?: number
    readonly holding?: boolean
  }) => Effect.Effect<ReadonlyArray<JobRecord>, StoreError>
  /** Takes one job. Dies when there is none. */
  readonly takeOne: (worker: string, options?: { readonly holding?: boolean }) => Effect.Effect<JobRecord, StoreError>
  /** Submits a job that the worker then takes. */
  readonly started: (worker: string) => Effect.Effect<JobRecord, SubmitError>
  /** Delivers the result of a job that a worker took. */
  readonly finish: (job: JobHead, output?: unknown) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost>
  readonly fail: (job: JobHead, error: string) => Effect.Effect<Delivery, StoreError | JobMissing | LeaseLost>
  readonly status: (id: string) => Effect.Effect<string, StoreError | JobMissing>
}

/** A scenario with an endpoint that has these settings. */
export const make = Effect.fnUntraced(function*(settings: Partial<typeof Endpoint.Encoded> = {}): Effect.fn.Return<
  Scenario,
  never,
  JobQueue
> {
  const queue = yield* JobQueue
  const world = endpoint(settings)

  const submit: Scenario["submit"] = ({ id, input = toJsonText({ text: "hello" }), ...options } = {}) =>
    Effect.suspend(() => queue.submit({ ...options, endpoint: world, id: id ?? jobId(), input }))

  const take: Scenario["take"] = (worker, { holding = true, limit = 1, waitMs = 0 } = {}) =>
    queue.take({ endpoint: world.id, worker, limit, waitMs, holding, keyLimit: world.concurrency?.limit })

  const takeOne: Scenario["takeOne"] = Effect.fnUntraced(function*(worker, options = {}) {
    const [job] = yield* take(worker, options)
    return job ?? (yield* Effect.die(new Error(`there was no job for worker ${worker}`)))
  })

  return {
    endpoint: world,
    queue,
    submit,
    take,
    takeOne,
    started: Effect.fnUntraced(function*(worker) {
      const { id } = yield* submit()
      const job = yield* takeOne(worker)
      return job.id === id ? job : yield* Effect.die(new Error(`worker ${worker} took ${job.id} and not ${id}`))
    }),
    finish: (job, output = "done") => queue.finish(holderOf(job), { output: toJsonText(output), error: null }),
    fail: (job, error) => queue.finish(holderOf(job), { output: null, error }),
    status: (id) => Effect.map(queue.get(world.id, id), (job) => job.status)
  }
})

/** The id of another endpoint. */
export const elsewhere = EndpointId.make("elsewhere")
