/**
 * The spans of a job: what happened to it, and how long each part took.
 *
 * ```
 *   job <handler>                 as a child of the caller's span, where the job came with a `traceparent`
 *     wait                        from its submission to its being taken, as the platform measured it (`delayTime`)
 *     validate                    a Schema or a validator looks at the input
 *     handler                     what the handler does, and the spans that it opens itself
 *     deliver                     until the platform has accepted the result
 * ```
 *
 * What a middleware opens is a child of `job`, and `handler` is a child of that. A failed job is a failed `handler` and a failed `job`,
 * with the job's error; a job that was stopped is interrupted in both.
 *
 * They exist only where a tracer was provided, by `@stint/telemetry` or by anything else that provides Effect's `Tracer`. Without one,
 * each of these functions costs one look at the fiber.
 */
import { parseTraceparent } from "@stint/contract/TraceContext"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type { Outcome } from "../handlers/Outcome.ts"

/** Whether somebody wants to have spans: Effect's own tracer keeps them for nobody. */
const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer && fiber.getRef(References.TracerEnabled)

/** A span around an effect, where there is a tracer. */
export const withSpan = (name: string, attributes?: Record<string, unknown>) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.withFiber((fiber) => isTraced(fiber) ? Effect.withSpan(self, name, { attributes, captureStackTrace: false }) : self)

/**
 * On a span (an annotation) in which only the runtime's own steps run: a tracer need not make it the active one for plain code, which
 * costs something at every step. Default: false.
 *
 * The job's span is such a one, with the exception of the middleware of plugins, which run with {@link PluginCode}.
 */
export const RuntimeOnly = Context.Reference<boolean>("@stint/worker/Spans/RuntimeOnly", { defaultValue: () => false })

const runtimeOnly = Context.make(RuntimeOnly, true)

/** In the context of a fiber while a plugin's code runs in it. Default: false. */
export const PluginCode = Context.Reference<boolean>("@stint/worker/Spans/PluginCode", { defaultValue: () => false })

/** The span of a result's way to the platform. It has no children, and to make it a parent would cost as much as the span itself. */
export const withDeliverSpan = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => isTraced(fiber) ? Effect.useSpan("deliver", () => self) : self)

/** The caller's `tracestate`, on the caller's span: Effect's own spans have no place for it. A tracer that can hand it on looks here. */
export class TraceState extends Context.Service<TraceState, string>()("@stint/worker/Spans/TraceState") {}

/** The caller's span, out of the job's `traceparent`; none where there is none, or no valid one. */
export const parentOf = (job: ReceivedJob): Option.Option<Tracer.ExternalSpan> => {
  const { traceparent, tracestate } = job
  // Other platforms may put anything there.
  const parent = typeof traceparent === "string" ? parseTraceparent(traceparent) : undefined
  if (parent === undefined) return Option.none()
  return Option.some(Tracer.externalSpan({
    ...parent,
    ...(typeof tracestate === "string" ? { annotations: Context.make(TraceState, tracestate) } : {})
  }))
}

/**
 * The span that is active in plain code, where the tracer knows of such: an effect that a handler function runs from within a span of
 * its own, opened by another API than Effect's, is a child of that. Unset by default.
 */
export const ActiveSpan = Context.Reference<(() => Tracer.AnySpan | undefined) | undefined>("@stint/worker/Spans/ActiveSpan", {
  defaultValue: () => undefined
})

const now = (fiber: Fiber.Fiber<unknown, unknown>): bigint => fiber.getRef(Clock.Clock).currentTimeNanosUnsafe()

/** Why a span failed whose effect did not: a failed job is an ordinary value. */
class FailedJob {
  readonly _tag = "FailedJob"
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

/** A span that fails with the error of what the effect gives, where that has one. The effect itself goes on as it was. */
const withOutcomeSpan = <A, E, R>(
  name: string,
  options: Tracer.SpanOptionsNoTrace,
  run: (span: Tracer.Span) => Effect.Effect<A, E, R>,
  errorOf: (value: A) => string | undefined
): Effect.Effect<A, E, R> =>
  Effect.useSpan(
    name,
    options,
    (span) =>
      Effect.withFiber((fiber) =>
        Effect.map(Effect.provideService(run(span), Tracer.ParentSpan, span), (value) => {
          const error = errorOf(value)
          // A span ends once: that the effect succeeds comes too late for it.
          if (error !== undefined) span.end(now(fiber), Exit.fail(new FailedJob(error)))
          return value
        })
      )
  )

/** The span of the handler: it failed where its outcome did. */
export const withHandlerSpan = <E, R>(run: Effect.Effect<Outcome, E, R>): Effect.Effect<Outcome, E, R> =>
  Effect.withFiber((fiber) => isTraced(fiber) ? withOutcomeSpan("handler", {}, () => run, ({ error }) => error) : run)

const NANOS = 1_000_000n

/** What the job waited for is over when it is taken; its span is made after the fact. */
const recordWait = (fiber: Fiber.Fiber<unknown, unknown>, span: Tracer.Span, delayTime: number): void => {
  const taken = now(fiber)
  fiber.getRef(Tracer.Tracer).span({
    name: "wait",
    parent: Option.some(span),
    annotations: span.annotations,
    links: [],
    startTime: taken - BigInt(Math.round(delayTime)) * NANOS,
    kind: "internal",
    root: false,
    sampled: span.sampled
  }).end(taken, Exit.void)
}

/**
 * The span of a whole job: from its being taken until its result is delivered. `errorOf` is asked at its end for the error of a job that
 * failed.
 */
export const withJobSpan = (
  name: string,
  job: ReceivedJob,
  endpoint: string | undefined,
  errorOf: () => string | undefined
) =>
<A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!isTraced(fiber)) return run
    const parent = Option.getOrUndefined(parentOf(job))
    const options: Tracer.SpanOptionsNoTrace = {
      kind: "consumer",
      annotations: runtimeOnly,
      ...(parent === undefined ? { root: true } : { parent }),
      attributes: {
        "stint.job.id": job.id,
        ...(job.attempt === undefined ? {} : { "stint.job.attempt": job.attempt }),
        ...(endpoint === undefined ? {} : { "stint.endpoint": endpoint })
      }
    }
    return withOutcomeSpan(
      `job ${name}`,
      options,
      (span) => {
        if (job.delayTime !== undefined) recordWait(fiber, span, job.delayTime)
        return run
      },
      errorOf
    )
  })
