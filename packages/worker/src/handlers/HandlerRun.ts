/**
 * Runs a handler once with its middleware, without a transport. Used by the runtime and by handler tests.
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
 * Runs a job and returns its outcome; an exception in the handler becomes a failed outcome. Returns undefined when the worker lost the job
 * while it was running, because the platform would not accept an outcome.
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
      // Stopping a job interrupts the whole fiber, so it does not reach this code. Only the handler's own failures and failed chunk
      // deliveries do.
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
