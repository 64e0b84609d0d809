/**
 * Handlers that are plain functions (docs/spec/handler.md#generators, docs/spec/handler.md#start-configuration): sync, async, generator and async
 * generator.
 *
 * ```
 *   fn(job, { signal }) --> value                 the result
 *                       --> promise of any of these
 *                       --> iterator              next() -> send -> next() -> send -> ... -> end
 * ```
 *
 * Stopping a job fires the signal and, for a generator, calls its `return()`, so that its `finally` runs. Then it is given 2 s to
 * end; nothing in JavaScript can end a function from outside, so one that goes on is left behind with a WARN, and its result is
 * thrown away. A synchronous function cannot be stopped at all (docs/spec/worker-lifecycle.md#cancelled-jobs).
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { DeliveryError } from "../transport/ResultDelivery.ts"
import type { ReceivedJob } from "./CurrentJob.ts"
import * as Outcome from "./Outcome.ts"
import { TypeId } from "./Runnable.ts"
import type { Emit, Runnable } from "./Runnable.ts"
import * as RunningJob from "./RunningJob.ts"

/** A job as a function gets it (docs/spec/handler.md#the-job), with whatever else the platform put there. */
export interface FunctionJob<Input = unknown> {
  readonly id: string
  /** Exactly what the caller sent under `input`. Nothing checks that it is an `Input`; `Handler.make` does. */
  readonly input: Input
  readonly [key: string]: unknown
}

/** What a function gets beside its job. */
export interface JobContext {
  /** Fires when the job is cancelled or the worker's time is over. Pass it on to whatever takes long. */
  readonly signal: AbortSignal
}

/**
 * A function that handles jobs. It may return a value, a promise or an iterator.
 *
 * Written as a method so that a function for a narrower input is accepted: its author says what callers send, and is believed.
 */
export type HandlerFunction<Input = unknown> = {
  run(job: FunctionJob<Input>, context: JobContext): unknown
}["run"]

/** What a function cannot say about itself. */
export interface FunctionOptions {
  /** For logs and spans. Default: the function's own name. */
  readonly name?: string
  /**
   * Makes the chunks of a generator the job's `output`, too (docs/spec/handler.md#generators). Default: false; it costs the memory to hold
   * them.
   */
  readonly returnAggregateStream?: boolean
}

/** How long a stopped function is waited for. Milliseconds. Longer holds the place of the next job for one that may never end. */
export const STOP_TIMEOUT = 2_000

/** Makes the signal only when somebody looks at it: most handlers never do. */
class LazyJobContext implements JobContext, RunningJob.Running {
  readonly context: Context.Context<never>
  #controller: AbortController | undefined
  #stopped = false

  constructor(context: Context.Context<never>) {
    this.context = context
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#stopped) this.#controller.abort()
    }
    return this.#controller.signal
  }

  stop(): void {
    this.#stopped = true
    this.#controller?.abort(new DOMException("The job was stopped.", "AbortError"))
  }
}

type AnyIterator = Iterator<unknown, unknown> | AsyncIterator<unknown, unknown>

const isFunction = (value: unknown): value is (...args: ReadonlyArray<unknown>) => unknown => typeof value === "function"

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  Predicate.hasProperty(value, "then") && isFunction(value.then)

const isIterator = (value: unknown): value is AnyIterator => Predicate.hasProperty(value, "next") && isFunction(value.next)

/** The iterator of a generator, or of anything that is iterated asynchronously. Arrays, strings and maps are values. */
const iteratorOf = (value: unknown): AnyIterator | undefined => {
  const iterate = Predicate.hasProperty(value, Symbol.asyncIterator) ? value[Symbol.asyncIterator] : undefined
  if (isFunction(iterate)) {
    const iterator = iterate.call(value)
    return isIterator(iterator) ? iterator : undefined
  }
  return isIterator(value) && Symbol.iterator in value ? value : undefined
}

/** Waits until the promise is settled either way, but not longer than the limit. True: it is settled. */
const settledInTime = (promise: PromiseLike<unknown>): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    const timer = setTimeout(() => resume(Effect.succeed(false)), STOP_TIMEOUT)
    const settled = () => {
      clearTimeout(timer)
      resume(Effect.succeed(true))
    }
    promise.then(settled, settled)
    return Effect.sync(() => clearTimeout(timer))
  })

const warnAbandoned = Effect.logWarning(
  `The handler did not end within ${STOP_TIMEOUT} ms of being stopped and is left behind; what it still returns is thrown ` +
    "away. Pass the signal (second parameter of the handler) to whatever it waits for."
)

/**
 * Calls the handler's code and waits for the promise that it may give back. What is thrown, or rejected with, is an exception of
 * the handler. Interrupting stops the function and waits for its end.
 *
 * Calling and waiting are one step: were the fiber interrupted between two, nobody would look after the promise, and its
 * rejection would end the process.
 */
const callAndSettle = (evaluate: () => unknown, context: LazyJobContext): Effect.Effect<unknown> =>
  Effect.callback((resume) => {
    let value: unknown
    try {
      value = RunningJob.within(context, evaluate)
    } catch (thrown) {
      return resume(Effect.die(thrown))
    }
    if (!isPromise(value)) return resume(Effect.succeed(value))
    const promise = value
    promise.then(
      (settled) => resume(Effect.succeed(settled)),
      (thrown: unknown) => resume(Effect.die(thrown))
    )
    return Effect.suspend(() => {
      context.stop()
      return Effect.flatMap(settledInTime(promise), (settled) => settled ? Effect.void : warnAbandoned)
    })
  })

/** Ends a generator before its end: its `finally` blocks run. What they throw is of no use to anybody any more. */
const close = (iterator: AnyIterator, context: LazyJobContext): Effect.Effect<void> =>
  Effect.suspend(() => {
    context.stop()
    let returned: unknown
    try {
      returned = RunningJob.within(context, () => iterator.return?.())
    } catch {
      return Effect.void
    }
    return isPromise(returned)
      ? Effect.flatMap(settledInTime(returned), (settled) => settled ? Effect.void : warnAbandoned)
      : Effect.void
  })

const consume = (
  iterator: AnyIterator,
  context: LazyJobContext,
  emit: Emit,
  collect: boolean
): Effect.Effect<Outcome.Outcome, DeliveryError> => {
  let finished = false
  const chunks: Array<unknown> = []
  const all = Effect.gen(function*() {
    while (true) {
      const result = yield* callAndSettle(() => iterator.next(), context)
      if (!Predicate.isObject(result)) {
        return yield* Effect.die(new TypeError("The handler's iterator returned no iterator result."))
      }
      if (result["done"] === true) {
        finished = true
        return Outcome.fromStream(chunks, result["value"])
      }
      const failure = Outcome.fromChunk(result["value"])
      if (failure !== undefined) return failure
      if (collect) chunks.push(result["value"])
      yield* emit(result["value"])
    }
  })
  return Effect.ensuring(all, Effect.suspend(() => finished ? Effect.void : close(iterator, context)))
}

/**
 * A handler out of a function.
 *
 * The function gets the job, and an `AbortSignal` in its second parameter. The result rules (docs/spec/handler.md#returned-values) apply to what it
 * returns, or to each chunk that it yields; what it throws is reported as an exception (docs/spec/handler.md#exceptions).
 */
export const fromFunction = <Input>(fn: HandlerFunction<Input>, options: FunctionOptions = {}): Runnable => {
  const { returnAggregateStream = false } = options
  const handler: HandlerFunction = fn
  const finish = (
    value: unknown,
    context: LazyJobContext,
    emit: Emit | undefined
  ): Effect.Effect<Outcome.Outcome, DeliveryError> => {
    const iterator = iteratorOf(value)
    if (iterator === undefined) return Effect.sync(() => Outcome.fromReturned(value))
    return emit === undefined
      ? Effect.as(close(iterator, context), Outcome.UNCONSUMED)
      : consume(iterator, context, emit, returnAggregateStream)
  }
  return {
    [TypeId]: TypeId,
    name: options.name ?? (fn.name === "" ? "handler" : fn.name),
    run: (job: ReceivedJob, emit) =>
      Effect.contextWith((fiber: Context.Context<never>) => {
        const context = new LazyJobContext(fiber)
        return Effect.flatMap(callAndSettle(() => handler(job, context), context), (value) => finish(value, context, emit))
      })
  }
}
