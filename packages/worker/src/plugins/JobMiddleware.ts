/**
 * Middleware: code that runs around every handler, such as validation, progress and timers.
 *
 * ```
 *   Worker.layer(handler, { middleware: [first, second] })
 *
 *   take -> [ first ( second ( handler ) ) ] -> deliver
 * ```
 *
 * The list is the order: the first middleware is the outermost, whatever the build order of layers. A middleware may provide a service
 * to the jobs it wraps ({@link provides}). The types follow the list from the inside out, so a worker whose handler or inner
 * middleware needs such a service does not compile without the middleware, or with it in the wrong place.
 *
 * Why a list of values and not services that plugins register: docs/decisions/0015-middleware-order.md.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Types from "effect/Types"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type { Outcome } from "../handlers/Outcome.ts"
import { PluginCode } from "../runtime/Spans.ts"

const TypeId = "~@stint/worker/JobMiddleware"

/** Runs what a middleware wraps: the inner middleware, then the handler. */
export type Next<E, R> = (job: ReceivedJob) => Effect.Effect<Outcome, E, R>

/** The errors of what a middleware wraps. Opaque: a middleware passes them on, and cannot make one. */
interface NextError {
  readonly "~@stint/worker/JobMiddleware/NextError": never
}

/** The services that what a middleware wraps needs. Opaque: others provide them. */
interface NextServices {
  readonly "~@stint/worker/JobMiddleware/NextServices": never
}

/**
 * A middleware that is set up. Which services it provides and requires is in the type of its {@link JobMiddleware}. A method, because
 * TypeScript then accepts a function whose `next` has the opaque types above.
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
 * - `Provides`: services that each job gets from it.
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
 * What is left to provide to a job that requires `R` inside this list: what each middleware provides is removed and what it requires is
 * added, from the last to the first. A list whose length is not in its type removes nothing, because it may be empty.
 */
export type Apply<List extends ReadonlyArray<Any>, R> = List extends readonly [] ? R
  : List extends readonly [JobMiddleware<infer Provides, infer Requires, infer _>, ...infer Rest extends ReadonlyArray<Any>]
    ? Exclude<Apply<Rest, R>, Provides> | Requires
  : R | RequiresOf<List[number]>

type RequiresOf<M> = M extends JobMiddleware<infer _, infer Requires, infer _> ? Requires : never

/** What the setup of this list needs. */
export type SetupServices<List extends ReadonlyArray<Any>> = List[number] extends infer M
  ? M extends JobMiddleware<infer _, infer _, infer Setup> ? Setup : never
  : never

const variance: Variance<unknown, never> = { provides: () => {}, requires: (_) => _ }

const fromSetup = <Provides, Requires, Setup>(
  setup: Effect.Effect<Wrapper, never, Setup>
): JobMiddleware<Provides, Requires, Setup> => ({ [TypeId]: variance, setup })

/**
 * A middleware that wraps the run of a job. It may pass another job to `next` (with a validated input, say), change the outcome, replace
 * it, or not run the handler at all. The job that it passes is the one that the handler gets, as its argument and as `CurrentJob`.
 *
 * It cannot fail with errors of its own: return a failed `Outcome`, or die to fail the job with an exception's report.
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
 * A middleware that gives each job a service. `next` takes the job's own instance, so the middleware cannot forget it.
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

/** A middleware made by an effect, which runs once when the worker starts: for state that all jobs share. */
export const unwrap = <Provides, Requires, Setup, R>(
  effect: Effect.Effect<JobMiddleware<Provides, Requires, Setup>, never, R>
): JobMiddleware<Provides, Requires, Setup | R> => fromSetup(Effect.flatMap(effect, ({ setup }) => setup))

/** A middleware that changes nothing. */
export const none: JobMiddleware = make((next, job) => next(job))

/** A list of middleware that is set up. */
export interface Chain<List extends ReadonlyArray<Any>> {
  /** Puts the list around the run of a job. */
  readonly wrap: <E, R>(next: Next<E, R>) => Next<E, Apply<List, R>>
}

/**
 * Sets up each middleware of the list, in order.
 *
 * TypeScript cannot follow a fold over a list whose elements have different types. The overload states what the fold does:
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
