/**
 * Progress: a value that callers see while a job runs (docs/spec/progress.md#reporting-progress, docs/spec/worker-protocol.md#delivering-progress).
 *
 * ```
 *   handler: Progress.update(value) --> JobProgress, one per job --> JobSource.progress --> GET /status/{id}: "output": value
 *   middleware: creates it before the handler runs, and ends it before the result is sent
 * ```
 *
 * Reporting never waits, never fails and never changes a job's outcome. Intermediate values can be lost: while one value is in flight,
 * newer values replace each other.
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import { JobSource } from "@stint/worker/JobSource"
import { REQUEST_ID } from "@stint/worker/Logger"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as JobProgress from "./JobProgress.ts"
import * as ProgressValue from "./ProgressValue.ts"

/** Identifies the job of a value: the job that the handler received, or at least its id. */
export interface JobRef {
  readonly id: string
  /** Distinguishes attempts of the same job. Ignored if either side has none. */
  readonly attempt?: unknown
}

/** Reports progress. */
export class Progress extends Context.Service<Progress, {
  /**
   * Reports a JSON value as the progress of a job that is running in this worker. A plain function for plain code: it returns immediately and
   * never throws. Invalid values are dropped; a job's first invalid value logs a WARN. Values of an ended job are ignored with a DEBUG line.
   */
  readonly update: (job: JobRef, value: unknown) => void
}>()("@stint/worker-progress/Progress") {}

/**
 * Reports a JSON value as the progress of the current job. Does not wait for its delivery, and never fails.
 *
 * @example
 * ```ts
 * yield* Progress.update({ step: "resize", done: 3, of: 8 })
 * ```
 */
export const update: (value: unknown) => Effect.Effect<void, never, Progress | CurrentJob> = Effect.fnUntraced(
  function*(value: unknown) {
    const progress = yield* Progress
    progress.update(yield* CurrentJob, value)
  }
)

/** Options for progress. */
export interface Options {
  /**
   * The minimum time between two values of a job. The first value is sent immediately. Default: 100 ms, because a person cannot tell faster
   * updates apart, and every value is a request and a write on the platform. A longer interval saves requests.
   */
  readonly interval?: Duration.Input
  /**
   * The maximum time that the result waits for the response to a value in flight. Default: 1 s. A shorter time delivers results sooner when
   * the platform is slow; a longer time preserves the order on a slower platform.
   */
  readonly flushTimeout?: Duration.Input
  /**
   * The maximum size of a value as JSON text. Bytes; default: 1,000,000, slightly less than the server's limit (1 MiB, including the
   * body around it). A larger value is dropped with a WARN.
   */
  readonly maxBytes?: number
}

/** The default for {@link Options.interval}. Milliseconds. */
const INTERVAL = 100

/** The default for {@link Options.flushTimeout}. Milliseconds. */
const FLUSH_TIMEOUT = 1_000

/** The default for {@link Options.maxBytes}. */
const MAX_BYTES = 1_000_000

interface RunningProgress {
  readonly attempt: unknown
  readonly context: Context.Context<never>
  readonly progress: JobProgress.JobProgress
  warned: boolean
}

/** The service of one worker, and the middleware that provides it to the worker's jobs. */
export interface WorkerProgress {
  readonly progress: Progress["Service"]
  readonly middleware: JobMiddleware.JobMiddleware<Progress>
}

/** Creates the progress service of a worker. Use {@link middleware} unless code outside jobs needs the service too. */
export const make = (options: Options): Effect.Effect<WorkerProgress, never, JobSource> =>
  Effect.gen(function*() {
    const source = yield* JobSource
    const context = yield* Effect.context()
    const maxBytes = options.maxBytes ?? MAX_BYTES
    const times: JobProgress.ProgressTimeouts = {
      interval: Duration.toMillis(options.interval ?? INTERVAL),
      flushTimeout: Duration.toMillis(options.flushTimeout ?? FLUSH_TIMEOUT)
    }
    const running = new Map<string, RunningProgress>()

    const find = (job: JobRef): RunningProgress | undefined => {
      const found = running.get(job.id)
      const isOther = found?.attempt !== undefined && job.attempt !== undefined && found.attempt !== job.attempt
      return isOther ? undefined : found
    }

    const progress = Progress.of({
      update: (job, value) => {
        const entry = find(job)
        if (entry === undefined) {
          Effect.runForkWith(context)(
            Effect.annotateLogs(
              Effect.logDebug("Progress is ignored: the job has ended or never ran in this worker."),
              REQUEST_ID,
              job.id
            )
          )
          return
        }
        const text = ProgressValue.toText(value, maxBytes)
        if (Result.isSuccess(text)) return entry.progress.update(text.success)
        if (entry.warned) return
        entry.warned = true
        Effect.runForkWith(entry.context)(
          Effect.logWarning(`The progress of job ${job.id} ${text.failure} The value is dropped; the job itself is not affected.`)
        )
      }
    })

    const middleware = JobMiddleware.provides(Progress, (next, job) =>
      Effect.contextWith((context: Context.Context<never>) => {
        const current = JobProgress.make(source, job, context, times)
        const entry: RunningProgress = { attempt: job.attempt, context, progress: current, warned: false }
        running.set(job.id, entry)
        return Effect.onExit(next(job, progress), () => {
          if (running.get(job.id) === entry) running.delete(job.id)
          if (current.isIdle()) return Effect.void
          // A stopped job has no result to keep in order, so a stop interrupts the wait.
          return Effect.ensuring(Effect.interruptible(current.end), current.abort)
        })
      }))
    return { progress, middleware }
  })

/** {@link middleware} with options. */
export const middlewareWith = (options: Options): JobMiddleware.JobMiddleware<Progress, never, JobSource> =>
  JobMiddleware.unwrap(Effect.map(make(options), ({ middleware }) => middleware))

/** Provides `Progress` to each job. It reports to the source of the worker's jobs. */
export const middleware: JobMiddleware.JobMiddleware<Progress, never, JobSource> = middlewareWith({})

/** One reported value. */
export interface Update {
  /** The job's id. */
  readonly job: string
  readonly value: Schema.Json
}

/** The values reported to {@link layerMemory}. */
export class Memory extends Context.Service<Memory, {
  /** Every valid value so far, oldest first. */
  readonly updates: () => ReadonlyArray<Update>
}>()("@stint/worker-progress/Progress/Memory") {}

/** Every value reported to {@link layerMemory}, oldest first. */
export const updates: Effect.Effect<ReadonlyArray<Update>, never, Memory> = Effect.map(Memory, (memory) => memory.updates())

/**
 * Records every reported value, for tests of handlers. Newer values do not replace older ones.
 *
 * @example
 * ```ts
 * const result = yield* WorkerTest.run(Thumbnail, { url, width: 64 })
 * expect(yield* Progress.updates).toEqual([{ job: expect.any(String), value: { step: "resize" } }])
 * ```
 */
export const layerMemory: Layer.Layer<Progress | Memory> = Layer.effectContext(
  Effect.gen(function*() {
    const context = yield* Effect.context()
    const all: Array<Update> = []
    const parse = (text: string): Schema.Json => JSON.parse(text)
    return Context.make(Memory, { updates: () => [...all] }).pipe(
      Context.add(Progress, {
        update: (job, value) => {
          const text = ProgressValue.toText(value, MAX_BYTES)
          if (Result.isSuccess(text)) all.push({ job: job.id, value: parse(text.success) })
          else {Effect.runForkWith(context)(
              Effect.logWarning(`The progress of job ${job.id} ${text.failure} The value is dropped.`)
            )}
        }
      })
    )
  })
)
