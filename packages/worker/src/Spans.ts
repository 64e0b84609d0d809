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
 * They exist only where a tracer was provided, by `@stint/telemetry` or by anything else that provides Effect's `Tracer`. Without one,
 * each of these functions costs one look at the fiber.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import type { ReceivedJob } from "./CurrentJob.ts"
import { isFailed } from "./Outcome.ts"
import type { Outcome } from "./Outcome.ts"

/** Whether somebody wants to have spans: Effect's own tracer keeps them for nobody. */
const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer && fiber.getRef(References.TracerEnabled)

/** A span around an effect, where there is a tracer. */
export const withSpan = (name: string, attributes?: Record<string, unknown>) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.withFiber((fiber) => isTraced(fiber) ? Effect.withSpan(self, name, { attributes, captureStackTrace: false }) : self)

/** version "-" trace id "-" parent id "-" flags: W3C Trace Context. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** The caller's span, out of the job's `traceparent`; none where there is none, or no valid one. */
export const parentOf = (job: ReceivedJob): Option.Option<Tracer.ExternalSpan> => {
  const header = job["traceparent"]
  const [, traceId = "", spanId = "", flags = "0"] = typeof header === "string" ? TRACEPARENT.exec(header) ?? [] : []
  return /^0*$/.test(traceId) || /^0*$/.test(spanId)
    ? Option.none()
    : Option.some(Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }))
}

/** A failed job is no failed effect; its span is one that failed. */
class FailedOutcome {
  readonly _tag = "FailedOutcome"
  readonly outcome: Outcome
  readonly message: string
  constructor(outcome: Outcome, message: string) {
    this.outcome = outcome
    this.message = message
  }
}

/** The span of the handler: it failed where its outcome did. */
export const withHandlerSpan = <E, R>(run: Effect.Effect<Outcome, E, R>): Effect.Effect<Outcome, E, R> =>
  Effect.withFiber((fiber) =>
    isTraced(fiber)
      ? Effect.withSpan(
        Effect.flatMap(run, (outcome) =>
          isFailed(outcome) ? Effect.fail(new FailedOutcome(outcome, outcome.error)) : Effect.succeed(outcome)),
        "handler",
        { captureStackTrace: false }
      ).pipe(
        Effect.catchIf((error) =>
          error instanceof FailedOutcome, ({ outcome }) => Effect.succeed(outcome))
      )
      : run
  )

const NANOS = 1_000_000n

/** What the job waited for is over when it is taken; its span is made after the fact. */
const recordWait = (fiber: Fiber.Fiber<unknown, unknown>, span: Tracer.Span, delayTime: number, now: bigint): void => {
  fiber.getRef(Tracer.Tracer).span({
    name: "wait",
    parent: Option.some(span),
    annotations: span.annotations,
    links: [],
    startTime: now - BigInt(Math.round(delayTime)) * NANOS,
    kind: "internal",
    root: false,
    sampled: span.sampled
  }).end(now, Exit.void)
}

/** The span of a whole job: from its being taken until its result is delivered. */
export const withJobSpan = (
  name: string,
  job: ReceivedJob,
  endpoint: string | undefined
) =>
<A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!isTraced(fiber)) return run
    const parent = Option.getOrUndefined(parentOf(job))
    const traced = Effect.flatMap(Effect.orDie(Effect.currentSpan), (span) => {
      const { delayTime } = job
      if (delayTime !== undefined) recordWait(fiber, span, delayTime, fiber.getRef(Clock.Clock).currentTimeNanosUnsafe())
      return run
    })
    return Effect.withSpan(traced, `job ${name}`, {
      kind: "consumer",
      root: parent === undefined,
      ...(parent === undefined ? {} : { parent }),
      attributes: {
        "stint.job.id": job.id,
        ...(job.attempt === undefined ? {} : { "stint.job.attempt": job.attempt }),
        ...(endpoint === undefined ? {} : { "stint.endpoint": endpoint })
      },
      captureStackTrace: false
    })
  })
