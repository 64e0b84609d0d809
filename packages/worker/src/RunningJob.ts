/**
 * The job that plain code is running for: a function, or what it calls, however deep, finds its job without being handed it.
 *
 * Effect programs have `CurrentJob` and need none of this. What a handler function starts and does not wait for still belongs to its job;
 * code at module level, and callbacks that were registered there, belong to none.
 */
import * as Context from "effect/Context"
import { AsyncLocalStorage } from "node:async_hooks"

const storage = new AsyncLocalStorage<Context.Context<never>>()

/** Calls a function for the job whose fiber has this context. */
export const within = <A>(context: Context.Context<never>, evaluate: () => A): A => storage.run(context, evaluate)

/**
 * The context of the job that the caller runs for: its `CurrentJob`, its span, the services of its worker. Undefined: it runs for no job.
 */
export const context = (): Context.Context<never> | undefined => storage.getStore()

/** A service of the job that the caller runs for; undefined where there is no job, or no such service. */
export const service = <Id, Service>(tag: Context.Key<Id, Service>): Service | undefined => {
  const current = storage.getStore()
  return current === undefined ? undefined : Context.getOrUndefined(current, tag)
}
