/**
 * The current job for code that does not use Effect: a function at any call depth can access its job without receiving it as an argument.
 *
 * Effect programs use `CurrentJob` instead. Work that a handler function starts without awaiting it still belongs to its job; code at module
 * level, and callbacks registered there, belong to no job.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { AsyncLocalStorage } from "node:async_hooks"
import { ActiveSpan } from "../runtime/Spans.ts"

/** One run of a handler function. */
export interface Running {
  /** The context of the job's fiber: its `CurrentJob`, its span and the worker's services. */
  readonly context: Context.Context<never>
  /** Aborted when the job is stopped. Created on first access. */
  readonly signal: AbortSignal
  /** Called when the job fails: the worker then stops the function without waiting for the function to end. */
  readonly abandon: () => void
}

const storage = new AsyncLocalStorage<Running>()

/** Calls a function in the context of a job. */
export const within = <A>(running: Running, evaluate: () => A): A => storage.run(running, evaluate)

/** The run that the caller belongs to; undefined outside jobs. */
export const current = (): Running | undefined => storage.getStore()

/** A service of the caller's job, or undefined when there is no job or no such service. */
export const service = <Id, Service>(tag: Context.Key<Id, Service>): Service | undefined => {
  const running = storage.getStore()
  return running === undefined ? undefined : Context.getOrUndefined(running.context, tag)
}

/**
 * Runs an effect as part of the caller's job, with the job's services, log and span. The effect is interrupted when the job is stopped.
 * Outside a job, the effect runs without these.
 */
export const runPromise = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => {
  const running = storage.getStore()
  if (running === undefined) return Effect.runPromise(effect)
  const span = Context.get(running.context, ActiveSpan)?.()
  const context = span === undefined ? running.context : Context.add(running.context, Tracer.ParentSpan, span)
  return Effect.runPromiseWith(context)(effect, { signal: running.signal })
}
