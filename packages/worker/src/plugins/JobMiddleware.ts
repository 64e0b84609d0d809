/**
 * Middleware: code that runs around every handler, such as validation, progress and timers.
 *
 * ```
 *   Worker.layer(handler, { middleware: [first, second] })
 *
 *   take -> [ first ( second ( handler ) ) ] -> deliver
 * ```
 *
 * The order of the list applies, not the build order of layers: the first middleware is the outermost. A middleware may provide a service
 * to the jobs it wraps ({@link provides}). The types follow the list from the inside out, so a worker whose handler or inner
 * middleware needs such a service does not compile without the middleware, or with it in the wrong place.
 *
 * docs/decisions/0015-middleware-order.md explains why this is a list of values and not services that plugins register.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Types from "effect/Types"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type { Outcome } from "../handlers/Outcome.ts"
import { PluginCode } from "../runtime/Spans.ts"

const TypeId = "~@stint/worker/JobMiddleware"

/** Runs the code that a middleware wraps: the inner middleware, then the handler. */
export type Next<E, R> = (job: ReceivedJob) => Effect.Effect<Outcome, E, R>

/** The errors of the code that a middleware wraps. The type is opaque: a middleware can propagate such an error but cannot create one. */
interface NextError {
  readonly "~@stint/worker/JobMiddleware/NextError": never
}

/** The services that the wrapped code needs. The type is opaque, because a middleware does not provide them. */
interface NextServices {
  readonly "~@stint/worker/JobMiddleware/NextServices": never
}

/**
 * A middleware after its setup. The type of its {@link JobMiddleware} specifies the services that it provides and requires. Declared as a
 * method, because TypeScript then accepts a function whose `next` has the opaque types above.
 */
interface Wrapper {
  wrap(next: Next<unknown, unknown>, job: ReceivedJob): Effect.Effect<Outcome, unknown, unknown>
}

/** The types of a middleware, for {@link Apply}. Never called. */
interface Variance<in Provides, out Requires> {
  readonly provides: Types.Contravariant<Provides>
  readonly requires: Types.Covariant<Requires>
}

/**
 * One middleware.
 *
 * - `Provides`: services that it provides to each job.
 * - `Requires`: services that it needs for each job; an outer middleware may provide them.
 * - `Setup`: services that it needs once, when the worker starts.
 */
export interface JobMiddleware<in Provides = never, out Requires = never, out Setup = never> {
  readonly [TypeId]: Variance<Provides, Requires>
  /** Runs once per worker, in the order of the list. Its scope closes after the worker's last job. */
  readonly setup: Effect.Effect<Wrapper, never, Setup>
}

/** A middleware of any type. */
export type Any = JobMiddleware<never, unknown, unknown>

/**
 * The services that must still be provided to a job that requires `R` inside this list. For each middleware, from the last to the first,
 * the services that it provides are removed and those that it requires are added. A list whose type does not include its length removes
 * nothing, because the list may be empty.
 */
export type Apply<List extends ReadonlyArray<Any>, R> = List extends readonly [] ? R
  : List extends readonly [JobMiddleware<infer Provides, infer Requires, infer _>, ...infer Rest extends ReadonlyArray<Any>]
    ? Exclude<Apply<Rest, R>, Provides> | Requires
  : R | RequiresOf<List[number]>

type RequiresOf<M> = M extends JobMiddleware<infer _, infer Requires, infer _> ? Requires : never

/** The services that the setup of this list needs. */
export type SetupServices<List extends ReadonlyArray<Any>> = List[number] extends infer M
  ? M extends JobMiddleware<infer _, infer _, infer Setup> ? Setup : never
  : never

const variance: Variance<unknown, never> = { provides: () => {}, requires: (_) => _ }

const fromSetup = <Provides, Requires, Setup>(
  setup: Effect.Effect<Wrapper, never, Setup>
): JobMiddleware<Provides, Requires, Setup> => ({ [TypeId]: variance, setup })

/**
 * Makes a middleware that wraps the run of a job. The middleware may pass a different job to `next` (for example, with a validated input),
 * change or replace the outcome, or not run the handler at all. The handler receives the job that was passed to `next`, both as its
 * argument and as `CurrentJob`.
 *
 * It cannot fail with its own errors. To fail the job, return a failed `Outcome`, or die to report an exception.
 *
 * @example
 * ```ts
 * const timed = JobMiddleware.make((next, job) => Effect.withLogSpan(next(job), "job"))
 * ```
 */
export const make = <R = never>(
  wrap: (next: Next<NextError, NextServices>, job: ReceivedJob) => Effect.Effect<Outcome, NextError, R>
): JobMiddleware<never, Exclude<R, NextServices>> => fromSetup(Effect.succeed<Wrapper>({ wrap }))

/**
 * Makes a middleware that provides a service to each job. `next` takes the instance for the job as an argument, so the middleware cannot
 * omit it.
 *
 * @example
 * ```ts
 * class Tally extends Context.Service<Tally, Map<string, number>>()("Tally") {}
 *
 * const tally = JobMiddleware.provides(Tally, (next, job) => next(job, new Map()))
 * ```
 */
export const provides = <Id, Service, R = never>(
  key: Context.Key<Id, Service>,
  wrap: (
    next: (job: ReceivedJob, service: Service) => Effect.Effect<Outcome, NextError, NextServices>,
    job: ReceivedJob
  ) => Effect.Effect<Outcome, NextError, R>
): JobMiddleware<Id, Exclude<R, NextServices>> => {
  const providing = (next: Next<NextError, NextServices>, job: ReceivedJob) =>
    wrap((passed, service) => Effect.provideService(next(passed), key, service), job)
  return fromSetup(Effect.succeed<Wrapper>({ wrap: providing }))
}

/** Makes a middleware with an effect that runs once, when the worker starts. Use it for state that all jobs share. */
export const unwrap = <Provides, Requires, Setup, R>(
  effect: Effect.Effect<JobMiddleware<Provides, Requires, Setup>, never, R>
): JobMiddleware<Provides, Requires, Setup | R> => fromSetup(Effect.flatMap(effect, ({ setup }) => setup))

/** A middleware that changes nothing. */
export const none: JobMiddleware = make((next, job) => next(job))

/** A list of middleware after its setup. */
export interface Chain<List extends ReadonlyArray<Any>> {
  /** Wraps the run of a job in the middleware on the list. */
  readonly wrap: <E, R>(next: Next<E, R>) => Next<E, Apply<List, R>>
}

/**
 * Sets up each middleware on the list, in order.
 *
 * TypeScript cannot infer the type of a fold over a list whose elements have different types, so the overload states it:
 * {@link Apply} removes and adds services in the same order as `reduceRight` nests the calls.
 */
export function chain<const List extends ReadonlyArray<Any>>(
  list: List | undefined
): Effect.Effect<Chain<List>, never, SetupServices<List> | Scope.Scope>
export function chain(list: ReadonlyArray<Any> = []): Effect.Effect<AnyChain, never, unknown> {
  return Effect.map(Effect.forEach(list, ({ setup }) => setup), (wrappers) => ({
    wrap: (next) =>
      wrappers.reduceRight<Next<unknown, unknown>>(
        (inner, wrapper) => (job) => Effect.provideService(wrapper.wrap(inner, job), PluginCode, true),
        next
      )
  }))
}

interface AnyChain {
  readonly wrap: (next: Next<unknown, unknown>) => Next<unknown, unknown>
}
