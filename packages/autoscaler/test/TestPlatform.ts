/**
 * A platform without HTTP, on a test clock: the real queue over the memory store, the autoscaler, and workers that run as fibers and call the
 * queue directly, as the SDK does over HTTP.
 */
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import * as WorkerConnection from "@stint/autoscaler/WorkerConnection"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as MachinePool from "@stint/pool/MachinePool"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { endpointOf } from "@stint/pool/testing"
import { type WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { JobQueue, JobTimers, WorkerRegistry } from "@stint/queue"
import type { BudgetReached, EndpointGone, IdempotencyConflict, QuotaExceeded } from "@stint/queue/JobErrors"
import { StoreFaults } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as QueueErrors from "@stint/store/StoreError"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

/** The input of a job: what the worker does. */
const Work = Schema.Struct({
  /** Duration in milliseconds. */
  ms: Schema.optionalKey(Schema.Int),
  /** Lines to print at the start. */
  print: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Exits with this code during the job. */
  exit: Schema.optionalKey(Schema.Int),
  /** Cannot be stopped or interrupted, while the worker's heartbeat continues. */
  uninterruptible: Schema.optionalKey(Schema.Boolean)
})
export type Work = typeof Work.Type
const decodeWork = Schema.decodeUnknownEffect(Schema.fromJsonString(Work))

/** The behaviour of a worker's program, from the variables of its endpoint. */
const Boot = Schema.Struct({
  /** Time from the start to the first call, in milliseconds. */
  BOOT_MS: Schema.optionalKey(Schema.FiniteFromString),
  /** Prints a line and exits with this code before the first call. */
  BOOT_EXIT: Schema.optionalKey(Schema.FiniteFromString),
  /** Exits with this code soon after the first call. */
  READY_EXIT: Schema.optionalKey(Schema.FiniteFromString),
  /** Fails every job. */
  FAILS: Schema.optionalKey(Schema.String),
  /** Ignores exit requests. */
  STUBBORN: Schema.optionalKey(Schema.String),
  /** Sends heartbeats but never takes a job. */
  IDLE: Schema.optionalKey(Schema.String),
  /** Exits after the first job. */
  ONCE: Schema.optionalKey(Schema.String)
})
const decodeBoot = Schema.decodeUnknownEffect(Boot)

const sdkWorker = Effect.fnUntraced(
  function*(context: MemoryWorkerPool.WorkerContext): Effect.fn.Return<number, unknown, JobQueue.JobQueue> {
    const queue = yield* JobQueue.JobQueue
    const boot = yield* decodeBoot(context.endpoint.env)
    const endpoint = context.endpoint.id
    const worker = context.worker
    yield* Effect.sleep(boot.BOOT_MS ?? 0)
    yield* context.awaitThawed
    if (boot.BOOT_EXIT !== undefined) {
      yield* context.print("cannot find module")
      return boot.BOOT_EXIT
    }
    const pingMs = Number(context.variables["PLATFORM_PING_INTERVAL"])
    let holding: ReadonlyArray<string> = []
    yield* Effect.suspend(() => Effect.andThen(context.awaitThawed, queue.heartbeat(endpoint, worker, holding))).pipe(
      Effect.andThen(Effect.sleep(pingMs)),
      Effect.forever,
      Effect.forkChild
    )
    if (boot.READY_EXIT !== undefined) {
      yield* queue.heartbeat(endpoint, worker, [])
      yield* Effect.sleep(10)
      return boot.READY_EXIT
    }
    const exitRequested = yield* Effect.forkChild(boot.STUBBORN === undefined ? context.exitRequested : Effect.never)
    if (boot.IDLE !== undefined) {
      yield* context.print("waiting for a lock")
      yield* Fiber.join(exitRequested)
      return 0
    }
    while (true) {
      yield* context.awaitThawed
      const jobs = yield* Effect.raceFirst(
        queue.take({ endpoint, worker, limit: 1, waitMs: 30_000, holding: false }),
        Effect.as(Fiber.join(exitRequested), [])
      )
      const [job] = jobs
      if (job === undefined) {
        // A real worker also pauses here. Otherwise, a worker whose takes return nothing would loop forever while the test clock stands still.
        if (exitRequested.pollUnsafe() !== undefined) return 0
        yield* Effect.sleep(100)
        continue
      }
      holding = [job.id]
      const work = yield* decodeWork(job.input)
      yield* Effect.forEach(work.print ?? [], context.print, { discard: true })
      yield* Effect.sleep(work.ms ?? 0)
      yield* context.awaitThawed
      if (work.exit !== undefined) return work.exit
      if (work.uninterruptible === true) {
        holding = []
        return yield* Effect.never
      }
      const result = boot.FAILS === undefined ? { output: toJsonText("done"), error: null } : { output: null, error: "wrong" }
      yield* Effect.ignore(queue.finish({ endpoint, worker, job: job.id }, result))
      holding = []
      if (boot.ONCE !== undefined) return 0
    }
  }
)

const address = Layer.succeed(WorkerConnection.WorkerConnection, {
  baseUrl: "http://127.0.0.1:4600",
  keyFor: (endpoint) => Redacted.make(`stint_worker_key_of_${endpoint}`)
})

/** Discards the output of workers. The pool keeps their last lines. */
const silent = Layer.succeed(WorkerLog, { write: (_: WorkerLine) => Effect.void })

/** Faults of the queue, set by tests. */
export class QueueFaults extends Context.Service<QueueFaults, {
  /** True: reading the depth of an endpoint fails. */
  depthFails: boolean
}>()("@stint/pool/test/QueueFaults") {}

/** The real queue with the faults of {@link QueueFaults}. */
const queue = Layer.effect(
  JobQueue.JobQueue,
  Effect.gen(function*() {
    const real = yield* JobQueue.JobQueue
    const faults = yield* QueueFaults
    return JobQueue.JobQueue.of({
      ...real,
      depth: (endpoint) =>
        Effect.suspend(() =>
          faults.depthFails
            ? Effect.fail(
              new QueueErrors.StoreError({ reason: new QueueErrors.StoreUnavailable({ operation: "depth", cause: "away" }) })
            )
            : real.depth(endpoint)
        )
    })
  })
).pipe(Layer.provide(JobQueue.layer), Layer.provideMerge(Layer.sync(QueueFaults, () => ({ depthFails: false }))))

const base = MemoryWorkerPool.layer((context) => Effect.orDie(sdkWorker(context))).pipe(
  Layer.provideMerge(Layer.mergeAll(queue, EndpointStore.layerMemory)),
  Layer.provideMerge(Layer.mergeAll(WorkerRegistry.layer, StoreFaults.layer(MemoryJobStore.layer), address, silent))
)

/** Everything except the autoscaler, for tests that close the autoscaler themselves. */
export const withoutAutoscaler = Layer.provideMerge(JobTimers.layer(), base)

/** Runs a test on its own platform, whose machine has the given capacity (default: no limit). Advances the clock while the platform closes, because its workers need time to exit. */
export const onPlatform = <A, E>(
  body: Effect.Effect<A, E, Layer.Success<typeof withoutAutoscaler>>,
  options: Autoscaler.Options = {},
  capacity?: MachinePool.Options["capacity"]
): Effect.Effect<A, E | StoreError> =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const platform = capacity === undefined
      ? withoutAutoscaler
      : Layer.provideMerge(MachinePool.layer({ capacity }), withoutAutoscaler)
    const context = yield* Layer.buildWithScope(Layer.provideMerge(Autoscaler.layer(options), platform), scope)
    const exit = yield* Effect.exit(Effect.provideContext(body, context))
    const closing = yield* Effect.forkChild(Scope.close(scope, exit))
    yield* TestClock.adjust("2 minutes")
    yield* Fiber.join(closing)
    return yield* exit
  })

/** Creates or replaces an endpoint, and waits until the autoscaler has read it. */
export const deploy = Effect.fnUntraced(function*(spec: Parameters<typeof endpointOf>[0] = {}) {
  const endpoints = yield* EndpointStore.EndpointStore
  const endpoint = yield* endpointOf(spec)
  yield* endpoints.put(endpoint)
  yield* TestClock.adjust(300)
  return endpoint
})

let jobs = 0

export const submit = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  work: Work = {},
  policy: { readonly lowPriority?: boolean } = {}
): Effect.fn.Return<JobId, StoreError | IdempotencyConflict | EndpointGone | QuotaExceeded | BudgetReached, JobQueue.JobQueue> {
  const queue = yield* JobQueue.JobQueue
  const id = JobId.make(`job-${++jobs}`)
  yield* queue.submit({ endpoint, id, input: toJsonText(work), policy })
  return id
})

export const jobOf = (endpoint: Endpoint, id: JobId) => Effect.flatMap(JobQueue.JobQueue, (queue) => queue.get(endpoint.id, id))

/** Runs all work that is due now. */
export const now = TestClock.adjust(1)

export const after = (duration: Parameters<typeof TestClock.adjust>[0]) => TestClock.adjust(duration)

/** The ids of the running workers. */
export const running = Effect.flatMap(
  MemoryWorkerPool.Faults,
  (faults) => Effect.map(faults.running, (workers) => workers.map(({ worker }): string => worker))
)

export const started = Effect.flatMap(MemoryWorkerPool.Faults, (faults) => faults.started)

/** The id of the only running worker. */
export const onlyWorker = Effect.flatMap(
  running,
  ([worker, ...others]) =>
    worker === undefined || others.length > 0
      ? Effect.die(new Error(`expected one worker, not ${others.length + 1}`))
      : Effect.succeed(worker)
)

export const states = (endpoint: Endpoint) =>
  Effect.flatMap(
    WorkerRegistry.WorkerRegistry,
    (registry) => Effect.map(registry.list(endpoint.id), (all) => all.map(({ state }) => state).sort())
  )
