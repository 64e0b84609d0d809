/**
 * The argument of `serverless.start` and its validation (docs/spec/handler.md#start-configuration).
 */
import { type BatchFunction, type BatchOptions, problemOf as batchProblemOf } from "@stint/worker/BatchFunction"
import { fromFunction } from "@stint/worker/HandlerFunction"
import type { FunctionJob, FunctionOptions, HandlerFunction, JobContext } from "@stint/worker/HandlerFunction"
import { isRunnable } from "@stint/worker/Runnable"
import type { Runnable } from "@stint/worker/Runnable"
import { MAX_SETUP_MILLIS } from "@stint/worker/Setup"
import type { SetupContext } from "@stint/worker/Setup"
import { didYouMean } from "@stint/worker/Suggestion"

export type { SetupContext } from "@stint/worker/Setup"

/** The job that a handler receives: its `id`, the caller's `input`, and any other members that the platform sent. */
export type Job<Input = unknown> = FunctionJob<Input>

/** The second argument of a handler. Its `signal` aborts when the job is cancelled or times out. */
export type Context = JobContext

/**
 * A handler function: sync, async, generator or async generator. The type of the input is not checked at run time; `Handler.make` of
 * `@stint/worker` checks it with a Schema.
 */
export type Handler<Input = unknown> = HandlerFunction<Input>

/**
 * A `Handler` from `@stint/worker` that requires no further services. Described without Effect's types, so that the SDK installs without
 * Effect.
 */
export interface EffectHandler {
  readonly "~@stint/worker/Handler": "~@stint/worker/Handler"
  readonly name: string
  readonly "~services"?: () => never
}

/** Whether a value is a handler from `@stint/worker`. The type checker ensures that it requires no services. */
const isEffectHandler = (value: EffectHandler): value is EffectHandler & Runnable => isRunnable(value)

/** A handler that receives several jobs at once, for `batch`. It returns an array with one result for each job, in the same order. */
export type BatchHandler<Input = unknown> = BatchFunction<Input>

/** Converts a handler of any form. {@link problemOf} has checked it. */
export const runnableOf = <Input>(handler: Handler<Input> | EffectHandler, options: FunctionOptions): Runnable => {
  if (typeof handler === "function") return fromFunction(handler, options)
  if (isEffectHandler(handler)) return handler
  throw new TypeError(`serverless.start needs ${EXPECTED.handler.type} under "handler".`)
}

/** The argument of `serverless.start` (docs/spec/handler.md#start-configuration). */
export type StartConfig<Input> = SingleStart<Input> | BatchStart<Input>

interface SingleStart<Input> extends StartOptions<Input> {
  /** Runs once per job. A function, or a `Handler` from `@stint/worker` that requires no further services. */
  readonly handler: Handler<Input> | EffectHandler
  readonly batch?: undefined
}

interface BatchStart<Input> extends StartOptions<Input> {
  /** Runs once per batch (docs/spec/handler.md#several-jobs-at-once). */
  readonly handler: BatchHandler<Input>
  /**
   * Collects up to `max` jobs for one call; the first one waits up to `wait` milliseconds for the others (default 0). The worker takes up to
   * `max` jobs at once.
   */
  readonly batch: BatchOptions
}

interface StartOptions<Input> {
  /**
   * Runs once before the worker takes its first job, for example to load a model. If it throws, exceeds `setup_timeout` or returns a promise that
   * rejects, the worker reports the reason to the platform and exits with code 1, and the waiting jobs show the reason. Also runs in local test
   * mode.
   */
  readonly setup?: (context: SetupContext) => unknown
  /** How long `setup` may take, in milliseconds. The variable `PLATFORM_SETUP_TIMEOUT` overrides it. Default: 420000 (7 minutes). */
  readonly setup_timeout?: number
  /**
   * Collects the chunks of a generator as the job's output, so that `/runsync` and `/status` return them. Default: false, which means that
   * only `/stream` returns them. True holds all chunks in memory. Ignored for a `Handler` from `@stint/worker`, which has its own option.
   */
  readonly return_aggregate_stream?: boolean
  /**
   * Returns the number of jobs that this worker may run at once, given the current number. The worker calls it before each take. A change
   * takes effect once no job is running, which the worker checks once a second. Default: always 1.
   */
  readonly concurrency_modifier?: (current: number) => number
  /**
   * Ends the worker after each job, so that the next job runs on a fresh worker. The clean state costs a cold start for each job. Default:
   * false.
   */
  readonly refresh_worker?: boolean
  /** Local test mode only: returns the jobs, instead of `test_input.json`. On a platform the worker ignores it with a WARN line. */
  readonly jobs_fetcher?: (jobs_needed: number) => unknown
  /** Local test mode only: runs the jobs, instead of `handler`. On a platform the worker ignores it with a WARN line. */
  readonly jobs_handler?: Handler<Input>
}

const KEYS = [
  "handler",
  "batch",
  "setup",
  "setup_timeout",
  "return_aggregate_stream",
  "concurrency_modifier",
  "refresh_worker",
  "jobs_fetcher",
  "jobs_handler"
] as const satisfies ReadonlyArray<keyof StartConfig<unknown>>

/** How a message shows an invalid value: its type, or the number that is out of bounds. */
const shown = (key: (typeof KEYS)[number], value: unknown): string =>
  value === null ? "null" : key === "setup_timeout" && typeof value === "number" ? String(value) : typeof value

const isOfType = (type: "function" | "boolean") => (value: unknown) => typeof value === type

const EXPECTED: {
  readonly [Key in (typeof KEYS)[number]]: { readonly type: string; readonly matches: (value: unknown) => boolean }
} = {
  handler: {
    type: "a function or a Handler from @stint/worker",
    matches: (value) => typeof value === "function" || isRunnable(value)
  },
  batch: { type: "{ max, wait }", matches: (value) => typeof value === "object" && value !== null },
  setup: { type: "a function", matches: isOfType("function") },
  setup_timeout: {
    type: `a number of milliseconds from 1 to ${MAX_SETUP_MILLIS}`,
    matches: (value) => typeof value === "number" && value >= 1 && value <= MAX_SETUP_MILLIS
  },
  return_aggregate_stream: { type: "true or false", matches: isOfType("boolean") },
  concurrency_modifier: { type: "a function from the current concurrency to the new one", matches: isOfType("function") },
  refresh_worker: { type: "true or false", matches: isOfType("boolean") },
  jobs_fetcher: { type: "a function that returns jobs", matches: isOfType("function") },
  jobs_handler: { type: "a function", matches: isOfType("function") }
}

/** The first error in the combination of `batch` with other keys. */
const problemOfBatch = (config: object): string | undefined => {
  const batch: unknown = Reflect.get(config, "batch")
  if (typeof batch !== "object" || batch === null) return undefined
  const unknown = Object.keys(batch).find((key) => key !== "max" && key !== "wait")
  if (unknown !== undefined) return `serverless.start does not know "batch.${unknown}". It knows batch.max and batch.wait.`
  const problem = batchProblemOf({ max: Reflect.get(batch, "max"), wait: Reflect.get(batch, "wait") })
  if (problem !== undefined) return `serverless.start: ${problem}`
  if (typeof Reflect.get(config, "handler") !== "function") {
    return "serverless.start needs a function under \"handler\" with batch. For a Handler from @stint/worker, use Handler.fromBatchFunction."
  }
  return Reflect.get(config, "return_aggregate_stream") === true
    ? "serverless.start does not support return_aggregate_stream with batch: a handler of several jobs returns an array and yields no chunks."
    : undefined
}

/**
 * The first error in a config, as one sentence; undefined for a valid config. JavaScript callers have no type checking, so misspelled keys
 * are errors.
 */
export const problemOf = (config: unknown): string | undefined => {
  if (typeof config !== "object" || config === null) {
    return "serverless.start needs an object with a handler: serverless.start({ handler: async (job) => ... })."
  }
  for (const key of Object.keys(config)) {
    if (!KEYS.some((known) => known === key)) {
      return `serverless.start does not know "${key}".${didYouMean(key, KEYS)} It knows ${KEYS.join(", ")}.`
    }
  }
  for (const key of KEYS) {
    const value: unknown = Reflect.get(config, key)
    const { matches, type } = EXPECTED[key]
    if (value === undefined && key !== "handler") continue
    if (!matches(value)) return `serverless.start needs ${type} under "${key}", not ${shown(key, value)}.`
  }
  if (Reflect.get(config, "setup_timeout") !== undefined && Reflect.get(config, "setup") === undefined) {
    return "serverless.start needs a function under \"setup\" with setup_timeout."
  }
  return problemOfBatch(config)
}
