/**
 * The job that plain code is running for: a function, or what it calls, however deep, finds its job without being handed it.
 *
 * Effect programs have `CurrentJob` and need none of this. What a handler function starts and does not wait for still belongs to its job;
 * code at module level, and callbacks that were registered there, belong to none.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { AsyncLocalStorage } from "node:async_hooks"
import { ActiveSpan } from "../runtime/Spans.ts"

/** One run of a handler function. */
export interface Running {
  /** The context of the job's fiber: its `CurrentJob`, its span, the services of its worker. */
  readonly context: Context.Context<never>
  /** Fires when the job is stopped. Made when it is first looked at. */
  readonly signal: AbortSignal
}

const storage = new AsyncLocalStorage<Running>()

/** Calls a function for a job. */
export const within = <A>(running: Running, evaluate: () => A): A => storage.run(running, evaluate)

/** The run that the caller belongs to; undefined: none. */
export const current = (): Running | undefined => storage.getStore()

/** A service of the job that the caller runs for; undefined where there is no job, or no such service. */
export const service = <Id, Service>(tag: Context.Key<Id, Service>): Service | undefined => {
  const running = storage.getStore()
  return running === undefined ? undefined : Context.getOrUndefined(running.context, tag)
}

/**
 * Runs an effect for the job that the caller runs for, as a part of it: with its services, its log and its span, and interrupted when
 * the job is stopped. For no job where there is none.
 */
export const runPromise = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => {
  const running = storage.getStore()
  if (running === undefined) return Effect.runPromise(effect)
  const span = Context.get(running.context, ActiveSpan)?.()
  const context = span === undefined ? running.context : Context.add(running.context, Tracer.ParentSpan, span)
  return Effect.runPromiseWith(context)(effect, { signal: running.signal })
}
