/**
 * Runs jobs: one fiber per job, from the take until its result is delivered.
 *
 * ```
 *   start --> running (middleware, handler, chunks) --> delivering --> removed
 *                |                                         |
 *                +------------- stop, end of grace --------+--> removed, nothing is sent
 *                |
 *                +- error outside of the handler's call ---> delivering the failure --> removed
 * ```
 *
 * The worker holds a job from `start` until the delivery of its result has ended. A job occupies a slot only while it runs, so the worker
 * takes the next job while a result is in flight. When the platform accepts no results, the worker stops taking jobs once the number of
 * undelivered results equals its number of slots.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import type { CurrentJob, ReceivedJob } from "../handlers/CurrentJob.ts"
import { runToOutcome } from "../handlers/HandlerRun.ts"
import * as Outcome from "../handlers/Outcome.ts"
import type { Emit, Runnable } from "../handlers/Runnable.ts"
import * as JobMiddleware from "../plugins/JobMiddleware.ts"
import { splitText } from "../transport/ChunkSplit.ts"
import { JobSource } from "../transport/JobSource.ts"
import { ResultDelivery } from "../transport/ResultDelivery.ts"
import * as InFlightJobs from "./InFlightJobs.ts"
import { REQUEST_ID } from "./Logger.ts"
import { Shutdown } from "./Shutdown.ts"
import { withDeliverSpan, withJobSpan } from "./Spans.ts"
import * as StdioFlush from "./StdioFlush.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/**
 * The maximum size of a streamed string as JSON, in bytes: slightly less than the server's limit (1 MiB, including the body around it). A longer
 * string is sent as several chunks.
 */
const MAX_CHUNK_BYTES = 1_000_000

/** A string up to this length always fits, because a character has at most six bytes in JSON. */
const MIN_SPLIT_LENGTH = (MAX_CHUNK_BYTES - 2) / 6

/** How jobs are run. */
export interface Options<out Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []> {
  /** Runs around each job; the first middleware is the outermost. Default: none. */
  readonly middleware?: Middleware
  /**
   * Recycles the worker after each job, as if each result contained `refresh_worker` (docs/spec/worker-lifecycle.md#refreshing-a-worker). Default: false.
   */
  readonly refreshWorker?: boolean
}

export class JobRunner extends Context.Service<JobRunner, {
  /** Starts the jobs of one take, and returns. */
  readonly start: (taken: ReadonlyArray<ReceivedJob>) => Effect.Effect<void>
  /** Interrupts a job without delivering a result. Returns false when this worker does not hold the job. */
  readonly stop: (id: string) => Effect.Effect<boolean>
  /** Interrupts all jobs. */
  readonly stopAll: Effect.Effect<void>
  /**
   * Fails a running job with an error that its handler threw outside its own call, and interrupts the handler. The failure is delivered
   * at once, because such a handler often never ends. Returns false when this worker does not run this attempt of the job.
   */
  readonly fail: (job: ReceivedJob, thrown: unknown) => Effect.Effect<boolean>
  /** Ids of the held jobs. */
  readonly jobIds: () => ReadonlyArray<string>
  /** The lease tokens of the held jobs, in the order of `jobIds`; empty for a job without one. */
  readonly leaseTokens: () => ReadonlyArray<string>
  /** The number of held jobs. */
  readonly size: () => number
  /** The number of free slots at this concurrency. */
  readonly availableSlots: (concurrency: number) => number
  /** Waits for a free slot. */
  readonly awaitSlot: (concurrency: number) => Effect.Effect<void>
  /** Waits until this worker holds no jobs. */
  readonly awaitIdle: Effect.Effect<void>
  /** The ids of the held jobs, for the heartbeat thread. */
  readonly memory: SharedArrayBuffer
}>()("@stint/worker/JobRunner") {}

/**
 * The services that jobs need from the worker's layers: the services that the handler and the middleware require, except those that the
 * middleware and the runtime provide.
 */
export type JobServices<R, Middleware extends ReadonlyArray<JobMiddleware.Any>> = Exclude<
  JobMiddleware.Apply<Middleware, R | CurrentJob>,
  CurrentJob
>

/** A job that this worker holds. */
interface Held {
  readonly job: ReceivedJob
  /** Removes the job's id from the heartbeats. */
  readonly release: () => void
  /** Milliseconds since 1970. */
  started: number
  /** The number of chunks that were sent. */
  chunks: number
  /** Undefined until the fiber exists. */
  fiber: Fiber.Fiber<void> | undefined
}

const make = Effect.fnUntraced(function*<R, M extends ReadonlyArray<JobMiddleware.Any>>(
  handler: Runnable<R>,
  middleware: M | undefined,
  options: Pick<Options, "refreshWorker">
) {
  const delivery = yield* ResultDelivery
  const shutdown = yield* Shutdown
  const { recycles = true, streaming } = yield* JobSource
  const { endpoint, identity } = yield* WorkerConfig
  const services = yield* Effect.context<JobServices<R, M>>()
  const scope = yield* Effect.scope

  const clock = yield* Clock.Clock
  const tracing = yield* LogLevel.isEnabled("Trace")
  const annotations = yield* References.CurrentLogAnnotations
  const outcome = runToOutcome(handler, yield* JobMiddleware.chain(middleware), identity)

  const inFlight = InFlightJobs.make()
  const held = new Map<string, Held>()
  /** The held jobs whose result is being delivered. */
  const delivering = new Set<string>()
  /** Callers that are waiting for a free slot or for all jobs to end. */
  const waiters = new Set<{ readonly until: () => boolean; readonly resume: () => void }>()
  const wake = () => {
    for (const waiter of [...waiters]) if (waiter.until()) waiter.resume()
  }

  /**
   * Logs and delivers the outcome. This and the functions below run for every job, so they use plain function calls and few Effect steps.
   */
  const finish = ({ chunks, job, started }: Held, ended: Outcome.Outcome): Effect.Effect<void> => {
    const took = clock.currentTimeMillisUnsafe() - started
    const result: Outcome.Outcome = options.refreshWorker === true ? { ...ended, stopPod: true } : ended
    let steps = withDeliverSpan(delivery.deliverResult(job, result, chunks > 0))
    if (Outcome.isFailed(result)) {
      steps = Effect.andThen(Effect.logError(`The job failed after ${took} ms: ${Outcome.readableError(result.error)}`), steps)
    } else if (tracing) steps = Effect.andThen(Effect.logTrace(`Finished in ${took} ms.`), steps)
    if (StdioFlush.hasPending()) steps = Effect.andThen(StdioFlush.flush(StdioFlush.RESULT_FLUSH_TIMEOUT), steps)
    // Requested before the delivery, so that this worker takes no more jobs.
    if (result.stopPod === true && recycles) {
      return Effect.andThen(shutdown.request({ reason: "the result requested a fresh worker", exitCode: 0 }), steps)
    }
    delivering.add(job.id)
    wake()
    return steps
  }

  const jobContext = (id: string) => Context.add(services, References.CurrentLogAnnotations, { ...annotations, [REQUEST_ID]: id })

  let isFirst = true

  const run = (entry: Held): Effect.Effect<void> => {
    const { job } = entry
    let error: string | undefined
    const span = { job, endpoint, handler: handler.name, isFirst, errorOf: () => error }
    isFirst = false
    const steps = Effect.suspend(() => {
      entry.started = clock.currentTimeMillisUnsafe()
      // A chunk without a number is split by the platform. The number of a rejected chunk is reused, because the numbers must not have gaps.
      const deliver: Emit = (chunk) =>
        Effect.map(delivery.deliverChunk(job, chunk, entry.chunks + 1), () => {
          entry.chunks++
        })
      const emit: Emit = (chunk) =>
        typeof chunk === "string" && job.attempt !== undefined && chunk.length > MIN_SPLIT_LENGTH
          ? Effect.forEach(splitText(chunk, MAX_CHUNK_BYTES), deliver, { discard: true })
          : deliver(chunk)
      return Effect.flatMap(
        outcome(job, streaming ? emit : undefined),
        (ended) => {
          error = ended?.error
          return ended === undefined ? Effect.void : finish(entry, ended)
        }
      )
    })
    return withJobSpan(span)(steps).pipe(Effect.provideContext(jobContext(job.id)))
  }

  /** Removes an ended job and notifies the waiters, unless another fiber has replaced the job's own. */
  const remove = (entry: Held) => () => {
    const { id } = entry.job
    if (held.get(id) !== entry) return
    entry.release()
    held.delete(id)
    delivering.delete(id)
    wake()
  }

  const fork = (entry: Held, steps: Effect.Effect<void>): Effect.Effect<void> =>
    Effect.map(Effect.forkIn(steps, scope, { startImmediately: true }), (fiber) => {
      entry.fiber = fiber
      held.set(entry.job.id, entry)
      fiber.addObserver(remove(entry))
    })

  const availableSlots = (concurrency: number) =>
    concurrency - (held.size - delivering.size) - Math.max(0, delivering.size - concurrency)

  // The check and the registration are one step: if they were two, the fiber could yield between them and miss the change that it is
  // waiting for.
  const awaitUntil = (until: () => boolean): Effect.Effect<void> =>
    Effect.callback((resume) => {
      if (until()) return resume(Effect.void)
      const waiter = {
        until,
        resume: () => {
          waiters.delete(waiter)
          // After the other handlers that end in this turn of the event loop, so that one take fills all their slots.
          process.nextTick(() => resume(Effect.void))
        }
      }
      waiters.add(waiter)
      return Effect.sync(() => void waiters.delete(waiter))
    })

  const start = Effect.fnUntraced(function*(taken: ReadonlyArray<ReceivedJob>) {
    // All jobs are listed as held before the first one runs, because otherwise a blocking handler would delay adding the others, and
    // heartbeats would omit them.
    const entries = taken.map((job): Held => ({
      job,
      release: inFlight.add(job.id, job.leaseToken),
      started: 0,
      chunks: 0,
      fiber: undefined
    }))
    for (const entry of entries) {
      // The platform requeued the job and assigned it to this worker again: the earlier attempt is obsolete.
      const earlier = held.get(entry.job.id)?.fiber
      if (earlier !== undefined) yield* Fiber.interrupt(earlier)
      yield* fork(entry, run(entry))
    }
  }, Effect.uninterruptible)

  const fail = Effect.fnUntraced(function*(job: ReceivedJob, thrown: unknown) {
    const running = held.get(job.id)
    if (running?.fiber === undefined || running.job.attempt !== job.attempt || delivering.has(job.id)) return false
    // The job stays held until its failure is delivered. Its first fiber may take 2 s to end.
    yield* fork(
      { ...running },
      Effect.provideContext(finish(running, Outcome.fromException(thrown, identity)), jobContext(job.id))
    )
    yield* Effect.forkIn(Fiber.interrupt(running.fiber), scope, { startImmediately: true })
    return true
  }, Effect.uninterruptible)

  return JobRunner.of({
    start,
    fail,
    stop: Effect.fnUntraced(function*(id: string) {
      const fiber = held.get(id)?.fiber
      if (fiber === undefined) return false
      yield* Fiber.interrupt(fiber)
      return true
    }),
    stopAll: Effect.suspend(() =>
      Fiber.interruptAll([...held.values()].map(({ fiber }) => fiber).filter(Predicate.isNotUndefined))
    ),
    jobIds: () => [...held.keys()],
    leaseTokens: () => Array.from(held.values(), ({ job }) => job.leaseToken ?? ""),
    size: () => held.size,
    availableSlots,
    awaitSlot: (concurrency) => awaitUntil(() => availableSlots(concurrency) > 0),
    awaitIdle: awaitUntil(() => held.size === 0),
    memory: inFlight.memory
  })
})

/** Runs jobs with this handler. Closing the layer's scope interrupts the running jobs. */
export const layer = <R, M extends ReadonlyArray<JobMiddleware.Any>>(
  handler: Runnable<R>,
  middleware: M | undefined,
  options: Pick<Options, "refreshWorker"> = {}
): Layer.Layer<
  JobRunner,
  never,
  | ResultDelivery
  | JobSource
  | Shutdown
  | WorkerConfig
  | Exclude<JobServices<R, M> | JobMiddleware.SetupServices<M>, Scope.Scope>
> => Layer.effect(JobRunner, make(handler, middleware, options))
