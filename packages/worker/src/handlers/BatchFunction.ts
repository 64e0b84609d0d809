/**
 * Makes a handler from a function that runs several jobs at once (docs/spec/handler.md#several-jobs-at-once), for example a model that processes
 * eight inputs in the time that one takes.
 *
 * ```
 *   job --+                               full, or `wait` is over
 *   job --+--> [ pending, up to `max` ] -------------------------> fn(jobs) --> one result for each job
 *   job --+      while another batch runs, jobs collect here          `-- throws: each job alone, so that only the bad one fails
 * ```
 *
 * One batch runs at a time. Middleware runs around each job before it is collected, so a job with invalid input fails alone and delays no
 * other.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ReceivedJob } from "./CurrentJob.ts"
import type { FunctionJob, JobContext } from "./HandlerFunction.ts"
import * as Outcome from "./Outcome.ts"
import { TypeId } from "./Runnable.ts"
import type { Runnable } from "./Runnable.ts"
import { messageOf } from "./ThrownValue.ts"

/** How jobs are collected. */
export interface BatchOptions {
  /** The maximum number of jobs in one call. The worker takes up to this many jobs at once. */
  readonly max: number
  /**
   * How long the first job waits for others, in milliseconds. A longer wait fills batches but delays single jobs. Default: 0, which collects
   * only the jobs that the worker takes together, or that arrive while another batch runs.
   */
  readonly wait?: number
}

/**
 * A function that handles several jobs. It returns an array, or a promise of an array, with one result for each job in the same order. A
 * result that is an `Error` fails its job.
 */
export type BatchFunction<Input = unknown> = {
  run(jobs: ReadonlyArray<FunctionJob<Input>>, context: JobContext): unknown
}["run"]

/** The limits for `max` and `wait`. A take returns at most 1,000 jobs. */
const MAX_BATCH = 1_000
const MAX_WAIT = 60_000

/** The error in the options; undefined for valid options. */
export const problemOf = ({ max, wait = 0 }: { readonly max: unknown; readonly wait?: unknown }): string | undefined => {
  if (typeof max !== "number" || !Number.isInteger(max) || max < 1 || max > MAX_BATCH) {
    return `batch.max must be a whole number from 1 to ${MAX_BATCH}, not ${String(max)}.`
  }
  return typeof wait === "number" && wait >= 0 && wait <= MAX_WAIT
    ? undefined
    : `batch.wait must be a number of milliseconds from 0 to ${MAX_WAIT}, not ${String(wait)}.`
}

/** How long the worker waits for a function whose jobs were all stopped, before it starts the next batch. Milliseconds. */
const STOP_TIMEOUT = 2_000

/** A job that is waiting for its batch or running in it. */
interface Item {
  readonly job: FunctionJob
  /** The context of the job's fiber. */
  readonly context: Context.Context<never>
  readonly resume: (outcome: Effect.Effect<Outcome.Outcome>) => void
  /** The job has its outcome or was stopped, so nothing waits for its result. */
  isDone: boolean
}

/** One call of the function. */
interface Call {
  readonly items: ReadonlyArray<Item>
  readonly controller: AbortController
  /** Calls that are no longer awaited change nothing when they end. */
  abandoned: boolean
}

const describe = (value: unknown): string =>
  Array.isArray(value) ? `an array of ${value.length}` : value === null ? "null" : typeof value

/** The outcome of one job. */
const outcomeOf = (result: unknown): Effect.Effect<Outcome.Outcome> =>
  result instanceof Error ? Effect.die(result) : Effect.sync(() => Outcome.fromReturned(result))

/** Collects the jobs of a worker into batches. */
const makeCollector = (fn: BatchFunction, { max, wait = 0 }: BatchOptions) => {
  const pending: Array<Item> = []
  let running: Call | undefined
  /** Runs from the arrival of the first pending job until the end of its wait. */
  let timer: Fiber.Fiber<void> | undefined
  /** Whether the first pending job has waited long enough. */
  let due = false

  const startWhenDue = () => {
    if (running !== undefined || pending.length === 0 || (!due && pending.length < max)) return
    const items = pending.splice(0, max)
    stopTimer()
    // The other jobs arrived during the previous call.
    due = pending.length > 0
    void run(items)
  }

  const startTimer = ({ context }: Item) => {
    timer = Effect.runForkWith(context)(
      // Without a wait, the jobs that are started in this turn of the event loop are collected.
      Effect.andThen(
        wait === 0 ? Effect.yieldNow : Effect.sleep(wait),
        Effect.sync(() => {
          timer = undefined
          due = true
          startWhenDue()
        })
      )
    )
  }

  const stopTimer = () => {
    if (timer !== undefined) Effect.runFork(Fiber.interrupt(timer))
    timer = undefined
    due = false
  }

  const ended = (call: Call) => {
    if (running === call) running = undefined
    startWhenDue()
  }

  /** Calls the function and hands out its results. Rejects when the function throws. */
  const attempt = async (call: Call, items: ReadonlyArray<Item>): Promise<void> => {
    const results = await fn(items.map(({ job }) => job), { signal: call.controller.signal })
    if (call.abandoned) return
    const valid = Array.isArray(results) && results.length === items.length
    const invalid = () =>
      Effect.die(
        new TypeError(
          `The handler returned ${
            describe(results)
          } for a batch of ${items.length}. Return an array with one result for each job, in the same order.`
        )
      )
    for (const [index, item] of items.entries()) item.resume(valid ? outcomeOf(results[index]) : invalid())
  }

  const run = async (items: ReadonlyArray<Item>) => {
    const call: Call = { items, controller: new AbortController(), abandoned: false }
    running = call
    try {
      await attempt(call, items)
    } catch (thrown) {
      if (items.length === 1) items[0]?.resume(Effect.die(thrown))
      else await runAlone(call, thrown)
    }
    ended(call)
  }

  /** One job made the whole batch fail. Runs each job alone, so that only this job fails. */
  const runAlone = async (call: Call, thrown: unknown) => {
    const [first] = call.items
    if (first !== undefined) {
      Effect.runForkWith(first.context)(
        Effect.logWarning(
          `The handler threw ${
            messageOf(thrown)
          } for a batch of ${call.items.length}. Each job runs alone now, so that only the bad one fails.`
        )
      )
    }
    for (const item of call.items) {
      if (call.abandoned) return
      if (item.isDone) continue
      try {
        await attempt(call, [item])
      } catch (own) {
        item.resume(Effect.die(own))
      }
    }
  }

  /**
   * Aborts the function's signal when nothing waits for its results. JavaScript cannot end a running function, so the next batch starts after a
   * timeout.
   */
  const stopCall = (call: Call) => {
    call.controller.abort(new DOMException("The jobs were stopped.", "AbortError"))
    const [first] = call.items
    if (first === undefined) return
    Effect.runForkWith(first.context)(
      Effect.andThen(
        Effect.sleep(STOP_TIMEOUT),
        Effect.suspend(() => {
          if (running !== call) return Effect.void
          call.abandoned = true
          ended(call)
          return Effect.logWarning(
            `The handler did not end within ${STOP_TIMEOUT} ms after all jobs of its batch were stopped, so the worker starts the next batch. ` +
              "Pass the signal (second parameter of the handler) to the calls that it waits for."
          )
        })
      )
    )
  }

  return {
    add: (item: Item) => {
      pending.push(item)
      if (pending.length === 1) startTimer(item)
      startWhenDue()
    },
    stop: (item: Item) => {
      item.isDone = true
      const index = pending.indexOf(item)
      if (index !== -1) {
        pending.splice(index, 1)
        if (pending.length === 0) stopTimer()
      } else if (running?.items.includes(item) === true && running.items.every(({ isDone }) => isDone)) stopCall(running)
    }
  }
}

/**
 * Makes a handler from a function that receives several jobs at once. The result rules (docs/spec/handler.md#returned-values) apply to each
 * element of the returned array.
 *
 * When the function throws, no job in the batch has a result. It is then called again for each job alone, so that only the jobs for which it throws
 * again fail. The function may therefore receive a job twice.
 *
 * @throws TypeError when `max` or `wait` is out of range
 *
 * @example
 * ```ts
 * const Embed = Handler.fromBatchFunction(
 *   async (jobs: ReadonlyArray<{ input: { text: string } }>) => model.embed(jobs.map((job) => job.input.text)),
 *   { max: 32, wait: 20 }
 * )
 * ```
 */
export const fromBatchFunction = <Input>(
  fn: BatchFunction<Input>,
  options: BatchOptions & { readonly name?: string }
): Runnable => {
  const problem = problemOf(options)
  if (problem !== undefined) throw new TypeError(problem)
  const handler: BatchFunction = fn
  const collector = makeCollector(handler, options)
  return {
    [TypeId]: TypeId,
    name: options.name ?? (fn.name === "" ? "handler" : fn.name),
    concurrency: options.max,
    batch: { max: options.max, wait: options.wait ?? 0 },
    run: (job: ReceivedJob) =>
      Effect.contextWith((context: Context.Context<never>) =>
        Effect.callback<Outcome.Outcome>((resume) => {
          const item: Item = {
            job: { ...job },
            context,
            resume: (outcome) => {
              item.isDone = true
              resume(outcome)
            },
            isDone: false
          }
          collector.add(item)
          return Effect.sync(() => collector.stop(item))
        })
      )
  }
}
