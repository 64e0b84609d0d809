/**
 * The argument of `serverless.start`, and what can be wrong with it (docs/spec/handler.md#start-configuration).
 */
import type { FunctionJob, HandlerFunction, JobContext } from "@stint/worker/HandlerFunction"
import { isRunnable } from "@stint/worker/Runnable"
import type { Runnable } from "@stint/worker/Runnable"
import { didYouMean } from "@stint/worker/Suggestion"

/** A job as a handler gets it: its `id`, the caller's `input`, and whatever else the platform put there. */
export type Job<Input = unknown> = FunctionJob<Input>

/** What a handler gets beside its job: the signal that fires when the job is cancelled. */
export type Context = JobContext

/**
 * A handler as a function: sync, async, generator or async generator. What a caller may send is its author's word; `Handler.make`
 * of `@stint/worker` checks it with a Schema.
 */
export type Handler<Input = unknown> = HandlerFunction<Input>

/** The argument of `serverless.start` (docs/spec/handler.md#start-configuration). */
export interface StartConfig<Input> {
  /** Runs once per job: a function, or a `Handler` of `@stint/worker` that needs no more services. */
  readonly handler: Handler<Input> | Runnable
  /**
   * Collects what a generator yields, so that `/runsync` and `/status` show it, too. Default: false; then only the stream has it.
   * It costs the memory to hold all chunks. Ignored for a `Handler` of `@stint/worker`, which says so itself.
   */
  readonly return_aggregate_stream?: boolean
  /**
   * How many jobs this worker may run at once, given how many it may now. Asked before each take. A change waits until no job
   * runs, looked at once a second. Default: always 1.
   */
  readonly concurrency_modifier?: (current: number) => number
  /** Recycles the worker after each job, as if every result had `refresh_worker: true`. Default: false. */
  readonly refresh_worker?: boolean
  /** Local test mode only: gives the jobs, in place of `test_input.json`. Elsewhere ignored, with a line in the log. */
  readonly jobs_fetcher?: (jobs_needed: number) => unknown
  /** Local test mode only: runs the jobs, in place of `handler`. Elsewhere ignored, with a line in the log. */
  readonly jobs_handler?: Handler<Input>
}

const KEYS = [
  "handler",
  "return_aggregate_stream",
  "concurrency_modifier",
  "refresh_worker",
  "jobs_fetcher",
  "jobs_handler"
] as const satisfies ReadonlyArray<keyof StartConfig<unknown>>

const isOfType = (type: "function" | "boolean") => (value: unknown) => typeof value === type

const EXPECTED: {
  readonly [Key in (typeof KEYS)[number]]: { readonly what: string; readonly fits: (value: unknown) => boolean }
} = {
  handler: {
    what: "a function or a Handler of @stint/worker",
    fits: (value) => typeof value === "function" || isRunnable(value)
  },
  return_aggregate_stream: { what: "true or false", fits: isOfType("boolean") },
  concurrency_modifier: { what: "a function from the current concurrency to the wanted one", fits: isOfType("function") },
  refresh_worker: { what: "true or false", fits: isOfType("boolean") },
  jobs_fetcher: { what: "a function that returns jobs", fits: isOfType("function") },
  jobs_handler: { what: "a function", fits: isOfType("function") }
}

/**
 * What is wrong with a config, in one sentence; undefined when it is fine. For callers that TypeScript does not check, and for
 * the misspelt optional key that it would have found.
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
    const { fits, what } = EXPECTED[key]
    if (value === undefined && key !== "handler") continue
    if (!fits(value)) return `serverless.start needs ${what} under "${key}", not ${value === null ? "null" : typeof value}.`
  }
  return undefined
}
