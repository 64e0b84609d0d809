/**
 * Times every call of a handler's function (docs/spec/debugger.md#timers).
 *
 * ```
 *   function          from the call until it returns or throws
 *   async function    from the call until its promise is settled
 *   generator         from the first step until its end, including the time that the consumer spends between steps
 * ```
 */
import * as RunningJob from "@stint/worker/RunningJob"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Timing from "./Timing.ts"

type AnyFunction = (...args: never) => unknown

/** A timed call. */
interface Timed {
  /** Runs a part of the call inside the timing. */
  readonly run: <A>(evaluate: () => A) => A
  readonly end: (exit: Exit.Exit<unknown, unknown>) => void
}

/** Starts the timing of a call. Undefined outside a job, and without a debugger or tracer. */
const begin = (name: string): Timed | undefined => {
  const running = RunningJob.current()
  const timing = running === undefined ? undefined : Timing.begin(running.context, name)
  if (running === undefined || timing === undefined) return undefined
  const inside: RunningJob.Running = {
    context: Context.merge(running.context, timing.services),
    get signal() {
      return running.signal
    },
    abandon: running.abandon
  }
  return { run: (evaluate) => RunningJob.within(inside, evaluate), end: timing.end }
}

/**
 * Runs one step of a call. `isLast` returns whether its (resolved) value ends the call.
 *
 * Only real promises are awaited: other objects with a `then`, such as queries of some databases, start their work when it is called. The
 * caller gets the derived promise, so that an unhandled rejection is still reported.
 */
const step = (timed: Timed, evaluate: () => unknown, isLast: (value: unknown) => boolean): unknown => {
  const settle = (value: unknown): unknown => {
    if (isLast(value)) timed.end(Exit.void)
    return value
  }
  const fail = (thrown: unknown): never => {
    timed.end(Exit.die(thrown))
    throw thrown
  }
  let value: unknown
  try {
    value = timed.run(evaluate)
  } catch (thrown) {
    return fail(thrown)
  }
  return value instanceof Promise ? value.then(settle, fail) : settle(value)
}

const always = () => true
const isDone = (result: unknown): boolean => !Predicate.isObject(result) || result["done"] === true

/** Wraps a generator so that its steps are timed. */
const timedGenerator = (name: string, generator: object): object => {
  let timed: Timed | undefined
  let started = false
  const methods = new Map<PropertyKey, unknown>()
  for (const key of ["next", "return", "throw"]) {
    const method: unknown = Reflect.get(generator, key)
    if (typeof method !== "function") continue
    methods.set(key, (...args: ReadonlyArray<unknown>): unknown => {
      // A generator that ends before its first step never runs, so only `next` starts the timing.
      if (!started && key === "next") {
        started = true
        timed = begin(name)
      }
      const evaluate = (): unknown => Reflect.apply(method, generator, args)
      return timed === undefined ? evaluate() : step(timed, evaluate, isDone)
    })
  }
  return new Proxy(generator, { get: (target, key) => methods.get(key) ?? Reflect.get(target, key) })
}

const GENERATORS: ReadonlyArray<unknown> = ["GeneratorFunction", "AsyncGeneratorFunction"]

const wrap = <F extends AnyFunction>(name: string, fn: F): F => {
  const isGenerator = GENERATORS.includes(Reflect.get(fn, Symbol.toStringTag))
  return new Proxy(fn, {
    apply: (target, self, args): unknown => {
      const evaluate = (): unknown => Reflect.apply(target, self, args)
      if (isGenerator) {
        const generator = evaluate()
        return Predicate.isObject(generator) ? timedGenerator(name, generator) : generator
      }
      const timed = begin(name)
      return timed === undefined ? evaluate() : step(timed, evaluate, always)
    }
  })
}

/**
 * Wraps a function so that each call in a job is timed, under the function's name or the given name. The type stays the same.
 *
 * Outside a job, and without a debugger or tracer, a call costs one lookup of the running job.
 *
 * @example
 * ```ts
 * const resize = FunctionTimer(async function resize(photo: Photo, width: number) { ... })
 * const decode = FunctionTimer("decode", (bytes: Uint8Array) => codec.decode(bytes))
 * ```
 */
export function FunctionTimer<F extends AnyFunction>(fn: F): F
export function FunctionTimer<F extends AnyFunction>(name: string, fn: F): F
export function FunctionTimer<F extends AnyFunction>(first: string | F, second?: F): F {
  if (typeof first !== "string") return wrap(first.name === "" ? "(anonymous)" : first.name, first)
  if (second === undefined) {
    throw new TypeError(`FunctionTimer(${JSON.stringify(first)}) needs a function as its second argument.`)
  }
  return wrap(first, second)
}
