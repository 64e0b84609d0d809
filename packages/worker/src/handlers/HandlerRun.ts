/**
 * One run of a handler, with everything that surrounds it except its transport. The runtime and the tests of handlers share it.
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
 * Runs jobs to their outcome, whatever the handler does: an exception is one, too. Undefined: the job was lost on the way, and
 * there is nobody to deliver an outcome to.
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
      // Being stopped does not come through here: it ends the fiber. What does is the handler's own doing, and chunks that
      // failed.
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
