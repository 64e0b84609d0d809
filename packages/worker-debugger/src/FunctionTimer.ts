/**
 * Times every call of a function of a handler (docs/spec/debugger.md#timers).
 *
 * ```
 *   function          from its call until it returns or throws
 *   async function    from its call until its promise is settled
 *   generator         from its first step until its end, the time included in which its reader did something else
 * ```
 */
import * as RunningJob from "@stint/worker/RunningJob"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Timing from "./Timing.ts"

type AnyFunction = (...args: never) => unknown

/** A call that is timed. */
interface Timed {
  /** Runs a piece of the call within the timing. */
  readonly run: <A>(evaluate: () => A) => A
  readonly end: (exit: Exit.Exit<unknown, unknown>) => void
}

/** Begins the timing of a call; undefined: it belongs to no job, or nobody wants to know. */
const begin = (name: string): Timed | undefined => {
  const running = RunningJob.current()
  const timing = running === undefined ? undefined : Timing.begin(running.context, name)
  if (running === undefined || timing === undefined) return undefined
  const inside: RunningJob.Running = {
    context: Context.merge(running.context, timing.services),
    get signal() {
      return running.signal
    }
  }
  return { run: (evaluate) => RunningJob.within(inside, evaluate), end: timing.end }
}

/**
 * Does one step of a call. `isLast` says whether what it gave back, or what its promise brought, is the end of the call.
 *
 * Of promises only real ones are waited for: other things with a `then`, such as queries of some databases, begin their work when
 * it is called. The promise that the caller gets is another one, so that a rejection that nobody handles is still seen.
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

/** A generator whose steps are timed: the same in every other regard. */
const timedGenerator = (name: string, generator: object): object => {
  let timed: Timed | undefined
  let begun = false
  const methods = new Map<PropertyKey, unknown>()
  for (const key of ["next", "return", "throw"]) {
    const method: unknown = Reflect.get(generator, key)
    if (typeof method !== "function") continue
    methods.set(key, (...args: ReadonlyArray<unknown>): unknown => {
      // A generator that is ended before its first step never runs.
      if (!begun && key === "next") {
        begun = true
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
  const generates = GENERATORS.includes(Reflect.get(fn, Symbol.toStringTag))
  return new Proxy(fn, {
    apply: (target, self, args): unknown => {
      const evaluate = (): unknown => Reflect.apply(target, self, args)
      if (generates) {
        const generator = evaluate()
        return Predicate.isObject(generator) ? timedGenerator(name, generator) : generator
      }
      const timed = begin(name)
      return timed === undefined ? evaluate() : step(timed, evaluate, always)
    }
  })
}

/**
 * A function like the given one, of the same type, whose every call for a job is timed: under its own name, or under the given one.
 *
 * Outside of a job, and where there is neither a debugger nor a tracer, a call costs one look at where it comes from.
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
  if (second === undefined) throw new TypeError(`FunctionTimer(${JSON.stringify(first)}) got no function to time.`)
  return wrap(first, second)
}
