/**
 * One run of a handler with its middleware, but without a transport. Shared by the runtime and by tests of handlers.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as JobMiddleware from "../plugins/JobMiddleware.ts"
import { withHandlerSpan } from "../runtime/Spans.ts"
import type { Identity } from "../runtime/WorkerConfig.ts"
import { CurrentJob } from "./CurrentJob.ts"
import type { ReceivedJob } from "./CurrentJob.ts"
import * as Outcome from "./Outcome.ts"
import type { Emit, Runnable } from "./Runnable.ts"

/**
 * Runs jobs to their outcome; an exception of the handler becomes a failed outcome. Undefined when the worker lost the job while it
 * ran: the platform would not accept an outcome.
 */
export const runToOutcome =
  <R, M extends ReadonlyArray<JobMiddleware.Any>>(handler: Runnable<R>, middleware: JobMiddleware.Chain<M>, identity: Identity) =>
  (
    job: ReceivedJob,
    emit: Emit | undefined
  ): Effect.Effect<Outcome.Outcome | undefined, never, Exclude<JobMiddleware.Apply<M, R | CurrentJob>, CurrentJob>> =>
    Effect.suspend(() =>
      middleware.wrap((passed) => {
        const run = withHandlerSpan(handler.run(passed, emit))
        return passed === job ? run : Effect.provideService(run, CurrentJob, passed)
      })(job)
    ).pipe(
      Effect.provideService(CurrentJob, job),
      // Stopping a job interrupts the whole fiber and does not reach this handler: only the handler's own causes and failed chunks do.
      Effect.catchCause((cause) => {
        const failure = cause.reasons.find(Cause.isFailReason)?.error
        if (failure?._tag === "JobLost") return Effect.undefined
        if (failure?._tag === "BodyRejected") return Effect.succeed(Outcome.failed(failure.detail))
        return Effect.succeed(Outcome.fromException(
          Cause.hasInterruptsOnly(cause) ? new Error("The handler interrupted itself.") : Cause.squash(cause),
          identity
        ))
      })
    )
