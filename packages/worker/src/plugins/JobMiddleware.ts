/**
 * What runs around every handler: validation, timers, spans. A plugin's way into the job's path.
 *
 * ```
 *   take -> [ first added ( second added ( handler ) ) ] -> deliver
 * ```
 *
 * A plugin adds its middleware while its layer is built; the worker's own layer is built after the layers that are provided to
 * it, so nothing is missed.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type { Outcome } from "../handlers/Outcome.ts"
import { PluginCode } from "../runtime/Spans.ts"

/** What a middleware surrounds: the rest of the way to the handler, and the handler. */
export type Next<E, R> = (job: ReceivedJob) => Effect.Effect<Outcome, E, R>

/**
 * Wraps the run of one job. It may pass another job on (with a checked input, say), change the outcome, replace it, or not run the
 * handler at all.
 *
 * The job that it passes on is the one that the handler gets, as its argument and as `CurrentJob`.
 */
export type Middleware = <E, R>(next: Next<E, R>, job: ReceivedJob) => Effect.Effect<Outcome, E, R>

/** All middleware of this worker. */
export class JobMiddleware extends Context.Service<JobMiddleware, {
  /** Adds one, inside of those that were added before. */
  readonly add: (middleware: Middleware) => Effect.Effect<void>
  /** Puts all of them around the run of a job. */
  readonly wrap: Middleware
}>()("@stint/worker/JobMiddleware") {}

/** An empty list that plugins add to. */
export const layer: Layer.Layer<JobMiddleware> = Layer.sync(JobMiddleware, () => {
  const all: Array<Middleware> = []
  return {
    add: (middleware) =>
      Effect.sync(() => {
        all.push((next, job) => Effect.provideService(middleware(next, job), PluginCode, true))
      }),
    wrap: (next, job) => all.reduceRight((inner, middleware) => (passed: ReceivedJob) => middleware(inner, passed), next)(job)
  }
})

/** A layer that adds one middleware: what a plugin merges into its own layer. */
export const layerOf = (middleware: Middleware): Layer.Layer<never, never, JobMiddleware> =>
  Layer.effectDiscard(Effect.flatMap(JobMiddleware, ({ add }) => add(middleware)))
