/**
 * The spans that a worker records for a job.
 *
 * ```
 *   process <endpoint>            a child of the span that the job's `traceparent` names: the platform's span of the attempt, or the caller's
 *     validate                    a Schema or a validator checks the input
 *     handler                     the handler, and the spans that it opens itself
 *     deliver                     until the platform accepts the result
 *
 *   start <endpoint>              once, before the first take
 *     fitness <check>
 *   setup <endpoint>              once, after the fitness checks, if there is one
 * ```
 *
 * A middleware's span is a child of `process` and the parent of `handler`. When a job fails, its `handler` and `process` spans fail with the
 * job's error. When a job is stopped, both spans are interrupted, and the platform's span of the attempt contains the reason. The wait in the
 * queue ends before the attempt begins, so the platform records it as a span.
 *
 * Spans exist only when a tracer is provided, by `@stint/worker-telemetry` or by any other layer of Effect's `Tracer`. Without one, each of
 * these functions costs one lookup in the fiber.
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
import { exceptionOf, type Outcome } from "../handlers/Outcome.ts"

/** Whether a tracer is provided. Effect's native tracer does not count, because it exports no spans. */
const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer && fiber.getRef(References.TracerEnabled)

/** A span around an effect, if there is a tracer. */
export const withSpan = (name: string, attributes?: Record<string, unknown>) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.withFiber((fiber) => isTraced(fiber) ? Effect.withSpan(self, name, { attributes, captureStackTrace: false }) : self)

/**
 * An annotation for spans in which only the runtime's own code runs. A tracer does not need to make such a span active for plain code,
 * which saves work at every step. Default: false.
 *
 * The job's span has this annotation. Middleware also runs in that span, but with {@link PluginCode}.
 */
export const RuntimeOnly = Context.Reference<boolean>("@stint/worker/Spans/RuntimeOnly", { defaultValue: () => false })

const runtimeOnly = Context.make(RuntimeOnly, true)

/** Whether a middleware runs in the fiber. Default: false. */
export const PluginCode = Context.Reference<boolean>("@stint/worker/Spans/PluginCode", { defaultValue: () => false })

/**
 * The span of a result's delivery. It is not set as the parent span: it has no children, and setting it would cost as much as the span
 * itself.
 */
export const withDeliverSpan = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => isTraced(fiber) ? Effect.useSpan("deliver", () => self) : self)

/**
 * The caller's `tracestate`, as an annotation of the caller's span, because Effect's spans have no field for it. Read by tracers that
 * propagate it.
 */
export class TraceState extends Context.Service<TraceState, string>()("@stint/worker/Spans/TraceState") {}

/** The caller's span from the job's `traceparent`; none when it is missing or invalid. */
const parentOf = (job: ReceivedJob): Option.Option<Tracer.ExternalSpan> => {
  const { traceparent, tracestate } = job
  // Other platforms may send any value.
  const parent = typeof traceparent === "string" ? parseTraceparent(traceparent) : undefined
  if (parent === undefined) return Option.none()
  return Option.some(Tracer.externalSpan({
    ...parent,
    ...(typeof tracestate === "string" ? { annotations: Context.make(TraceState, tracestate) } : {})
  }))
}

/**
 * The span that is active in plain code, if the tracer can return it. When a handler function runs an effect inside a span of another API,
 * the effect's span becomes a child of that span. Default: undefined.
 */
export const ActiveSpan = Context.Reference<(() => Tracer.AnySpan | undefined) | undefined>("@stint/worker/Spans/ActiveSpan", {
  defaultValue: () => undefined
})

const now = (fiber: Fiber.Fiber<unknown, unknown>): bigint => fiber.getRef(Clock.Clock).currentTimeNanosUnsafe()

/** OpenTelemetry's name for an error without a type. */
const OTHER = "_OTHER"

/** The failure of a job's span. A failed job's outcome is a value, so its effect does not fail. */
class FailedJob {
  readonly _tag = "FailedJob"
  readonly type: string
  readonly message: string
  constructor(error: string) {
    const { message, type } = exceptionOf(error) ?? { type: OTHER, message: error }
    this.type = type
    this.message = message
  }
}

/** Wraps an effect in a span. The span fails if the effect's value contains an error; the effect itself still succeeds. */
const withOutcomeSpan = <A, E, R>(
  name: string,
  options: Tracer.SpanOptionsNoTrace,
  run: Effect.Effect<A, E, R>,
  errorOf: (value: A) => string | undefined
): Effect.Effect<A, E, R> =>
  Effect.useSpan(
    name,
    options,
    (span) =>
      Effect.withFiber((fiber) =>
        Effect.map(Effect.provideService(run, Tracer.ParentSpan, span), (value) => {
          const error = errorOf(value)
          // A span ends only once, so the later success of the effect does not overwrite this.
          if (error !== undefined) span.end(now(fiber), Exit.fail(new FailedJob(error)))
          return value
        })
      )
  )

/** The span of the handler. It fails when the outcome is a failure. */
export const withHandlerSpan = <E, R>(run: Effect.Effect<Outcome, E, R>): Effect.Effect<Outcome, E, R> =>
  Effect.withFiber((fiber) => isTraced(fiber) ? withOutcomeSpan("handler", {}, run, ({ error }) => error) : run)

/** The attributes of a job's span. */
export interface JobSpan {
  readonly job: ReceivedJob
  /** Undefined in local test mode. The span then has the handler's name. */
  readonly endpoint: string | undefined
  readonly handler: string
  /** Whether this is the worker's first job. */
  readonly isFirst: boolean
  /** The error of a failed job, set at its end. */
  readonly errorOf: () => string | undefined
}

/** The span of a job: from the take until its result is delivered. */
export const withJobSpan =
  ({ endpoint, errorOf, handler, isFirst, job }: JobSpan) => <A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      if (!isTraced(fiber)) return run
      const parent = Option.getOrUndefined(parentOf(job))
      const destination = endpoint ?? handler
      const attributes: Record<string, unknown> = {
        "messaging.system": "stint",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": destination,
        "messaging.message.id": job.id,
        "faas.trigger": "pubsub",
        "faas.coldstart": isFirst,
        "stint.job.id": job.id
      }
      if (job.attempt !== undefined) attributes["stint.job.attempt"] = job.attempt
      if (job.delayTime !== undefined) attributes["stint.job.wait_ms"] = job.delayTime
      if (endpoint !== undefined) attributes["stint.endpoint"] = endpoint
      const options: Tracer.SpanOptionsNoTrace = {
        kind: "consumer",
        annotations: runtimeOnly,
        ...(parent === undefined ? { root: true } : { parent }),
        attributes
      }
      return withOutcomeSpan(`process ${destination}`, options, run, errorOf)
    })
