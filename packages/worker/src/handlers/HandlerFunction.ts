/**
 * Makes handlers from plain functions (docs/spec/handler.md#generators, docs/spec/handler.md#start-configuration): sync, async, generator
 * and async generator.
 *
 * ```
 *   fn(job, { signal }) --> value                 the result
 *                       --> promise of any of these
 *                       --> iterator              next() -> send -> next() -> send -> ... -> end
 *                                                   ^            `-- refused: throw() at the `yield` of the chunk
 * ```
 *
 * Stopping a job aborts the signal and, for a generator, calls its `return()`, so that its `finally` runs. The worker then waits 2 s for
 * the function to end. JavaScript cannot end a function from outside, so after 2 s the worker logs a WARN, stops waiting and discards the
 * function's result. A synchronous function cannot be stopped at all (docs/spec/worker-lifecycle.md#cancelled-jobs).
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

/** The job that a function receives (docs/spec/handler.md#the-job), with any further fields that the platform sent. */
export interface FunctionJob<Input = unknown> {
  readonly id: string
  /** The caller's `input`, unchanged. Not validated against `Input`; `Handler.make` validates. */
  readonly input: Input
  readonly [key: string]: unknown
}

/** The second argument of a handler function. */
export interface JobContext {
  /** Aborted when the job is cancelled or the worker's shutdown grace ends. Pass it to long-running calls. */
  readonly signal: AbortSignal
}

/**
 * A function that handles jobs. It may return a value, a promise or an iterator.
 *
 * Declared as a method, so that TypeScript accepts a function with a narrower input type. The worker does not check the input against that
 * type.
 */
export type HandlerFunction<Input = unknown> = {
  run(job: FunctionJob<Input>, context: JobContext): unknown
}["run"]

/** Options for a handler function. */
export interface FunctionOptions {
  /** The name in logs and spans. Default: the function's name. */
  readonly name?: string
  /**
   * Also collects a generator's chunks into the job's `output` (docs/spec/handler.md#generators). Default: false, because it holds all
   * chunks in memory.
   */
  readonly returnAggregateStream?: boolean
}

/**
 * How long the worker waits for a stopped function. Milliseconds. A longer wait blocks a slot that the next job could use, for a function
 * that may never end.
 */
const STOP_TIMEOUT = 2_000

/** Creates the signal on first access: most handlers never read it. */
class LazyJobContext implements JobContext, RunningJob.Running {
  readonly context: Context.Context<never>
  #controller: AbortController | undefined
  #stopped = false
  #abandoned = false

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

  /** Whether the worker waits for a stopped function to end. */
  get awaitsEnd(): boolean {
    return !this.#abandoned
  }

  // A property, because the debugger copies it into nested runs.
  readonly abandon = (): void => {
    this.#abandoned = true
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

/** The iterator of a generator or of an async iterable. Arrays, strings and maps are plain values. */
const iteratorOf = (value: unknown): AnyIterator | undefined => {
  const iterate = Predicate.hasProperty(value, Symbol.asyncIterator) ? value[Symbol.asyncIterator] : undefined
  if (isFunction(iterate)) {
    const iterator = iterate.call(value)
    return isIterator(iterator) ? iterator : undefined
  }
  return isIterator(value) && Symbol.iterator in value ? value : undefined
}

/** Waits until the promise settles or the limit expires. Returns whether it settled. */
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

const warnNotEnded = Effect.logWarning(
  `The handler did not end within ${STOP_TIMEOUT} ms of being stopped. The worker no longer waits for it and discards its result. ` +
    "Pass the signal (second parameter of the handler) to the calls that it waits for."
)

/** Waits until a stopped function has ended. Logs a WARN when it does not end in time. */
const awaitEnd = (promise: PromiseLike<unknown>, context: LazyJobContext): Effect.Effect<void> =>
  context.awaitsEnd
    ? Effect.flatMap(settledInTime(promise), (settled) => settled ? Effect.void : warnNotEnded)
    : Effect.void

/**
 * Calls the handler's code and awaits the promise that it may return. A thrown error or a rejection is reported as an exception of the
 * handler. Interruption stops the function and waits for it to end.
 *
 * The call and the wait are one step: if the fiber were interrupted between them, the promise would have no rejection handler, and a
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
      return awaitEnd(promise, context)
    })
  })

/** Ends a generator early, so that its `finally` blocks run. Ignores the errors that they throw: the job has already ended. */
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
      ? Effect.flatMap(settledInTime(returned), (settled) => settled ? Effect.void : warnNotEnded)
      : Effect.void
  })

/** Thrown into a generator at the `yield` of a chunk that the platform refuses. */
class ChunkRefusedError extends Error {
  override readonly name = "ChunkRefusedError"
}

const consume = (
  iterator: AnyIterator,
  context: LazyJobContext,
  emit: Emit,
  collect: boolean
): Effect.Effect<Outcome.Outcome, DeliveryError> => {
  let finished = false
  const chunks: Array<unknown> = []
  /** Sends a chunk. A generator may catch the error of a refused chunk and continue; otherwise the error ends the job. */
  const send = (chunk: unknown): Effect.Effect<unknown, DeliveryError> =>
    Effect.matchEffect(emit(chunk), {
      onSuccess: () => {
        if (collect) chunks.push(chunk)
        return Effect.undefined
      },
      onFailure: (failure) => {
        if (failure._tag !== "BodyRejected" || iterator.throw === undefined) return Effect.fail(failure)
        const error = new ChunkRefusedError(failure.detail)
        return Effect.catchDefect(
          callAndSettle(() => iterator.throw?.(error), context),
          (thrown) => {
            finished = true
            return thrown === error ? Effect.fail(failure) : Effect.die(thrown)
          }
        )
      }
    })
  const all = Effect.gen(function*() {
    /** The result of `throw()`: if the generator continues, its next chunk or its end, as from `next()`. */
    let resumed: unknown
    while (true) {
      const result = resumed ?? (yield* callAndSettle(() => iterator.next(), context))
      if (!Predicate.isObject(result)) {
        return yield* Effect.die(new TypeError("The handler's iterator returned no iterator result."))
      }
      if (result["done"] === true) {
        finished = true
        return Outcome.fromStream(chunks, result["value"])
      }
      const failure = Outcome.fromChunk(result["value"])
      if (failure !== undefined) return failure
      resumed = yield* send(result["value"])
    }
  })
  return Effect.ensuring(all, Effect.suspend(() => finished ? Effect.void : close(iterator, context)))
}

/**
 * Makes a handler from a function.
 *
 * The function receives the job, and a context with an `AbortSignal`. The result rules (docs/spec/handler.md#returned-values) apply to its
 * return value, or to each chunk that it yields; an error that it throws is reported as an exception (docs/spec/handler.md#exceptions).
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
        // A copy, because the runtime delivers the result to the id in `job`, and the function may change its argument.
        const given = { ...job }
        return Effect.flatMap(callAndSettle(() => handler(given, context), context), (value) => finish(value, context, emit))
      })
  }
}
