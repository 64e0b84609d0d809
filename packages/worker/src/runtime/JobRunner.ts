/**
 * Runs jobs: one fiber each, from the moment it was taken until its result is delivered.
 *
 * ```
 *   start --> running (middleware, handler, chunks) --> delivering --> gone
 *                |                                         |
 *                +------------- stop, end of grace --------+--> gone, nothing is sent
 * ```
 *
 * A job counts as held from `start` until it is gone, delivery included: what is not delivered is not done. It counts as busy only
 * while it runs, so that the next job is taken while a result is still on its way; with a result that nobody accepts, that ends
 * after as many undelivered results as jobs may run at once.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import type { CurrentJob, ReceivedJob } from "../handlers/CurrentJob.ts"
import { runToOutcome } from "../handlers/HandlerRun.ts"
import * as Outcome from "../handlers/Outcome.ts"
import type { Emit, Runnable } from "../handlers/Runnable.ts"
import * as JobMiddleware from "../plugins/JobMiddleware.ts"
import { JobSource } from "../transport/JobSource.ts"
import { ResultDelivery } from "../transport/ResultDelivery.ts"
import * as InFlightJobs from "./InFlightJobs.ts"
import { REQUEST_ID } from "./Logger.ts"
import { Shutdown } from "./Shutdown.ts"
import { withDeliverSpan, withJobSpan } from "./Spans.ts"
import * as StdioFlush from "./StdioFlush.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How jobs are run. */
export interface Options<out Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []> {
  /** Runs around each job, the first one outermost. Default: none. */
  readonly middleware?: Middleware
  /**
   * Recycles the worker after each job, as if each result had `refresh_worker` (docs/spec/worker-lifecycle.md#refreshing-a-worker). Default: false.
   */
  readonly refreshWorker?: boolean
}

export class JobRunner extends Context.Service<JobRunner, {
  /** Starts jobs that were taken together, and returns. */
  readonly start: (taken: ReadonlyArray<ReceivedJob>) => Effect.Effect<void>
  /** Interrupts a job; nothing is delivered for it. False: it is not held. */
  readonly stop: (id: string) => Effect.Effect<boolean>
  /** Interrupts all jobs. */
  readonly stopAll: Effect.Effect<void>
  /** Ids of the jobs held. */
  readonly jobIds: () => ReadonlyArray<string>
  /** How many jobs are held. */
  readonly size: () => number
  /** How many more jobs may be started where `concurrency` may run at once. */
  readonly availableSlots: (concurrency: number) => number
  /** Waits until there is room for one more. */
  readonly awaitSlot: (concurrency: number) => Effect.Effect<void>
  /** Waits until no job is held. */
  readonly awaitIdle: Effect.Effect<void>
  /** The ids of the jobs held, for the heartbeat's thread. */
  readonly memory: SharedArrayBuffer
}>()("@stint/worker/JobRunner") {}

/** What jobs need of the worker's layers: what the handler and the middleware need, less what the middleware and the runtime provide. */
export type JobServices<R, Middleware extends ReadonlyArray<JobMiddleware.Any>> = Exclude<
  JobMiddleware.Apply<Middleware, R | CurrentJob>,
  CurrentJob
>

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

  const heldJobs = InFlightJobs.make()
  const fibers = new Map<string, Fiber.Fiber<void>>()
  /** Which of them only wait for their result to be accepted. */
  const delivering = new Set<string>()
  /** Those who wait for room, or for the end of all jobs. */
  const waiters = new Set<{ readonly until: () => boolean; readonly resume: () => void }>()
  const wake = () => {
    for (const waiter of [...waiters]) if (waiter.until()) waiter.resume()
  }

  /** Says how it went, and delivers. This and what follows run for every job, so they are plain calls and few steps. */
  const finish = (job: ReceivedJob, ended: Outcome.Outcome, took: number, streamed: boolean): Effect.Effect<void> => {
    const result: Outcome.Outcome = options.refreshWorker === true ? { ...ended, stopPod: true } : ended
    let steps = withDeliverSpan(delivery.done(job, result, streamed))
    if (Outcome.isFailed(result)) {
      steps = Effect.andThen(Effect.logError(`The job failed after ${took} ms: ${Outcome.readableError(result.error)}`), steps)
    } else if (tracing) steps = Effect.andThen(Effect.logTrace(`Finished in ${took} ms.`), steps)
    if (StdioFlush.hasPending()) steps = Effect.andThen(StdioFlush.flush(StdioFlush.RESULT_FLUSH_TIMEOUT), steps)
    // Before the delivery: from here on no other job may come to this worker.
    if (result.stopPod === true && recycles) {
      return Effect.andThen(shutdown.request({ reason: "a fresh worker was asked for", exitCode: 0 }), steps)
    }
    delivering.add(job.id)
    wake()
    return steps
  }

  const run = (job: ReceivedJob): Effect.Effect<void> => {
    let error: string | undefined
    const steps = Effect.suspend(() => {
      const started = clock.currentTimeMillisUnsafe()
      let chunks = 0
      const emit: Emit = (chunk) => delivery.chunk(job, chunk, ++chunks)
      return Effect.flatMap(
        outcome(job, streaming ? emit : undefined),
        (ended) => {
          error = ended?.error
          return ended === undefined ? Effect.void : finish(job, ended, clock.currentTimeMillisUnsafe() - started, chunks > 0)
        }
      )
    })
    return withJobSpan(handler.name, job, endpoint, () => error)(steps).pipe(
      Effect.provideContext(Context.add(services, References.CurrentLogAnnotations, { ...annotations, [REQUEST_ID]: job.id }))
    )
  }

  /** Undoes the note that a job is held, and tells those who wait for room. */
  const gone = (id: string, release: () => void) => () => {
    release()
    fibers.delete(id)
    delivering.delete(id)
    wake()
  }

  const availableSlots = (concurrency: number) =>
    concurrency - (fibers.size - delivering.size) - Math.max(0, delivering.size - concurrency)

  // Looking and beginning to wait is one step here: between two steps a fiber may give way, and what it waits for pass unseen.
  const awaitUntil = (until: () => boolean): Effect.Effect<void> =>
    Effect.callback((resume) => {
      if (until()) return resume(Effect.void)
      const waiter = {
        until,
        resume: () => {
          waiters.delete(waiter)
          resume(Effect.void)
        }
      }
      waiters.add(waiter)
      return Effect.sync(() => void waiters.delete(waiter))
    })

  const start = Effect.fnUntraced(function*(taken: ReadonlyArray<ReceivedJob>) {
    // All are noted as held before the first one runs: a handler that blocks must not keep the rest out of the heartbeats.
    const releases = taken.map((job) => heldJobs.add(job.id))
    for (const [index, job] of taken.entries()) {
      // The platform took the job back and handed it out again, to this same worker: the earlier attempt is for nothing.
      const earlier = fibers.get(job.id)
      if (earlier !== undefined) yield* Fiber.interrupt(earlier)
      const fiber = yield* Effect.forkIn(run(job), scope, { startImmediately: true })
      fibers.set(job.id, fiber)
      fiber.addObserver(gone(job.id, releases[index] ?? (() => {})))
    }
  }, Effect.uninterruptible)

  return JobRunner.of({
    start,
    stop: Effect.fnUntraced(function*(id: string) {
      const fiber = fibers.get(id)
      if (fiber === undefined) return false
      yield* Fiber.interrupt(fiber)
      return true
    }),
    stopAll: Effect.suspend(() => Fiber.interruptAll([...fibers.values()])),
    jobIds: () => [...fibers.keys()],
    size: () => fibers.size,
    availableSlots,
    awaitSlot: (concurrency) => awaitUntil(() => availableSlots(concurrency) > 0),
    awaitIdle: awaitUntil(() => fibers.size === 0),
    memory: heldJobs.memory
  })
})

/** Runs this handler. Closing the layer's scope interrupts whatever still runs. */
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
