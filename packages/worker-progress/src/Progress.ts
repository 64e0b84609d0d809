/**
 * Progress: what callers see of a job while it runs (docs/spec/progress.md#reporting-progress, docs/spec/worker-protocol.md#delivering-progress).
 *
 * ```
 *   handler: Progress.update(value) --> JobProgress, one a job --> JobSource.progress --> GET /status/{id}: "output": value
 *   middleware: opens it before the handler, and closes it before the result goes
 * ```
 *
 * Reporting never waits, never fails and never changes how a job ends. What may get lost are values in between: while one is on
 * its way, newer ones replace each other.
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

/** Which job a value is about: the job as the handler got it, or as much of it as is left. */
export interface JobRef {
  readonly id: string
  /** Tells one attempt from an earlier one that was left behind; not looked at where either side has none. */
  readonly attempt?: unknown
}

/** Reports progress. */
export class Progress extends Context.Service<Progress, {
  /**
   * Reports a value, anything that JSON can hold, as the progress of a job that runs here. A plain function for plain code: it
   * returns at once, and never throws. A value that cannot be shown is left out with a WARN, the first of a job; one for a job that
   * has ended is ignored with a DEBUG line.
   */
  readonly update: (job: JobRef, value: unknown) => void
}>()("@stint/worker-progress/Progress") {}

/**
 * Reports a value, anything that JSON can hold, as the progress of the current job. Does not wait for it to arrive, and never
 * fails.
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

/** How progress differs from its defaults. */
export interface Options {
  /**
   * The least time between two values of a job; the first goes at once, the latest as soon as it may. Default: 100 ms. That is as
   * often as a person who watches can tell apart, and every value is a request and a write on the platform. Longer saves those.
   */
  readonly interval?: Duration.Input
  /**
   * How long the result waits for the answer to a value that is on its way. Default: 1 s. Shorter delivers sooner to a platform in
   * trouble; longer keeps the order for a slower one.
   */
  readonly flushTimeout?: Duration.Input
  /**
   * The most that a value may have as JSON text. Bytes; default: 1,000,000, a little less than our platform takes (1 MiB with what
   * is around it). A larger value is left out with a WARN.
   */
  readonly maxBytes?: number
}

/** The default of {@link Options.interval}. Milliseconds. */
export const INTERVAL = 100

/** The default of {@link Options.patience}. Milliseconds. */
export const FLUSH_TIMEOUT = 1_000

/** The default of {@link Options.maxBytes}. */
export const MAX_BYTES = 1_000_000

interface RunningProgress {
  readonly attempt: unknown
  readonly context: Context.Context<never>
  readonly progress: JobProgress.JobProgress
  warned: boolean
}

/** The service of one worker, and the middleware that gives it to the worker's jobs. */
export interface WorkerProgress {
  readonly progress: Progress["Service"]
  readonly middleware: JobMiddleware.JobMiddleware<Progress>
}

/** Progress for one worker. {@link middleware} is enough, unless code outside of jobs needs the service, too. */
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
              Effect.logDebug("Progress is ignored: the job has ended, or never ran here."),
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
          Effect.logWarning(`The progress of job ${job.id} ${text.failure} It is left out; the job itself is not affected.`)
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
          // A job that is stopped gets no result, so there is nothing to wait for: waiting is interrupted, too.
          return Effect.ensuring(Effect.interruptible(current.end), current.abort)
        })
      }))
    return { progress, middleware }
  })

/** {@link middleware} with options. */
export const middlewareWith = (options: Options): JobMiddleware.JobMiddleware<Progress, never, JobSource> =>
  JobMiddleware.unwrap(Effect.map(make(options), ({ middleware }) => middleware))

/** Gives each job `Progress`, which reports to where the worker's jobs come from. */
export const middleware: JobMiddleware.JobMiddleware<Progress, never, JobSource> = middlewareWith({})

/** One value that was reported. */
export interface Update {
  /** The job's id. */
  readonly job: string
  readonly value: Schema.Json
}

/** What was reported to {@link layerMemory}. */
export class Memory extends Context.Service<Memory, {
  /** Every value so far, oldest first; those that cannot be shown are left out. */
  readonly updates: () => ReadonlyArray<Update>
}>()("@stint/worker-progress/Progress/Memory") {}

/** Every value that was reported to {@link layerMemory}, oldest first. */
export const updates: Effect.Effect<ReadonlyArray<Update>, never, Memory> = Effect.map(Memory, (memory) => memory.updates())

/**
 * Keeps what is reported, for tests of handlers: every value, none of them replaced by a newer one.
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
          else Effect.runForkWith(context)(Effect.logWarning(`The progress of job ${job.id} ${text.failure} It is left out.`))
        }
      })
    )
  })
)
